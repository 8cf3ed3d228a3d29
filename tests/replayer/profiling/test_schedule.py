"""Which cells are run, with how many ops, and in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.profiling.cells import Cell
from replayer.profiling.rounds import (
    ROUNDS,
    SIZES,
    WORKERS,
    Seconds,
    choose_phase_s,
    choose_phases,
    guess_seconds,
)

GIB = 1 << 30


@given(
    st.sampled_from(SIZES), st.sampled_from(WORKERS), st.floats(1e-7, 1), st.floats(1e-7, 1), st.floats(0.02, 0.25),
    st.integers(64 << 20, GIB),
)  # fmt: skip
def test_phases_fit_the_room_and_hold_more_than_their_edges(
    size: int, workers: int, write_s: float, read_s: float, phase_s: float, room: int
) -> None:
    guess = Seconds(write_s, read_s, (write_s + read_s) / 2)
    phases = choose_phases(Cell("nvme", size, workers), guess, room, phase_s, 120)
    if phases is None:
        return
    assert phases.stored * size <= room
    assert phases.mixed % 2 == 0
    assert min(phases.objects, phases.reads, phases.mixed) >= 3 * workers + 5
    assert phases.reads >= (min(4, write_s / read_s) + 3) * workers + 5
    assert max(phases.objects * write_s, phases.reads * read_s) <= 3


def test_cells_that_need_too_much_room_or_time_are_left_out() -> None:
    slow = Seconds(0.2, 0.2, 0.2)
    assert choose_phases(Cell("nvme", 1 << 20, 4), slow, GIB, 0.1, 120) is None
    assert choose_phases(Cell("nvme", 1 << 26, 4), slow, GIB, 0.1, 1200) is None
    assert choose_phases(Cell("nvme", 1 << 20, 4), slow, GIB, 0.1, 1200) is not None


def test_the_time_of_phases_follows_the_budget() -> None:
    assert choose_phase_s(3.5 * 0.1 * ROUNDS * 84, 84) == pytest.approx(0.1)
    assert choose_phase_s(1, 84) == 0.02
    assert choose_phase_s(1e5, 84) == 0.25


def test_a_guess_is_the_nearest_cell_that_cannot_be_faster() -> None:
    assert guess_seconds({}, Cell("nvme", 1 << 16, 1)) is None
    known = {
        Cell("nvme", 1 << 16, 1): Seconds(1e-3, 2e-3, 3e-3),
        Cell("nvme", 1 << 16, 8): Seconds(1e-4, 2e-4, 3e-4),
        Cell("cpu", 1 << 16, 8): Seconds(1e-5, 2e-5, 3e-5),
    }
    assert guess_seconds(known, Cell("nvme", 1 << 16, 4)) == Seconds(1e-3, 2e-3, 3e-3)
    assert guess_seconds(known, Cell("nvme", 1 << 16, 64)) == Seconds(1e-4, 2e-4, 3e-4)
    assert guess_seconds(known, Cell("nvme", 1 << 20, 1)) == Seconds(16e-3, 32e-3, 48e-3)
