"""Pacing as docs/replaying.md puts it, told a second time in plain Python; real runs on a tier that keeps nothing.

No test asserts how fast this machine is: lower bounds come from sleeps, upper bounds are absent, vast or relative; when
an op was due follows exactly from when those before it ended. On a virtual clock, where nothing is late,
tests/replayer/test_reference_order.py holds the same code to tests/replayer/order_oracle.py.
"""

import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.engine import Engine
from replayer.execution import Elsewhere, Staging
from replayer.model import TokenBytes
from replayer.opening import Settings
from replayer.order import DEFAULT_REFERENCE, Order, of_run, reference
from replayer.pace import Demand, Pace, Span, Window
from replayer.payload import Payload
from replayer.plan import Plan, PlanOptions, Totals
from replayer.run import replay
from replayer.schema import LOG_COLUMNS, MOVES, parts, read_run
from replayer.selection import Selection
from replayer.tiers.memory import NullTier
from replayer.tiers.throttled import Throttle
from tests.replayer import order_oracle, waterfall_oracle
from tests.replayer.waterfall_oracle import Usable
from tests.support import traces
from tests.support.fault_injection import Transfer, injected, key_of
from tracegen.schema import ENUMS, Columns, InputError, Trace

MS = 1_000_000  # ns
UNIT = 1024  # bytes per token of the real runs
UNLIMITED: Usable = (0, 0, None)

# The oracle: when each op is due, from the words of docs/replaying.md


@dataclass(frozen=True)
class Due:
    """What pacing knows of an op; `computed`: tokens whose KV the op had to compute."""

    op_id: int
    request: int
    user: int
    step: int
    time_ns: int
    think_ns: int
    new_tokens: int
    computed: int


def wait_ns(op: Due, pace: Pace) -> Fraction:
    """Generation and recomputation after an op."""
    prefill = op.computed * 10**9 / Fraction(pace.prefill_tok_s) if pace.prefill_tok_s else Fraction(0)
    return op.new_tokens * Fraction(pace.token_ms) * MS + prefill


def due_times(
    ops: Sequence[Due], pace: Pace, end_of: Callable[[int, Fraction], Fraction | int], admitted: dict[int, int]
) -> dict[int, Fraction]:
    """Per op_id, exactly; `end_of` says when an op that is due then has ended, `admitted` (asap) when one came."""
    speedup = Fraction(pace.speedup)
    due: dict[int, Fraction] = {}
    end: dict[int, Fraction] = {}
    requests: dict[int, list[Due]] = {}
    latest: dict[int, int] = {}  # user -> its request before this one

    def done(request: list[Due], step: int) -> Fraction:
        """A step has ended, the generation after it included."""
        before = max(end[op.op_id] for op in request if op.step <= step)
        return before + sum((wait_ns(op, pace) for op in request if op.step == step), Fraction(0))

    for op in ops:
        mine = requests.setdefault(op.request, [])
        if earlier := [other.step for other in mine if other.step < op.step]:
            at = done(mine, max(earlier))
        elif mine:  # the first step: as its first op, but for the depth
            at = due[mine[0].op_id]
        elif pace.kind == "asap":
            at = Fraction(admitted[op.op_id])
        elif pace.kind == "closed" and op.user in latest:
            before = requests[latest[op.user]]
            at = done(before, before[-1].step) + op.think_ns / speedup
        else:
            at = op.time_ns / speedup
        beside = sorted(end[other.op_id] for other in mine if other.step == op.step)
        if pace.request_depth is not None and len(beside) >= pace.request_depth:
            at = max(at, beside[len(beside) - pace.request_depth])
        latest[op.user] = op.request
        mine.append(op)
        due[op.op_id] = at
        end[op.op_id] = Fraction(end_of(op.op_id, at))
    return due


def check_depth(ops: Sequence[Due], pace: Pace, spans: dict[int, tuple[int, int]]) -> None:
    """Of a request run ops of one step only, and no more at once than its depth; spans: (start, end) per op_id."""
    requests: dict[int, list[Due]] = {}
    for op in ops:
        requests.setdefault(op.request, []).append(op)
    for request in requests.values():
        for op in request:
            start, end = spans[op.op_id]
            assert all(spans[other.op_id][1] <= start for other in request if other.step < op.step)
            over = [other for other in request if spans[other.op_id][0] <= start < spans[other.op_id][1]]
            assert pace.request_depth is None or end == start or len(over) <= pace.request_depth


def test_the_oracle_by_hand() -> None:
    """One user, 2 ms a token, 1,000 tokens per second of prefill; ops take 5 ms.

    Request 0 at 10/2 ms: an op of 3 tokens to compute (3 ms), then at 5 + 5 + 3 = 13 ms two more, one after the other,
    13..18..23 ms, which generate 4 + 1 tokens (10 ms): done at 33 ms. Request 1 thinks for 8/2 ms: due at 37 ms.
    """
    ops = [
        Due(0, 0, 0, 0, 10 * MS, 0, 0, 3),
        Due(1, 0, 0, 1, 11 * MS, 0, 4, 0),
        Due(2, 0, 0, 1, 11 * MS, 0, 1, 0),
        Due(3, 1, 0, 0, 12 * MS, 8 * MS, 0, 0),
    ]
    pace = Pace("closed", 2, 2, 1000, 1)
    assert list(due_times(ops, pace, lambda _, due: due + 5 * MS, {}).values()) == [5 * MS, 13 * MS, 18 * MS, 37 * MS]


# Traces


Request = tuple[int, int, int, int, list[list[traces.Step]]]
"""(user, qos, gap before it, think time, steps of ops whose third number are their new tokens)"""


