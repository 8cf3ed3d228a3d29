"""Trials and comparisons: statistics against brute force, matching, cutting, verdicts, and the command as it is typed."""

import itertools
import json
import math
import random
import re
import statistics as exact
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from analysis import ratios, trials
from analysis.cli import main
from analysis.compare import compare
from analysis.compare_text import as_json, render
from analysis.log import Targets
from analysis.matching import labels
from analysis.report import ranked as ranking
from analysis.report import wording
from analysis.report.gather import Gathered
from analysis.runs import Run as RunOf
from analysis.summary import summarise
from analysis.trials import Trial, check_prefix, interval, ratio_interval, statistics
from replayer.schema import CHECKPOINT_OPS, TIERS
from tests.support.command_line import Run
from tests.support.crafted_runs import SECOND, clean
from tests.support.paths import DEMO
from tracegen.schema import InputError

Dict = dict[str, Any]
GIB = 2**30
POSITIVE = st.floats(0.01, 1e6)


def some(least: int, most: int) -> st.SearchStrategy[list[float]]:
    return st.lists(POSITIVE, min_size=least, max_size=most)


# Statistics


@given(some(2, 8))
def test_statistics_are_those_of_the_standard_library(values: list[float]) -> None:
    found = statistics(values)
    assert found.n == len(values)
    assert found.mean == pytest.approx(exact.fmean(values))
    assert found.median == exact.median(values)
    assert found.sd == pytest.approx(exact.stdev(values), abs=1e-9)
    assert found.cv == pytest.approx(exact.stdev(values) / exact.fmean(values), abs=1e-9)


def test_values_that_are_missing_do_not_count() -> None:
    assert statistics([None, 3.0, math.nan, 5.0, math.inf]) == statistics([3.0, 5.0])
    assert statistics([None, 7]) == trials.Statistics(1, 7.0, median=7.0)
    assert statistics([None]) == trials.Statistics(0)
    assert statistics([0.0, 0.0]).cv is None


def resampled_means(values: list[float]) -> list[float]:
    return [sum(pick) / len(values) for pick in itertools.product(values, repeat=len(values))]


@given(some(2, 5))
def test_the_interval_of_few_values_is_that_of_all_resamples(values: list[float]) -> None:
    expected = np.quantile(resampled_means(values), [0.025, 0.975])
    assert interval(values) == pytest.approx(tuple(expected), rel=1e-9)


@given(some(2, 3), some(2, 4))
def test_the_interval_of_a_ratio_is_that_of_all_pairs_of_resamples(one: list[float], other: list[float]) -> None:
    logs = [math.log(a / b) for a, b in itertools.product(resampled_means(one), resampled_means(other))]
    expected = np.exp(np.quantile(logs, [0.025, 0.975]))
    assert ratio_interval(one, other) == pytest.approx(tuple(expected), rel=1e-9)


def test_the_interval_of_many_values_is_drawn_alike_for_ever() -> None:
    values = [float(v) for v in range(1, 21)]
    low, high = interval(values)
    half = 1.96 * exact.pstdev(values) / math.sqrt(len(values))
    assert (low, high) == pytest.approx((10.5 - half, 10.5 + half), rel=0.02)
    assert (low, high) == pytest.approx((8.0, 13.05125), rel=1e-12)


@given(some(2, 8), some(2, 8), st.randoms(use_true_random=False))
def test_intervals_hold_their_mean_and_know_no_order(one: list[float], other: list[float], rng: random.Random) -> None:
    low, high = interval(one)
    assert low <= exact.fmean(one) * (1 + 1e-12)
    assert exact.fmean(one) <= high * (1 + 1e-12)
    found = ratio_interval(one, other)
    swapped = ratio_interval(other, one)
    assert swapped == pytest.approx((1 / found[1], 1 / found[0]), rel=1e-6)
    assert ratio_interval(rng.sample(one, len(one)), rng.sample(other, len(other))) == found


@given(some(2, 8))
def test_a_set_is_no_other_than_itself(values: list[float]) -> None:
    low, high = ratio_interval(values, values)
    assert low <= 1 <= high
    assert low < high or len(set(values)) == 1


def test_the_rate_of_false_alarms_is_as_stated() -> None:
    rng = random.Random(3)
    sets = [[math.exp(rng.gauss(0, 0.03)) for _ in range(3)] for _ in range(1600)]
    alarms = [not low <= 1 <= high for low, high in map(ratio_interval, sets[::2], sets[1::2])]
    assert sum(alarms) / len(alarms) == pytest.approx(ratios.FALSE_ALARMS["trials a side"][3], abs=0.04)


# Crafted runs: a run.json each, the metrics beside it


SPEED = {"wall_clock_tok_s": 100.0, "storage_tok_s": 50.0, "decode_read_gib_s": 2.0, "elapsed_s": 10.0}
Craft = Callable[..., Path]


