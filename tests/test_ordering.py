"""Whatever completes first, the order of moves keeps to what data demands, and no tier exceeds its room."""

import random
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.model import TokenBytes
from replayer.ordering import Move, Op, Ordering, _Room
from replayer.pacing import Pace, Pacer
from replayer.plan import Plan, PlanOptions
from replayer.selection import Selection
from replayer.waterfall import BYPASS, DELETE, DEMOTE, DROP, HIT, MISS, PROMOTE, STORE, Usable, Waterfall
from tests import oracle, traces
from tracegen.schema import ENUMS


def unpack(steps: list[traces.Step], requests: list[int], waterfall: Waterfall) -> list[tuple[Op, list[Move]]]:
    batch = traces.columns(steps, requests)
    moves, ends = waterfall.plan(batch, batch["tokens"].astype(np.int64))
    rows = list(zip(*(getattr(moves, n).tolist() for n in "move key from_tier to_tier size".split()), strict=True))
    planned, begin = [], 0
    for i, end in enumerate(ends.tolist()):
        op = Op(i, requests[i], int(batch["qos"][i]), step=i, last=requests[i] not in requests[i + 1 :])
        planned.append((op, [Move(op, begin + j, *row) for j, row in enumerate(rows[begin:end])]))
        begin = end
    return planned


class World:
    """Tiers that hold sizes; checks, when a move ends or begins, that it may."""

    def __init__(self, usable: Usable) -> None:
        self.usable, self.used, self.place = usable, [0, 0, 0], dict[int, int]()
        self.reading: dict[int, int] = {}

    def begin(self, move: Move) -> None:
        if move.kind in (MISS, BYPASS):
            return
        if move.kind != HIT:
            assert not self.reading.get(move.key), "a barrier runs while its key is read"
        if move.kind == STORE:
            assert move.key not in self.place, "stored before it left"
        elif move.from_tier >= 0:
            assert self.place.get(move.key) == move.from_tier, "not where the plan has it"
        self.reading[move.key] = self.reading.get(move.key, 0) + 1
        if move.kind in (STORE, DEMOTE):  # room is taken at the start of a write
            self.used[move.to_tier] += move.size
            limit = self.usable[move.to_tier]
            assert limit is None or self.used[move.to_tier] <= limit, "past the usable bytes"

    def end(self, move: Move) -> None:
        if move.kind in (MISS, BYPASS):
            return
        self.reading[move.key] -= 1
        if move.kind in (DEMOTE, PROMOTE, DROP) or (move.kind == DELETE and move.from_tier >= 0):
            del self.place[move.key]
            self.used[move.from_tier] -= move.size
        if move.kind in (STORE, DEMOTE):
            self.place[move.key] = move.to_tier


workloads = st.lists(
    st.tuples(st.sampled_from("wrrrddx"), st.integers(0, 7), st.integers(0, 4)), min_size=1, max_size=60
)
capacity = st.sampled_from([0, 2, 3, 5, 8])


@settings(max_examples=300)
@given(
    workloads,
    st.tuples(capacity, capacity, st.sampled_from([0, 4, 9, None])).filter(
        any_tier := lambda u: any(x != 0 for x in u)
    ),
    st.booleans(),
    st.sampled_from(["independent", "contiguous"]),
    st.integers(1, 16),
    st.integers(1, 20),
    st.randoms(use_true_random=False),
)
def test_no_deadlock_and_no_tier_past_its_room(
    picks: list[tuple[str, int, int]],
    usable: Usable,
    promote: bool,
    lookup: str,
    workers: int,
    window: int,
    rng: random.Random,
) -> None:
    sizes = {key: 1 + key % 4 for key in range(8)}
    known: set[int] = set()
    steps, requests = [], []
    for op, key, request in picks:
        steps.append((op if key in known else "w", key, sizes[key]))
        if key in known and op == "w":
            steps[-1] = ("r", key, sizes[key])
        known.add(key)
        requests.append(request)
    planned = unpack(steps, requests, Waterfall(usable, promote=promote, lookup=lookup))  # type: ignore[arg-type]
    ordering, world = Ordering(usable), World(usable)
    pacer = Pacer(Pace(), ordering.let_go)
    queue, admitted, running, order = list(planned), [], [], list[tuple[int, int]]()
    while queue or admitted:
        while queue and (not admitted or len(admitted) < window):
            op, moves = queue.pop(0)
            ordering.admit(op, moves, 0)
            pacer.admit(op, 0)
            admitted.append(op)
        while len(running) < workers and (move := ordering.take()) is not None:
            world.begin(move)
            running.append(move)
        assert running, "nothing runs and nothing is ready: a deadlock"
        move = running.pop(rng.randrange(len(running)))
        world.end(move)
        if ordering.complete(move, 0):
            pacer.complete(move.op, 0)
        order.append(move.index)
        while admitted and not admitted[0].left:
            admitted.pop(0)
    assert sorted(order) == sorted(move.index for _, moves in planned for move in moves)
    assert not ordering._keys, "nothing is remembered of what is done"
    assert not pacer._requests


