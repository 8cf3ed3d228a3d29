"""The plans of a grid's cells, made in parallel over one trace in memory."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import repeat
from typing import Final

from msgspec.structs import astuple

from replayer.arrangements.arrangement import WATERFALL, Arrangement
from replayer.models.geometry import TokenBytes
from replayer.planning.offered_load import Minutes
from replayer.planning.plan import Plan, PlanOptions, Usable
from replayer.planning.workload import Workload
from replayer.prediction.profile import Profile
from replayer.prediction.profile_range import check_range
from replayer.record.columns import TIERS
from replayer.record.options import Lookup
from replayer.record.simulation import Cell
from replayer.simulation.counts import CellCounts, Peaks
from replayer.simulation.grid import GridCell
from replayer.simulation.times import predict_cell
from tracegen.schema import Trace

_POLL_S: Final = 0.1
_BOUNDED: Final = ("ops", "tokens", "requests")


class _CancelledError(Exception):
    """The plan that a thread makes is not wanted any more."""


@dataclass(frozen=True)
class _Sizing:
    """The options that decide the sizes of objects."""

    bytes_per_token: TokenBytes
    chunk_tokens: int
    tail: str
    unsaved_tokens: int

    @classmethod
    def of(cls, options: PlanOptions) -> "_Sizing":
        rules = options.arrangement
        return cls(options.bytes_per_token, rules.chunk_tokens, rules.tail, rules.unsaved_tokens)


@dataclass(frozen=True)
class LoadedTrace:
    """A trace in memory, shared by the plans of all cells.

    Attributes:
        trace: the trace.
        workloads: its selected ops, by what decides the sizes of objects.
        minutes: when its requests arrive.
    """

    trace: Trace
    workloads: dict["_Sizing", Workload]
    minutes: Minutes

    @classmethod
    def load(cls, trace: Trace, cells: Sequence[GridCell]) -> "LoadedTrace":
        """Load the ops that cells select, which are the same for all.

        Raises:
            InputError: the trace breaks an invariant.
        """
        first = cells[0].options
        workload = Workload(trace, first.selection, first.bytes_per_token)
        workloads: dict[_Sizing, Workload] = {}
        for options in (_without_limits(first, "independent"), *(cell.options for cell in cells)):
            sizing = _Sizing.of(options)
            if sizing not in workloads:
                sized = workload.with_sizes(options.bytes_per_token, options.arrangement)
                workloads[sizing] = sized
        return cls(trace, workloads, Minutes(workload))


def check_cells(loaded: LoadedTrace, cells: Sequence[GridCell], profile: Profile) -> list[str]:
    """Return what is doubtful about predicting cells from a profile, each sentence once.

    Raises:
        InputError: the profile lacks a tier of a cell, or a cell is far outside of it.
    """
    texts = dict[str, None]()
    for cell in cells:
        workload = loaded.workloads[_Sizing.of(cell.options)]
        plan = Plan(loaded.trace, cell.options, workload)
        texts |= dict.fromkeys(warning.text for warning in check_range(plan, profile))
    return list(texts)


class CellPlanner:
    """Plans cells in threads; compiled code plans without the interpreter's lock.

    Args:
        loaded: the trace.
        threads: cells planned at a time; each takes memory for its tiers.
        hashes: whether each plan gets its fingerprint, which takes time.
        profile: predicts the times of each cell; None: there are no times.
    """

    def __init__(
        self,
        loaded: LoadedTrace,
        threads: int,
        *,
        hashes: bool = False,
        profile: Profile | None = None,
    ) -> None:
        self._loaded = loaded
        self._threads = threads
        self._hashes = hashes
        self._profile = profile
        self._cancelled = threading.Event()
        self._planned = 0
        self._lock = threading.Lock()  # of _planned

    def total_ops(self, cells: Sequence[GridCell]) -> int:
        """Return the number of ops that `plan_all` plans, and executes on a computed clock."""
        plans = len(cells) + len(self._unlimited(cells))
        if self._profile is not None:
            plans += len(cells)
        return plans * next(iter(self._loaded.workloads.values())).ops

    def plan_all(
        self,
        cells: Sequence[GridCell],
        advance: Callable[[int], object] = lambda _ops: None,
    ) -> list[Cell]:
        """Plan the cells, and return their rows of the table.

        Args:
            cells: at least one, of the trace that was loaded.
            advance: takes the number of ops planned since its last call; called in this thread.

        Raises:
            InputError: the order of a run does not fit the trace.
        """
        unlimited = self._unlimited(cells)
        plans = [*unlimited.values(), *(cell.options for cell in cells)]
        rows = self._run(plans, len(unlimited), advance)
        bounds = dict(zip(unlimited, rows, strict=False))
        return [
            _describe(cell) | row | _bound_by(bounds[self._lookup(cell)])
            for cell, row in zip(cells, rows[len(bounds) :], strict=True)
        ]

    def _lookup(self, cell: GridCell) -> Lookup:
        return cell.options.choose_lookup(self._loaded.trace)

    def _unlimited(self, cells: Sequence[GridCell]) -> dict[Lookup, PlanOptions]:
        """Return the options of a plan with unlimited memory, for each lookup of the cells."""
        lookups = sorted({self._lookup(cell) for cell in cells})
        return {lookup: _without_limits(cells[0].options, lookup) for lookup in lookups}

    def _run(
        self,
        options: Sequence[PlanOptions],
        untimed: int,
        advance: Callable[[int], object],
    ) -> list[Cell]:
        """Make plans in the pool; return their columns of counts in the same order.

        Args:
            options: of the plans.
            untimed: number of plans, the first ones, whose times are not predicted.
            advance: takes the number of ops done since its last call.
        """
        profiles = [None] * untimed + [self._profile] * (len(options) - untimed)
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                futures = list(map(pool.submit, repeat(self._plan), options, profiles))
                self._follow(futures, advance)
                return [future.result() for future in futures]
            except BaseException:
                self._cancelled.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _follow(
        self,
        futures: Sequence[Future[Cell]],
        advance: Callable[[int], object],
    ) -> None:
        """Report progress until all plans are made.

        Raises:
            InputError: a plan cannot be made.
        """
        reported = 0
        waiting = True
        while waiting:
            done, pending = wait(futures, _POLL_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
            waiting = bool(pending)
            planned = self._planned
            advance(planned - reported)
            reported = planned

    def _plan(self, options: PlanOptions, profile: Profile | None) -> Cell:
        """Plan one cell; return its columns of counts, and of times if there is a profile."""
        loaded = self._loaded
        workload = loaded.workloads[_Sizing.of(options)]
        plan = Plan(loaded.trace, options, workload)
        counts = CellCounts(workload, loaded.minutes)
        fingerprint = None
        if self._hashes:
            summary = plan.simulate(self._note, [counts.add])
            fingerprint = summary.plan_fingerprint
            peaks = Peaks(astuple(summary.peak_bytes), summary.peak_objects)
        else:
            peaks = self._count(plan, counts)
        cell = counts.to_cell(plan.options, peaks)
        times = {} if profile is None else predict_cell(plan, profile, self._note)
        return cell | {"lookup": plan.lookup, "plan_fingerprint": fingerprint} | times

    def _count(self, plan: Plan, counts: CellCounts) -> Peaks:
        """Plan without a fingerprint."""
        planner = plan.planner()
        for stretch in planner.stretches():
            counts.add(stretch)
            self._note(len(stretch.ops))
        account = planner.account()
        assert counts.totals.left_bytes() == account.used_bytes, "the account of bytes is adrift"
        return Peaks(account.peak_bytes, account.peak_objects)

    def _note(self, ops: int) -> None:
        """Note ops that a thread has planned or executed, or end its work."""
        if self._cancelled.is_set():
            raise _CancelledError
        with self._lock:
            self._planned += ops


def _name_policies(arrangement: Arrangement, usable: Usable) -> str:
    """Name the policy of all tiers that exist; or, where they differ, of each."""
    exists = dict(zip(TIERS, (size != 0 for size in usable), strict=True))
    tiers = arrangement.tiers().items()
    names = {tier: rules.policy for tier, rules in tiers if exists[tier]}
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    return ",".join(f"{tier}={policy}" for tier, policy in names.items())


def _without_limits(options: PlanOptions, lookup: Lookup) -> PlanOptions:
    """Return options under which every object stays: no rules hit more often."""
    return replace(
        options,
        capacity_gib=(Decimal(0), Decimal(0), None),
        arrangement=WATERFALL,
        lookup=lookup,
    )


def _bound_by(unlimited: Cell) -> Cell:
    return {f"bound_{name}": unlimited[f"hit_rate_{name}"] for name in _BOUNDED}


def _describe(cell: GridCell) -> Cell:
    """Return the columns of settings."""
    options = cell.options
    gpu, cpu, nvme = (None if gib is None else float(gib) for gib in options.capacity_gib)
    order = options.order
    usable = dict(zip((f"{tier}_usable_bytes" for tier in TIERS), options.usable(), strict=True))
    return {
        "cell": cell.number,
        "model": cell.model,
        "bytes_per_token": options.bytes_per_token.per_token,
        "gpu_mem_gb": gpu,
        "cpu_mem_gb": cpu,
        "storage_capacity_gb": nvme,
        "headroom": float(options.headroom),
        **usable,
        "arrangement": options.arrangement.name,
        "policy": _name_policies(options.arrangement, options.usable()),
        "ttl_s": options.arrangement.ttl_s,
        "chunk_tokens": options.arrangement.chunk_tokens,
        "order": order.kind if order.name is None else f"{order.kind}:{order.name}",
    }