def lay_out(requests: Sequence[Request]) -> Columns:
    """A trace's columns: sorted by (time, user, request), each key's first op its write."""
    clock: dict[int, int] = {}
    turns: list[int] = []
    rows: list[tuple[int, int, int, int, int, int, str, int, int]] = []
    for number, (user, qos, gap, think, steps) in enumerate(requests):
        turns.append(1 + sum(earlier[0] == user for earlier in requests[:number]))
        pause = think if user in clock else 0
        at = clock.get(user, 0) + gap + pause
        for step, ops in enumerate(steps):
            for order, (kind, key, new_tokens) in enumerate(ops):
                first = pause if step == order == 0 else 0
                rows.append((at, user, number, step, qos, first, kind, key, new_tokens))
            at += MS * (step % 2)
        clock[user] = at
    rows.sort(key=lambda row: row[:3])
    known: dict[int, int] = {}
    dense: dict[int, int] = {}
    steps = []
    for row in rows:
        kind = "w" if row[7] not in known else "r" if row[6] == "w" else row[6]
        key = known.setdefault(row[7], len(known))
        steps.append((kind, key, 1 + key % 4))
    request = [dense.setdefault(row[2], len(dense)) for row in rows]
    people = {user: dense for dense, user in enumerate(sorted({row[1] for row in rows}))}
    user = [people[row[1]] for row in rows]
    return traces.columns(
        steps,
        request,
        time_ns=[row[0] for row in rows],
        user_id=user,
        session_id=user,
        turn=[turns[row[2]] for row in rows],
        step=[row[3] for row in rows],
        qos=[row[4] for row in rows],
        think_ns=[row[5] for row in rows],
        new_tokens=[row[8] for row in rows],
    )


def named(batch: Columns, bytes_per_token: int = 1) -> list[waterfall_oracle.Op]:
    """The ops as the waterfall's oracle takes them."""
    names = ("op_id", "op", "key", "tokens", "phase", "request_id")
    columns = [[ENUMS[n][c] for c in batch[n]] if n in ENUMS else batch[n].tolist() for n in names]
    return [
        (op_id, op, key, tokens * bytes_per_token, phase, request)
        for op_id, op, key, tokens, phase, request in zip(*columns, strict=True)
    ]


WRITES = ("store", "bypass", "demote", "drop")  # what the moves of a write begin with, and of nothing else


def paced(batch: Columns, rows: Sequence[waterfall_oracle.Row]) -> list[Due]:
    """The ops as the oracle of pacing takes them: computed is what a prefill writes, and what a read finds gone."""
    moves = {op_id: move for op_id, seq, move, *_ in rows if seq == 0}
    prefill = batch["phase"] == ENUMS["phase"].index("prefill")
    computed = [
        tokens if moves[op_id] == "miss" or (fills and moves[op_id] in WRITES) else 0
        for op_id, tokens, fills in zip(batch["op_id"].tolist(), batch["tokens"].tolist(), prefill, strict=True)
    ]
    names = ("op_id", "request_id", "user_id", "step", "time_ns", "think_ns", "new_tokens")
    return [Due(*row) for row in zip(*(batch[name].tolist() for name in names), computed, strict=True)]


# Engines on a tier that keeps nothing, behind a throttle


ORDERS = {"trace": Order(), "reference": reference(DEFAULT_REFERENCE), "live": Order("live")}


def as_ordered(batch: Columns, bytes_per_token: int) -> list[order_oracle.Op]:
    """The ops as the oracle of orders takes them."""
    names = "request_id user_id qos step time_ns think_ns new_tokens tokens".split()
    more = [batch[name].tolist() for name in names]
    return [
        order_oracle.Op(op_id, op, key, size, phase, request, *rest)
        for (op_id, op, key, size, phase, request), _, *rest in zip(named(batch, bytes_per_token), *more, strict=True)
    ]


def moves_in(
    order: Sequence[int], batch: Columns, usable: Usable, lookup: str = "independent", bytes_per_token: int = 1
) -> list[waterfall_oracle.Row]:
    """What the oracle decides when it takes the ops in this order, by their op_ids; not in trace order."""
    device = order_oracle.Device(1, 1, 1, 0, 0)
    ops = as_ordered(batch, bytes_per_token)
    cache = waterfall_oracle.Cache(usable)
    waterfall = order_oracle.Simulation(ops, cache, order_oracle.Load("asap", 1), (device,) * 3, False, lookup, usable)
    tasks = {task.op.op_id: task for task in waterfall.tasks}
    for op_id in order:
        waterfall.decide(tasks[op_id])
    return [move.row for move in waterfall.ledgers.moves]


def executed(trace: Trace, chosen: PlanOptions, window: int, ms: float) -> pl.DataFrame:
    """The log of an engine on its own."""
    tiers: list[Any] = [NullTier() for _ in range(3)]
    for tier in tiers if ms else ():
        tier.throttle(1_000_000, ms * 1000)
    payload = Payload(0)
    engine = Engine(
        Plan(trace, chosen), tiers, payload, lambda _: Staging(1 << 18), Elsewhere(tiers, payload, "off"), "off",
        1 << 18, Window(ops=window), Span(),
    )  # fmt: skip
    found: list[Any] = []
    with watched(20):
        engine.run(lambda records, _errors, _rows: found.append(records.copy()), every_s=60)
    state = engine.state()
    assert (state.over, state.failures, state.in_window) == (1, 0, 0), "everything ends, nothing is remembered of it"
    engine.close()
    for tier in tiers:
        tier.close()
    records = np.concatenate(found)
    log = pl.DataFrame({name: records[name] for name in LOG_COLUMNS if name not in ("rank", "error")})
    return log.with_columns(pl.Series("move", [MOVES[move] for move in log["move"]])).sort("position", "seq")