def test_the_most_urgent_goes_first() -> None:
    ordering = Ordering((0, None, 0))
    ops = [(Op(i, i, qos), qos) for i, qos in enumerate([2, 1, 0, 1, 0])]
    for op, _ in ops:
        ordering.admit(op, [Move(op, op.op_id, STORE, op.op_id, -1, 1, 1)], 0)
        ordering.let_go(op, 0)
    taken = [move.op.op_id for _ in ops if (move := ordering.take())]
    assert taken == [2, 4, 1, 3, 0]


def test_hits_share_a_key_and_a_drop_waits_for_them() -> None:
    ordering = Ordering((0, 4, 0))
    ops = [Op(i, i) for i in range(4)]
    store, hit1, hit2, drop = (
        Move(op, op.op_id, kind, 7, source, target, 4)
        for op, (kind, source, target) in zip(
            ops, [(STORE, -1, 1), (HIT, 1, -1), (HIT, 1, -1), (DROP, 1, -1)], strict=True
        )
    )
    for op, move in zip(ops, (store, hit1, hit2, drop), strict=True):
        ordering.admit(op, [move], 10)
        ordering.let_go(op, 10)
    assert ordering.take() is store
    assert ordering.take() is None
    ordering.complete(store, 20)
    assert [ordering.take(), ordering.take(), ordering.take()] == [hit1, hit2, None]
    ordering.complete(hit2, 30)
    assert ordering.take() is None
    ordering.complete(hit1, 40)
    assert ordering.take() is drop
    assert (drop.op.due_ns, drop.ready_ns) == (10, 40)


def test_the_ledger_does_not_grow_with_what_leaves() -> None:
    room = _Room(1000)
    for i in range(500):
        move = Move(Op(i, i), i, PROMOTE, i, 2, -1, 1)
        list(room.take(1))
        move.done = i % 7 != 0
        room.free(1, move)
    assert len(room._entries) < 160
    assert sum(size for size, _ in room._entries) == 1000


def test_a_request_is_a_chain() -> None:
    ordering = Ordering((0, None, 0))
    pacer = Pacer(Pace(), ordering.let_go)
    first, second = Op(0, 5), Op(1, 5, step=1, last=True)
    write, read = Move(first, 0, STORE, 1, -1, 1, 1), Move(second, 1, STORE, 2, -1, 1, 1)
    for op, move in ((first, write), (second, read)):
        ordering.admit(op, [move], 1)
        pacer.admit(op, 1)
    assert [ordering.take(), ordering.take()] == [write, None]
    assert ordering.complete(write, 9)
    pacer.complete(first, 9)
    assert ordering.take() is read
    assert (read.op.due_ns, read.ready_ns) == (9, 9), "due once the request's own order allows it"


@given(
    st.lists(st.tuples(st.sampled_from("wrrdddd"), st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=40),
    st.sampled_from(["reread", "once", "none"]),
    st.integers(1, 50),
)
def test_decode_filter_as_the_oracle(picks: list[tuple[str, int, int]], mode: Any, size: int) -> None:
    steps = [("w" if i == 0 else "r" if op == "w" else op, 0, 5) for i, (op, _, _) in enumerate(picks)]
    dense: dict[int, int] = {}
    requests = [dense.setdefault(request, len(dense)) for _, request, _ in picks]
    batch = traces.columns(steps, requests, new_tokens=[n for _, _, n in picks])
    with tempfile.TemporaryDirectory() as folder:
        trace = traces.write(Path(folder) / "t.parquet", batch)
        options = PlanOptions(TokenBytes(1), (Decimal(0), Decimal(0), None), selection=Selection(mode))
        parts = [part.ops for part in Plan(trace, options).stream(size)]
    found = [pair for ops in parts for pair in zip(ops["op_id"].tolist(), ops["new_tokens"].tolist(), strict=True)]
    names = ("op_id", "op", "phase", "request_id", "new_tokens")
    columns = [[ENUMS[n][c] for c in batch[n]] if n in ENUMS else batch[n].tolist() for n in names]
    kept = oracle.decode_filter([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)], mode)
    assert found == [(op["op_id"], op["new_tokens"]) for op in kept]


@pytest.mark.parametrize("mode", ["once", "none"])
def test_decode_filter_keeps_every_generated_token(tmp_path: Path, mode: str) -> None:
    steps = [("w", 0, 4), ("w", 1, 4), ("d", 0, 4), ("d", 1, 4), ("d", 0, 4), ("d", 0, 4), ("d", 1, 4)]
    batch = traces.columns(steps, [0, 1, 0, 1, 0, 0, 1], new_tokens=[0, 0, 1, 2, 4, 8, 16])
    trace = traces.write(tmp_path / "t.parquet", batch)
    options = PlanOptions(TokenBytes(1), (Decimal(0), Decimal(0), None), selection=Selection(mode))  # type: ignore[arg-type]
    parts = list(Plan(trace, options).stream(size=2))
    kept = {int(i): int(n) for part in parts for i, n in zip(part.ops["op_id"], part.ops["new_tokens"], strict=True)}
    assert kept == {"once": {0: 0, 1: 0, 2: 13, 3: 18}, "none": {0: 13, 1: 18}}[mode]