def conditions(**changes: Any) -> Dict:
    return {
        "model": "m", "bytes_per_token": 1, "usable_bytes": {"gpu": 0, "cpu": 0, "nvme": None}, "workers": 8, "users": 4,
        "pace": "asap", "direct": True, "verify": "stamps",
    } | changes  # fmt: skip


@pytest.fixture
def craft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Craft:
    """Makes run directories whose metrics are given; a run of N ops has generated N tokens."""

    def make(name: str, speed: float = 1.0, *, values: Dict | None = None, **info: Any) -> Path:
        path = tmp_path / name
        path.mkdir(parents=True)
        metrics = {
            m: v / speed if m.endswith(("_s", "_ms")) and not m.endswith(("tok_s", "gib_s")) else v * speed
            for m, v in SPEED.items()
        }
        ops = info.pop("ops", 1000)
        plan: Dict = {"plan_fingerprint": info.pop("plan", "p"), "plan_checkpoints": info.pop("marks", [])}
        plan |= dict.fromkeys("ops misses promotions drops bypasses recomputed_tokens".split(), 0)
        plan |= {name: dict.fromkeys(TIERS, 0) for name in ("hits", "stores", "read_bytes", "write_bytes")}
        plan |= {"demotions": {"gpu>cpu": 0, "gpu>nvme": 0, "cpu>nvme": 0}}
        content = {
            "run_version": 1, "status": "complete", "reason": None, "warnings": [], "trace": {"fingerprint": info.pop("trace", "t")},
            "plan": plan, "conditions": conditions(**info.pop("conditions", {})),
            "executed_ops": ops, "executed_fingerprint": f"{plan['plan_fingerprint']} {ops}",
            "valid": True, "metrics": metrics | (values or {}),
        } | info  # fmt: skip
        (path / "run.json").write_text(json.dumps(content))
        return path

    def crafted(path: Path) -> Dict:
        info = json.loads((path / "run.json").read_text())
        work = {"tokens_generated": info["executed_ops"], "cut": (info.get("window") or {}).get("cut_s") is not None}
        findings = [] if info["valid"] else ["the run is failed: by design"]
        return {
            "run": str(path), "valid": info["valid"], "findings": findings, "doubts": [{"kind": "short run"}],
            "conditions": info["conditions"], "machine": ["host"], "zero_ns": info.get("zero_ns", [None]), "bottleneck": "queue", **work, **info["metrics"],
        }  # fmt: skip

    monkeypatch.setattr(trials, "summarise", crafted)
    return make


def three(craft: Craft, name: str, speeds: tuple[float, ...] = (0.98, 1.0, 1.03), **info: Any) -> list[Path]:
    return [craft(f"{name}-{i}", speed, **info) for i, speed in enumerate(speeds)]


def test_a_tier_that_is_asked_for_less_is_not_the_slower_one(craft: Craft) -> None:
    """Beside a memory tier a drive moves fewer bytes per second; alike tiers are judged by it."""
    half = [craft(f"h{i}", conditions=CPU, plan="q", values={"nvme_read_gib_s": 1.0 + i / 100}) for i in range(3)]
    whole = [craft(f"w{i}", values={"nvme_read_gib_s": 2.0 + i / 100}) for i in range(3)]
    found = compare({"a": half, "b": whole}, vary=["usable_bytes"], metrics=["nvme_read_gib_s"])
    assert found.pairs[0].ratios["nvme_read_gib_s"].verdict == "not judged"
    slow = [craft(f"s{i}", values={"nvme_read_gib_s": 1.0 + i / 100}) for i in range(3)]
    found = compare({"a": slow, "b": whole}, metrics=["nvme_read_gib_s"])
    assert found.pairs[0].ratios["nvme_read_gib_s"].winner == "b"


def test_a_faster_system_is_told_apart_in_every_direction(craft: Craft) -> None:
    found = compare({"fast": three(craft, "a", (2.0, 2.1, 1.9)), "slow": three(craft, "b")})
    (pair,) = found.pairs
    wall, elapsed = pair.ratios["wall_clock_tok_s"], pair.ratios["elapsed_s"]
    assert wall.ratio == pytest.approx(6.0 / 3.01)
    assert elapsed.ratio == pytest.approx(exact.fmean([1 / 2, 1 / 2.1, 1 / 1.9]) / exact.fmean([1 / 0.98, 1, 1 / 1.03]))
    for one in (wall, elapsed):
        assert (one.verdict, one.winner, one.win_rate) == ("apart", "fast", 1.0)
        assert (one.low or math.inf) < (one.ratio or 0) < (one.high or 0)
    other = compare(
        {
            "slow": [Path(p) for p in found.runs["slow"]],
            "fast": [Path(p) for p in found.runs["fast"]],
        }
    )
    swapped = other.pairs[0].ratios["wall_clock_tok_s"]
    assert (swapped.ratio, swapped.win_rate, swapped.winner) == (pytest.approx(1 / (wall.ratio or 0)), 0.0, "fast")
    assert found.ranking == other.ranking == ["fast", "slow"]