ops_of_step = st.lists(
    st.tuples(st.sampled_from("wwrrddx"), st.integers(0, 15), st.sampled_from([0, 0, 1, 7])), min_size=1, max_size=5
)
workloads = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 2),
        st.sampled_from([0, 1, 3 * MS, 40_000_003]),
        st.sampled_from([0, 1, 2_000_001, 90 * MS]),
        st.lists(ops_of_step, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=8,
)
paces = st.builds(
    Pace,
    st.sampled_from(["asap", "closed", "open"]),
    st.sampled_from([20, 5, 60, 1000]) | st.floats(5, 100),
    st.sampled_from([0, 0.2, 1]) | st.floats(0, 1),
    st.sampled_from([None, 10_000, 7e6]) | st.floats(1e4, 1e9),
    st.sampled_from([1, 2, None]),
)


@settings(max_examples=100)
@given(
    workloads,
    paces,
    st.sampled_from([UNLIMITED, (0, 6, None), (0, 5, 9), (3, 0, 0)]),
    st.sampled_from(["independent", "contiguous"]),
    st.sampled_from([1, 3, 8, 1000]),
    st.integers(1, 8),
    st.sampled_from([0, 0, 0.3]),
    st.sampled_from(sorted(ORDERS)),
)
def test_every_op_is_due_when_the_oracle_says(
    requests: list[Request], pace: Pace, usable: Usable, lookup: Any, window: int, workers: int, ms: float, order: str
) -> None:
    """Given when the ops before it ended on real workers, which run each in its own way; and none starts before."""
    check_executed(lay_out(requests), pace, window, usable=usable, lookup=lookup, workers=workers, ms=ms, order=order)


def check_executed(
    batch: Columns,
    pace: Pace,
    window: int,
    *,
    usable: Usable = UNLIMITED,
    lookup: Any = "independent",
    workers: int = 4,
    ms: float = 0.5,
    order: str = "trace",
) -> None:
    gib = [None if limit is None else Decimal(limit) / 2**30 for limit in usable]
    with tempfile.TemporaryDirectory() as folder:
        trace = traces.write(Path(folder) / "t.parquet", batch)
        chosen = PlanOptions(
            TokenBytes(1), (gib[0] or Decimal(0), gib[1] or Decimal(0), gib[2]), Decimal(1), lookup=lookup,
            order=ORDERS[order], demand=Demand(pace, workers),
        )  # fmt: skip
        log = executed(trace, chosen, window, ms)
    order_of = log.filter(pl.col("seq") == 0)["op_id"].to_list()
    if order == "trace":
        rows = waterfall_oracle.moves(named(batch), usable, lookup=lookup)
        assert order_of == batch["op_id"].tolist()
    else:
        rows = moves_in(order_of, batch, usable, lookup)
    assert log.select("op_id", "seq", "move", "key", "from_tier", "to_tier", "size_bytes").rows() == rows
    check_paced(batch, log, pace, rows)
    if order == "live" and pace.kind == "asap":
        spans = log.group_by("request_id").agg(pl.col("due_ns").min(), pl.col("end_ns").max())
        edges = sorted([*((end, -1) for end in spans["end_ns"]), *((due, 1) for due in spans["due_ns"])])
        assert max(np.cumsum([change for _, change in edges])) <= workers, "so many requests at once"


@pytest.mark.parametrize("depth", [1, 2, None])
def test_a_window_shorter_than_a_step_does_not_move_due_times(depth: int | None) -> None:
    """The third op of a step is due when one of the first two has ended, whether it was admitted by then or not."""
    batch = lay_out([(0, 0, 0, 0, [[("w", key, 0) for key in range(6)]])])
    for window in (1, 2, 3, 6):
        check_executed(batch, Pace(request_depth=depth), window, workers=4)


# Real runs, on the null layout


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """A run that hangs is ended, as failed, its workers joined."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise RuntimeError(f"the run hangs: no end after {seconds:g} s")

    before = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def options(nvme_tokens: int | None = None, order: str = "trace", **selection: Any) -> PlanOptions:
    limit = None if nvme_tokens is None else Decimal(nvme_tokens * UNIT) / 2**30
    chosen = Selection(**selection)
    return PlanOptions(TokenBytes(UNIT), (Decimal(0), Decimal(0), limit), selection=chosen, order=ORDERS[order])


def latency(ms: float) -> dict[str, Throttle]:
    """Every read and write of the nvme tier takes at least so long; many of them do so side by side."""
    return {"nvme": Throttle(1_000_000, ms * 1000)}


def go(
    trace: Trace, run: Path, plan: PlanOptions | None = None, hangs_s: float = 20, **more: Any
) -> tuple[dict[str, Any], pl.DataFrame]:
    """run.json, which the run directory holds as it was returned, and the log in plan order, enums as text."""
    chosen = Settings(**({"workers": 4, "cache_dir": None, "layout": "null", "verify": "off"} | more))
    with watched(hangs_s):
        info = replay(trace, "test", replace(plan or options(), demand=chosen.demand), chosen, run)
    assert "hangs" not in str(info["reason"]), info["reason"]
    assert {name: value for name, value in read_run(run).items() if name != "run_version"} == info
    log = pl.read_parquet(parts(run)).sort("position", "seq")
    return info, log.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))


def chat(users: int, requests: int, gap: int = 0, think: int = 0, new_tokens: int = 3) -> list[Request]:
    """Each user's requests read what the one before stored and the one after that, store, and decode twice."""
    found: list[Request] = []
    for turn in range(requests):
        for user in range(users):
            key = turn * users + user
            history: list[traces.Step] = [
                ("r", earlier, 0) for earlier in (key - 2 * users, key - users) if earlier >= 0
            ]
            steps = [[("d", key, new_tokens), ("d", key, 1)], [("d", key, new_tokens)]]
            prefill = [*history, ("w", key, 0)]
            found.append((user, (user + turn) % 3, gap, think, [prefill, *steps]))
    return found


def whole(trace: Trace) -> Columns:
    return traces.joined(list(trace.batches(1 << 20)))


