"""What is read from the log of a cell's run, against counting by hand."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replayer.bindings.compiled import RECORD
from replayer.planning.moves import HIT, STORE
from replayer.profiling.cells import WHATS, Cell, MadeTrace, Measured, Phases, count_present, measure_visits
from replayer.profiling.rounds import Seconds, choose_phases
from tracegen.schema import DELETE, READ, WRITE


def measure(workers: int, rows: np.ndarray, phases: Phases) -> Measured:
    return measure_visits(Cell("nvme", 1 << 16, workers), phases, rows)


intervals = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=12)


def rows_of(spans: list[tuple[int, int]]) -> np.ndarray:
    rows = np.zeros(len(spans), RECORD)
    rows["start_ns"] = [start for start, _ in spans]
    rows["end_ns"] = [start + length for start, length in spans]
    return rows


@given(intervals, intervals)
def test_moves_present_are_counted_nanosecond_by_nanosecond(some: list, others: list) -> None:
    shares = []
    for start, length in others:
        present = sum(a <= at < a + b for at in range(start, start + length) for a, b in some)
        shares.append(present / length)
    assert count_present(rows_of(some), rows_of(others)) == pytest.approx(np.mean(shares))


def test_the_made_ops_are_phases() -> None:
    phases = Phases(3, 4, 4)
    assert phases.stored == 5
    assert phases.ranges() == {"write": range(3), "read": range(3, 7), "mixed": range(7, 11), "remove": range(11, 16)}
    (batch,) = MadeTrace(phases, 8192).batches(100)
    assert batch["op"].tolist() == [WRITE] * 3 + [READ] * 4 + [READ, WRITE] * 2 + [DELETE] * 5
    assert batch["key"].tolist() == [0, 1, 2, 0, 1, 2, 0, 0, 3, 1, 4, 0, 1, 2, 3, 4]
    assert set(batch["tokens"]) == {2}


def make_records(mixed: int = 8) -> tuple[np.ndarray, Phases]:
    """One worker: writes of 20 us, reads of 10, in the mixed phase of 30; 5 us between moves; removals of 2."""
    phases = Phases(8, 8, mixed)
    ops = [("write", 20)] * 8 + [("read", 10)] * 8 + [("read", 30), ("write", 30)] * (mixed // 2)
    ops += [("remove", 2)] * phases.stored
    rows = np.zeros(len(ops), RECORD)
    now = 0
    for row, (what, us) in zip(rows, ops, strict=True):
        row["start_ns"], row["end_ns"] = now, now + us * 1000
        now += (us + 5) * 1000
        row["move"] = HIT if what == "read" else STORE if what == "write" else 7
        name = {"read": "read_ns", "write": "write_ns"}.get(what)
        if name:
            row[name], row[f"device_{name}"] = us * 1000, us * 1000 - 3000
            row["verify_ns"] = 1000
    return rows, phases


def test_times_rates_and_loads_of_each_kind() -> None:
    measured = measure(1, *make_records())
    assert {what: one.time_us for what, one in measured.items()} == {
        "write": 20, "read": 10, "mixed read": 30, "mixed write": 30, "remove": 2,
    }  # fmt: skip
    assert measured["read"].open_us == 3
    assert measured["remove"].open_us == 0
    assert measured["write"].verify_us == 1
    assert measured["read"].per_s == pytest.approx(1e6 / 15)
    assert measured["remove"].per_s == pytest.approx(1e6 / 7)
    assert {one.load for one in measured.values()} == {1}
    assert {one.others for one in measured.values()} == {0}
    assert measured["write"].ratios.tolist() == [1] * 6  # the first two are left out


@example(8, 0, 1000.0, STORE)
@given(st.sampled_from((1, 2, 8, 64)), st.integers(0, 9), st.floats(1, 3000), st.sampled_from((HIT, STORE)))
def test_each_kind_has_a_rate_whatever_was_slow(workers: int, seed: int, slowness: float, kind: int) -> None:
    """Of the fewest moves that a cell may have, one kind is slower in half of all cases."""
    phases = choose_phases(Cell("nvme", 1 << 16, workers), Seconds(1.0, 1.0, 1.0), 1 << 30, 0.02, 1e9)
    assert isinstance(phases, Phases)
    random = np.random.default_rng(seed)
    parts = [HIT if name == "read" else STORE for name, ids in phases.ranges().items() for _ in ids]
    mixed = phases.ranges()["mixed"]
    parts[mixed.start : mixed.stop] = [HIT, STORE] * (len(mixed) // 2)
    rows = np.zeros(len(parts), RECORD)
    rows["move"] = parts
    free = np.zeros(workers)
    for row in rows:
        worker = int(free.argmin())
        row["start_ns"] = free[worker]
        free[worker] += 1000 * (slowness if row["move"] == kind and random.random() < 0.5 else 1)
        row["end_ns"] = free[worker]
    rows["read_ns"] = rows["end_ns"] - rows["start_ns"]
    measured = measure(workers, rows, phases)
    assert {what for what, one in measured.items() if one.per_s > 0 and len(one.ratios) > 1} == set(WHATS)


@pytest.mark.parametrize("steady_writes", [0, 1])
def test_a_mixed_phase_without_two_steady_writes_counts_its_middle(steady_writes: int) -> None:
    rows, phases = make_records(20)
    writes = np.arange(17, 36, 2)
    rows["start_ns"][writes[: len(writes) - steady_writes]] = 0  # before the reads had ended
    measured = measure(1, rows, phases)
    assert len(measured["mixed read"].ratios) == len(measured["mixed write"].ratios) == 9
    assert measured["mixed write"].per_s > 0


def test_moves_beside_another_phase_do_not_count() -> None:
    """Two workers: the last write ends late, so that reads are alone until then; removals begin early."""
    phases = Phases(6, 20, 0)
    rows = np.zeros(32, RECORD)
    rows["start_ns"][:6], rows["end_ns"][:6] = np.arange(6) * 10, np.arange(6) * 10 + 20
    rows["end_ns"][5] = 150
    rows["start_ns"][6:26] = 70 + np.arange(20) * 10
    rows["end_ns"][6:26] = rows["start_ns"][6:26] + 10
    rows["read_ns"][6:26] = 10
    rows["read_ns"][6:14] = 1000  # these start before 150
    rows["start_ns"][26:] = 255  # the last two end after this
    rows["read_ns"][24:26] = 1000
    rows["end_ns"][26:] = 300
    read = measure(2, rows, phases)["read"]
    assert read.time_us == 0.01
    assert len(read.ratios) == 9  # the first of those after 150 is left out, too