def test_equal_systems_are_not_told_apart_and_win_half(craft: Craft) -> None:
    found = compare({"a": three(craft, "a"), "b": three(craft, "b")})
    one = found.pairs[0].ratios["decode_read_gib_s"]
    assert (one.ratio, one.win_rate, one.verdict, one.winner) == (1.0, 0.5, "not apart", None)
    found = compare({s: three(craft, f"constant {s}", (1.0, 1.0)) for s in "ab"})
    assert found.pairs[0].ratios["elapsed_s"].verdict == "not apart"


def test_the_order_of_runs_does_not_matter(craft: Craft) -> None:
    a, b = three(craft, "a", (1.2, 1.3, 1.1)), three(craft, "b")
    assert compare({"a": a[::-1], "b": b[1:] + b[:1]}).pairs == compare({"a": a, "b": b}).pairs


def test_a_ranking_has_intervals_of_trials_and_none_of_one(craft: Craft) -> None:
    slow = three(craft, "slow")
    found = {
        one.system: one for one in ranking.ranked({"fast": three(craft, "fast", (1.9, 2.0, 2.1)), "slow": slow}, "slow")
    }
    fast, base = found["fast"], found["slow"]
    assert (fast.trials, base.trials) == (3, 3)
    assert (fast.low or math.inf) < (fast.speed_up or 0) < (fast.high or 0)
    assert (fast.tok_s_low or math.inf) < (fast.tok_s or 0) < (fast.tok_s_high or 0)
    assert (base.speed_up, base.low) == (1.0, None)
    assert (base.tok_s_low or math.inf) < (base.tok_s or 0), "the baseline's own trials differ, too"
    rows = wording.ranking(Gathered([], Targets(), [fast]))
    assert rows[0][2] == "3 trials"
    assert re.fullmatch(r"200\.?0* \([\d.]+ to [\d.]+\)", rows[0][3])
    assert re.fullmatch(r"1\.99 × \([\d.]+ to [\d.]+\)", rows[0][4])
    alone, *_ = ranking.ranked({"fast": [craft("alone", 2.0)], "slow": slow[:1]}, "slow")
    assert (alone.trials, alone.low, alone.high, alone.tok_s_low, alone.tok_s_high) == (1, None, None, None, None)
    (row,) = wording.ranking(Gathered([], Targets(), [alone]))
    assert row[2:4] == ["1 trial", wording.number(alone.tok_s or 0)]
    assert "(" not in row[4]


def test_one_trial_a_side_gives_no_verdict(craft: Craft) -> None:
    found = compare({"a": [craft("a", 3.0)], "b": [craft("b")]})
    one = found.pairs[0].ratios["wall_clock_tok_s"]
    assert (one.ratio, one.low, one.high, one.verdict) == (pytest.approx(3.0), None, None, "no verdict")
    assert "one trial a side: no verdict" in render(found)
    found = compare({"a": three(craft, "c"), "b": [craft("d")]})
    assert "one trial of b: no verdict" in render(found)


def test_what_belongs_to_the_work_is_not_judged(craft: Craft) -> None:
    values = {"hit_rate": 0.5, "generation_mean_ms": 3.0}
    sides = {side: three(craft, side, (1.0, 1.1), values=values) for side in "ab"}
    found = compare(sides, metrics=["hit_rate", "tokens_generated", "generation_mean_ms"])
    assert {one.verdict for m, one in found.pairs[0].ratios.items() if m in found.metrics} == {"not judged"}
    assert "Work is equal" in render(found)


def test_metrics_that_are_missing_or_zero_have_no_ratio(craft: Craft) -> None:
    found = compare(
        {"a": [craft("a1", values={"nvme_read_p95_ms": None, "drain_s": 0.0}), craft("a2")], "b": three(craft, "b", values={"nvme_read_p95_ms": 1.0, "drain_s": 1.0})},
        metrics=["nvme_read_p95_ms", "drain_s"],
    )  # fmt: skip
    assert [found.pairs[0].ratios[m].ratio for m in found.metrics] == [None, None]
    assert "no ratio: missing or 0 in a trial" in render(found)


# Which runs are compared