def fingerprint(batch: Columns, nvme_tokens: int | None = None, below: int = 1 << 62) -> str:
    """Of the plan's moves of ops below this one, by the waterfall's oracle and hashlib."""
    limit = None if nvme_tokens is None else nvme_tokens * UNIT
    rows = waterfall_oracle.moves(named(batch, UNIT), (0, 0, limit))
    return waterfall_oracle.fingerprint(row for row in rows if row[0] < below)


EVICTIONS = ("demote", "drop")  # where another op that is due needs their room, they do not wait for their own


def spans_of(log: pl.DataFrame) -> dict[int, tuple[int, int]]:
    begins = pl.col("start_ns").filter(~pl.col("move").is_in(EVICTIONS)).min()
    grouped = log.group_by("op_id").agg(begins, pl.col("end_ns").max())
    return {op_id: (start, end) for op_id, start, end in grouped.iter_rows()}


def check_paced(batch: Columns, log: pl.DataFrame, pace: Pace, rows: Sequence[waterfall_oracle.Row]) -> None:
    """Every due time is the oracle's, given when the ops ended; nothing started before."""
    ops, spans = paced(batch, rows), spans_of(log)
    due_ns = dict(log.filter(~pl.col("move").is_in(EVICTIONS)).select("op_id", "due_ns").iter_rows())
    # asap: when an op enters the window is not logged, but that it is the due time of a request's first one is the rule
    expected = due_times(ops, pace, lambda op_id, _: spans[op_id][1], due_ns)
    wrong = {op_id for op_id in due_ns if abs(due_ns[op_id] - expected[op_id]) > 8}
    if pace.request_depth not in (1, None):  # whoever was handed in first gave its place: not always who ended first
        wrong -= {op_id for op_id in wrong if due_ns[op_id] in ends_beside(ops, op_id, spans)}
    assert not wrong
    assert (log["due_ns"] <= log["ready_ns"]).all()
    assert (log["ready_ns"] <= log["start_ns"]).all()
    assert (log["window_ns"].is_between(0, log["ready_ns"] - log["due_ns"])).all()
    check_depth(ops, pace, spans)


def ends_beside(ops: Sequence[Due], op_id: int, spans: dict[int, tuple[int, int]]) -> set[int]:
    (mine,) = (op for op in ops if op.op_id == op_id)
    beside = [op for op in ops if (op.request, op.step) == (mine.request, mine.step) and op.op_id < op_id]
    return {spans[op.op_id][1] for op in beside}


@pytest.mark.parametrize("depth", [1, None], ids=["depth 1", "all at once"])
@pytest.mark.parametrize("kind", ["asap", "closed", "open"])
def test_real_workers_keep_the_pace(tmp_path: Path, kind: Any, depth: int | None) -> None:
    trace = traces.write(tmp_path / "t.parquet", lay_out(chat(3, 4, gap=7 * MS, think=11 * MS)))
    pace = Pace(kind, 2, token_ms=1.5, prefill_tok_s=1000, request_depth=depth)
    info, log = go(trace, tmp_path / "run", options(9), pace=pace, throttles=latency(1))
    assert (info["status"], info["executed_ops"]) == ("complete", trace.ops)
    rows = waterfall_oracle.moves(named(whole(trace), UNIT), (0, 0, 9 * UNIT))
    assert "miss" in {row[2] for row in rows}, "some prefill is recomputed"
    check_paced(whole(trace), log, pace, rows)


@pytest.mark.parametrize("kind", ["asap", "closed", "open"])
def test_generation_keeps_a_run_going(tmp_path: Path, kind: Any) -> None:
    """As long at least as the oracle says of moves that take no time; none, or some."""
    trace = traces.write(tmp_path / "t.parquet", lay_out(chat(2, 3, new_tokens=9)))
    rows = waterfall_oracle.moves(named(whole(trace), UNIT), UNLIMITED)
    last: list[Fraction] = []
    for token_ms in (0, 10):
        pace = Pace(kind, token_ms=token_ms)
        info, log = go(trace, tmp_path / f"{token_ms}", pace=pace, workers=3)
        check_paced(whole(trace), log, pace, rows)
        instant = due_times(paced(whole(trace), rows), pace, lambda _, due: due, dict.fromkeys(range(trace.ops), 0))
        last.append(max(instant.values()))
        assert log["end_ns"].max() >= last[-1]
        assert info["conditions"]["token_ms"] == token_ms
    # two decode reads of 9 and 1 tokens, one after the other, are a step; closed: three requests, the last one's
    # generation aside, which nothing waits for
    assert last[1] - last[0] == {"asap": 100, "closed": 2 * 190 + 100, "open": 100}[kind] * MS


# Cut at a duration


@pytest.fixture
def long_trace(tmp_path: Path) -> Trace:
    """1,500 ops, 3 ms each on four workers: more than a second."""
    return traces.write(tmp_path / "t.parquet", lay_out(chat(6, 43)))


def plan_of(trace: Trace, chosen: PlanOptions) -> list[list[waterfall_oracle.Row]]:
    """Moves by position: the oracle's where they follow from the trace's order; else the planner's own, which
    tests/replayer/test_reference_order.py holds to another oracle."""
    if chosen.order.kind == "trace":
        limit = None if chosen.capacity_gib[2] is None else int(chosen.capacity_gib[2] * 2**30)
        rows = waterfall_oracle.moves(named(whole(trace), UNIT), (0, 0, limit))
    else:
        plan, rows = Plan(trace, chosen), []
        for stretch in plan.planner().stretches():
            rows += [(a, b, MOVES[c], *more) for a, b, c, *more in Totals().tell(plan.workload, stretch).tolist()]
    return [list(ops) for _, ops in groupby(rows, key=lambda row: row[0])]


def hashed(order: str, rows: Sequence[waterfall_oracle.Row]) -> str:
    return (waterfall_oracle if order == "trace" else order_oracle).fingerprint(rows)


