"""Runs of unequal length: common plans, cut runs and real replays."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from analysis.comparison.trials import Trial, check_common_plan
from analysis.runs.run import RankDirectory
from analysis.runs.run import Run as RunOf
from analysis.summary.summary import summarise
from replayer.schema import CHECKPOINT_OPS, read_run
from tests.analysis.comparison.crafting import Craft, compare
from tests.support.crafted_runs import SECOND, clean
from tests.support.paths import ROOT
from tests.support.summaries import summary_of
from tracegen.errors import InputError

EXAMPLE = read_run(ROOT / "tests" / "data" / "run")


def trial(ops: int, plan: str | None = "p", marks: list[str] | None = None, rank: int = 0) -> Trial:
    return trial_of_ranks((ops, plan, marks or []))


def trial_of_ranks(*of: tuple[int, str | None, list[str]]) -> Trial:
    ranks = []
    for rank, (ops, plan, marks) in enumerate(of):
        assert EXAMPLE.plan is not None
        planned = replace(EXAMPLE.plan, plan_fingerprint=plan, plan_checkpoints=tuple(marks))
        info = replace(EXAMPLE, executed_ops=ops, executed_fingerprint=f"{plan} {ops}", plan=planned)
        ranks.append(RankDirectory(info, Path(f"rank_{rank}"), is_running=False))
    return Trial(RunOf(Path("run"), ranks, len(of), []), summary_of())


STEP = CHECKPOINT_OPS


@pytest.mark.parametrize(
    "found",
    [
        [trial(900), trial(900), trial(900)],
        [trial(900), trial(700), trial(800)],  # one plan: its prefixes are equal
        [trial(5 * STEP, "p", ["1", "2", "3"]), trial(2 * STEP + 9, "q", ["1", "2", "x"])],
        [trial_of_ranks((900, "p", []), (500, "q", [])), trial_of_ranks((800, "p", []), (500, "q", []))],
    ],
)
def test_runs_of_one_plan_may_have_any_length(found: list[Trial]) -> None:
    check_common_plan(found)
    check_common_plan(found[::-1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (trial(5 * STEP, "p", ["1", "2", "3"]), trial(4 * STEP, "q", ["1", "2", "x"])),
        (trial(2 * STEP, "p", []), trial(2 * STEP, "q", ["x"])),
        (trial(2 * STEP, "p", ["1"]), trial(2 * STEP, "q", ["x"])),
        (trial(STEP - 1, "p", []), trial(900, "q", [])),  # no checkpoint says
        (trial(900, None), trial(900, "q")),
        (trial_of_ranks((900, "p", []), (500, "q", [])), trial_of_ranks((900, "p", []), (500, "r", []))),
    ],
)
def test_plans_that_differ_within_the_shortest_run_are_refused(one: Trial, other: Trial) -> None:
    for found in ([one, other], [other, one]):
        with pytest.raises(InputError, match="have different plans within the first"):
            check_common_plan(found)


@pytest.mark.parametrize("varied", ["workers", "pace"])
@pytest.mark.parametrize("kind", ["trace", "reference", "live"])
def test_plans_may_differ_with_the_load_unless_they_keep_the_order_of_the_trace(
    craft: Craft, varied: str, kind: str
) -> None:
    """A reference order depends on the load, and a live one on the machine."""
    value = {"workers": 16, "pace": "closed"}[varied]
    order = {"order": {"kind": kind, "name": "nvme-7", "profile": {}}}
    a, b = [craft("a", conditions=order)], [craft("b", plan="q", conditions=order | {varied: value})]
    if kind == "trace":
        with pytest.raises(InputError, match="have different plans"):
            compare({"a": a, "b": b}, vary=[varied])
    else:
        assert not compare({"a": a, "b": b}, vary=[varied]).pairs[0].measured[0].configuration.same_plan


def steady_run(path: Path, speed: float) -> Path:
    """Write a run cut at 90 s, in which 4 workers read from nvme without a pause."""
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


def test_a_system_4_7_times_as_fast_shows_a_ratio_of_4_7(tmp_path: Path) -> None:
    fast, slow = (steady_run(tmp_path / name, speed) for name, speed in (("fast", 4.7), ("slow", 1.0)))
    assert summarise(fast).to_json()["executed_ops"] > 4 * summarise(slow).to_json()["executed_ops"]
    metrics = ["wall_clock_tok_s", "decode_read_gib_s", "nvme_read_gib_s", "storage_tok_s"]
    (pair,) = compare({"fast": [fast], "slow": [slow]}, metrics=metrics).pairs
    for metric in ("equal_work", *metrics):
        assert pair.ratios[metric].ratio == pytest.approx(4.7, rel=0.02), metric