def test_runs_that_are_not_valid_are_left_out_and_named(craft: Craft) -> None:
    bad = craft("a-bad", 9.0, valid=False)
    found = compare({"a": [*three(craft, "a"), bad], "b": three(craft, "b")})
    assert found.left_out == {str(bad): "the run is failed: by design"}
    assert found.pairs[0].ratios["wall_clock_tok_s"].ratio == 1.0
    assert f"LEFT OUT: {bad}: the run is failed: by design" in render(found)
    with pytest.raises(InputError, match="no valid run is left"):
        compare({"a": [bad], "b": [craft("b")]})


def test_a_run_named_twice_is_one_trial(craft: Craft) -> None:
    one = craft("a")
    with pytest.raises(InputError, match="named twice"):
        compare({"a": [one, one], "b": [craft("b")]})
    assert "more than one side" in compare({"a": [one], "b": [one]}).warnings[0]


def test_a_copy_is_no_trial(craft: Craft) -> None:
    """Nor another system."""
    one, copy, other = (craft(name, zero_ns=[zero]) for name, zero in (("a", 5), ("copy", 5), ("b", 6)))
    with pytest.raises(InputError, match=r"copy is a copy of .*/a, which is one trial"):
        compare({"a": [one, copy], "b": [other]})
    assert "copy is on more than one side" in compare({"a": [one], "b": [copy]}).warnings[0]
    assert compare({"a": [one], "b": [other]}).warnings == []


def test_conditions_that_differ_must_be_named(craft: Craft) -> None:
    a, b = three(craft, "a"), three(craft, "b", conditions={"workers": 16})
    with pytest.raises(InputError, match=r"workers \(8 against 16\); pass --vary workers"):
        compare({"a": a, "b": b})
    found = compare({"a": a, "b": b}, vary=["workers"])
    assert found.varied == {"workers": {"a": "8", "b": "16"}}
    assert found.pairs[0].ratios["elapsed_s"].ratio == 1.0
    with pytest.raises(InputError, match="did you mean workers"):
        compare({"a": a, "b": b}, vary=["worker"])


def test_a_side_that_mixes_what_is_varied_is_refused(craft: Craft) -> None:
    a = [*three(craft, "a"), craft("a-16", conditions={"workers": 16})]
    with pytest.raises(InputError, match="a mixes runs with 16 and 8 of it"):
        compare({"a": a, "b": three(craft, "b")}, vary=["workers"])


def test_unlike_traces_are_refused(craft: Craft) -> None:
    with pytest.raises(InputError, match=r"unlike traces; .* --by workload"):
        compare({"a": [craft("a")], "b": [craft("b", trace="u")]})


def test_a_tier_may_be_varied_by_name_or_with_all_others(craft: Craft) -> None:
    sizes = {"gpu": 0, "cpu": 4 * GIB, "nvme": None}
    a = [craft("a", values={"cpu_read_bytes": 0})]
    b = [craft("b", conditions={"usable_bytes": sizes}, plan="q", ops=1000, values={"cpu_read_bytes": 7})]
    with pytest.raises(InputError, match=r"usable_bytes.cpu \(0 GiB against 4 GiB\)"):
        compare({"a": a, "b": b})
    for name in ("usable_bytes", "usable_bytes.cpu"):
        found = compare({"a": a, "b": b}, vary=[name])
        assert found.varied == {"usable_bytes.cpu": {"a": "0 GiB", "b": "4 GiB"}}
        assert found.advice is not None
        assert found.advice.metrics == ("wall_clock_tok_s",)
        assert "Work differs (they follow from what is varied)" in render(found)
        assert "cpu_read_bytes: 0 (a), 7 (b)" in render(found)


def test_configurations_are_matched_one_by_one_and_strays_named(craft: Craft) -> None:
    a = [craft(f"a-{n}", 2.0 * n, conditions={"users": n}) for n in (1, 2, 3)]
    b = [craft(f"b-{n}", conditions={"users": n}) for n in (1, 2, 9)]
    found = compare({"a": a, "b": b})
    one = found.pairs[0].ratios["wall_clock_tok_s"]
    assert one.configurations == 2
    assert (one.ratio, one.least, one.most, one.win_rate) == (pytest.approx(8**0.5), 2.0, 4.0, 1.0)
    assert [one.name for one in found.configurations] == ["users 1", "users 2"]
    assert found.varied == {}
    assert len(found.unmatched) == 2
    assert "a-3 (a) matches nothing: b has users (3 against 1)" in found.unmatched[0]
    by = found.pairs[0].by
    assert set(by) == {"users"}
    assert {users: one["storage_tok_s"].ratio for users, one in by["users"].items()} == {"1": 2.0, "2": 4.0}


def test_the_interval_over_configurations_is_that_of_their_ratios(craft: Craft) -> None:
    speeds = (1.1, 1.3, 0.9, 2.0)
    sides = {
        s: [craft(f"{s}-{n}", v if s == "a" else 1.0, conditions={"model": f"m{n}"}) for n, v in enumerate(speeds)]
        for s in "ab"
    }
    one = compare(sides).pairs[0].ratios["wall_clock_tok_s"]
    low, high = np.exp(np.quantile(resampled_means([math.log(s) for s in speeds]), [0.025, 0.975]))
    assert (one.low, one.high) == pytest.approx((low, high))
    assert (one.verdict, one.win_rate) == ("not apart", 0.75)