@pytest.mark.parametrize("order", ["trace", "reference"])
@pytest.mark.parametrize("kind", ["asap", "closed", "open"])
def test_a_duration_cuts_off_an_exact_prefix(long_trace: Trace, tmp_path: Path, kind: Any, order: str) -> None:
    """Urgent ops overtake others: what the cut leaves behind of those before the highest is executed still."""
    pace, logs = Pace(kind), []
    planned = plan_of(long_trace, replace(options(150, order), demand=Demand(pace, 4)))
    for duration_s in (0.25, 0.45):
        info, log = go(
            long_trace,
            tmp_path / f"{duration_s}",
            options(150, order),
            pace=pace,
            window=Window(ops=100),
            span=Span(duration_s),
            throttles=latency(3),
        )
        executed = info["executed_ops"]
        assert (info["status"], info["reason"]) == ("complete", None)
        assert 0 < executed < long_trace.ops
        issued, ended = log["start_ns"].max(), log["end_ns"].max()
        assert set(log.filter(pl.col("position") >= executed)["move"]) <= set(EVICTIONS)
        log = log.filter(pl.col("position") < executed)
        assert log["position"].unique().to_list() == list(range(executed))
        expected = [row for ops in planned[:executed] for row in ops]
        columns = ("op_id", "seq", "move", "key", "size_bytes")
        assert log.select(columns).rows() == [(*row[:4], row[6]) for row in expected]
        assert info["executed_fingerprint"] == hashed(order, expected) != info["plan"]["plan_fingerprint"]
        assert info["executed"]["ops"] == executed
        cut_s = info["window"]["cut_s"]
        assert duration_s <= cut_s
        assert info["window"] == {
            "duration_s": duration_s,
            "cut_s": cut_s,
            "issued_s": issued / 1e9,
            "drain_s": max(0, ended / 1e9 - duration_s),
            "drain_limit_s": None,
            "stopped_s": None,
        }
        logs.append(log)
    same = [name for name in logs[0].columns if not name.endswith("_ns") and name not in ("worker", "waited_for")]
    common = min(len(log) for log in logs)
    shorter, longer = (log.select(same).rows() for log in logs)
    assert common > 0
    assert shorter[:common] == longer[:common]


def test_what_was_issued_is_drained(tmp_path: Path) -> None:
    """At the cut, after 300 ms, a store of 800 ms is in flight and an op issued after it done; what is due 100 ms
    later, while it is drained, does not start."""
    steps: list[traces.Step] = [("w", 0, 1), ("w", 1, 9), *(("w", key, 1) for key in range(2, 9))]  # 1 fits nowhere
    batch = traces.columns(steps, time_ns=[0, 50 * MS] + [400 * MS] * 7)
    trace = traces.write(tmp_path / "t.parquet", batch)
    info, log = go(trace, tmp_path / "run", options(4), pace=Pace("open"), span=Span(0.3), throttles=latency(800))
    assert (info["status"], info["executed_ops"]) == ("complete", 2)
    assert log["move"].to_list() == ["store", "bypass"]
    start, end = log["start_ns"].to_list(), log["end_ns"].to_list()
    assert 0.3 <= info["window"].pop("cut_s") < 0.4
    assert info["window"] == {
        "duration_s": 0.3,
        "issued_s": start[1] / 1e9,
        "drain_s": end[0] / 1e9 - 0.3,
        "drain_limit_s": None,
        "stopped_s": None,
    }
    assert end[0] >= 800 * MS > end[1] >= 50 * MS


def test_what_was_begun_is_ended(tmp_path: Path) -> None:
    """Op 2 finds its object gone, a row at once; it stores it anew after the cut, when op 1 gives its permit."""
    batch = traces.columns(
        [("w", 0, 1), ("w", 1, 1), ("r", 0, 1)], user_id=[1, 0, 0], session_id=[1, 0, 0], turn=[1, 1, 2]
    )
    trace = traces.write(tmp_path / "t.parquet", batch)
    info, log = go(trace, tmp_path / "run", options(users=1), allocs=1, span=Span(0.3), throttles=latency(500))
    assert (info["status"], info["executed_ops"]) == ("complete", 3)
    assert log.select("op_id", "move").rows() == [(1, "store"), (2, "miss"), (2, "store")]
    assert log["start_ns"].to_list()[2] >= log["end_ns"].to_list()[0], "one permit"


@pytest.fixture
def overtaken(tmp_path: Path) -> Trace:
    """40 stores that are in no hurry, and after them 40 that are, and go first."""
    steps = [("w", key, 1) for key in range(80)]
    return traces.write(tmp_path / "t.parquet", traces.columns(steps, qos=[2] * 40 + [0] * 40))


def test_a_drain_is_bounded(overtaken: Trace, tmp_path: Path) -> None:
    """20 ms each, one after the other: at the cut, after 300 ms, some of the hurried are done, and all of the others
    would have to be drained, 800 ms. After 400 of them nothing more starts; what came before the first that is lacking
    is what counts, and the log holds the others, too."""
    span = Span(0.3, drain_s=0.4)
    info, log = go(overtaken, tmp_path / "run", workers=1, span=span, throttles=latency(20))
    executed, window = info["executed_ops"], info["window"]
    assert (info["status"], info["reason"]) == ("complete", None)
    assert 0 < executed < 40
    assert (window["duration_s"], window["drain_limit_s"]) == (0.3, 0.4)
    assert 0.3 <= window["cut_s"] <= window["stopped_s"] >= 0.7
    assert log["start_ns"].max() / 1e9 == window["issued_s"] <= window["stopped_s"]
    assert window["drain_s"] == log["end_ns"].max() / 1e9 - 0.3 > 0
    positions = log["position"].to_list()
    assert positions == [*range(executed), *range(40, 40 + len(positions) - executed)]
    assert len(positions) > executed, "the hurried ones"
    (planned,) = zip(*plan_of(overtaken, options()), strict=True)
    assert info["executed_fingerprint"] == hashed("trace", planned[:executed])
    assert info["executed"]["ops"] == info["executed"]["stores"]["nvme"] == executed


