"""Random runs to predict: a trace, tiers, rules, a load, a profile and limits; and what the oracle says of them."""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from replayer.arrangements.loading import make_arrangement
from replayer.models.geometry import TokenBytes
from replayer.planning.order import Order
from replayer.planning.pace import Demand, PlanWindow, Span
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.trace_selection import Selection
from replayer.prediction.profile import CpuProfile, Profile, TierProfile
from replayer.prediction.stations import Station
from replayer.record.options import TIERS
from replayer.schema import MOVES
from tests.replayer import order_ledgers
from tests.replayer.arrangements import oracle as rules
from tests.replayer.arrangements import strategies as arranged
from tests.replayer.arrangements.tiers import Op, Table, Usable, ops_of
from tests.replayer.ordering.strategies import UNIT, demand, device
from tests.replayer.prediction.oracle import Decide, Decided, Limits, Prediction, predict
from tests.replayer.prediction.tasks import Planned
from tests.support import traces
from tracegen.errors import InputError
from tracegen.schema import ENUMS, Columns, take_rows

NINE, DIALS = 9, 600


@dataclass(frozen=True)
class World:
    """One run to predict."""

    batch: Columns
    table: Table
    tiers: Usable
    headroom: str
    users: int
    load: Demand
    order: Order
    profile: Profile
    chunk: int
    verify: str
    window: PlanWindow
    span: Span

    def plan(self) -> Plan:
        gib = [None if size is None else Decimal(size * UNIT) / 2**30 for size in self.tiers]
        options = PlanOptions(
            TokenBytes(UNIT), (gib[0] or Decimal(0), gib[1] or Decimal(0), gib[2]), headroom=Decimal(self.headroom),
            arrangement=make_arrangement("drawn", self.table), order=self.order, demand=self.load,
            selection=Selection(users=self.users),
        )  # fmt: skip
        return Plan(traces.Held(self.batch), options)


# What is drawn


def any_of(*values: Any) -> Any:
    return st.sampled_from(values)


class Dial:
    """Choices from bytes: a draw of many bytes is faster than many draws, and zeros choose what is simplest."""

    def __init__(self, drawn: bytes) -> None:
        self.left = iter(drawn)

    def any_of(self, *values: Any) -> Any:
        return values[next(self.left) % len(values)]

    def listed(self, count: int, *values: float) -> tuple[float, ...]:
        return tuple(self.any_of(*values) for _ in range(count))

    def spread(self) -> tuple[float, ...]:
        """Nine quantiles in ascending order, or none."""
        steps = self.listed(NINE, 0.0, 0.01, 0.1, 0.5, 3.0)
        return self.any_of((), tuple(0.3 + sum(steps[: i + 1]) / 3 for i in range(NINE)))

    def station(self, removes: bool) -> Station:
        """One to five points; times of kilobytes are microseconds, as those of traces are."""
        gaps = self.listed(self.any_of(0, 1, 2, 3, 4), 1.0, 0.5, 1.7, 3.0)
        count = len(gaps) + 1
        zeros = (0.0,) * count
        return Station(
            in_flight=tuple(1.0 + sum(gaps[:i]) for i in range(count)),
            open_us=self.any_of(zeros, self.listed(count, 0.1, 0.0, 0.5, 1.3)),
            latency_us=self.any_of(zeros, self.listed(count, 0.1, 0.0, 2.0, 7.1)),
            bandwidth_gb_s=self.listed(count, 1.0, 0.25, 0.5, 3.3),
            remove_us=self.any_of((), zeros, self.listed(count, 0.1, 0.0, 1.7)) if removes else (),
            spread=self.any_of((), tuple(self.spread() for _ in range(count))),
        )

    def tier(self) -> TierProfile:
        weights = self.any_of(0.0, 0.5, 0.8, 1.0, 3.7), self.any_of(0.0, 0.5, 0.7, 1.0, 2.0)
        return TierProfile(self.station(False), self.station(True), *weights, 1, 10**9, self.any_of(1, 700, 4096))

    def profile(self) -> Profile:
        cpu = CpuProfile(
            cores=self.any_of(1.0, 2.0, 2.5, 8.0),
            make_ns_per_byte=self.any_of(0.0, 0.11, 0.5),
            check_ns_per_byte=self.any_of(0.0, 0.02, 0.5),
            move_us=self.any_of(0.0, 0.0001, 0.1, 1.0, 3.0),
        )
        tiers = {name: self.tier() for name in TIERS}
        return Profile("drawn", "data sheet", cpu, tiers, source="drawn")  # type: ignore[arg-type]

    def even_profile(self) -> Profile:
        """All takes whole microseconds, however many are in flight: much happens at the same time."""
        zeros, ones = (0.0, 0.0), (1.0, 1.0)
        stations = [
            Station(
                (1.0, 9.0), self.any_of(zeros, ones), self.any_of(zeros, ones), (1.0, 9.0), (), self.any_of(zeros, ones)
            )
            for _ in range(2 * len(TIERS))
        ]
        cpu = CpuProfile(9.0, self.any_of(0.0, 1.0), self.any_of(0.0, 1.0), self.any_of(1.0, 0.0))
        pairs = zip(TIERS, stations[::2], stations[1::2], strict=True)
        tiers = {name: TierProfile(read, write, 0.0, 0.0, 1, 10**9) for name, read, write in pairs}
        return Profile("even", "data sheet", cpu, tiers, source="even")  # type: ignore[arg-type]

    def any_profile(self) -> Profile:
        return self.any_of(self.profile, self.even_profile, self.profile)()


