"""A trace planned for a model, tiers and an order: its moves, their totals and the plan fingerprint.

The rules stand in `docs/waterfall.md` and `docs/ordering.md`; compiled code applies them (`core/waterfall.c`,
`core/planner.c`). No I/O, no wall clock, no randomness.
"""

import ctypes
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from replayer.bindings import compiled
from replayer.bindings.compiled import PLANNED, PLANNED_OP, UNLIMITED, Rules, TotalsStruct, address, call, view
from replayer.planning.model import TokenBytes
from replayer.planning.order import Order
from replayer.planning.pace import Demand, Pace
from replayer.planning.trace_selection import Selection
from replayer.planning.workload import Workload
from replayer.record.columns import CHECKPOINT_OPS, MOVES, TIERS
from tracegen.errors import InputError
from tracegen.schema import Trace

HIT, STORE, MISS, DEMOTE, PROMOTE, DROP, BYPASS, DELETE = range(len(MOVES))
STRETCH_OPS: Final = 1 << 13  # more leave the CPU's caches
MOST_NS: Final = 1 << 60  # 36 years: the clock counts in 63 bits
_AT_ONCE: Final = 512  # moves hashed while workers run
_KINDS: Final = {"trace": 0, "run": 1, "reference": 2}

Usable = tuple[int | None, int | None, int | None]
"""Usable bytes of gpu, cpu, nvme: 0 where there is no such tier, None where it is unlimited."""

_planner_new, _planner_free, _planner_next = (call(f"planner_{name}") for name in ("new", "free", "next"))
_waterfall_new, _waterfall_free = call("waterfall_new"), call("waterfall_free")
_planner_waterfall, _account = call("planner_waterfall"), call("waterfall_account")
_tell = call("stretch_tell")


@dataclass(frozen=True)
class PlanOptions:
    """What a plan depends on besides the trace.

    Attributes:
        capacity_gib: of gpu, cpu and nvme; 0: no such tier; None: unlimited.
        headroom: usable share of gpu and cpu.
        lookup: None takes the trace's default.
        arrangement: `waterfall` demotes what makes room; `spillover` fills the fastest tier with room.
        selection: which ops of the trace are taken.
        order: in which they are decided.
        demand: the load that a reference order is made under.
    """

    bytes_per_token: TokenBytes
    capacity_gib: tuple[Decimal, Decimal, Decimal | None]
    headroom: Decimal = Decimal("0.8")
    promote: bool = False
    lookup: Literal["independent", "contiguous"] | None = None
    arrangement: Literal["waterfall", "spillover"] = "waterfall"
    selection: Selection = field(default_factory=Selection)
    order: Order = field(default_factory=Order)
    demand: Demand = field(default_factory=lambda: Demand(Pace(), 1))

    def capacity(self) -> Usable:
        """Bytes per tier, the headroom included, which holds what is in transit: floor(GiB × 2^30)."""
        gpu, cpu, nvme = (None if gib is None else int(gib * 2**30) for gib in self.capacity_gib)
        return gpu, cpu, nvme

    def usable(self) -> Usable:
        """Usable bytes per tier: floor(floor(GiB × 2^30) × headroom), nvme without headroom.

        Raises:
            InputError: a capacity is negative or not finite, the headroom is no share, or every tier is empty.
        """
        if not 0 < self.headroom <= 1:
            raise InputError(f"--headroom {self.headroom} must be more than 0 and at most 1.")
        sizes: list[int | None] = []
        for tier, gib in zip(TIERS, self.capacity_gib, strict=True):
            flag = "--storage-capacity-gb" if tier == "nvme" else f"--{tier}-mem-gb"
            if gib is not None and not (gib.is_finite() and 0 <= gib < 2**33):
                raise InputError(f"{flag} {gib} must be a number of GiB, 0 or more.")
            share = Decimal(1) if tier == "nvme" else self.headroom
            sizes.append(None if gib is None else int(int(gib * 2**30) * share))
        if not any(size is None or size for size in sizes):
            raise InputError("no tier has any room; give one with --cpu-mem-gb or --storage-capacity-gb.")
        gpu, cpu, nvme = sizes
        return gpu, cpu, nvme


class Stretch:
    """Ops in the plan's order, and their moves.

    Attributes:
        ops: row, role and count of moves, as PLANNED_OP; shape (ops,).
        moves: as PLANNED; shape (moves,).
    """

    def __init__(self, ops: NDArray[Any], moves: NDArray[Any]) -> None:
        self.ops, self.moves = ops, moves


Look = Callable[[Stretch, NDArray[np.int64], NDArray[np.int64]], object]