@pytest.mark.parametrize("order", sorted(ORDERS))
@pytest.mark.parametrize("kind", ["asap", "closed", "open"])
def test_without_a_drain_nothing_starts_after_the_cut(long_trace: Trace, tmp_path: Path, kind: Any, order: str) -> None:
    pace, span = Pace(kind), Span(0.3, drain_s=0)
    info, log = go(long_trace, tmp_path / "run", options(150, order), pace=pace, span=span, throttles=latency(3))
    executed, window = info["executed_ops"], info["window"]
    assert info["status"] == "complete"
    assert 0 < executed < long_trace.ops
    assert 0.3 <= window["cut_s"] == window["stopped_s"] >= window["issued_s"]
    prefix = log.filter(pl.col("position") < executed)
    assert prefix["position"].unique().to_list() == list(range(executed))
    if order == "live":
        first = prefix.filter(pl.col("seq") == 0)
        expected = moves_in(first["op_id"].to_list(), whole(long_trace), (0, 0, 150 * UNIT), bytes_per_token=UNIT)
    else:
        planned = plan_of(long_trace, replace(options(150, order), demand=Demand(pace, 4)))
        expected = [row for ops in planned[:executed] for row in ops]
    assert prefix.select("op_id", "seq", "move", "key").rows() == [row[:4] for row in expected]
    assert info["executed_fingerprint"] == hashed(order, expected)
    assert info["executed"]["ops"] == executed


def test_a_drain_that_suffices_stops_nothing(overtaken: Trace, tmp_path: Path) -> None:
    span = Span(0.3, drain_s=60)
    info, log = go(overtaken, tmp_path / "run", workers=4, span=span, throttles=latency(20))
    assert log["position"].to_list() == list(range(info["executed_ops"]))
    assert info["executed_ops"] > 40
    assert info["window"]["stopped_s"] is None


# So many ops


@pytest.mark.parametrize("order", ["trace", "reference"])
@pytest.mark.parametrize("kind", ["asap", "closed"])
def test_so_many_ops_are_the_same_work_on_every_system(
    long_trace: Trace, tmp_path: Path, kind: Any, order: str
) -> None:
    """A system that is fast and one that is slow; a window that holds all, and one that holds few."""
    pace, found = Pace(kind), []
    for name, ms, window in (("fast", 0, 4096), ("slow", 2, 8)):
        info, log = go(
            long_trace,
            tmp_path / name,
            options(150, order),
            pace=pace,
            span=Span(ops=500),
            window=Window(window),
            throttles=latency(ms) if ms else {},
        )
        assert (info["status"], info["executed_ops"], info["executed"]["ops"]) == ("complete", 500, 500)
        assert info["window"]["cut_s"] is None
        found.append(
            (info["executed_fingerprint"], info["executed"], log.select("position", "seq", "move", "key").rows())
        )
    assert found[0] == found[1]
    rows = [
        row for ops in plan_of(long_trace, replace(options(150, order), demand=Demand(pace, 4)))[:500] for row in ops
    ]
    assert found[0][0] == hashed(order, rows)
    assert [row[2:] for row in found[0][2]] == [row[2:4] for row in rows]


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_more_ops_than_there_are_are_all(small_trace: Trace, tmp_path: Path, order: str) -> None:
    for ops in (small_trace.ops, small_trace.ops + 1):
        info, log = go(small_trace, tmp_path / f"{ops}", options(40, order), span=Span(ops=ops))
        assert (info["status"], info["executed_ops"]) == ("complete", small_trace.ops)
        assert info["executed_fingerprint"] == info["plan"]["plan_fingerprint"]
        assert log["position"].n_unique() == small_trace.ops


@pytest.mark.parametrize("ops", [1, 2, 77])
def test_so_many_ops_of_a_placement_that_is_live(long_trace: Trace, tmp_path: Path, ops: int) -> None:
    info, log = go(long_trace, tmp_path / "run", options(150, "live"), span=Span(ops=ops), throttles=latency(1))
    assert (info["status"], info["executed_ops"], info["executed"]["ops"]) == ("complete", ops, ops)
    assert log["position"].unique().to_list() == list(range(ops))


def test_so_many_ops_and_so_many_seconds(long_trace: Trace, tmp_path: Path) -> None:
    """Whichever comes first."""
    info, _ = go(long_trace, tmp_path / "ops", span=Span(600, ops=100))
    assert (info["executed_ops"], info["window"]["cut_s"]) == (100, None)
    info, _ = go(long_trace, tmp_path / "s", span=Span(0.2, ops=1499), throttles=latency(5))
    assert 0 < info["executed_ops"] < 1499
    assert info["window"]["cut_s"] >= 0.2


# An order that was had before


@pytest.mark.parametrize("order", ["reference", "live"])
@pytest.mark.parametrize("span", [Span(), Span(0.3), Span(0.3, drain_s=0), Span(ops=200)], ids=str)
def test_what_a_run_executed_is_executed_again(long_trace: Trace, tmp_path: Path, order: str, span: Span) -> None:
    """All of it and nothing else, on another system."""
    slow = Pace("closed", token_ms=0.3)
    info, log = go(long_trace, tmp_path / "run", options(150, order), pace=slow, span=span, throttles=latency(2))
    executed = info["executed_ops"]
    assert info["status"] == "complete"
    again = replace(options(150), order=of_run(tmp_path / "run"))
    fast, other = go(long_trace, tmp_path / "again", again, workers=9, window=Window(50), throttles=latency(0.5))
    assert (fast["status"], fast["executed_ops"], fast["plan"]["ops"]) == ("complete", executed, executed)
    assert fast["executed_fingerprint"] == fast["plan"]["plan_fingerprint"] == info["executed_fingerprint"]
    assert fast["executed"] == info["executed"]
    columns = ["position", "op_id", "seq", "op", "move", "key", "from_tier", "to_tier", "size_bytes", "new_tokens"]
    assert other.select(columns).rows() == log.filter(pl.col("position") < executed).select(columns).rows()


