"""The search for how many users a system carries: on systems of known answer, and on a throttled tier."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.experiments import autoscale
from replayer.experiments.autoscale import LATENCY, THROUGHPUT, Asked, described
from replayer.experiments.steps import LONGEST, T975, Result, Sample, Step, Target, stats
from replayer.experiments.user_search import NEAR_PEAK, Measure, Search
from tests.support import traces
from tests.support.command_line import Run
from tracegen.schema import Trace


def system(
    knee: float, *, think_s: float = 1.0, beyond: float = 1.0, noise: float = 0.0, latency: bool = True
) -> Measure:
    """A closed loop: throughput grows up to the knee, then is `beyond` of it; latency grows from there (Denning, Buzen)."""
    draws = random.Random(5)

    def measure(users: int, trial: int, _times: int) -> Sample:
        service = think_s / (knee - 1) if knee > 1 else think_s
        throughput = users / knee if users <= knee else beyond
        respond = max(service, users * service - think_s) * 1e3
        value = (respond if latency else throughput) * (1 + draws.gauss(0, noise))
        return Sample(value, throughput, respond, min(1, users / knee), f"users_{users}/trial_{trial}")

    return measure


def search(measure: Measure, most: int = 1000, trials: int = 5, precision: float = 0.0) -> Search:
    return Search("m", measure, most, trials, precision, lambda step: None)


@given(knee=st.integers(2, 400), target_ms=st.floats(1, 5000), most=st.integers(1, 600))
def test_qos_finds_exactly_the_most_users_within_the_target(knee: int, target_ms: float, most: int) -> None:
    measure = system(knee)
    truth = max((n for n in range(1, most + 1) if (measure(n, 1, 1).value or 0) <= target_ms), default=0)
    found = search(measure, most)
    assert found.qos(Target(target_ms)).users == truth
    assert len(found.steps) <= 2 * most.bit_length() + 2, "doubled and bisected, not tried one by one"
    assert len({step.users for step in found.steps}) == len(found.steps)


@given(knee=st.integers(2, 300), beyond=st.floats(0.5, 1.0), most=st.integers(1, 600))
def test_capacity_finds_the_peak_and_the_fewest_users_near_it(knee: int, beyond: float, most: int) -> None:
    measure = system(knee, beyond=beyond, latency=False)
    truth = [measure(n, 1, 1).throughput for n in range(1, most + 1)]
    result = search(measure, most).capacity()
    assert result.peak is not None
    # A peak that a plateau lies below may be as narrow as the steps: what is found is no worse than the plateau.
    assert result.peak >= min(max(truth), beyond) * 0.98
    if beyond == 1.0:
        fewest = next(n for n, one in enumerate(truth, 1) if one >= NEAR_PEAK * result.peak)
        assert result.users == fewest


@pytest.mark.parametrize("noise", [0.01, 0.03])
@pytest.mark.parametrize("knee", [8, 60, 250])
def test_noise_moves_the_answer_little_and_is_admitted(knee: int, noise: float) -> None:
    found = search(system(knee, noise=noise), precision=0.02)
    result = found.qos(Target(2000.0))
    truth = 3.0 * (knee - 1)  # N x D - Z = 2 s with Z = 1 s, D = 1 / (knee - 1)
    assert abs(result.users - truth) <= max(1, 0.06 * truth)
    assert result.sure == ("Sure" in result.text)
    assert max(len(step.samples) for step in found.steps) > 1
    answer = next(step for step in found.steps if step.users == result.users)
    _, high = answer.interval
    assert result.sure <= (high <= 2000 and len(answer.samples) > 1)


def test_trials_go_on_until_the_interval_is_tight_or_they_are_used_up() -> None:
    noisy = search(system(8, noise=0.2), trials=4)
    noisy.qos(Target(2000.0))
    assert any(len(step.samples) == 4 for step in noisy.steps)
    exact = search(system(8))
    exact.qos(Target(2000.0))
    assert {len(step.samples) for step in exact.steps} <= {1, 2}, "one far from the target, two near it"


def test_what_cannot_be_met_and_what_always_is() -> None:
    never = search(system(8)).qos(Target(1.0))
    assert (never.users, never.sure) == (0, True)
    assert never.text.startswith("not even 1 user")
    always = search(system(8), most=5).qos(Target(1e9))
    assert always.users == 5
    assert "all users" in always.text


def test_a_lower_limit_keeps_what_is_above() -> None:
    fewer = Search("m", lambda users, trial, times: Sample(1 - users / 100, 1, None, 1), 90, 3, 0.0, lambda step: None)
    assert fewer.qos(Target(0.75, at_most=False)).users == 25


def test_a_system_that_moves_nothing_is_no_endless_search() -> None:
    nothing = search(lambda users, trial, times: Sample(0.0, 0, None, 0), most=40).capacity()
    assert (nothing.peak, nothing.users) == (0, 1)
    assert "nothing was moved" in nothing.text


def counted(per_user: float, *, least: int = 100, most: int = 64, target: float = 2000.0) -> tuple[Search, Result]:
    """A search by a P95 over so many requests per user and duration, on a system that carries 21 users."""
    value = system(8)

    def measure(users: int, trial: int, times: int) -> Sample:
        sample = value(users, trial, times)
        count = int(per_user * users * times)
        return replace(sample, value=sample.value if count else None, count=count)

    found = Search("m", measure, most, 5, 0.0, lambda step: None, least=least)
    return found, found.qos(Target(target))


def test_what_was_not_measured_neither_passes_nor_fails() -> None:
    heard: list[Step] = []
    measure: Measure = lambda users, trial, times: Sample(None, 0, None, 0, count=0)  # noqa: E731
    found = Search("m", measure, 4, 5, 0.0, heard.append)
    result = found.qos(Target(10))
    assert (result.users, result.sure) == (None, False)
    assert result.text == (
        "not known how many users: no step measured m. Not sure: nothing or too little was measured with 1, 2 and 4 users."
    )
    assert [(step.users, step.why) for step in heard] == [
        (users, "m not measured: no evidence for or against at most 10") for users in (1, 2, 4)
    ]
    rows = stats(found.steps)
    assert [(row["value"], row["interval"], row["evidence"], row["n"]) for row in rows] == [(None, None, False, 0)] * 3
    assert all(row["trials"] == 1 for row in rows), "no more trials of what shows nothing"


def test_too_few_samples_are_no_evidence_and_a_longer_step_is_tried() -> None:
    """Up to 8 users, then up to 24, have fewer than 100 samples in the time that is asked for."""
    found, result = counted(12.0)
    by_users = {step.users: step for step in found.steps}
    assert (result.users, result.sure) == (21, True)
    assert [by_users[users].lacks is None for users in (1, 2, 4, 8, 16)] == [False, False, False, False, True]
    assert by_users[8].why == "m 142.9 of 96 samples, fewer than 100: no evidence for or against at most 2000"
    assert all(step.count is None or step.count >= 100 for step in (by_users[21], by_users[22]))
    assert "n 252, 2 trials" in result.text

    found, result = counted(4.0)
    longer = {step.users: step.stretch for step in found.steps if step.stretch > 1}
    assert (result.users, result.sure) == (21, True)
    assert longer == {16: 2, 24: 2, 20: 2, 22: 2, 21: 2}
    (row,) = (row for row in stats(found.steps) if row["users"] == 16)
    assert (row["times_duration"], len(row["short_runs"]), row["evidence"]) == (2, 1, True)


def test_an_answer_is_not_known_where_no_step_can_have_enough_samples() -> None:
    """At 32 users and up it is missed; fewer never have 100 samples, not even in the longest step."""
    found, result = counted(0.4, target=500.0, most=512)
    bad = min(step.users for step in found.steps if step.lacks is None)
    assert all(step.stretch <= LONGEST and len(step.samples) == 1 for step in found.steps), "nothing to confirm"
    assert (result.users, result.sure) == (None, False)
    assert result.text.startswith(f"not known how many users: {bad} users: m ")
    assert "too little was measured with 1, 2, 4, " in result.text


def test_one_trial_is_never_certain() -> None:
    once = search(system(8), trials=1).qos(Target(2000.0))
    assert (once.users, once.sure) == (21, False)
    assert once.text.endswith("Not sure: 1 trial has no interval at 21; 1 trial has no interval at 22.")
    found = search(system(8))
    assert found.qos(Target(2000.0)).sure
    assert {step.users: len(step.samples) for step in found.steps if step.users in (21, 22)} == {21: 2, 22: 2}


def test_a_trace_that_ends_is_not_replayed_for_longer() -> None:
    step = Step(3, [Sample(5.0, 0, None, 0, count=60, ended=True)], least=100)
    assert not step.lengthen()
    assert Step(3, [Sample(5.0, 0, None, 0, count=60)], least=100).lengthen()


def test_capacity_goes_on_past_what_measured_nothing() -> None:
    def measure(users: int, trial: int, times: int) -> Sample:
        return Sample(None if users < 8 else min(users, 20) / 20, 0, None, 0)

    assert search(measure, most=64).capacity().users == 19
    result = search(lambda users, trial, times: Sample(None, None, None, 0), most=4).capacity()
    assert (result.users, result.sure, result.peak) == (None, False, None)


def test_the_share_of_the_peak_is_asked_for() -> None:
    knee = system(100, latency=False)
    for near in (0.5, 0.8, 0.95):
        found = Search("m", knee, 400, 3, 0.0, lambda step: None, near=near).capacity()
        assert found.users == pytest.approx(100 * near, abs=1)


def test_the_interval_is_students() -> None:
    step = Step(3, [Sample(value, 0, None, 0) for value in (9.0, 10.0, 11.0)])
    low, high = step.interval
    # 4.303 x 1 / sqrt(3)
    assert (low, high) == pytest.approx((10 - 2.4843, 10 + 2.4843), abs=1e-4)
    assert T975[:3] == (12.706, 4.303, 3.182)
    (row,) = stats([step])
    assert row["value"] == fmean((9.0, 10.0, 11.0))


# On a tier of known speed

MIB_S, TOKENS, THINK_S = 400, 2048, 0.3
BYTES = TOKENS * 24576  # of tiny-1b


def closed_loop(path: Path, users: int, turns: int) -> Trace:
    """Each user stores an object, then reads it again and again, pausing 0.3 s, a tenth more or less."""
    words = np.random.Philox(key=1).random_raw(users * turns) >> np.uint64(11)
    pauses = ((0.9 + 0.2 * words / 2.0**53) * THINK_S * 1e9).astype(np.int64).reshape(turns, users)
    pauses[0] = np.linspace(0, 2 * THINK_S * 1e9, users).astype(np.int64)
    at = np.cumsum(pauses, axis=0).ravel()
    turn, user = (one.ravel() for one in np.meshgrid(np.arange(turns), np.arange(users), indexing="ij"))
    order = np.lexsort((user, at))
    turn, user, at, pause = turn[order], user[order], at[order], pauses.ravel()[order]
    steps = [("w" if first == 0 else "r", int(key), TOKENS) for first, key in zip(turn, user, strict=True)]
    return traces.write(
        path,
        traces.columns(
            steps, requests=range(len(steps)), time_ns=at, user_id=user, session_id=user, turn=turn + 1,
            new_tokens=[0] * len(steps), qos=user % 3, think_ns=np.where(turn == 0, 0, pause),
        ),
        counts={"users": users},
    )  # fmt: skip


@pytest.mark.usefixtures("series_here")
def test_qos_on_a_throttled_tier_is_what_the_plan_and_its_speed_say(run: Run, tmp_path: Path) -> None:
    trace = closed_loop(tmp_path / "t.parquet", 14, 30)
    assert not list(trace.problems())
    target_ms = 840
    command = (
        "replayer", "autoscale", trace.path, "--mode", "qos", "--metric", "e2e_p50_ms", "--target", target_ms,
        "--model", "tiny-1b", "--layout", "null", "--throttle", f"nvme={MIB_S}", "--duration", 3, "--warmup", "1.2s",
        "--trials", 1, "--precision", 0.3, "-o", tmp_path / "scale",
    )  # fmt: skip
    done = run(*command)
    found = json.loads((tmp_path / "scale" / "autoscale.json").read_text())
    computed = (target_ms / 1e3 + THINK_S) * MIB_S * 2**20 / BYTES
    assert computed == pytest.approx(9.5)
    assert abs(found["result"]["users"] - computed) <= 0.1 * computed + 1, "users are whole"
    assert done.stdout.rstrip().endswith(found["result"]["text"])
    first = found["autoscaling_stats"][0]
    assert first.keys() >= {"users", "throughput_gib_s", "p95_ms", "saturation", "decision", "reason"}
    assert (first["users"], first["decision"]) == (1, "up")
    assert found["autoscaling_stats"][-1]["decision"] == "stop"
    busy = max(found["autoscaling_stats"], key=lambda row: row["users"])
    assert busy["saturation"] > 0.6 > first["saturation"]
    assert busy["throughput_gib_s"] > 0.85 * MIB_S / 1024 > 2 * first["throughput_gib_s"]
    assert found["result"]["sure"] is False, "one trial has no interval"
    assert (found["target_is"], found["least_samples"]) == ("at_most", 10)
    assert all(row["n"] >= 10 for row in found["autoscaling_stats"] if row["evidence"])
    runs = sum(row["trials"] + len(row["short_runs"]) for row in found["autoscaling_stats"])
    assert f"Warning: emulated tier: {runs} of {runs} replays, users_" in done.stderr, "doubts of the runs are told"
    assert any(text.startswith("emulated tier: ") for text in found["warnings"])
    picture = (tmp_path / "scale" / "autoscale.svg").read_text()
    assert re.search(r"<svg.*knee: ", picture, re.S)


@pytest.mark.usefixtures("series_here")
@pytest.mark.parametrize(
    ("name", "at_most", "least"),
    [
        ("cache_io_tokens_per_sec", False, 1),
        ("hit_rate_reuse", False, 1),
        ("interactive_compliance", False, 100),
        (LATENCY, True, 100),
        ("e2e_p99_ms", True, 500),
        ("plan_wait_s", True, 1),
    ],
)
def test_targets_are_limits_on_the_side_that_analysis_says(name: str, at_most: bool, least: int) -> None:
    asked = Asked(Path("t"), "qos", name, 1.0, None, 1, 0.0, 1.0, ())
    metric = described(asked)
    assert (metric.names, metric.at_most, metric.least) == ((name,), at_most, least)


def test_a_sum_of_what_was_not_measured_is_not_known() -> None:
    assert [autoscale._sum(values) for values in ([1.0, 2.0], [0.0, 0.0], [1.0, None])] == [3.0, 0.0, None]


@pytest.mark.usefixtures("series_here")
def test_a_search_goes_on_with_the_replays_there_are(run: Run, tmp_path: Path) -> None:
    closed_loop(tmp_path / "t.parquet", 2, 30)
    command = (
        "replayer", "autoscale", tmp_path / "t.parquet", "--mode", "capacity", "--model", "tiny-1b", "--layout", "null",
        "--throttle", "nvme=2000", "--duration", 1, "--warmup", "0.4s", "--trials", 1, "-o", tmp_path / "scale", "--json",
    )  # fmt: skip
    first = run(*command)
    found = json.loads(first.stdout)
    assert found == json.loads((tmp_path / "scale" / "autoscale.json").read_text())
    assert first.stderr.count("complete") == sum(row["trials"] for row in found["autoscaling_stats"])
    assert found["result"]["peak"] > 0
    again = run(*command)
    assert "complete" not in again.stderr, "nothing is replayed a second time"
    assert json.loads(again.stdout) == found
    other = run(*command, "--target", 5, ok=False)
    assert other.returncode == 2
    assert "other settings (target)" in other.stderr


REFUSED = {
    "no such metric": (["--mode", "qos", "--metric", "nvme_p95"], "nvme_p95"),
    "a metric without a better side": (["--mode", "qos", "--metric", "requests"], "--metric requests: no value of it"),
    "a group of metrics": (["--mode", "qos", "--metric", "waits"], "--metric waits: no value of it is better"),
    "a metric whose samples nothing counts": (
        ["--mode", "qos", "--metric", "nvme_read_eviction_p95_ms"],
        "--metric nvme_read_eviction_p95_ms: a summary does not count its samples",
    ),
    "more and less together": (
        ["--mode", "qos", "--metric", "ttfb_p95_ms+nvme_read_gib_s"],
        "adds what should be high to what should be low",
    ),
    "a peak of what should be low": (
        ["--mode", "capacity", "--metric", "e2e_p95_ms"],
        "capacity looks for the highest",
    ),
    "a share of a peak that is not looked for": (
        ["--mode", "qos", "--target-saturation", "0.8"],
        "--target-saturation is of --mode capacity",
    ),
    "no mode": ([], "--mode"),
    "a flag of run that is none": (["--mode", "qos", "--layouts", "null"], "--layouts"),
    "a value that replays refuse": (["--mode", "qos", "--io-size", "3"], "--io-size"),
    "a pace": (["--mode", "qos", "--pace", "open"], "--pace"),
    "a trace that is none": (["--mode", "qos"], "is not"),
}


@pytest.mark.usefixtures("series_here")
@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(case: str, run: Run, demo_trace: Path, tmp_path: Path) -> None:
    flags, named = REFUSED[case]
    trace = Path(__file__) if "trace" in case else demo_trace
    done = run("replayer", "autoscale", trace, *flags, "-o", tmp_path / "out", ok=False)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists(), "refused before work starts"


def test_the_default_throughput_is_of_metrics_that_there_are() -> None:
    from analysis.summary import glossary

    names = {name for term in glossary.terms() for name in term.expanded()}
    assert set(THROUGHPUT.split("+")) <= names