profiles = st.binary(min_size=DIALS, max_size=DIALS).map(lambda drawn: Dial(drawn).any_profile())


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """Limits in microseconds: runs take tens to hundreds of them."""
    micro = 1e-6
    duration = draw(any_of(None, None, None, 9, 40, 120.3, 300))
    drain = draw(any_of(None, 0, 1, 17.5)) if duration else None
    warmup = draw(any_of(0, 0, 8, 50))
    return Span(
        duration_s=duration and duration * micro,
        drain_s=None if drain is None else drain * micro,
        ops=draw(any_of(None, None, None, None, 3, 17)),
        warmup_ops=draw(any_of(0, 0, 1, 6)),
        warmup_s=0 if duration and warmup >= duration else warmup * micro,
    )


def fast(batch: Columns, table: Table) -> tuple[Columns, Table]:
    """Microseconds for seconds."""
    quick = {name: batch[name] // 10**6 for name in ("time_ns", "think_ns")}
    return batch | quick, {**table, "ttl_s": table.get("ttl_s", 0) / 10**6}


COPYING = [
    {"copies": "inclusive", "cpu": {"down": "on-store", "up": up}, "nvme": {"down": down, "up": "copy", "high": min(high, 1.0), "low": high / 2}}
    for up in ("stay", "copy") for down in ("on-store", "on-touch", "on-evict") for high in (2.0, 0.8)
]  # fmt: skip
tables = st.one_of(
    st.sampled_from([{}, {"place": "with-room"}, {"cpu": {"up": "move"}, "nvme": {"up": "move"}}]),
    st.sampled_from(COPYING), arranged.tables(),
)  # fmt: skip
devices = st.tuples(device, device, device)
loads = demand.map(lambda load: replace(load, workers=min(load.workers, 5)))


@st.composite
def worlds(draw: st.DrawFn, kinds: tuple[str, ...] = ("trace", "reference", "run", "live"), least: int = 2) -> World:
    """Runs of all kinds of order, of so many ops at least."""
    drawn = st.binary(min_size=4 * least, max_size=4 * 60).map(arranged.picks_of)
    columns = arranged.columns(draw(drawn), draw(arranged.sizes), draw(arranged.words))
    batch, table = fast(columns, draw(tables))
    load, kind = draw(loads), draw(st.sampled_from(kinds))
    system = Order("reference", "test", draw(devices)) if kind in ("reference", "run") else None
    world = World(
        batch, table, draw(arranged.capacities), draw(any_of("1", "0.8", "0.5")), draw(any_of(5, 5, 2)), load,
        system or Order(kind), draw(profiles), draw(any_of(400, 1000, 1500, 10**6)), draw(any_of("off", "stamps")),
        PlanWindow(draw(any_of(4096, 4096, 1, 2, 3, 9)), draw(any_of(None, None, None, 1, 4000, 9000))), draw(spans()),
    )  # fmt: skip
    return world if kind != "run" else repeated(world, draw(loads))


def repeated(world: World, load: Demand) -> World:
    """The run in an order that comes of another load, if the run's own pace can have it."""
    plan = replace(world, load=load).plan()
    rows = [row for stretch in plan.planner().stretches() for row in stretch.ops["row"].tolist()]
    again = replace(world, order=Order("run", "test", op_ids=plan.workload.op_ids()[rows]))
    try:
        again.plan()
    except InputError:  # users in it ask again before they have their answer
        return world
    return again


# What the oracle says


def planned(plan: Plan) -> list[Decided]:
    """The plan that compiled code makes; others test it."""
    found: list[Decided] = []
    op_ids, in_trace_order = plan.workload.op_ids(), plan.options.order.kind == "trace"
    for stretch in plan.planner().stretches():
        ends = np.cumsum(stretch.ops["moves"])[:-1]
        for (row, role, _), moves in zip(stretch.ops.tolist(), np.split(stretch.moves, ends), strict=True):
            listed = [(MOVES[kind], key, source, target, size) for size, key, kind, source, target, _ in moves.tolist()]
            position = int(op_ids[row]) if in_trace_order else len(found)
            found.append(Decided(row, position, ENUMS["op"][role], listed))
    return found


def live(ops: list[Op], table: Table, usable: Usable) -> Decide:
    """Rules of placement that decide on the way."""
    planner = rules.Planner(ops, table, usable, UNIT, False)

    def decide(op: Op) -> tuple[str, list[Planned]]:
        role = "delete" if op.name == "delete" else "write" if op.key in planner.unwritten else "read"
        before = len(planner.rows)
        planner.decide(op)
        return role, [row[2:] for row in planner.rows[before:]]

    return decide


def nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1e9)


def foretold(world: World) -> Prediction:
    """The oracle's prediction."""
    plan, load, span = world.plan(), world.load, world.span
    ops = ops_of(take_rows(world.batch, world.batch["user_id"] < world.users))
    pace = load.pace
    told = order_ledgers.Load(
        pace.kind, load.workers, pace.speedup, pace.token_ms, pace.prefill_tok_s, pace.request_depth, load.allocs
    )
    limits = Limits(
        world.chunk, world.verify != "off", world.window.ops, world.window.bytes, nanoseconds(span.duration_s),
        nanoseconds(span.drain_s), span.ops, span.warmup_ops, nanoseconds(span.warmup_s) or 0,
    )  # fmt: skip
    is_live = world.order.kind == "live"
    return predict(
        ops, told, plan.capacity, world.profile, limits, None if is_live else planned(plan),
        live(ops, world.table, plan.usable) if is_live else None, plan.options.arrangement.copies == "inclusive",
    )  # fmt: skip