class Plan:
    """The plan of a trace.

    Attributes:
        lookup: as resolved from the trace.
        workload: the ops that are taken.
        usable, capacity: bytes per tier, without and with the headroom.
        peak_objects: per tier, the most objects at a time; bounds, till the plan has been made.
        largest_object: bytes.
    """

    def __init__(self, trace: Trace, options: PlanOptions) -> None:
        self.trace, self.options, self.usable = trace, options, options.usable()
        self.capacity = options.capacity()
        self.lookup = options.lookup or ("contiguous" if trace.metadata.prefix_chained else "independent")
        self.workload = Workload(trace, options.selection, options.bytes_per_token)
        self._check_waits(options.demand.pace)
        self.peak_objects = [self.workload.keys] * len(TIERS)
        self.largest_object = int(self.workload.sizes().max(initial=0))
        self._rows = self._rows_of_run() if options.order.kind == "run" else None

    @property
    def ops(self) -> int:
        """How many positions the plan spans; in trace order op_ids, those of ops left out included."""
        if self.options.order.kind == "trace":
            return int(self.trace.ops * self.options.selection.cycles)
        return len(self._rows) if self._rows is not None else self.workload.ops

    def _check_waits(self, pace: Pace) -> None:
        """Refuse what the clock cannot count."""
        if (waits_ns := self.workload.waits_ns(pace)) > MOST_NS:
            raise InputError(
                f"{self.trace.path}: its requests would wait for {waits_ns / 1e9 / 86400 / 365:,.0f} years altogether;"
                " pass a smaller --token-ms, or a larger --prefill-tok-s or --speedup."
            )

    def _rows_of_run(self) -> NDArray[np.int32]:
        op_ids, order = self.workload.op_ids(), self.options.order
        assert order.op_ids is not None, "the order of a run"
        rows = np.searchsorted(op_ids, order.op_ids)
        if len(rows) and (rows.max() >= len(op_ids) or not np.array_equal(op_ids[rows], order.op_ids)):
            raise InputError(f"--order {order.name}: it executed ops that this trace, or selection, does not have.")
        if self.options.demand.pace.kind == "closed" and not self.workload.one_by_one(rows):
            raise InputError(
                f"--order {order.name}: users in it ask again before they have their answer, and never so with --pace"
                " closed; pass the pace that it ran with."
            )
        return rows.astype(np.int32)

    def rules(self) -> Rules:
        """As the core reads them."""
        usable, capacity = (
            (ctypes.c_int64 * 3)(*(UNLIMITED if limit is None else limit for limit in limits))
            for limits in (self.usable, self.capacity)
        )
        contiguous, own_order = self.lookup == "contiguous", self.options.order.kind != "trace"
        spills = self.options.arrangement == "spillover"
        return Rules(usable, capacity, self.options.promote, contiguous, own_order, spills)

    def planner(self) -> "Planner":
        """Plans from the first op on."""
        return Planner(self, self._rows)

    def live(self) -> int:
        """A waterfall of the core that decides while the plan is executed; to be freed by `free_live`."""
        return int(_waterfall_new(compiled.reference(self.workload.struct), compiled.reference(self.rules())))

    def simulate(
        self, progress: Callable[[int], object] = lambda _: None, looks: Sequence[Look] = ()
    ) -> dict[str, Any]:
        """Plan the whole trace; what run.json says of it.

        Args:
            progress: told how many ops were planned since its last call.
            looks: each is shown every stretch, which is valid until the next one, the positions of its ops, and what
                the fingerprint covers of its moves.
        """
        totals, planner = Totals(), self.planner()
        hashed = PlanHash(self.options.order.plan_version)
        op_ids = self.workload.op_ids()
        told = 0
        with ThreadPoolExecutor(1) as pool:  # hashing leaves the interpreter's lock, as planning does
            last: Future[None] | None = None
            for stretch in planner.stretches():
                count = len(stretch.ops)
                rows = totals.tell(self.workload, stretch)
                positions = (
                    op_ids[stretch.ops["row"]] if self.options.order.kind == "trace" else np.arange(told, told + count)
                )
                blocks, ends = positions // CHECKPOINT_OPS, np.cumsum(stretch.ops["moves"])
                if last is not None:
                    last.result()
                last = pool.submit(hashed.update, rows, blocks, ends)
                for look in looks:
                    look(stretch, positions, rows)
                told += count
                progress(count)
            if last is not None:
                last.result()
        used, peak, self.peak_objects, self.largest_object = planner.account()
        summary = totals.summary()
        _check_account(summary, used)
        return summary | {
            "peak_bytes": dict(zip(TIERS, peak, strict=True)),
            "plan_fingerprint": hashed.hexdigest(),
            "plan_checkpoints": hashed.checkpoints,
        }


def free_live(waterfall: int) -> None:
    """Free what `Plan.live` made."""
    _waterfall_free(waterfall)


def _check_account(summary: dict[str, Any], used: list[int]) -> None:
    """The account once more, from what was emitted."""
    left = summary["left_bytes"]
    assert left == dict(zip(TIERS, used, strict=True)), "the account of bytes is adrift"
    del summary["left_bytes"]


