"""The search for how many users a system carries, on systems whose answer is known."""

import random
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.experiments.steps import MAX_STRETCH, T975, MeasuredTrial, Result, Step, Target
from replayer.experiments.user_search import NEAR_PEAK, Measure, Search, SearchLimits


def closed_loop(
    knee: float, *, think_s: float = 1.0, beyond: float = 1.0, noise: float = 0.0, latency: bool = True
) -> Measure:
    """Return a closed loop: throughput grows up to the knee, latency from there (Denning, Buzen).

    Args:
        knee: users at which throughput stops growing.
        think_s: pause of a user between requests.
        beyond: throughput with more users.
        noise: relative standard deviation of the metric.
        latency: whether the metric is latency in ms, else throughput.
    """
    draws = random.Random(5)

    def measure(users: int, trial: int, _stretch: int) -> MeasuredTrial:
        service = think_s / (knee - 1) if knee > 1 else think_s
        throughput = users / knee if users <= knee else beyond
        respond = max(service, users * service - think_s) * 1e3
        value = (respond if latency else throughput) * (1 + draws.gauss(0, noise))
        return MeasuredTrial(value, throughput, respond, min(1, users / knee), f"users_{users}/trial_{trial}")

    return measure


def search(measure: Measure, users: int = 1000, trials: int = 5, precision: float = 0.0) -> Search:
    return Search("m", measure, SearchLimits(users=users, trials=trials, precision=precision))


@given(knee=st.integers(2, 400), target_ms=st.floats(1, 5000), most=st.integers(1, 600))
def test_qos_finds_exactly_the_most_users_within_the_target(knee: int, target_ms: float, most: int) -> None:
    measure = closed_loop(knee)
    truth = max((n for n in range(1, most + 1) if (measure(n, 1, 1).value or 0) <= target_ms), default=0)
    done = search(measure, most)
    assert done.find_most_users(Target(target_ms)).users == truth
    assert len(done.steps) <= 2 * most.bit_length() + 2, "doubled and bisected, not tried one by one"
    assert len({step.users for step in done.steps}) == len(done.steps)


@given(knee=st.integers(2, 300), beyond=st.floats(0.5, 1.0), most=st.integers(1, 600))
def test_capacity_finds_the_peak_and_the_fewest_users_near_it(knee: int, beyond: float, most: int) -> None:
    measure = closed_loop(knee, beyond=beyond, latency=False)
    throughputs = [measure(n, 1, 1).throughput for n in range(1, most + 1)]
    result = search(measure, most).find_peak()
    assert result.peak is not None
    # A peak above a plateau may be as narrow as the steps: the answer is at least the plateau.
    assert result.peak >= min(max(throughputs), beyond) * 0.98
    if beyond == 1.0:
        fewest = next(n for n, throughput in enumerate(throughputs, 1) if throughput >= NEAR_PEAK * result.peak)
        assert result.users == fewest


@pytest.mark.parametrize("noise", [0.01, 0.03])
@pytest.mark.parametrize("knee", [8, 60, 250])
def test_noise_moves_the_answer_little_and_the_result_admits_it(knee: int, noise: float) -> None:
    done = search(closed_loop(knee, noise=noise), precision=0.02)
    result = done.find_most_users(Target(2000.0))
    truth = 3.0 * (knee - 1)  # N x D - Z = 2 s with Z = 1 s, D = 1 / (knee - 1)
    assert abs(result.users - truth) <= max(1, 0.06 * truth)
    assert result.sure == ("Sure" in result.text)
    assert max(len(step.trials) for step in done.steps) > 1
    answer = next(step for step in done.steps if step.users == result.users)
    _, high = answer.interval
    assert result.sure <= (high <= 2000 and len(answer.trials) > 1)


def test_a_target_that_no_number_of_users_meets_gives_0_and_one_that_all_meet_gives_the_most() -> None:
    never = search(closed_loop(8)).find_most_users(Target(1.0))
    assert (never.users, never.sure) == (0, True)
    assert never.text.startswith("not even 1 user")
    always = search(closed_loop(8), users=5).find_most_users(Target(1e9))
    assert always.users == 5
    assert "more may show more" in always.text


def test_a_lower_limit_is_met_by_values_above_it() -> None:
    falling = search(lambda users, _trial, _stretch: MeasuredTrial(1 - users / 100, 1, None, 1), users=90, trials=3)
    assert falling.find_most_users(Target(0.75, at_most=False)).users == 25


def search_short_trace(enough: int, *, most: int = 64) -> tuple[Search, Result]:
    """Search the peak of a drive that 20 users saturate; traces of fewer than `enough` users end early, and high."""
    measure_value = closed_loop(20, latency=False)

    def measure(users: int, trial: int, stretch: int) -> MeasuredTrial:
        measured = measure_value(users, trial, stretch)
        return replace(measured, value=2.0, ended=True) if users < enough else measured

    done = Search("m", measure, SearchLimits(users=most, trials=3, precision=0.0, must_last=True))
    return done, done.find_peak()


def test_a_step_whose_trace_ended_decides_nothing_about_the_peak() -> None:
    done, result = search_short_trace(8)
    assert (result.users, result.peak, result.sure) == (19, 1.0, True)
    early = [step for step in done.steps if step.users < 8]
    assert [(step.users, step.decision) for step in early] == [(1, "up"), (2, "up"), (4, "up")]
    assert early[0].describe() == "2 until the trace ended, before the time limit"
    _, never = search_short_trace(99)
    assert (never.users, never.sure) == (None, False)
    assert never.text.endswith("with 1, 2, 4, 8, 16, 32 and 64 users: 2 until the trace ended, before the time limit.")


