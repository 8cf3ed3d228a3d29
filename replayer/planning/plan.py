"""The plan of a trace for a model, tiers and an order: its moves and their summary.

`docs/arrangements.md`, `docs/waterfall.md` and `docs/ordering.md` give the rules; compiled code
applies them (`core/placement.c`, `core/planner.c`). Planning does no I/O and depends on no clock
and no randomness.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from replayer.arrangements.arrangement import WATERFALL, Arrangement
from replayer.arrangements.rules import Usable, make_rules
from replayer.bindings import compiled
from replayer.bindings.compiled import PLANNED, PLANNED_OP, AccountStruct, Rules, ServingStruct, address, call, view
from replayer.models.geometry import TokenBytes
from replayer.planning.counts import PlanCounts, PlanSummary
from replayer.planning.moves import Stretch
from replayer.planning.order import Order, find_rows
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan_hash import PlanHash
from replayer.planning.serving import check_longest_request, find_serving_obstacle, make_serving_rules
from replayer.planning.trace_selection import OpSource, Selection
from replayer.planning.workload import Workload
from replayer.record.columns import ARRANGED_PLAN_VERSION, CHECKPOINT_OPS
from replayer.record.options import Lookup
from tracegen.errors import InputError
from tracegen.progress import Advance

STRETCH_OPS: Final = 1 << 13  # more ops would leave the CPU's caches
MAX_WAIT_NS: Final = 1 << 60  # 36 years: the clock counts in 63 bits
_GIB: Final = 2**30
# Bytes then stay within 63 bits.
_MAX_CAPACITY_GIB: Final = 2**33
_ORDER_CODES: Final = {"trace": 0, "run": 1, "reference": 2, "engine": 3}
_CAPACITY_SETTINGS: Final = ("gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb")


# Observer of a plan: takes a stretch, the positions of its ops, and the columns of its moves
# that the fingerprint covers, shape (moves, 7).
Look = Callable[[Stretch, NDArray[np.int64], NDArray[np.int64]], object]

_planner_new = call("planner_new")
_planner_free = call("planner_free")
_planner_next = call("planner_next")
_planner_account = call("planner_account")
_placement_new = call("placement_new")
_placement_free = call("placement_free")


@dataclass(frozen=True)
class PlanOptions:
    """Everything that a plan depends on except the trace.

    Attributes:
        bytes_per_token: KV cache bytes of a token of the model.
        capacity_gib: GiB of gpu, cpu and nvme; 0: no such tier; None: unlimited.
        headroom: usable share of gpu and cpu.
        lookup: whether objects hit one by one or as a prefix; None: what the arrangement says, else
            the trace's default.
        arrangement: the rules by which objects enter, move through and leave the tiers.
        selection: the ops of the trace that are replayed.
        order: the sequence in which ops are decided.
        demand: the load under which a reference order is made.

    Raises:
        InputError: a capacity is negative or not finite, the headroom is not in (0, 1], no tier has
            any room, or a policy needs an order that is known beforehand.
    """

    bytes_per_token: TokenBytes
    capacity_gib: tuple[Decimal, Decimal, Decimal | None]
    headroom: Decimal = Decimal("0.8")
    lookup: Lookup | None = None
    arrangement: Arrangement = WATERFALL
    selection: Selection = field(default_factory=Selection)
    order: Order = field(default_factory=Order)
    demand: Demand = field(default_factory=lambda: Demand(Pace(), 1))

    def __post_init__(self) -> None:
        # Python callers pass values that no command line has checked.
        if not 0 < self.headroom <= 1:
            raise InputError(
                "must be more than 0 and at most 1",
                "pass a share such as 0.8",
                subject=self.headroom,
                setting="headroom",
            )
        for setting, gib in zip(_CAPACITY_SETTINGS, self.capacity_gib, strict=True):
            if gib is not None and not (gib.is_finite() and 0 <= gib < _MAX_CAPACITY_GIB):
                raise InputError(
                    "must be a number of GiB, 0 or more and below 2^33",
                    "pass another capacity",
                    subject=gib,
                    setting=setting,
                )
        if not any(size is None or size for size in self.usable()):
            raise InputError("no tier has any room", "give one with `cpu_mem_gb` or `storage_capacity_gb`")
        usual = self.order.otherwise
        if usual and (obstacle := find_serving_obstacle(self.arrangement, self.usable(), self.lookup)):
            object.__setattr__(self, "order", replace(usual, instead=obstacle))
        rules = self.arrangement.with_scheduler(serves=self.order.kind == "engine")
        object.__setattr__(self, "arrangement", rules)
        self.arrangement.check_order(is_known=self.order.kind in ("trace", "run"))

    @property
    def plan_version(self) -> int:
        """Version of the plan; its fingerprint begins with it."""
        is_known = self.arrangement.to_record().rules is None
        return self.order.plan_version if is_known else ARRANGED_PLAN_VERSION

    def choose_lookup(self, trace: OpSource) -> Lookup:
        """Return how reads are looked up: as given, else by the arrangement or the trace."""
        rule = self.lookup or self.arrangement.lookup
        if rule != "trace":
            return rule
        return "contiguous" if trace.metadata.prefix_chained else "independent"

    def capacity(self) -> Usable:
        """Return the bytes of each tier, headroom included: floor(GiB × 2^30).

        The headroom holds objects in transit.
        """
        gpu, cpu, nvme = (None if gib is None else int(gib * _GIB) for gib in self.capacity_gib)
        return gpu, cpu, nvme

    def usable(self) -> Usable:
        """Return the usable bytes of each tier: floor(floor(GiB × 2^30) × headroom).

        nvme has no headroom.
        """
        gpu, cpu, nvme = self.capacity()
        gpu, cpu = (None if size is None else int(size * self.headroom) for size in (gpu, cpu))
        return gpu, cpu, nvme


class Plan:
    """The plan of a trace.

    Attributes:
        trace: the trace.
        options: everything else that the plan depends on.
        usable: bytes of each tier without the headroom.
        capacity: bytes of each tier with the headroom.
        lookup: `independent` or `contiguous`, as given or by the trace.
        workload: the ops that are replayed; the trace is read if the caller does not have them.
        serving: the rules of the serving engine as compiled code reads them; None: there is none.

    Raises:
        InputError: the trace breaks an invariant, its waits exceed the clock, the order of a run
            does not fit the trace, or gpu cannot hold the longest request of a serving engine.
    """

    def __init__(self, trace: OpSource, options: PlanOptions, workload: Workload | None = None) -> None:
        self.trace = trace
        self.options = options
        self.usable = options.usable()
        self.capacity = options.capacity()
        self.lookup = options.choose_lookup(trace)
        sizing = (options.bytes_per_token, options.arrangement)
        self.workload = workload or Workload(trace, options.selection, *sizing)
        self._check_waits(options.demand.pace)
        self.serving = self._serving_rules()
        # A user's requests must be whole: one would wait for the one before it, and that one for it.
        is_closed = options.demand.pace.kind == "closed"
        self._rows = find_rows(options.order, self.workload, is_closed=is_closed)

    @property
    def ops(self) -> int:
        """Number of positions in the plan; in trace order, ops left out have one, too."""
        if self.options.order.kind == "trace":
            return int(self.trace.ops * self.options.selection.cycles)
        return len(self._rows) if self._rows is not None else self.workload.ops

    def _check_waits(self, pace: Pace) -> None:
        """Refuse waits that the clock cannot count."""
        waits_ns = self.workload.total_wait_ns(pace)
        if waits_ns > MAX_WAIT_NS:
            years = waits_ns / 1e9 / 86400 / 365
            raise InputError(
                f"its requests would wait for {years:,.0f} years altogether",
                "pass a smaller `token_ms`, or a larger `prefill_tok_s` or `speedup`",
                subject=self.trace.path,
            )

    def _serving_rules(self) -> ServingStruct | None:
        scheduler = self.options.arrangement.scheduler
        if self.options.order.kind != "engine" or scheduler is None:
            return None
        tokens = self.trace.metadata.block_tokens or 1
        size = self.options.bytes_per_token.object_bytes(np.array([tokens]))[0]
        rules = make_serving_rules(scheduler, self.usable, tokens, int(size))
        check_longest_request(self.workload, rules, int(size) / float(self.options.headroom), self.trace.path)
        return rules

    def rules(self) -> Rules:
        """Return the rules of placement as compiled code reads them."""
        return make_rules(
            self.options.arrangement,
            self.usable,
            self.capacity,
            self.options.bytes_per_token.per_token,
            is_contiguous=self.lookup == "contiguous",
            # Out of the trace's order a read may come before its write; it computes and stores then.
            first_writes=self.options.order.kind != "trace",
        )

    def planner(self) -> "Planner":
        """Make a planner that begins at the first op."""
        return Planner(self, self._rows)

    def live(self) -> int:
        """Make a placement that decides ops while they are executed; free it with `free_live`."""
        workload = compiled.reference(self.workload.struct)
        return int(_placement_new(workload, compiled.reference(self.rules()), None, 0))

    def simulate(
        self, advance: Advance = lambda _ops: None, looks: Sequence[Look] = (), counts: PlanCounts | None = None
    ) -> PlanSummary:
        """Plan the whole trace and summarise it. A plan can be simulated any number of times.

        Args:
            advance: takes the number of ops planned since its last call.
            looks: observers that see every stretch.
            counts: gets the plan's counts, of all requests in one part.
        """
        counts = counts or PlanCounts(self.workload)
        fingerprint = PlanHash(self.options.plan_version)
        planned = 0
        with ThreadPoolExecutor(1) as pool:  # hashing releases the GIL, as planning does
            hashing = pool.submit(lambda: None)
            planner = self.planner()
            for stretch in planner.stretches():
                moves = counts.list_moves(stretch)
                positions = self._positions(stretch, planned)
                ends = np.cumsum(stretch.ops["moves"])
                hashing.result()  # one stretch of moves at a time waits in memory
                blocks = positions // CHECKPOINT_OPS
                hashing = pool.submit(fingerprint.update, moves, blocks, ends)
                for look in looks:
                    look(stretch, positions, moves)
                planned += len(stretch.ops)
                advance(len(stretch.ops))
            hashing.result()
        counts.account = planner.account()
        return PlanSummary.of(counts, fingerprint)

    def count(self, counts: PlanCounts, advance: Advance = lambda _ops: None) -> PlanCounts:
        """Plan the whole trace, and return its counts, without a fingerprint.

        Args:
            counts: gets them.
            advance: takes the number of ops planned since its last call.
        """
        planner = self.planner()
        for stretch in planner.stretches():
            counts.add(stretch)
            advance(len(stretch.ops))
        counts.account = planner.account()
        return counts

    def _positions(self, stretch: Stretch, planned: int) -> NDArray[np.int64]:
        """Return the positions of a stretch's ops, shape (ops,); in trace order their op_ids."""
        # Ops that a selection leaves out keep their positions.
        if self.options.order.kind == "trace":
            positions: NDArray[np.int64] = self.workload.op_ids()[stretch.ops["row"]]
            return positions
        return np.arange(planned, planned + len(stretch.ops))


