"""The cells of a grid, all combinations of settings, and their plans, made in parallel."""

import itertools
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from replayer.arrangements.arrangement import WATERFALL, Arrangement
from replayer.arrangements.loading import load_arrangement
from replayer.arrangements.rules import Usable
from replayer.options.resolving import overlay_recipe, resolve_plan
from replayer.planning.counts import Minutes, PlanCounts
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.workload import Workload
from replayer.prediction.profile import Profile
from replayer.prediction.profile_range import check_range
from replayer.questions.columns import tabulate_counts
from replayer.record.options import BYS, TIERS, Lookup
from replayer.record.simulation import Cell
from tracegen.errors import InputError
from tracegen.progress import Advance
from tracegen.schema import Trace

_CAPACITIES: Final = ("gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb")


@dataclass(frozen=True)
class GridCell:
    """One combination of values.

    Attributes:
        number: of the cell; the last axis changes fastest.
        model: name of the model.
        options: everything that its plan depends on except the trace.
    """

    number: int
    model: str
    options: PlanOptions

    def describe(self) -> Cell:
        """Return its columns of settings."""
        options, rules = self.options, self.options.arrangement
        sizes = (None if gib is None else float(gib) for gib in options.capacity_gib)
        usable = options.usable()
        order = options.order
        return {
            "cell": self.number,
            "model": self.model,
            "bytes_per_token": options.bytes_per_token.per_token,
            **dict(zip(_CAPACITIES, sizes, strict=True)),
            "headroom": float(options.headroom),
            **{f"{tier}_usable_bytes": size for tier, size in zip(TIERS, usable, strict=True)},
            "arrangement": rules.name,
            "policy": _name_policies(rules, usable),
            "ttl_s": rules.ttl_s,
            "chunk_tokens": rules.chunk_tokens,
            "order": order.kind if order.name is None else f"{order.kind}:{order.name}",
        }


def _name_policies(arrangement: Arrangement, usable: Usable) -> str:
    """Name the policy of all tiers that exist; or, where they differ, of each."""
    tiers = zip(arrangement.tiers().items(), usable, strict=True)  # both fast to slow
    names = {tier: rules.policy for (tier, rules), size in tiers if size != 0}
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    return ",".join(f"{tier}={policy}" for tier, policy in names.items())


def find_arrangements(names: Sequence[str]) -> list[Arrangement]:
    """Return the values of the axis `arrangement`.

    Raises:
        InputError: a name is unknown, or two arrangements have the same name.
    """
    found = [*map(load_arrangement, names)]
    known = [arrangement.name for arrangement in found]
    for name in known:
        if known.count(name) > 1:
            problem, remedy = "is named twice", "leave one out"
            raise InputError(problem, remedy, subject=name, setting="arrangement")
    return found or [WATERFALL]


def make_grid(trace: Trace, axes: Mapping[str, Sequence[object]], settings: Mapping[str, object]) -> list[GridCell]:
    """Resolve each combination of the axes' values to the options of a plan.

    Args:
        trace: carries a recipe with values for settings that are absent.
        axes: values by setting.
        settings: the same in all cells.

    Raises:
        InputError: a setting is wrong, or a cell has no tier.
    """
    cells: list[GridCell] = []
    for values in itertools.product(*axes.values()):
        chosen: dict[str, Any] = dict(zip(axes, values, strict=True))
        # The order of a run is long: one serves all cells.
        shared = [cell.options.order for cell in cells[:1] if cell.options.order.kind == "run"]
        own = {"order": "trace"} if shared else {}
        model, options = _resolve_cell(trace, {**settings, **own}, chosen)
        if shared:
            options = replace(options, order=shared[0])
        cells.append(GridCell(len(cells), model, options))
    return cells


def _resolve_cell(
    trace: Trace, settings: Mapping[str, object], chosen: Mapping[str, object]
) -> tuple[str, PlanOptions]:
    """Resolve the settings of a cell; an error names its capacities."""
    try:
        return resolve_plan(trace, overlay_recipe(trace, {**settings, **chosen}))
    except InputError as error:
        if error.setting is not None or error.subject is not None:
            raise
        given = {name: chosen.get(name) for name in _CAPACITIES}
        sizes = ", ".join(f"`{name}` {gib}" for name, gib in given.items() if gib is not None)
        raise InputError(f"{error.problem} in the cell with {sizes}", "leave a 0 out of one of the lists") from None


class _CancelledError(Exception):
    """The plan that a thread makes is not wanted any more."""


def _get_sizing(options: PlanOptions) -> tuple[Any, ...]:
    """Return the options that decide the sizes of objects."""
    rules = options.arrangement
    return options.bytes_per_token, rules.chunk_tokens, rules.tail, rules.unsaved_tokens