def test_unlike_machines_in_one_set_are_loud(craft: Craft) -> None:
    a = [craft(f"a-{host}", machine={"host": host, "storage": {"device": "/dev/sda"}}) for host in ("x", "y")]
    found = compare({"a": a, "b": [craft("b")]})
    assert "WARNING: a mixes machines (x /dev/sda; y /dev/sda)" in render(found)
    assert not compare({"a": a[:1], "b": a[1:]}).warnings


def test_unlike_work_of_one_plan_is_loud(craft: Craft) -> None:
    found = compare(
        {"a": [craft("a", values={"nvme_read_bytes": 1})], "b": [craft("b", values={"nvme_read_bytes": 2})]}
    )
    assert "measured over unlike work (nvme_read_bytes)" in found.warnings[0]


# Runs of unequal length


def trial(ops: int, plan: str | None = "p", marks: list[str] | None = None, rank: int = 0) -> Trial:
    return ranked((ops, plan, marks or []))


def ranked(*of: tuple[int, str | None, list[str]]) -> Trial:
    infos = {
        Path(f"rank_{rank}"): {
            "executed_ops": ops, "executed_fingerprint": f"{plan} {ops}",
            "plan": {"plan_fingerprint": plan, "plan_checkpoints": marks},
        }
        for rank, (ops, plan, marks) in enumerate(of)
    }  # fmt: skip
    return Trial(RunOf(Path("run"), infos, len(of), []), {})


STEP = CHECKPOINT_OPS


@pytest.mark.parametrize(
    "found",
    [
        [trial(900), trial(900), trial(900)],
        [trial(900), trial(700), trial(800)],  # one plan: its prefixes are equal
        [trial(5 * STEP, "p", ["1", "2", "3"]), trial(2 * STEP + 9, "q", ["1", "2", "x"])],
        [ranked((900, "p", []), (500, "q", [])), ranked((800, "p", []), (500, "q", []))],
    ],
)
def test_runs_of_one_plan_may_be_of_any_length(found: list[Trial]) -> None:
    check_prefix(found)
    check_prefix(found[::-1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (trial(5 * STEP, "p", ["1", "2", "3"]), trial(4 * STEP, "q", ["1", "2", "x"])),
        (trial(2 * STEP, "p", []), trial(2 * STEP, "q", ["x"])),
        (trial(2 * STEP, "p", ["1"]), trial(2 * STEP, "q", ["x"])),
        (trial(STEP - 1, "p", []), trial(900, "q", [])),  # no checkpoint says
        (trial(900, None), trial(900, "q")),
        (ranked((900, "p", []), (500, "q", [])), ranked((900, "p", []), (500, "r", []))),
    ],
)
def test_plans_that_part_are_refused(one: Trial, other: Trial) -> None:
    for found in ([one, other], [other, one]):
        with pytest.raises(InputError, match="planned unlike each other within the first"):
            check_prefix(found)


def test_runs_cut_in_time_are_judged_each_over_its_own_window(craft: Craft) -> None:
    cut = {"duration_s": 10.0, "cut_s": 10.0}
    a = [
        craft("a-1", ops=1000, window=cut),
        craft("a-2", ops=800, window=cut),
        craft("a-9", ops=50, conditions={"users": 9}),
    ]
    b = [craft("b-1", ops=400, window=cut), craft("b-9", ops=50, conditions={"users": 9})]
    found = compare({"a": a, "b": b}, metrics=["tokens_generated"])
    assert [one.cut for one in found.configurations] == [True, False]
    assert [one.values("a", "tokens_generated") for one in found.configurations] == [[1000, 800], [50]]
    assert render(found).count("cut in time, each run judged over its own window: 10.0 s (a), 10.0 s (b)") == 1
    assert "each run did what it could until it was cut" in render(found)
    assert not found.warnings


@pytest.mark.parametrize("varied", ["workers", "pace"])
@pytest.mark.parametrize("kind", ["trace", "reference", "live"])
def test_a_plan_of_the_load_follows_from_it(craft: Craft, varied: str, kind: str) -> None:
    """In the trace's order plans must agree; a reference order is that of a load, and a live one of the machine."""
    value = {"workers": 16, "pace": "closed"}[varied]
    order = {"order": {"kind": kind, "name": "nvme-7", "profile": {}}}
    a, b = [craft("a", conditions=order)], [craft("b", plan="q", conditions=order | {varied: value})]
    if kind == "trace":
        with pytest.raises(InputError, match="planned unlike"):
            compare({"a": a, "b": b}, vary=[varied])
    else:
        assert not compare({"a": a, "b": b}, vary=[varied]).configurations[0].same_plan


