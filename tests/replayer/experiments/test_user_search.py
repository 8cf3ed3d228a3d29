"""The search for how many users a system carries, on systems whose answer is known."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.experiments.steps import MOST_TRIALS, T975, MeasuredTrial, Result, Step, Target
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

    def measure(users: int, trial: int) -> MeasuredTrial:
        service = think_s / (knee - 1) if knee > 1 else think_s
        throughput = users / knee if users <= knee else beyond
        respond = max(service, users * service - think_s) * 1e3
        value = (respond if latency else throughput) * (1 + draws.gauss(0, noise))
        return MeasuredTrial(value, throughput, respond, min(1, users / knee), f"users_{users}/trial_{trial}")

    return measure


def search(measure: Measure, users: int = 1000, trials: int = 5, precision: float = 0.0) -> Search:
    return Search(measure, SearchLimits(users=users, trials=trials, precision=precision))


@given(knee=st.integers(2, 400), target_ms=st.floats(1, 5000), most=st.integers(1, 600))
def test_qos_finds_exactly_the_most_users_within_the_target(knee: int, target_ms: float, most: int) -> None:
    measure = closed_loop(knee)
    truth = max((n for n in range(1, most + 1) if (measure(n, 1).value or 0) <= target_ms), default=0)
    done = search(measure, most)
    assert done.find_most_users(Target(target_ms)).users == truth
    assert len(done.steps) <= 2 * most.bit_length() + 2, "doubled and bisected, not tried one by one"
    assert len({step.users for step in done.steps}) == len(done.steps)


@given(knee=st.integers(2, 300), beyond=st.floats(0.5, 1.0), most=st.integers(1, 600))
def test_capacity_finds_the_peak_and_the_fewest_users_near_it(knee: int, beyond: float, most: int) -> None:
    measure = closed_loop(knee, beyond=beyond, latency=False)
    throughputs = [measure(n, 1).throughput for n in range(1, most + 1)]
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
    assert max(len(step.trials) for step in done.steps) > 1
    answer = next(step for step in done.steps if step.users == result.users)
    assert result.doubts or (answer.interval is not None and answer.interval[1] <= 2000)


def test_a_target_that_no_number_of_users_meets_gives_0_and_one_that_all_meet_gives_the_most() -> None:
    assert search(closed_loop(8)).find_most_users(Target(1.0)) == Result(0, [])
    assert search(closed_loop(8), users=5).find_most_users(Target(1e9)) == Result(5, [])


def test_a_lower_limit_is_met_by_values_above_it() -> None:
    falling = search(lambda users, _trial: MeasuredTrial(1 - users / 100, 1, None, 1), users=90, trials=3)
    assert falling.find_most_users(Target(0.75, at_most=False)).users == 25


def search_from(enough: int, *, trials: int = 3) -> Search:
    """Return a search on a drive that 20 users saturate; fewer than `enough` users measure too little, and high."""
    measure_value = closed_loop(20, latency=False)

    def measure(users: int, trial: int) -> MeasuredTrial:
        measured = measure_value(users, trial)
        return replace(measured, value=2.0, is_enough=False) if users < enough else measured

    return search(measure, 64, trials)


def test_a_step_that_measured_too_little_decides_nothing_about_the_peak() -> None:
    done = search_from(8)
    assert done.find_peak() == Result(19, [], 1.0)
    early = [step for step in done.steps if step.users < 8]
    assert [(step.users, step.decision, len(step.trials)) for step in early] == [
        (users, "up", 1) for users in (1, 2, 4)
    ]
    never = search_from(99).find_peak()
    assert (never.users, never.peak) == (None, None)
    assert "with 1, 2, 4, 8, 16, 32 and 64 users" in never.doubts[0]


@pytest.mark.parametrize(("busy", "doubts"), [(0.8, 0), (0.79, 1)])
def test_a_peak_at_which_no_tier_is_busy_is_not_sure(busy: float, doubts: int) -> None:
    measure_value = closed_loop(8, latency=False)
    result = search(lambda *trial: replace(measure_value(*trial), saturation=busy), users=20).find_peak()
    assert (result.users, len(result.doubts)) == (8, doubts)


def search_by_latency(enough: int, target: float) -> tuple[Search, Result]:
    """Search a system that carries 21 users for 2,000 ms; fewer than `enough` users measure too little."""
    measure_value = closed_loop(8)
    done = search(lambda users, trial: replace(measure_value(users, trial), is_enough=users >= enough), 64)
    return done, done.find_most_users(Target(target))


def test_steps_that_measured_too_little_neither_meet_nor_miss_a_target() -> None:
    done, result = search_by_latency(20, 2000.0)
    assert result == Result(21, [])
    early = [step for step in done.steps if step.users < 20]
    assert [(step.users, step.decision, len(step.trials), step.is_evidence) for step in early] == [
        (users, "up", 1, False) for users in (1, 2, 4, 8, 16)
    ]


def test_the_answer_is_not_known_if_too_little_was_measured_below_the_first_miss() -> None:
    done, result = search_by_latency(24, 2000.0)
    assert result.users is None
    assert result.doubts[0].startswith("too little was measured with 1, 2, 4, 8, 16, ")
    assert min(step.users for step in done.steps if step.is_evidence) == 24
    assert search_by_latency(99, 2000.0)[1].users is None


def test_a_step_without_a_value_is_no_evidence() -> None:
    done = search(lambda _users, _trial: MeasuredTrial(None, 0, None, 0), users=4)
    assert done.find_most_users(Target(10)).users is None
    assert [(step.users, len(step.trials), step.row()["value"]) for step in done.steps] == [
        (users, 1, None) for users in (1, 2, 4)
    ]


def test_an_answer_from_one_trial_is_never_sure() -> None:
    once = search(closed_loop(8), trials=1).find_most_users(Target(2000.0))
    assert (once.users, len(once.doubts)) == (21, 2)
    done = search(closed_loop(8))
    assert done.find_most_users(Target(2000.0)) == Result(21, [])
    assert {step.users: len(step.trials) for step in done.steps if step.users in (21, 22)} == {21: 2, 22: 2}


def test_the_interval_is_students() -> None:
    step = Step(3, [MeasuredTrial(value, 0, None, 0) for value in (9.0, 10.0, 11.0)])
    # 4.303 x 1 / sqrt(3)
    assert step.interval == pytest.approx((10 - 2.4843, 10 + 2.4843), abs=1e-4)
    assert len(T975) == MOST_TRIALS - 1
