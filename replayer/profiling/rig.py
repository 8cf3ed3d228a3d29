"""The tiers that are measured, open, and the runs of the replayer's own engine on them."""

import secrets
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from decimal import Decimal
from typing import Final

import numpy as np

from replayer.engine.engine import Engine, TooManyErrorsError
from replayer.engine.move_executor import Staging
from replayer.models.geometry import TokenBytes
from replayer.options.settings import Settings
from replayer.planning.executing import Records, make_settings
from replayer.planning.pace import Demand, Pace, PlanWindow, Span
from replayer.planning.plan import Plan, PlanOptions
from replayer.profiling.cells import TOKEN_BYTES, Cell, MadeTrace, Phases
from replayer.record.conditions import Tier
from replayer.record.options import TIERS
from replayer.run.footprint import Footprint
from replayer.run.opening import OpenTiers
from replayer.run.preflight import check_footprint
from replayer.tiers.payload import Payload
from tracegen.errors import ToolError

# Bytes of the smallest object that is measured
SMALLEST: Final = 64 << 10
_GIB: Final = 2**30


class Rig:
    """Open tiers, on which cells are run one after the other.

    Args:
        settings: of the runs; `workers` are the most of any cell.
        room: bytes that objects may take in each tier, by the tiers that are measured.
        opened: closes the tiers.
        say: takes warnings, as sentences.
        poll: called often; an exception that it raises ends the run.

    Attributes:
        tiers: the open tiers.

    Raises:
        InputError: a tier cannot be opened.
    """

    def __init__(
        self,
        settings: Settings,
        room: Mapping[Tier, int],
        opened: ExitStack,
        say: Callable[[str], None],
        poll: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._room = room
        self._poll = poll
        self._payload = Payload(0, secrets.randbits(64))
        self._stagings = dict[int, Staging]()
        objects = max(room.values()) // SMALLEST
        plan = self._plan(Phases(objects, 0, 0), SMALLEST, 1, room)
        needed = Footprint(plan, None, settings.window)
        check_footprint(needed, settings)
        self.tiers = OpenTiers(needed, settings, f"profile-{id(self):x}", opened, say)

    def run(self, cell: Cell, phases: Phases) -> Records:
        """Run the phases of a cell, and return the rows of its log in the order of its ops.

        Raises:
            ToolError: a move failed.
            KeyboardInterrupt: raised by `poll`, after the moves in flight have ended.
        """
        plan = self._plan(phases, cell.bytes, cell.workers, {cell.tier: self._room[cell.tier]})
        only = TIERS.index(cell.tier)
        tiers = [one if at == only else None for at, one in enumerate(self.tiers.all)]
        settings = self._settings
        span = Span(max_errors=0)
        chosen = make_settings(plan, settings.devices.verify, settings.chunk, PlanWindow(), span)
        engine = Engine(plan, chosen, tiers, self._payload, self._staging)
        parts = list[Records]()
        try:
            engine.run(lambda records, _errors, _rows: parts.append(records.copy()), self._check)
        except (TooManyErrorsError, OSError) as error:
            raise ToolError(f"the tier cannot be measured: {error}", subject=cell.tier) from None
        finally:
            engine.close()
        records: Records = np.concatenate(parts)
        return records[np.argsort(records["op_id"])]

    def _check(self) -> None:
        try:
            self._poll()
        except KeyboardInterrupt:
            self.tiers.stop_waiting()
            raise

    def _staging(self, worker: int) -> Staging:
        """Return a worker's buffers, which all cells share."""
        if worker not in self._stagings:
            self._stagings[worker] = self.tiers.staging(worker)
        return self._stagings[worker]

    def _plan(self, phases: Phases, size: int, workers: int, room: Mapping[Tier, int]) -> Plan:
        gpu, cpu = (Decimal(room.get(tier, 0)) / _GIB for tier in ("gpu", "cpu"))
        options = PlanOptions(
            bytes_per_token=TokenBytes(TOKEN_BYTES),
            capacity_gib=(gpu, cpu, None if "nvme" in room else Decimal(0)),
            headroom=Decimal(1),
            demand=Demand(Pace(), workers),
        )
        return Plan(MadeTrace(phases, size), options)
