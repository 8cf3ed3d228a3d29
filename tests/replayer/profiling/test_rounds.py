"""Which cells a series of rounds measures on tiers that are slow, or slow for a while."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from replayer.prediction.stations import Station
from replayer.profiling import rounds
from replayer.profiling.cells import Cell
from replayer.profiling.rounds import ROUNDS, SIZES, CellSeries, Findings
from replayer.record.conditions import Tier
from tests.replayer.prediction.profile_texts import make_profile
from tests.replayer.profiling.virtual_rig import VirtualRig
from tracegen.errors import ToolError

LOADS = (1.0, 4.0, 64.0)
READ = Station(LOADS, (5.0, 6, 30), (80.0, 90, 1000), (1.2, 4.4, 7.0))
WRITE = Station(LOADS, (20.0, 22, 100), (30.0, 40, 640), (1.0, 2.5, 3.0), (), (20.0, 22, 40))
TRUE = make_profile(READ, WRITE)
SMALLEST = Cell("nvme", SIZES[0], 1)
ROOM: dict[Tier, int] = {"nvme": 64 << 20}
Slowness = Callable[[int, int, int], float]


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No round is left out because this machine is slow."""
    monkeypatch.setattr(rounds, "monotonic", lambda: 0.0)


def measure(slowness: Slowness, budget_s: float) -> tuple[Findings, VirtualRig]:
    rig = VirtualRig(TRUE, 0.0, slowness)
    findings = CellSeries(rig, ROOM, budget_s, lambda *_: None).measure()
    return findings, rig


def test_a_tier_whose_pilot_was_slow_is_measured_once_it_is_fast() -> None:
    usual, _ = measure(lambda *_: 1.0, 8.0)
    found, _ = measure(lambda number, *_: 1000.0 if number < 2 else 1.0, 8.0)
    assert len(usual.rounds[SMALLEST]) == ROUNDS
    assert len(found.rounds[SMALLEST]) == ROUNDS - 1
    assert set(found.rounds) == set(usual.rounds)


def test_a_tier_that_stays_slow_is_piloted_once_per_round_and_refused() -> None:
    rig = VirtualRig(TRUE, 0.0, lambda *_: 1000.0)
    with pytest.raises(ToolError, match="no cells of 256 KiB to 16 MiB"):
        CellSeries(rig, ROOM, 8.0, lambda *_: None).measure()
    assert len(rig.runs) <= 2 + ROUNDS - 1


def test_a_tier_without_a_cell_that_is_judged_is_refused() -> None:
    """Its error would be 0."""
    rig = VirtualRig(TRUE, 0.0, lambda *_: 8.0)
    with pytest.raises(ToolError, match="no cells of 256 KiB to 16 MiB"):
        CellSeries(rig, ROOM, 1.0, lambda *_: None).measure()
    measured = {size for _, size, _ in rig.runs[2:]}
    assert measured == {SIZES[0]}


def test_a_cell_that_was_slow_in_one_round_is_not_left_out() -> None:
    """The next round leaves it out by the time that it took, and that after it tries again."""
    disturbed = (1 << 20, 2)
    seen = list[int]()

    def slow_once(number: int, size: int, workers: int) -> float:
        if (size, workers) != disturbed:
            return 1.0
        seen.append(number)
        return 1000.0 if len(seen) == 1 else 1.0

    found, rig = measure(slow_once, 8.0)
    cell = Cell("nvme", *disturbed)
    assert len(found.rounds[cell]) == ROUNDS - 1
    places = [at for at, run in enumerate(rig.runs) if run[1:] == disturbed]
    gaps = [after - before for before, after in pairwise(places)]
    assert gaps[0] > 1.5 * gaps[1]