def test_a_duration_after_the_end_cuts_nothing(long_trace: Trace, tmp_path: Path) -> None:
    info, log = go(long_trace, tmp_path / "run", span=Span(600))
    assert info["executed_ops"] == long_trace.ops
    assert info["executed_fingerprint"] == info["plan"]["plan_fingerprint"] == fingerprint(whole(long_trace))
    assert info["window"]["drain_s"] == 0
    assert log["op_id"].n_unique() == long_trace.ops


# Subsets and cycles


@pytest.fixture
def small_trace(tmp_path: Path) -> Trace:
    """Five users, six requests each."""
    return traces.write(tmp_path / "small.parquet", lay_out(chat(5, 6)))


def test_users_takes_the_first_ones(small_trace: Trace, tmp_path: Path) -> None:
    info, log = go(small_trace, tmp_path / "run", options(users=2))
    batch = whole(small_trace)
    assert set(log["op_id"]) == set(batch["op_id"][batch["user_id"] < 2].tolist())
    assert (info["status"], info["conditions"]["users"]) == ("complete", 2)
    assert log["user_id"].max() == 1


def test_ranks_share_the_trace(small_trace: Trace, tmp_path: Path) -> None:
    logs = [go(small_trace, tmp_path / f"{rank}", options(part=(rank, 3)))[1] for rank in range(3)]
    ops = [op_id for log in logs for op_id in log["op_id"].unique()]
    assert sorted(ops) == list(range(small_trace.ops)), "each op on one rank"
    assert sum(log["new_tokens"].sum() for log in logs) == small_trace.metadata.counts["tokens_generated"]
    sessions = [set(log["session_id"]) for log in logs]
    assert sum(map(len, sessions)) == len(set.union(*sessions)) == 5, "a session stays together"
    assert all(sessions)


def test_cycles_have_keys_of_their_own(small_trace: Trace, tmp_path: Path) -> None:
    batch = whole(small_trace)
    plain, once = go(small_trace, tmp_path / "plain", options(40))
    info, log = go(small_trace, tmp_path / "twice", options(40, cycles=2))
    assert (info["status"], info["executed_ops"]) == ("complete", 2 * small_trace.ops)
    ends = {name: int(batch[name].max()) + 1 for name in ("op_id", "time_ns", "key", "request_id", "session_id")}
    both = traces.joined([batch, batch | {name: batch[name] + end for name, end in ends.items()}])
    assert info["executed_fingerprint"] == info["plan"]["plan_fingerprint"] == fingerprint(both, 40)
    assert fingerprint(both, 40, small_trace.ops) == plain["executed_fingerprint"] == fingerprint(batch, 40)
    first, second = log.filter(pl.col("op_id") < small_trace.ops), log.filter(pl.col("op_id") >= small_trace.ops)
    assert first.select("op_id", "seq", "move", "key").rows() == once.select("op_id", "seq", "move", "key").rows()
    own = second.filter(~pl.col("move").is_in(["demote", "drop"]))
    assert set(own["key"]).isdisjoint(first["key"]), "nothing is read that the first cycle stored"
    assert set(second["request_id"]).isdisjoint(first["request_id"])
    assert set(second["session_id"]).isdisjoint(first["session_id"])


@pytest.mark.parametrize("kind", ["closed", "open"])
def test_a_cycle_follows_the_one_before(tmp_path: Path, kind: Any) -> None:
    """Open: once its times are over. Closed: each user goes on when it is done."""
    trace = traces.write(tmp_path / "t.parquet", lay_out(chat(2, 2, gap=4 * MS, think=5 * MS)))
    batch = whole(trace)
    _, log = go(trace, tmp_path / "run", options(cycles=2), pace=Pace(kind, token_ms=1))
    ends = {name: int(batch[name].max()) + 1 for name in ("op_id", "time_ns", "key", "request_id", "session_id")}
    both = traces.joined([batch, batch | {name: batch[name] + end for name, end in ends.items()}])
    check_paced(both, log, Pace(kind, token_ms=1), waterfall_oracle.moves(named(both, UNIT), UNLIMITED))


# Permits


def most_at_once(log: pl.DataFrame) -> int:
    """Of a log's stores, by start and end; one that ends as another starts is not beside it."""
    stores = log.filter(pl.col("move") == "store")
    edges = sorted([(end, -1) for end in stores["end_ns"]] + [(start, 1) for start in stores["start_ns"]])
    return max(int(level) for level in np.cumsum([change for _, change in edges]))


def test_no_more_stores_than_permitted_are_in_flight(tmp_path: Path) -> None:
    trace = traces.write(tmp_path / "t.parquet", lay_out(chat(12, 4)))
    most = {}
    for allocs in (None, 1, 3):
        info, log = go(trace, tmp_path / f"{allocs}", workers=12, allocs=allocs, throttles=latency(6))
        assert (info["status"], info["conditions"]["max_concurrent_allocs"]) == ("complete", allocs)
        most[allocs] = most_at_once(log)
    assert most[None] > 3 >= most[3] > 1 == most[1]


