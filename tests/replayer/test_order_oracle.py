"""Cases of docs/ordering.md worked by hand, so that the oracle itself is held to something."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.replayer.arrangements.oracle import moves
from tests.replayer.arrangements.tiers import PROMOTING, Op
from tests.replayer.order_ledgers import Device, Load, Result
from tests.replayer.order_oracle import simulate

FAST = Device(10**9, 10**9, 1, 0, 0)  # one byte a nanosecond, one at a time
SLOW = Device(10**8, 10**8, 1, 0, 0)  # ten nanoseconds a byte
DEVICES = (FAST, FAST, SLOW)
CPU = (0, None, 0)  # a cpu tier without a limit, nothing else


def ops(*lines: str, **changes: Sequence[int]) -> list[Op]:
    """Ops of 100 tokens, a byte each: "r0.1 write 7 tokens=3" is request 0 (of a user of its own), step 1."""
    made = []
    for row, line in enumerate(lines):
        place, name, key, *rest = line.split()
        request, step = map(int, place[1:].split("."))
        values: dict[str, Any] = {"tokens": 100, "request": request, "user": request, "step": step}
        for pair in rest:
            what, value = pair.split("=")
            values[what] = value if what == "phase" else int(value)
        made.append(Op(op_id=row, name=name, key=int(key), **values))
    return made


def plan(result: Result) -> list[tuple[int, str, int, int, int]]:
    """op_id, move, key, from, to."""
    return [(op_id, move, key, source, target) for op_id, _, move, key, source, target, _ in result.rows]


def test_two_transfers_share_a_tier() -> None:
    """S = 1, latency 10: a (100 bytes) is due at 0, b (50) at 30.

    a joins at 10 with V = 0, target 102400. b joins at 40: V = 30 × 1024 = 30720, target 30720 + 51200 = 81920.
    Two share: b ends at 40 + ceil(51200 × 2 ÷ 1024) = 140. Then V = 81920 and a, alone, needs 20480 ÷ 1024 = 20: 160.
    """
    device = Device(10**9, 10**9, 1, 10, 10)
    trace = ops("r0.0 write 1", "r1.0 write 2 tokens=50 time_ns=30")
    result = simulate(trace, CPU, Load("open", 2), (device,) * 3)
    assert result.spans == {0: (0, 160), 1: (30, 140)}
    assert result.over == {0: 160, 1: 140}


def test_a_transfer_alone_gets_one_stream_of_several() -> None:
    """S = 4: alone, 100 bytes take 400; two at once take no longer; five at once take 500."""
    device = Device(10**9, 10**9, 4, 0, 0)
    for count, took in ((1, 400), (2, 400), (4, 400), (5, 500)):
        trace = ops(*(f"r{i}.0 write {i}" for i in range(count)))
        result = simulate(trace, CPU, Load("asap", 8), (device,) * 3)
        assert set(result.spans.values()) == {(0, took)}


def test_work_that_is_shared_is_rounded_down() -> None:
    """a, b, c (2 bytes, target 2048) join at 0, d (1 byte) at 1, when V = floor(1024 ÷ 3) = 341: target 1365.

    Four share: d ends 4 later, at 5, V = 341 + 1024 = 1365. Three share: 683 × 3 ÷ 1024 = 2.001, so 3 more: 8, not 7.
    """
    trace = ops(*(f"r{i}.0 write {i} tokens=2" for i in range(3)), "r3.0 write 3 tokens=1 time_ns=1")
    result = simulate(trace, CPU, Load("open", 8), DEVICES)
    assert result.spans == {0: (0, 8), 1: (0, 8), 2: (0, 8), 3: (1, 5)}


def test_other_users_push_an_object_out_between_its_store_and_its_read() -> None:
    """cpu holds one object; in trace order both reads hit it there.

    0: op 0 is decided, store a starts. The second worker is free, nothing is ready: op 2 is decided, a demotion of a
    (it waits for the store of a) and a store of b (it waits for the demotion, for its room).
    100: a is stored; the demotion starts, 100 of reading and 1000 of writing: 1200. Op 1 is due and decided: a hit on
    nvme, which waits for the demotion. 1200: the store of b (number 2) and the hit (number 3) start. 1300: b is stored,
    op 3 is due, nothing is ready and a worker is free: a hit on cpu, to 1400. The hit on nvme ends at 2200.
    """
    trace = ops("r0.0 write 1", "r0.1 read 1", "r1.0 write 2", "r1.1 read 2")
    usable = (0, 100, None)
    assert [row[4] for row in moves(trace, {}, usable) if row[2] == "hit"] == [1, 1]
    result = simulate(trace, usable, Load("asap", 2), DEVICES)
    assert result.order == [0, 2, 1, 3]
    assert plan(result) == [
        (0, "store", 1, -1, 1),
        (2, "demote", 1, 1, 2),
        (2, "store", 2, -1, 1),
        (1, "hit", 1, 2, -1),
        (3, "hit", 2, 1, -1),
    ]
    assert result.spans == {0: (0, 100), 1: (100, 1200), 2: (1200, 1300), 3: (1200, 2200), 4: (1300, 1400)}
    assert result.over == {0: 2200, 1: 1400}


def test_the_first_comer_writes() -> None:
    """Both are due at 0; the read is interactive, so it is decided first and stores; the write of the trace is a hit.

    The read computed its 100 tokens: at 10^7 a second that is a wait of 10000 after its end at 100. The write computed
    nothing: its hit waits for the store, runs from 100 to 200, and is over then.
    """
    trace = ops("r0.0 write 1 qos=2", "r1.0 read 1")
    result = simulate(trace, CPU, Load("open", 2, prefill_tok_s=1e7), DEVICES)
    assert plan(result) == [(1, "store", 1, -1, 1), (0, "hit", 1, 1, -1)]
    assert result.spans == {0: (0, 100), 1: (100, 200)}
    assert result.over == {0: 200, 1: 10100}


def test_a_key_without_a_write_is_missed() -> None:
    """The miss is done as it starts, then the store takes 100; 100 tokens at 10^7 a second are computed: 10100."""
    result = simulate(ops("r0.0 read 1 phase=decode"), CPU, Load("open", 1, prefill_tok_s=1e7), DEVICES)
    assert plan(result) == [(0, "miss", 1, -1, -1), (0, "store", 1, -1, 1)]
    assert result.spans == {0: (0, 0), 1: (0, 100)}
    assert result.over == {0: 10100}


def test_a_delete_leaves_a_key_unwritten() -> None:
    """The delete finds nothing and is no first comer; the read after it is."""
    result = simulate(ops("r0.0 delete 1", "r0.1 read 1", "r0.2 write 1"), CPU, Load("open", 1), DEVICES)
    assert plan(result) == [(0, "delete", 1, -1, -1), (1, "store", 1, -1, 1), (2, "hit", 1, 1, -1)]
    assert result.spans == {0: (0, 0), 1: (0, 100), 2: (100, 200)}


def test_a_store_waits_for_a_permit() -> None:
    """One permit, three workers. 0: store a starts; store b is set aside. 50: store c, interactive, is set aside too.

    100: a is stored; c has the lesser class: 100 to 200. Then b: 200 to 300.
    """
    trace = ops("r0.0 write 1 qos=2", "r1.0 write 2 qos=2", "r2.0 write 3 time_ns=50")
    result = simulate(trace, CPU, Load("open", 3, allocs=1), DEVICES)
    assert result.order == [0, 1, 2]
    assert result.spans == {0: (0, 100), 1: (200, 300), 2: (100, 200)}


def test_a_step_waits() -> None:
    """Step 0 has two ops, one at a time: 0 to 100, 100 to 200. Waits: trunc(3 × 0.0005 × 10^6) = 1500 and 500.

    Step 1 is due at 200 + 2000 = 2200, ends at 2300, and its wait of 500 makes the request over at 2800.
    """
    trace = ops("r0.0 write 1 new_tokens=3", "r0.0 write 2 new_tokens=1", "r0.1 read 1 new_tokens=1")
    result = simulate(trace, CPU, Load("open", 4, token_ms=0.0005), DEVICES)
    assert result.spans == {0: (0, 100), 1: (100, 200), 2: (2200, 2300)}
    assert result.over == {0: 2800}


@pytest.mark.parametrize(("depth", "starts"), [(1, [0, 100, 150]), (2, [0, 0, 100]), (None, [0, 0, 0])])
def test_depth(depth: int | None, starts: list[int]) -> None:
    """Writes of 100, 50 and 10 bytes in one step.

    Depth 1: one after the other. Depth 2: 100 and 50 share, so 50 ends at 100 and the third takes its place.
    """
    trace = ops("r0.0 write 1", "r0.0 write 2 tokens=50", "r0.0 write 3 tokens=10")
    result = simulate(trace, CPU, Load("open", 4, request_depth=depth), DEVICES)
    assert [start for start, _ in result.spans.values()] == starts


def test_closed_users_think() -> None:
    """Speed-up 2. Request 0 starts at 20 ÷ 2 = 10, ends at 110, waits 500: over at 610.

    Request 1 thinks trunc(75 ÷ 2) = 37: it starts at 647 whatever its time is, and is over at 747.
    """
    trace = ops("r0.0 write 1 user=0 time_ns=20 think_ns=9 new_tokens=1", "r1.0 read 1 user=0 time_ns=5 think_ns=75")
    result = simulate(trace, CPU, Load("closed", 4, speedup=2, token_ms=0.0005), DEVICES)
    assert result.spans == {0: (10, 110), 1: (647, 747)}
    assert result.over == {0: 610, 1: 747}


def test_asap_has_as_many_requests_in_progress_as_workers() -> None:
    """Two at once. They share: r1 (50 bytes) ends at 100 and r2 takes its place; r0 ends at 200, and r3 follows."""
    trace = ops("r0.0 write 1", "r1.0 write 2 tokens=50", "r2.0 write 3", "r3.0 write 4")
    result = simulate(trace, CPU, Load("asap", 2), DEVICES)
    assert [start for start, _ in result.spans.values()] == [0, 0, 100, 200]


def test_a_promotion_and_its_room() -> None:
    """gpu and cpu hold 100 each. b's store demotes a at 100; then a is read: promote, demote b, store a.

    Store a 0 to 100, demotion of a 100 to 300 (it reads gpu, then writes cpu), store b 300 to 400. The read of a is due at 400: the promotion reads cpu
    from 400 to 500, the demotion of b needs that room: 500 to 700; the store of a needs gpu's: 700 to 800.
    """
    trace = ops("r0.0 write 1", "r0.1 write 2", "r0.2 read 1")
    result = simulate(trace, (100, 100, 0), Load("open", 4), DEVICES, PROMOTING)
    assert [(move, key) for _, move, key, *_ in plan(result)] == [
        ("store", 1), ("demote", 1), ("store", 2), ("promote", 1), ("demote", 2), ("store", 1)
    ]  # fmt: skip
    assert list(result.spans.values()) == [(0, 100), (100, 300), (300, 400), (400, 500), (500, 700), (700, 800)]


def drawn(seed: int) -> list[Op]:
    chance = random.Random(seed)
    made, written = list[Op](), set[int]()
    for row in range(300):
        request = min(row // 6 + chance.randrange(3), 49)
        key = chance.randrange(60)
        name = chance.choice(["read", "read", "delete"]) if key in written else "write"
        written.add(key)
        step = sum(op.request == request for op in made) // 2
        phase = chance.choice(["prefill", "decode"]) if name == "read" else "prefill"
        op = Op(
            row, name, key, 50 + key, phase, request, request % 8, "user", request * 100, request % 3, step, 70, row % 3
        )
        made.append(op)
    return made


@pytest.mark.parametrize("seed", range(4))
def test_one_user_after_the_other_is_trace_order(seed: int) -> None:
    """One request at a time and one op each leave no choice; no read comes before its write."""
    trace = [Op(**(vars(op) | {"request": row, "user": 0, "step": 0})) for row, op in enumerate(drawn(seed))]
    result = simulate(trace, (300, 900, 2000), Load("asap", 1), DEVICES)
    assert result.rows == moves(trace, {}, (300, 900, 2000))
