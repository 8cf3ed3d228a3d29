"""Cells that are run on the computed clock of a known profile, in place of a machine."""

from collections.abc import Callable
from decimal import Decimal

import numpy as np

from replayer.models.geometry import TokenBytes
from replayer.planning.executing import Records, make_settings
from replayer.planning.pace import Demand, Pace, PlanWindow, Span
from replayer.planning.plan import Plan, PlanOptions
from replayer.prediction.profile import Profile
from replayer.prediction.virtual_engine import VirtualEngine
from replayer.profiling.cells import TOKEN_BYTES, Cell, MadeTrace, Phases
from replayer.profiling.rig import Rig
from replayer.record.conditions import Tier
from tests.replayer.prediction.profile_texts import run_virtually


class VirtualRig(Rig):
    """Runs cells as a rig does, on a profile.

    Args:
        profile: the machine.
        noise: standard deviation of ln(a run's times ÷ the profile's), drawn once per run.
        slowness: factor of the times of a run, by its number from 0, size and workers.

    Attributes:
        runs: tier, size and workers of each run.
    """

    def __init__(
        self,
        profile: Profile,
        noise: float = 0.0,
        slowness: Callable[[int, int, int], float] = lambda _number, _size, _workers: 1.0,
    ) -> None:
        self._profile = profile
        self._noise = noise
        self._slowness = slowness
        self.runs = list[tuple[Tier, int, int]]()
        self._random = np.random.default_rng(1)

    def run(self, cell: Cell, phases: Phases) -> Records:
        options = PlanOptions(
            TokenBytes(TOKEN_BYTES),
            (Decimal(0), Decimal(0), None),
            Decimal(1),
            demand=Demand(Pace(), cell.workers),
        )
        plan = Plan(MadeTrace(phases, cell.bytes), options)
        factor = float(np.exp(self._random.normal(0, self._noise))) if self._noise else 1.0
        factor /= self._slowness(len(self.runs), cell.bytes, cell.workers)
        self.runs.append((cell.tier, cell.bytes, cell.workers))
        struct = self._profile.with_speed({cell.tier: factor}).struct()
        records = run_virtually(
            VirtualEngine(plan, make_settings(plan, "stamps", 1 << 20, PlanWindow(), Span()), struct)
        )
        return records[np.argsort(records["op_id"])]