def test_a_store_past_the_cut_takes_no_permit(tmp_path: Path) -> None:
    """Of one permit: op 0 holds it at the cut, op 1 waits for it; so does 3, more urgent, but past 2, the highest."""
    steps: list[traces.Step] = [("w", 0, 1), ("w", 1, 1), ("w", 2, 9), ("w", 3, 1)]  # 2 fits nowhere
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps, qos=[0, 2, 0, 0]))
    info, log = go(trace, tmp_path / "run", options(4), 4, allocs=1, span=Span(0.3), throttles=latency(600))
    assert (info["status"], info["executed_ops"]) == ("complete", 3)
    assert log["move"].to_list() == ["store", "store", "bypass"]


# Warm-up, errors


@pytest.mark.parametrize("order", sorted(ORDERS))
@pytest.mark.parametrize("ops", [1, 100])
def test_warm_up_by_ops(small_trace: Trace, tmp_path: Path, ops: int, order: str) -> None:
    info, log = go(small_trace, tmp_path / "run", options(None, order), span=Span(warmup_ops=ops))
    assert info["warmup"]["ops"] == ops
    assert log["warmup"].to_list() == (log["position"] < ops).to_list()
    steady = log.filter(~pl.col("warmup"))["start_ns"].min()
    assert info["warmup"]["end_ns"] == steady


@pytest.mark.parametrize(
    ("span", "told"),
    [
        (Span(warmup_ops=10_000), "--warmup 10000: the plan has "),
        (Span(ops=5, warmup_ops=5), "--warmup 5: --ops leaves 5 ops"),
        (Span(2, warmup_s=2), "--warmup 2s: --duration is 2 s"),
    ],
)
def test_a_warm_up_that_leaves_nothing_is_refused(small_trace: Trace, tmp_path: Path, span: Span, told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        go(small_trace, tmp_path / "run", options(None, "trace"), span=span)


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_warm_up_by_seconds(long_trace: Trace, tmp_path: Path, order: str) -> None:
    span, plan = Span(0.7, warmup_s=0.3), options(None, order)
    info, log = go(long_trace, tmp_path / "run", plan, span=span, window=Window(ops=60), throttles=latency(3))
    boundary = info["warmup"]["ops"]
    assert 0 < boundary < info["executed_ops"]
    assert log["warmup"].to_list() == (log["position"] < boundary).to_list()
    assert log.filter(~pl.col("warmup"))["start_ns"].min() == info["warmup"]["end_ns"] >= 300 * MS


@pytest.fixture
def unreadable(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Settings of a tier on a disk, of which every tenth key can be stored and not be read."""

    def pread(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        if key_of(descriptor) % 10 == 9:
            raise OSError(5, "Input/output error")
        return true(descriptor, memory, size, offset)

    with injected(pread=pread):
        yield {"layout": "files", "cache_dir": tmp_path / "cache", "make_cache_dir": True}


@pytest.mark.parametrize("budget", [0, 4])
def test_too_many_errors_stop_a_run(long_trace: Trace, tmp_path: Path, unreadable: dict[str, Any], budget: int) -> None:
    span = Span(max_errors=budget)
    info, log = go(long_trace, tmp_path / "run", span=span, throttles=latency(1), **unreadable)
    assert info["status"] == "failed"
    assert f"--max-errors {budget}" in info["reason"]
    errors = log.filter(pl.col("status") == "error")
    assert budget < len(errors) <= budget + 12, "one more, and what was in flight; of 25"
    assert len(log) < info["plan"]["ops"]
    assert info["executed_ops"] < long_trace.ops
    assert set(range(info["executed_ops"])) <= set(log["op_id"])
    assert info["executed_fingerprint"] == fingerprint(whole(long_trace), below=info["executed_ops"])


def test_errors_within_the_budget_do_not(long_trace: Trace, tmp_path: Path, unreadable: dict[str, Any]) -> None:
    """A key fails once, what follows on it is upstream and not counted."""
    info, log = go(long_trace, tmp_path / "run", workers=1, span=Span(max_errors=25), **unreadable)
    assert log.filter(pl.col("status") == "error").height == 25
    assert log.filter(pl.col("status") == "upstream").height > 25
    assert (info["status"], info["executed_ops"]) == ("failed", long_trace.ops)
    assert "--max-errors" not in info["reason"]


# Open loop


def test_lateness_grows_past_capacity_only(tmp_path: Path) -> None:
    """One request every 5 ms. A worker that takes 15 ms for each falls behind by 10 ms a request, and every latency
    counts from when its request was scheduled; four workers that take 1 ms keep up."""
    count = 40
    columns = traces.columns(
        [("w", key, 1) for key in range(count)], qos=[0] * count, time_ns=[10 * MS * i for i in range(count)]
    )
    trace = traces.write(tmp_path / "t.parquet", columns)
    late = {}
    for name, workers, ms in (("over", 1, 15), ("under", 4, 1)):
        pace = Pace("open", speedup=2)
        _, log = go(trace, tmp_path / name, pace=pace, workers=workers, throttles=latency(ms))
        assert log["due_ns"].to_list() == [5 * MS * i for i in range(count)], "whatever was late before"
        late[name] = (log["start_ns"] - log["due_ns"]).to_list()
        assert min(late[name]) >= 0
        latencies = (log["end_ns"] - log["due_ns"]).to_list()
        assert all(spent >= ms * MS + waited for spent, waited in zip(latencies, late[name], strict=True))
    assert min(np.diff(late["over"])) >= 9.9 * MS
    assert np.median(late["under"]) < np.median(late["over"]) / 2


def test_a_run_that_is_cut_before_anything_is_issued_fails(tmp_path: Path) -> None:
    trace = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 1), ("w", 1, 1)], time_ns=[2 * 10**9] * 2))
    chosen = Settings(workers=2, cache_dir=None, layout="null", pace=Pace("open"), span=Span(0.1))
    info = replay(trace, "test", replace(options(4), demand=chosen.demand), chosen, tmp_path / "run")
    assert (info["status"], info["executed_ops"], info["executed"]["ops"]) == ("failed", 0, 0)
    assert "no op was executed before --duration" in info["reason"]