class Planner:
    """Gives a plan stretch by stretch."""

    def __init__(self, plan: Plan, rows: NDArray[np.int32] | None) -> None:
        order, demand = plan.options.order, plan.options.demand
        self._plan, self._rows, self._devices, self._load = plan, rows, order.structs(), demand.struct()
        self._rules = plan.rules()
        count = len(rows) if rows is not None else plan.workload.ops
        self.handle: int | None = _planner_new(
            compiled.reference(plan.workload.struct), compiled.reference(self._rules), _KINDS[order.kind],
            address(rows) if rows is not None else None, count, compiled.reference(self._load),
            compiled.reference(self._devices) if self._devices is not None else None, demand.workers,
        )  # fmt: skip

    def stretches(self, most: int = STRETCH_OPS) -> Iterator[Stretch]:
        """About `most` ops at a time; arrays that are valid till the next one is asked for."""
        ops, moves = ctypes.c_void_p(), ctypes.c_void_p()
        while count := _planner_next(self.handle, most, ctypes.byref(ops), ctypes.byref(moves)):
            assert count > 0, "the reference system cannot go on: this is a defect of the replayer"
            some = view(ops.value, count, PLANNED_OP)
            yield Stretch(some, view(moves.value, int(some["moves"].sum()), PLANNED))

    def account(self) -> tuple[list[int], list[int], list[int], int]:
        """Used and peak bytes and peak objects per tier, and the largest object."""
        out = np.zeros(13, np.int64)
        _account(_planner_waterfall(self.handle), address(out))
        found: list[int] = out.tolist()
        return found[:3], found[6:9], found[9:12], found[12]

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            _planner_free(self.handle)
            self.handle = None


class PlanHash:
    """SHA-256 over the version and every move; checkpoint i covers blocks 0 … i, of 65,536 positions each."""

    def __init__(self, version: int) -> None:
        self._hash = hashlib.sha256(version.to_bytes(8, "little"))
        self.checkpoints: list[str] = []

    def update(self, rows: NDArray[np.int64], blocks: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Add ops in plan order.

        Args:
            rows: seven numbers per move, shape (moves, 7).
            blocks: of each op, not falling; shape (ops,).
            ends: where each op's moves end, shape (ops,).
        """
        begin = 0
        starts = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist()]
        for first, last in zip(starts, [*starts[1:], len(blocks)], strict=True):
            while len(self.checkpoints) < blocks[first]:
                self.checkpoints.append(self._hash.hexdigest())
            end = int(ends[last - 1])
            self._hash.update(rows[begin:end].data)
            begin = end

    def add(self, rows: NDArray[np.int64]) -> None:
        """Add moves, without checkpoints; lets workers that wait for this core come first."""
        whole = np.ascontiguousarray(rows)
        for begin in range(0, len(whole), _AT_ONCE):
            self._hash.update(whole[begin : begin + _AT_ONCE].data)
            os.sched_yield()

    def hexdigest(self) -> str:
        """The fingerprint of the plan so far."""
        return self._hash.hexdigest()


class Totals:
    """Sums over moves, kept as counts and bytes per (move, from tier, to tier)."""

    def __init__(self) -> None:
        self.struct = TotalsStruct()

    def tell(self, workload: Workload, stretch: Stretch) -> NDArray[np.int64]:
        """Add a stretch; what the fingerprint covers of it, shape (moves, 7)."""
        rows = np.empty((len(stretch.moves), 7), np.int64)
        _tell(
            compiled.reference(workload.struct), address(stretch.ops), len(stretch.ops), address(stretch.moves),
            compiled.reference(self.struct), address(rows),
        )  # fmt: skip
        return rows

    def _table(self, name: str) -> NDArray[np.int64]:
        return np.array(getattr(self.struct, name)[:], np.int64).reshape(len(MOVES), 4, 4)

    def summary(self) -> dict[str, Any]:
        """The totals under the names of `replayer plan --json`; left_bytes: what is in each tier at the end."""
        counts, size = self._table("counts"), self._table("bytes")
        per_tier = range(len(TIERS))
        hits = counts[HIT] + counts[PROMOTE]
        entered = {TIERS[tier]: int(size[STORE, :, tier].sum() + size[DEMOTE, :, tier].sum()) for tier in per_tier}
        left = {TIERS[t]: int(size[[DEMOTE, PROMOTE, DROP, DELETE], t].sum()) for t in per_tier}
        return {
            "ops": self.struct.ops,
            "reads": self.struct.reads,
            "hits": {TIERS[tier]: int(hits[tier].sum()) for tier in per_tier},
            "misses": int(counts[MISS].sum()),
            "stores": {TIERS[tier]: int(counts[STORE, :, tier].sum()) for tier in per_tier},
            "demotions": {
                f"{TIERS[a]}>{TIERS[b]}": int(counts[DEMOTE, a, b]) for a in per_tier for b in per_tier if a < b
            },
            "promotions": int(counts[PROMOTE].sum()),
            "drops": int(counts[DROP].sum()),
            "bypasses": int(counts[BYPASS].sum()),
            "recomputed_tokens": self.struct.recomputed_tokens,
            "read_bytes": {
                TIERS[tier]: int(sum(size[move, tier].sum() for move in (HIT, PROMOTE, DEMOTE))) for tier in per_tier
            },
            "write_bytes": entered,
            "left_bytes": {tier: entered[tier] - left[tier] for tier in TIERS},
        }