def free_live(placement: int) -> None:
    """Free a placement that `Plan.live` made."""
    _placement_free(placement)


class Planner:
    """Iterator over a plan, stretch by stretch.

    Attributes:
        handle: the planner of compiled code; None once it is freed.
    """

    def __init__(self, plan: Plan, rows: NDArray[np.int32] | None) -> None:
        order = plan.options.order
        demand = plan.options.demand
        # Compiled code keeps pointers to these.
        self._plan = plan
        self._rows = rows
        self._devices = order.structs()
        self._load = demand.struct()
        self._rules = plan.rules()
        self.handle: int | None = _planner_new(
            compiled.reference(plan.workload.struct),
            compiled.reference(self._rules),
            _ORDER_CODES[order.kind],
            address(rows) if rows is not None else None,
            len(rows) if rows is not None else plan.workload.ops,
            compiled.reference(self._load),
            compiled.reference(self._devices) if self._devices is not None else None,
            compiled.reference(plan.serving) if plan.serving is not None else None,
            demand.workers,
        )

    def stretches(self, ops_at_once: int = STRETCH_OPS) -> Iterator[Stretch]:
        """Yield the plan in stretches of about `ops_at_once` ops, each valid until the next one."""
        ops = ctypes.c_void_p()
        moves = ctypes.c_void_p()
        while count := _planner_next(self.handle, ops_at_once, ctypes.byref(ops), ctypes.byref(moves)):
            if count < 0 and self._plan.serving is not None:
                raise InputError(
                    "its requests push each other's blocks out of cpu for ever",
                    "pass `cpu_mem_gb` with room for the longest prompts",
                    subject=self._plan.trace.path,
                )
            assert count > 0, "the reference system cannot go on: this is a defect of the replayer"
            planned = view(ops.value, count, PLANNED_OP)
            yield Stretch(planned, view(moves.value, int(planned["moves"].sum()), PLANNED))

    def account(self) -> AccountStruct:
        """Return the placement's account of its tiers up to the last stretch."""
        account = AccountStruct()
        _planner_account(self.handle, compiled.reference(account))
        return account

    def __del__(self) -> None:
        # `__init__` may have failed before there was one.
        if getattr(self, "handle", None) is not None:
            _planner_free(self.handle)
            self.handle = None
