"""Equal work of two runs: its spans by hand, each reason to refuse, and replays on drives an exact factor apart."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.comparison.spans import EqualWork, find_equal_work
from analysis.comparison.work import DriveLoad, Work
from tests.analysis.comparison.crafting import even_work, make_work, typed
from tests.bench.comparison_part import Cell, compare_cell

MIB = 1 << 20


def streams(depths: Sequence[int], rates: Sequence[float], times: float = 1.0) -> Work:
    """Make phases of 10 s: so many streams of moves of 0.1 s, which share a rate in MiB/s."""
    starts, sizes = [], []
    for phase, (depth, rate) in enumerate(zip(depths, rates, strict=True)):
        for step in range(100):
            starts += [phase * 10 + step * 0.1] * depth
            sizes += [rate * 0.1 * times * MIB / depth] * depth
    cut_s = len(depths) * 10 * times
    return make_work(np.array(starts) * times, 0.1 * times, sizes, cut_s=cut_s)


def find(one: Work, other: Work) -> EqualWork:
    return find_equal_work({"one": [one], "other": [other]}, "bytes")


def ratio(equal: EqualWork) -> float:
    return equal.spans_s["one"][0] / equal.spans_s["other"][0]


def test_the_least_work_of_a_window_ends_both_spans() -> None:
    """The slow run does 1.5 of its moves of 2 s until 3 s; the fast one as much in 1.5 s."""
    equal = find(make_work([0, 2, 4], 2, cut_s=3), make_work([0, 1, 2], 1, cut_s=3))
    assert equal.amount == pytest.approx(1.5 * MIB)
    assert equal.spans_s == {"one": [pytest.approx(3.0)], "other": [pytest.approx(1.5)]}


def test_a_span_begins_at_the_end_of_the_warmup() -> None:
    """Half of the move from 0 to 2 s belongs to the warm-up of 1 s."""
    work = make_work([0, 2], 2, cut_s=4, begin_s=1)
    assert work.total == pytest.approx(1.5 * MIB)
    assert work.find_time(MIB) == pytest.approx(2.0)


def test_drives_that_are_always_busy_with_the_same_moves_are_compared() -> None:
    equal = find(even_work(20, is_cut=True), even_work(10, is_cut=True))
    assert (equal.reason, ratio(equal), equal.busy) == (
        "",
        pytest.approx(2.0),
        {"one": pytest.approx(1.0), "other": pytest.approx(1.0)},
    )


def test_a_cut_run_is_compared_with_a_whole_one() -> None:
    equal = find(make_work(np.arange(200) * 2, 2, cut_s=200), make_work(np.arange(200), 1))
    assert (equal.reason, ratio(equal)) == ("", pytest.approx(2.0))


def test_a_drive_that_waits_for_its_load_is_refused() -> None:
    """The fast drive has each move after 1 s and the next one after 2 s: pauses of users."""
    equal = find(make_work(np.arange(200) * 2, 2, cut_s=400), make_work(np.arange(200) * 2, 1, cut_s=400))
    assert "the load limits, not the drive: the drive of other was busy 50.1% of the time" in equal.reason
    assert "more users" in equal.remedy


def test_a_demotion_is_at_the_drive_only_while_it_writes() -> None:
    """Of each second a demotion reads memory for 0.6 s."""
    demotions = {"read_bytes": 0, "write_bytes": MIB, "write_ns": 400_000_000}
    busy = find(make_work(range(200), 1, cut_s=200, **demotions), even_work(400, is_cut=True)).busy
    assert busy == {"one": pytest.approx(0.4, abs=0.01), "other": pytest.approx(1.0)}


@pytest.mark.parametrize(("rates", "power"), [((8, 8), 0.0), ((4, 8), 1.0), ((4, 4 * 2**0.5), 0.5)])
def test_what_more_moves_in_flight_bring(rates: tuple[float, float], power: float) -> None:
    """Phases of 2 and of 4 moves in flight."""
    load = streams([2, 4] * 4, rates * 4).measure_load(("read",), 80.0)
    assert load == DriveLoad(pytest.approx(1.0), pytest.approx(3.0), pytest.approx(power, abs=0.03))


@pytest.mark.parametrize(("shallow", "is_refused"), [(4.0, True), (8.0, False)])
def test_fewer_moves_in_flight_count_unless_the_drive_is_saturated(shallow: float, is_refused: bool) -> None:
    """Half as many moves are in flight at the fast drive: it may have lost half its rate if that grows with them."""
    slow = streams([4, 8] * 4, [shallow, 8] * 4)
    fast = streams([2, 4] * 4, [shallow * 2, 16] * 4, times=0.5)
    lost = "the load limits: with fewer moves in flight a system may have lost 50.00% of its rate"
    assert find(slow, fast).reason.startswith(lost) == is_refused


def test_equal_moves_in_flight_need_no_saturation() -> None:
    equal = find(streams([2, 4] * 4, [4, 8] * 4), streams([2, 4] * 4, [8, 16] * 4, times=0.5))
    assert (equal.reason, ratio(equal)) == ("", pytest.approx(2.0))


def test_drives_that_did_other_parts_of_the_work_are_refused() -> None:
    """Each second a drive serves a read and memory serves another one; in one run the drive's read is larger."""

    def serve(drive: float) -> Work:
        sizes = np.where(np.arange(400) % 2, 2 - drive, drive) * MIB
        reads = np.where(np.arange(400) % 2, 0, sizes)
        return make_work(np.arange(400) // 2, 1, sizes, cut_s=200, read_bytes=reads.astype(np.int64))

    assert "what the drives did for it differs by 3.85%" in find(serve(1.0), serve(1.04)).reason
    assert not find(serve(1.0), serve(1.01)).reason


def test_much_work_under_way_is_refused() -> None:
    """At 10 s the move of 8 s is half done: 4 of 13 MiB."""
    slow = make_work([0, 1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 1, 1, 8], [MIB] * 6 + [16 * MIB], cut_s=10)
    assert "57.1% of the work belongs to moves under way" in find(slow, even_work(1, is_cut=True)).reason


def test_other_ranks_moves_are_other_work() -> None:
    swapped = make_work(range(200), 1, cut_s=200, rank=1)
    assert "only 0.0% of the work is the same" in find(even_work(200, is_cut=True), swapped).reason


@pytest.mark.parametrize("cut_s", [None, 10.0])
def test_a_run_without_work_is_refused(cut_s: float | None) -> None:
    """Misses move no bytes."""
    misses = make_work(range(20), 0.001, 0.0, cut_s=cut_s)
    equal = find(misses, even_work(10))
    assert (equal.reason, equal.busy["one"]) == ("a run did no work in its window", None)


def test_a_drive_that_had_nothing_to_do_does_not_limit() -> None:
    """Memory did all the work: its ratio is not that of the drives, unless there are none."""
    works = [make_work(range(200), 1, cut_s=200, read_bytes=0) for _ in range(2)]
    assert "the drive of one was busy 0.0% of the time" in find(works[0], works[1]).reason
    without = [replace(work, has_drive=False) for work in works]
    assert not find(without[0], without[1]).reason
    pauses = replace(make_work(range(200), 0.5, cut_s=200, read_bytes=0), has_drive=False)
    assert "the memory of other was busy 50" in find(without[0], pauses).reason


@pytest.mark.parametrize(("duration", "reason"), [("3s", "moves under way"), ("30s", "")])
def test_drives_apart_by_two(duration: str, reason: str, tmp_path: Path) -> None:
    """24 users without pauses."""
    flags = {"--duration": duration, "--pace": "asap", "--model": "llama3.1-8b"}
    equal = compare_cell(Cell("chat", 24, 7, 2.0, 3.0, is_joint=True, streams=1, flags=flags), tmp_path)
    assert isinstance(equal, EqualWork), equal
    assert reason in equal.reason if reason else not equal.reason
    slow, fast = equal.spans_s.values()
    assert reason or slow[0] / fast[0] == pytest.approx(2.0, rel=0.02)


def test_times_of_moves_that_end_in_the_drain_do_not_count(tmp_path: Path) -> None:
    """In the drain fewer and fewer moves share the slow drive, but later ones share the fast one at that point."""
    flags = {"--duration": "30s", "--pace": "closed", "--speedup": "1000", "--model": "llama3.1-8b"}
    cell = Cell("chat", 50, 7, 2.0, 3.0, is_joint=True, streams=1, flags=flags)
    assert isinstance(compare_cell(cell, tmp_path), EqualWork)
    done = typed(tmp_path / "fast", "--against", tmp_path / "slow", "--json")
    (system,) = json.loads(done.stdout)["systems"]
    for metric in ("nvme_read_p95_ms", "nvme_read_p99_ms"):
        assert system["ratios"][metric]["ratio"] == pytest.approx(0.5, rel=0.02), metric


def test_a_system_that_misses_more_is_told_from_one_that_is_faster() -> None:
    """One misses a tenth of the tokens: without a speed of prefill they cost nothing."""
    hits = make_work(np.arange(100), 1.0)
    some = make_work(np.arange(100) / 2, 0.5, missed=MIB / 10)
    assert find(hits, hits).same_misses
    assert not find(hits, some).same_misses