class CellPlanner:
    """Plans cells in threads; compiled code plans without the interpreter's lock.

    Args:
        trace: to be planned.
        cells: at least one; their plans share the selected ops in memory.
        threads: cells planned at a time; each takes memory for its tiers.
        profile: predicts the times of each cell; None: there are no times.

    Attributes:
        minutes: when requests arrive.

    Raises:
        InputError: the trace breaks an invariant.
    """

    def __init__(
        self, trace: Trace, cells: Sequence[GridCell], threads: int, *, profile: Profile | None = None
    ) -> None:
        self._trace = trace
        self._cells = cells
        # Each thread takes memory for the tiers of its plan.
        self._threads = threads
        self._profile = profile
        self._cancelled = threading.Event()
        self._advance: Advance = lambda _ops: None
        self._lock = threading.Lock()  # of _advance
        first = cells[0].options
        lookups = sorted({self._lookup(cell) for cell in cells})
        self._unlimited = {lookup: _lift_limits(first, lookup) for lookup in lookups}
        workload = Workload(trace, first.selection, first.bytes_per_token)
        self.minutes = Minutes(workload)
        self._workloads: dict[tuple[Any, ...], Workload] = {}
        for options in (*self._unlimited.values(), *(cell.options for cell in cells)):
            sizing = _get_sizing(options)
            if sizing not in self._workloads:
                self._workloads[sizing] = workload.with_sizes(options.bytes_per_token, options.arrangement)

    def list_warnings(self) -> list[str]:
        """Return what is doubtful about predicting the cells from the profile, each sentence once.

        Raises:
            InputError: the profile lacks a tier of a cell, or a cell is far outside of it.
        """
        if self._profile is None:
            return []
        plans = (self._make_plan(cell.options) for cell in self._cells)
        warnings = [warning.text for plan in plans for warning in check_range(plan, self._profile)]
        return list(dict.fromkeys(warnings))

    @property
    def total_ops(self) -> int:
        """The number of ops that `plan_all` plans, and executes on a computed clock."""
        executed = 0 if self._profile is None else len(self._cells)
        plans = len(self._cells) + len(self._unlimited) + executed
        return plans * next(iter(self._workloads.values())).ops

    def plan_all(self, advance: Advance = lambda _ops: None) -> list[Cell]:
        """Plan the cells, and return their rows of the table.

        Args:
            advance: takes the number of ops planned since its last call, by one thread at a time.

        Raises:
            InputError: the order of a run does not fit the trace.
        """
        self._advance = advance
        with ThreadPoolExecutor(self._threads) as pool:
            bounds = {lookup: pool.submit(self._plan, options) for lookup, options in self._unlimited.items()}
            rows = [pool.submit(self._plan, cell.options, self._profile) for cell in self._cells]
            try:
                for future in as_completed([*bounds.values(), *rows]):
                    future.result()
            except BaseException:
                # Plans under way end at their next report, so that Ctrl-C need not wait for them.
                self._cancelled.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        rates = {
            lookup: {f"bound_{by}": bound.result()[f"hit_rate_{by}"] for by in BYS} for lookup, bound in bounds.items()
        }
        return [
            cell.describe() | row.result() | rates[self._lookup(cell)]
            for cell, row in zip(self._cells, rows, strict=True)  # in the order of the grid
        ]

    def _lookup(self, cell: GridCell) -> Lookup:
        return cell.options.choose_lookup(self._trace)

    def _make_plan(self, options: PlanOptions) -> Plan:
        return Plan(self._trace, options, self._workloads[_get_sizing(options)])

    def _plan(self, options: PlanOptions, profile: Profile | None = None) -> Cell:
        """Plan one cell; return its columns of counts, and of times if there is a profile."""
        plan = self._make_plan(options)
        counts = plan.count(PlanCounts(plan.workload, self.minutes), self._note)
        cell = tabulate_counts(counts, options) | {"lookup": plan.lookup}
        if profile is None:
            return cell
        from replayer.questions.times import predict_cell  # noqa: PLC0415 (loads polars)

        return cell | predict_cell(plan, profile, self._note)

    def _note(self, ops: int) -> None:
        """Report ops that a thread has planned or executed, or end its work."""
        if self._cancelled.is_set():
            raise _CancelledError
        with self._lock:
            self._advance(ops)


def _lift_limits(options: PlanOptions, lookup: Lookup) -> PlanOptions:
    """Return options under which every object stays: no rules hit more often."""
    # One unlimited tier hits what several would.
    unlimited = (Decimal(0), Decimal(0), None)
    return replace(options, capacity_gib=unlimited, arrangement=WATERFALL, lookup=lookup)
