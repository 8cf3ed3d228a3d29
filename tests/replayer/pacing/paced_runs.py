"""Traces and runs of the tests of pacing, on tiers that keep nothing, with what the oracles say of them."""

import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl

from replayer.models.geometry import TokenBytes
from replayer.planning.order import DEFAULT_REFERENCE, Order, load_reference
from replayer.planning.pace import Pace
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.trace_selection import Selection
from replayer.run.replay import Replay
from replayer.schema import parts
from replayer.tiers.throttled import Throttle
from tests.replayer.arrangements import oracle
from tests.replayer.arrangements.compiled_plan import rows_of
from tests.replayer.arrangements.oracle import Row
from tests.replayer.arrangements.tiers import ops_of
from tests.replayer.pacing.pacing_oracle import Due, check_depth, due_times
from tests.support import traces
from tests.support.run_settings import settings as make_settings
from tracegen.schema import ENUMS, Columns, Trace

MS = 1_000_000  # ns
UNIT = 1024  # bytes per token of the real runs


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


WRITES = ("store", "bypass", "demote", "drop")  # what the moves of a write begin with, and of nothing else


def paced(batch: Columns, rows: Sequence[Row]) -> list[Due]:
    """The ops as the oracle of pacing takes them: computed is what a prefill writes, and what a read finds gone."""
    moves = {op_id: move for op_id, seq, move, *_ in rows if seq == 0}
    prefill = batch["phase"] == ENUMS["phase"].index("prefill")
    computed = [
        tokens if moves[op_id] == "miss" or (fills and moves[op_id] in WRITES) else 0
        for op_id, tokens, fills in zip(batch["op_id"].tolist(), batch["tokens"].tolist(), prefill, strict=True)
    ]
    names = ("op_id", "request_id", "user_id", "step", "time_ns", "think_ns", "new_tokens")
    return [Due(*row) for row in zip(*(batch[name].tolist() for name in names), computed, strict=True)]


ORDERS = {"trace": Order(), "reference": load_reference(DEFAULT_REFERENCE), "live": Order("live")}


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
    chosen = make_settings(**({"workers": 4, "cache_dir": None, "layout": "null", "verify": "off"} | more))
    with watched(hangs_s):
        result = Replay(trace, "test", replace(plan or options(), demand=chosen.demand), chosen, run).run()
    assert "hangs" not in str(result.whole.reason), result.whole.reason
    info = json.loads((run / "run.json").read_text())
    assert json.loads(json.dumps(result.to_json())) == info
    if not info["executed_ops"]:
        return info, pl.DataFrame()  # a run that did nothing leaves no part
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
    """Of the plan's moves of ops below this one, by the oracle and hashlib."""
    limit = None if nvme_tokens is None else nvme_tokens * UNIT
    rows = oracle.moves(ops_of(batch), {}, (0, 0, limit), UNIT)
    return oracle.fingerprint(row for row in rows if row[0] < below)


EVICTIONS = ("demote", "drop")  # where another op that is due needs their room, they do not wait for their own


def spans_of(log: pl.DataFrame) -> dict[int, tuple[int, int]]:
    begins = pl.col("start_ns").filter(~pl.col("move").is_in(EVICTIONS)).min()
    grouped = log.group_by("op_id").agg(begins, pl.col("end_ns").max())
    return {op_id: (start, end) for op_id, start, end in grouped.iter_rows()}


def made_for(batch: Columns, log: pl.DataFrame) -> dict[int, int]:
    """The op that made the moves of another one, by that one's op_id, where two traded places."""
    names = ("op_id", "request_id", "step", "key")
    ops = list(zip(*(batch[name].tolist() for name in names), strict=True))
    logged = {op_id: rest for op_id, *rest in log.filter(~pl.col("move").is_in(EVICTIONS)).select(names).rows()}
    moved = {op_id for op_id, request, *_ in ops if op_id in logged and logged[op_id][0] != request}
    makers = {tuple(rest): op_id for op_id, *rest in ops if op_id in moved}
    return {op_id: makers[tuple(logged[op_id])] for op_id in moved}


def check_paced(batch: Columns, log: pl.DataFrame, pace: Pace, rows: Sequence[Row]) -> None:
    """Every due time is the oracle's, given when the ops ended; nothing started before."""
    makers = made_for(batch, log)
    log = log.with_columns(pl.col("op_id").replace(makers))
    ops = paced(batch, [(makers.get(op_id, op_id), *rest) for op_id, *rest in rows])
    spans = spans_of(log)
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


def plan_of(trace: Trace, chosen: PlanOptions) -> list[list[Row]]:
    """Moves by position: the oracle's where they follow from the trace's order; else the planner's own, which
    tests/replayer/ordering/test_reference_order.py holds to another oracle."""
    if chosen.order.kind == "trace":
        limit = None if chosen.capacity_gib[2] is None else int(chosen.capacity_gib[2] * 2**30)
        rows = oracle.moves(ops_of(whole(trace)), {}, (0, 0, limit), UNIT)
    else:
        rows = rows_of(Plan(trace, chosen))
    return [list(ops) for _, ops in groupby(rows, key=lambda row: row[0])]


def hashed(order: str, rows: Sequence[Row]) -> str:
    return oracle.fingerprint(rows, 1 if order == "trace" else 2)