def test_orders_are_named_shortly(craft: Craft) -> None:
    a = craft("a", conditions={"order": {"kind": "reference", "name": "nvme-7", "profile": {"nvme": {"streams": 4}}}})
    b = craft("b", conditions={"order": {"kind": "trace", "name": None, "profile": None}})
    with pytest.raises(InputError, match=r"order \(reference nvme-7 against trace\); pass --vary order"):
        compare({"a": [a], "b": [b]})


def steady_run(path: Path, speed: float) -> Path:
    """Reads of nvme by 4 workers that never pause, cut at 90 s, and what of the plan it got through by then."""
    run = clean(600)
    rows, took = run.rows, int(SECOND * 1.2 / speed)
    at = np.arange(len(rows["op_id"])) // 4 * took
    spent = {name: np.where(rows[name] > 0, took, 0) for name in ("read_ns", "write_ns")}
    rows |= {"due_ns": at, "ready_ns": at, "start_ns": at, "end_ns": at + took, **spent}
    rows |= {f"device_{name}": spent[name] * 9 // 10 for name in spent} | {"verify_ns": spent["read_ns"] // 100}
    kept = rows["start_ns"] < 90 * SECOND
    cut = clean(600, executed=int(kept.sum()))
    cut.rows = {name: values[kept] for name, values in rows.items()}
    cut.info["conditions"]["duration_s"] = cut.info["window"]["cut_s"] = 90.0
    return cut.settle().save(path)


def test_a_system_4_7_times_as_fast_shows_4_7_times(tmp_path: Path) -> None:
    fast, slow = (steady_run(tmp_path / name, speed) for name, speed in (("fast", 4.7), ("slow", 1.0)))
    assert summarise(fast)["executed_ops"] > 4 * summarise(slow)["executed_ops"]
    metrics = ["wall_clock_tok_s", "decode_read_gib_s", "nvme_read_gib_s", "storage_tok_s", "steady_tok_s"]
    (pair,) = compare({"fast": [fast], "slow": [slow]}, metrics=metrics).pairs
    for metric in metrics:
        assert pair.ratios[metric].ratio == pytest.approx(4.7, rel=0.02), metric


@pytest.fixture(scope="module")
def replays(run: Run, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two real replays of one plan, one of them cut short."""
    place = tmp_path_factory.mktemp("replays")
    run("tracegen", "generate", DEMO, "--requests", 40, "-o", place / "trace.parquet")
    command = [
        "replayer",
        "run",
        place / "trace.parquet",
        "--model",
        "tiny-1b",
        "--make-cache-dir",
        "--cache-dir",
        place / "cache",
    ]
    slow = ["--workers", 2, "--pace", "asap", "--throttle", "nvme=2000,1000", "--layout", "null", "--verify", "off"]
    run(*command, *slow, "-o", place / "whole")
    run(*command, *slow, "--duration", 0.2, "-o", place / "short")
    return [place / "whole", place / "short"]


def test_real_runs_of_unequal_length(replays: list[Path], run: Run) -> None:
    whole, short = map(str, replays)
    refused = typed(whole, "--against", short)
    assert refused.exit_code == 2
    assert "duration_s (null against 0.2); pass --vary duration_s" in refused.stderr
    told = run(
        "analysis",
        "compare",
        whole,
        "--against",
        short,
        "--vary",
        "duration_s",
        "--metric",
        "tokens_generated",
        "--json",
    )
    found = json.loads(told.stdout)
    (one,) = found["configurations"]
    assert one["cut"]
    assert summarise(replays[1])["executed_ops"] < summarise(replays[0])["executed_ops"]
    assert one["window_s"]["short"] == [summarise(replays[1])["elapsed_s"]]
    assert found["warnings"] == []


# Which metric to quote


def test_storage_throughput_hides_a_faster_system_where_there_is_no_cpu_tier(craft: Craft) -> None:
    """The 4.7 times faster system of shared/mlperf.md: 1.12, 2.62 and 2.43 times."""
    noise = (0.85, 1.0, 1.15)
    for name, gains in (("fast", (1.12, 2.62, 2.43)), ("slow", (1, 1, 1))):
        for i, n in enumerate(noise):
            storage, decode, wall = gains
            values = {
                "storage_tok_s": 50 * storage * n,
                "decode_read_gib_s": 2 * decode * n,
                "wall_clock_tok_s": 100 * wall * n,
            }
            craft(f"{name}-{i}", values=values)
    place = craft("other").parent
    found = compare({name: [place / f"{name}-{i}" for i in range(3)] for name in ("fast", "slow")})
    told = found.pairs[0].ratios
    assert told["storage_tok_s"].verdict == "not apart"
    assert told["decode_read_gib_s"].winner == told["wall_clock_tok_s"].winner == "fast"
    assert found.advice is not None
    assert found.advice.metrics == ("decode_read_gib_s", "wall_clock_tok_s")
    assert found.advice.notes == [
        "decode_read_gib_s tells fast and slow apart, 2.62x; wall_clock_tok_s tells fast and slow apart, 2.43x.",
        "storage_tok_s does not tell them apart, 1.12x where decode_read_gib_s shows 2.62x.",
    ]


CPU = {"usable_bytes": {"gpu": 0, "cpu": 4 * GIB, "nvme": None}}


def test_with_a_cpu_tier_storage_throughput_is_checked_against_the_others(craft: Craft) -> None:
    fast = {"storage_tok_s": 75.0, "wall_clock_tok_s": 100.0, "decode_read_gib_s": 2.0}
    a = [craft(f"a-{i}", conditions=CPU, values=fast) for i in (1, 2)]
    b = [craft(f"b-{i}", 1 + i / 10, conditions=CPU) for i in (-1, 1)]
    advice = compare({"a": a, "b": b}).advice
    assert advice is not None
    assert advice.metrics == ("storage_tok_s",)
    assert advice.notes[0] == "storage_tok_s tells a and b apart, 1.50x."
    assert advice.notes[1] == "decode_read_gib_s does not tell them apart, 1.00x where storage_tok_s shows 1.50x."
    a = [
        craft(f"c-{i}", conditions=CPU, values=fast | {"storage_tok_s": 50.0, "wall_clock_tok_s": 200.0})
        for i in (1, 2)
    ]
    advice = compare({"a": a, "b": b}).advice
    assert advice is not None
    assert advice.notes == [
        "storage_tok_s does not tell a and b apart, 1.00x.",
        "wall_clock_tok_s separates them better here, 2.00x where storage_tok_s shows 1.00x: quote it as well.",
    ]


def test_metrics_that_contradict_each_other_are_named(craft: Craft) -> None:
    a = [
        craft(f"a-{i}", values={"storage_tok_s": 25.0, "wall_clock_tok_s": 300.0, "decode_read_gib_s": 6.0})
        for i in "12"
    ]
    advice = compare({"a": a, "b": [craft(f"b-{i}") for i in "12"]}).advice
    assert advice is not None
    assert advice.notes[1].startswith("storage_tok_s says the opposite, 0.50x where decode_read_gib_s shows 3.00x")


def test_the_metric_to_quote_is_one_that_the_runs_have(craft: Craft) -> None:
    values = {"decode_read_gib_s": 0.0}
    found = compare({s: [craft(s, values=values)] for s in "ab"})
    assert found.advice is not None
    assert found.advice.metrics == ("wall_clock_tok_s",)
    values = {"storage_tok_s": 0.0}
    found = compare({s: [craft(f"cpu-{s}", values=values, conditions=CPU)] for s in "ab"})
    assert found.advice is not None
    assert found.advice.metrics == ("decode_read_gib_s",)


# Many systems


def test_many_systems_are_ranked(craft: Craft) -> None:
    sides = {
        "mid": three(craft, "m", (2.0, 2.02, 1.98)),
        "slow": three(craft, "s"),
        "best": three(craft, "f", (4.0, 4.1, 3.9)),
    }
    found = compare(sides)
    assert found.ranking == ["best", "mid", "slow"]
    assert [(pair.a, pair.b) for pair in found.pairs] == [("mid", "best"), ("slow", "best")]
    assert [pair.ratios["decode_read_gib_s"].ratio for pair in found.pairs] == [
        pytest.approx(0.5),
        pytest.approx(3.01 / 12),
    ]
    text = render(found)
    assert text.index("1  best") < text.index("2  mid") < text.index("3  slow")
    assert "worse than the best" in text


def test_many_systems_are_matched_among_all(craft: Craft) -> None:
    sides = {
        side: [craft(f"{side}-{n}", conditions={"users": n}) for n in users]
        for side, users in (("a", (1, 2)), ("b", (1, 2)), ("c", (2, 3)))
    }
    found = compare(sides)
    assert [one.conditions["users"] for one in found.configurations] == [2]
    assert len(found.unmatched) == 3


# Names


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        ([["r/fast-1", "r/fast-2"], ["r/slow-1", "r/slow-2"]], ["fast", "slow"]),
        ([["r/run1"], ["r/run2"]], ["run1", "run2"]),
        ([["x/run-1", "x/run-2"], ["y/run-1", "y/run-2"]], ["x", "y"]),
        ([["s/x/opt1/t0", "s/x/opt2/t0"], ["s/y/opt1/t0", "s/y/opt2/t0"]], ["x", "y"]),
        ([["r/run-11", "r/run-12"], ["r/run-13", "r/run-14"]], ["A", "B"]),
        ([["r/p5-11", "r/p5-12"], ["r/p6-11"]], ["p5", "p6-11"]),
    ],
)
def test_sides_have_short_names(sides: list[list[str]], expected: list[str]) -> None:
    assert labels([[Path(run) for run in side] for side in sides]) == expected


# As it is typed


def typed(*command: object) -> Any:
    return CliRunner().invoke(main, ["compare", *map(str, command)])


def test_two_sets_as_they_are_typed(craft: Craft) -> None:
    fast, slow = three(craft, "fast", (2.0, 2.1, 1.9)), three(craft, "slow")
    done = typed(*fast, "--against", *slow)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("fast  3 runs: ")
    assert lines[1].startswith("slow  3 runs: ")
    (row,) = [line for line in lines if line.startswith("wall_clock_tok_s")]
    assert row.split("  ")[-1] == "tells them apart: fast is better"
    assert "1.99x" in row
    assert "With 3 trials a side, 20% of the metrics of equal systems would be told apart by chance." in done.output
    assert "Doubts: short run (6 of 6 runs)" in done.output
    assert max(map(len, lines[3:])) <= 160
    mixed = typed(fast[0], "--metric", "elapsed_s", *fast[1:], f"--against={slow[0]}", "--json", *slow[1:])
    found = json.loads(mixed.stdout)
    assert found["metrics"] == ["elapsed_s"]
    assert {side: len(runs) for side, runs in found["runs"].items()} == {"fast": 3, "slow": 3}


def test_json_holds_what_compare_found(craft: Craft) -> None:
    sides = [three(craft, "a", (2.0, 2.2)), [craft("b")], [craft("c", 0.5)]]
    found = compare(sides)
    told = json.loads(json.dumps(as_json(found), allow_nan=False))
    assert told["ranking"] == ["a", "b", "c"]
    assert told["pairs"][0]["ratios"]["elapsed_s"]["verdict"] == "no verdict"
    assert told["configurations"][0]["statistics"]["wall_clock_tok_s"]["a"]["mean"] == pytest.approx(210)
    assert told["configurations"][0]["cpu_gib"] == 0.0


def test_one_set_shows_its_statistics(craft: Craft) -> None:
    done = typed(*three(craft, "a", (1.0, 2.0, 3.0)))
    (row,) = [line for line in done.output.splitlines() if line.strip().startswith("wall_clock_tok_s")]
    assert row.split() == [
        "wall_clock_tok_s",
        "3",
        "200",
        "100",
        "50.0%",
        "200",
        "122",
        "..",
        "278",
    ]  # 100 + 0.65 × 33.3 of 27
    assert "Quote" not in done.output


def test_workloads_stand_side_by_side(craft: Craft) -> None:
    a, b = three(craft, "chat"), three(craft, "agents", trace="u", conditions={"workers": 3})
    done = typed(*a, "--against", *b, "--by", "workload")
    assert done.exit_code == 0, done.output
    assert "WARNING: not only the workloads differ: workers (8, 3)." in done.output
    assert "Unlike work" in done.output
    assert "verdict" not in done.output
    quiet = typed(*a, "--against", *b, "--by", "workload", "--vary", "workers")
    assert "WARNING" not in quiet.output
    assert "Varied: workers: 8 (chat), 3 (agents)" in quiet.output
    mixed = typed(*a, *b, "--against", craft("c"), "--by", "workload")
    assert mixed.exit_code == 2
    assert "mixes runs of unlike traces" in mixed.output
    moved = typed(
        craft("d", machine={"host": "x"}), "--against", craft("e", trace="u", machine={"host": "y"}), "--by", "workload"
    )
    assert "WARNING: the set of workloads mixes machines (x; y)" in moved.output


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["A", "--against"], "--against needs runs"),
        (["--against", "B"], "--against needs runs"),
        (["A", "--against", "B", "--metric", "elapsed"], "did you mean elapsed_s?"),
        (["A", "--against", "B", "--metric", "bottleneck"], "--metric bottleneck is no number"),
        (["A", "--against", "B", "--vary", "workrs"], "did you mean workers?"),
        (["A", "--against", "missing"], "missing is not a run directory"),
        (["A", "--against", "B", "--by", "users"], "'users' is not 'workload'"),
        ([], "Missing argument 'RUNS...'"),
    ],
)
def test_wrong_usage_is_refused_in_one_sentence(craft: Craft, command: list[str], sentence: str) -> None:
    place = {name: craft(name) for name in "AB"}
    done = typed(*(place.get(word, word) for word in command))
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stdout == ""
    assert len([line for line in done.stderr.splitlines() if line.startswith("Error:")]) == 1