@pytest.mark.parametrize(("busy", "is_sure"), [(0.8, True), (0.79, False)])
def test_a_peak_at_which_no_tier_is_busy_is_not_sure(busy: float, is_sure: bool) -> None:
    measure_value = closed_loop(8, latency=False)
    result = search(lambda *trial: replace(measure_value(*trial), saturation=busy), users=20).find_peak()
    assert (result.users, result.sure) == (8, is_sure)
    assert ("Not sure: at the peak the busiest tier is busy 79% of the time" in result.text) != is_sure


def search_by_p95(per_user: float, *, most: int = 64, target: float = 2000.0) -> tuple[Search, Result]:
    """Search by a P95 that must rest on 100 samples, on a system that carries 21 users.

    Args:
        per_user: samples of one user in the duration asked for.
        most: users to try.
        target: upper limit in ms.
    """
    measure_value = closed_loop(8)

    def measure(users: int, trial: int, stretch: int) -> MeasuredTrial:
        measured = measure_value(users, trial, stretch)
        count = int(per_user * users * stretch)
        return replace(measured, value=measured.value if count else None, count=count)

    done = Search("m", measure, SearchLimits(users=most, trials=5, precision=0.0, least=100))
    return done, done.find_most_users(Target(target))


def test_a_step_without_a_value_neither_meets_nor_misses_the_target() -> None:
    reported: list[Step] = []
    measure: Measure = lambda _users, _trial, _stretch: MeasuredTrial(None, 0, None, 0, count=0)  # noqa: E731
    done = Search("m", measure, SearchLimits(users=4, trials=5, precision=0.0), reported.append)
    result = done.find_most_users(Target(10))
    assert (result.users, result.sure) == (None, False)
    assert result.text == (
        "not known how many users: no step measured m."
        " Not sure: nothing or too little was measured with 1, 2 and 4 users."
    )
    assert [(step.users, step.reason) for step in reported] == [
        (users, "m not measured: no evidence for or against at most 10") for users in (1, 2, 4)
    ]
    rows = [step.row() for step in done.steps]
    assert [(row["value"], row["interval"], row["evidence"], row["n"]) for row in rows] == [(None, None, False, 0)] * 3
    assert all(row["trials"] == 1 for row in rows), "a step that shows nothing gets no more trials"


def test_a_step_with_too_few_samples_is_no_evidence_and_is_repeated_for_longer() -> None:
    """Up to 24 users have fewer than 100 samples in the duration asked for."""
    done, result = search_by_p95(4.0)
    longer = {step.users: step.stretch for step in done.steps if step.stretch > 1}
    assert (result.users, result.sure) == (21, True)
    assert longer == {16: 2, 24: 2, 20: 2, 22: 2, 21: 2}
    (row,) = (step.row() for step in done.steps if step.users == 16)
    assert (row["times_duration"], len(row["short_runs"]), row["evidence"]) == (2, 1, True)


def test_the_answer_is_not_known_if_no_step_can_have_enough_samples() -> None:
    """From 32 users the target is missed; fewer users never have 100 samples, even in the longest step."""
    done, result = search_by_p95(0.4, target=500.0, most=512)
    bad = min(step.users for step in done.steps if step.is_evidence)
    assert all(step.stretch <= MAX_STRETCH and len(step.trials) == 1 for step in done.steps), "nothing to confirm"
    assert (result.users, result.sure) == (None, False)
    assert result.text.startswith(f"not known how many users: {bad} users: m ")
    assert "too little was measured with 1, 2, 4, " in result.text


def test_an_answer_from_one_trial_is_never_sure() -> None:
    once = search(closed_loop(8), trials=1).find_most_users(Target(2000.0))
    assert (once.users, once.sure) == (21, False)
    assert once.text.endswith("Not sure: 1 trial has no interval at 21; 1 trial has no interval at 22.")
    done = search(closed_loop(8))
    assert done.find_most_users(Target(2000.0)).sure
    assert {step.users: len(step.trials) for step in done.steps if step.users in (21, 22)} == {21: 2, 22: 2}


def test_a_trace_that_ended_is_not_replayed_for_longer() -> None:
    step = Step(3, [MeasuredTrial(5.0, 0, None, 0, count=60, ended=True)], least=100)
    assert not step.lengthen()
    assert Step(3, [MeasuredTrial(5.0, 0, None, 0, count=60)], least=100).lengthen()


def test_capacity_continues_past_steps_that_measured_nothing() -> None:
    def measure(users: int, _trial: int, _stretch: int) -> MeasuredTrial:
        return MeasuredTrial(None if users < 8 else min(users, 20) / 20, 0, None, 0)

    assert search(measure, users=64).find_peak().users == 19
    result = search(lambda _users, _trial, _stretch: MeasuredTrial(None, None, None, 0), users=4).find_peak()
    assert (result.users, result.sure, result.peak) == (None, False, None)


def test_the_interval_is_students() -> None:
    step = Step(3, [MeasuredTrial(value, 0, None, 0) for value in (9.0, 10.0, 11.0)])
    low, high = step.interval
    # 4.303 x 1 / sqrt(3)
    assert (low, high) == pytest.approx((10 - 2.4843, 10 + 2.4843), abs=1e-4)
    assert T975[:3] == (12.706, 4.303, 3.182)
    assert step.row()["value"] == fmean((9.0, 10.0, 11.0))
