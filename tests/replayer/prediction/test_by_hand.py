"""The second predictor on cases worked by hand from docs/predicting.md; the arithmetic is in the comments."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.replayer.arrangements.tiers import Op
from tests.replayer.order_ledgers import Load
from tests.replayer.prediction.oracle import Decided, Limits, Row, predict
from tests.replayer.prediction.stations import factor, mix, quantile
from tests.replayer.prediction.tasks import Planned

CPU, NVME = 1, 2
KB = 1000  # bytes; at 1 GB/s alone, that takes as many ns
OPEN = Load("open", 2, request_depth=None)


def station(in_flight: tuple[float, ...] = (1.0, 2.0), gb_s: tuple[float, ...] = (1.0, 1.0), **more: Any) -> Any:
    """One that takes 1 ns per byte for one visit, and shares that among several."""
    zeros = (0.0,) * len(in_flight)
    known = {"open_us": zeros, "latency_us": zeros, "spread": (), "remove_us": zeros} | more
    return SimpleNamespace(in_flight=in_flight, bandwidth_gb_s=gb_s, **known)


def profile(
    read: Any = None,
    write: Any = None,
    weights: tuple[float, float] = (0.0, 0.0),
    turn_bytes: int = 1,
    cpu: tuple[float, ...] = (9, 0, 0, 0),
) -> Any:
    """The same station for cpu and nvme; `cpu`: cores, make, check, move."""
    tier = SimpleNamespace(
        read=read or station(),
        write=write or station(),
        writes_on_reads=weights[0],
        reads_on_writes=weights[1],
        turn_bytes=turn_bytes,
    )
    names = ("cores", "make_ns_per_byte", "check_ns_per_byte", "move_us")
    return SimpleNamespace(
        cpu=SimpleNamespace(**dict(zip(names, map(float, cpu), strict=True))), tiers={"cpu": tier, "nvme": tier}
    )


def ops(*at: tuple[str, int, int], size: int = KB) -> list[Op]:
    """Requests of one op each, of users of their own: (op, key, time in ns)."""
    return [Op(i, op, key, 0, "prefill", i, i, time_ns=time) for i, (op, key, time) in enumerate(at)]


def store(key: int, tier: int = NVME, size: int = KB) -> Planned:
    return "store", key, -1, tier, size


def hit(key: int, tier: int = NVME, size: int = KB) -> Planned:
    return "hit", key, tier, -1, size


def rows_of(taken: list[Op], moves: list[list[Planned]], times: Any, load: Load = OPEN, **limits: Any) -> list[Row]:
    """The log of these ops with these moves, in the trace's order."""
    plan = [Decided(i, i, taken[i].name, moves[i]) for i in range(len(taken))]
    held = limits.pop("capacity", (0, None, None))
    return predict(taken, load, held, times, Limits(**{"chunk": 400} | limits), plan).rows


def spans(rows: list[Row]) -> dict[int, tuple[int, int]]:
    return {row.op_id: (row.start_ns, row.end_ns) for row in rows}


def test_two_moves_share_a_tier() -> None:
    """Alone, a byte takes 1 ns; of two in flight, each takes 2 ns per byte.

    The first gets 400 bytes till the second joins at 400. Its other 600 take 2 x 600 ns: it ends at 1,600. The second
    has had 600 bytes then; its last 400 take 400 ns, alone again.
    """
    rows = rows_of(ops(("write", 0, 0), ("write", 1, 400)), [[store(0)], [store(1)]], profile())
    assert spans(rows) == {0: (0, 1600), 1: (400, 2000)}
    assert [(row.worker, row.write_ns, row.device_write_ns, row.read_ns) for row in rows] == [
        (0, 1600, 1600, 0), (1, 1600, 1600, 0),
    ]  # fmt: skip


def test_a_write_slows_a_read_down() -> None:
    """A write weighs half a read; reads do not slow writes down.

    The write of key 1 takes 500 to 1,500. The read of key 0 begins at 1,000 with load 1 + 0.5: half-way between 1 and
    2 ns per byte. It has 500 / 1.5 = 333.3 bytes at 1,500, and the other 666.7 take 1 ns each: it ends at 2,166.7.
    """
    taken = ops(("write", 0, 0), ("write", 1, 500), ("read", 0, 1000))
    before = station(gb_s=(2.0, 2.0))  # writes take 0.5 ns per byte alone, and 1 ns in twos
    rows = rows_of(
        taken, [[store(0)], [store(1, size=2 * KB)], [hit(0)]], profile(write=before, weights=(0.5, 0.0)),
    )  # fmt: skip
    assert spans(rows) == {0: (0, 500), 1: (500, 1500), 2: (1000, 2167)}


def test_a_small_object_waits_for_the_turn_of_a_large_one() -> None:
    """Turns are 1,024 bytes, and 256 of the small object. Of two in flight, each takes 2 ns per byte if equals.

    The large one has 400 bytes at 400, when the small one joins. From then on a byte of the large one takes 1 ns and
    256 / 1,024 ns of waiting: its other 600 bytes end at 1,150. A byte of the small one takes 1 ns and 1,024 / 256 ns:
    it has 150 bytes at 1,150, and its other 106 end at 1,256.
    """
    moves = [[store(0)], [store(1, size=256)]]
    rows = rows_of(ops(("write", 0, 0), ("write", 1, 400)), moves, profile(turn_bytes=1024))
    assert spans(rows) == {0: (0, 1150), 1: (400, 1256)}


def test_stages_have_shares_of_their_own() -> None:
    """Open 1 us, latency 2 us, 1,500 bytes; in twos, latency takes 4 us and a byte 2 ns, and opening is the same.

    The second visit enters at 1,500, when the first, open at 1,000, has had 500 of 2,000 ns of latency: 0.25 units. The
    other 0.75 take 3,000 ns: it transfers from 4,500 on. The second is open at 2,500, when the progress of `latency` is
    0.25 + 1,000 / 4,000 = 0.5; so its target is 1.5. The progress is 1 at 4,500, and 1.5 at 6,500. The first has its
    1,500 bytes at 4,500 + 3,000 = 7,500. The second has had 500 of its bytes by then, and the others end at 8,500.
    """
    write = station(open_us=(1.0, 1.0), latency_us=(2.0, 4.0))
    moves = [[store(0, size=1500)], [store(1, size=1500)]]
    rows = rows_of(ops(("write", 0, 0), ("write", 1, 1500)), moves, profile(write=write))
    assert spans(rows) == {0: (0, 7500), 1: (1500, 8500)}
    assert [(row.write_ns, row.device_write_ns) for row in rows] == [(7500, 6500), (7000, 6000)]


def test_the_factor() -> None:
    assert mix(0) == 0xE220A8397B1DCDAF, "the first output of SplitMix64 with seed 0"
    nine = (0.5, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
    assert quantile(nine, 0.0) == 0.5
    assert quantile(nine, 0.5) == 1.0
    assert quantile(nine, 0.15) == pytest.approx(0.7)  # half-way from 0.05 to 0.25
    assert quantile(nine, 0.97) == pytest.approx(2.5)  # half-way from 0.95 to 0.99
    spread, loads = (nine, (), nine[::-1]), (1.0, 2.0, 4.0)
    assert [factor(spread, loads, x, 0.0) for x in (0.5, 1.9, 2.0, 3.9, 4.0, 9.0)] == [0.5, 0.5, 1, 1, 5, 5]
    # A visit's times are so many times longer; in three pieces 1 + 2 / sqrt(3) = 2.1547 times: 2,154.7 ns twice.
    always = tuple([3.0] * 9)
    rows = rows_of(
        ops(("write", 0, 0)), [[store(0)]], profile(write=station(spread=(always, always), open_us=(1.0, 1.0)))
    )
    assert spans(rows) == {0: (0, 4310)}


def test_what_a_worker_does_besides() -> None:
    """One core; making takes 0.1 ns per byte, checking 0.05 and book-keeping 10 ns; workers move 400 bytes at once.

    The store makes its bytes till 100 and writes till 1,100; its worker is free at 1,110. The hit reads from 1,100 to
    2,100, on the other worker, as the first is not free yet. It checks 800 bytes till 2,140, is done, and checks 200
    bytes till 2,150, and keeps its books till 2,160: it shares the core with nobody.
    """
    taken = ops(("write", 0, 0), ("read", 0, 0))
    rows = rows_of(taken, [[store(0)], [hit(0)]], profile(cpu=(1, 0.1, 0.05, 0.01)))
    assert spans(rows) == {0: (0, 1000), 1: (1100, 2100)}, "without the time in the CPU station"
    assert [(row.verify_ns, row.worker, row.ready_ns, row.waited_for) for row in rows] == [
        (100, 0, 0, None), (50, 1, 1100, "data"),
    ]  # fmt: skip
    # Two that make their bytes share the core: 2 x 100 ns.
    rows = rows_of(ops(("write", 0, 0), ("write", 1, 0)), [[store(0)], [store(1)]], profile(cpu=(1, 0.1, 0, 0)))
    assert [row.verify_ns for row in rows] == [200, 200]


def test_a_demotion_removes_its_object() -> None:
    """A cpu of 1 kB; reads, writes: 1 ns per byte; removing takes 50 ns, which is no part of write_ns.

    a is stored till 1,000. It is demoted from 1,000 to 2,000 + 1,000 + 50 = 3,050; then b's store has its room.
    """
    times = profile(write=station(remove_us=(0.05, 0.05)))
    moves: list[list[Planned]] = [[store(0, CPU)], [("demote", 0, CPU, NVME, KB), store(1, CPU)]]
    rows = rows_of(ops(("write", 0, 0), ("write", 1, 0)), moves, times, capacity=(0, KB, None))
    assert [(row.move, row.start_ns, row.end_ns, row.read_ns, row.write_ns, row.waited_for) for row in rows] == [
        ("store", 0, 1000, 0, 1000, None),
        ("demote", 1000, 3050, 1000, 1000, "data"),
        ("store", 3050, 4050, 0, 1000, "eviction"),
    ]


def test_the_window() -> None:
    """It holds one op: the second, due at 0, is admitted at 1,000; a miss takes the worker for its book-keeping alone."""
    taken = ops(("write", 0, 0), ("read", 1, 0), ("write", 2, 0))
    moves: list[list[Planned]] = [[store(0)], [("miss", 1, -1, -1, KB)], [store(2)]]
    rows = rows_of(taken, moves, profile(cpu=(1, 0, 0, 0.01)), Load("open", 1), window_ops=1)
    assert [(row.op_id, row.ready_ns, row.window_ns, row.start_ns, row.end_ns) for row in rows] == [
        (0, 0, 0, 0, 1000),
        (1, 1000, 1000, 1010, 1010),  # the worker is free at 1,010, and again at 1,020
        (2, 1010, 1010, 1020, 2020),  # the miss is done, and has left the window, when it starts
    ]


def test_a_cut() -> None:
    """One worker; cut at 1,500: the second, which is under way, ends; the third, of a higher position, does not start."""
    taken = ops(("write", 0, 0), ("write", 1, 0), ("write", 2, 0))
    moves = [[store(key)] for key in range(3)]
    rows = rows_of(taken, moves, profile(), Load("open", 1), duration_ns=1500)
    assert spans(rows) == {0: (0, 1000), 1: (1000, 2000)}
    rows = rows_of(taken, moves, profile(), Load("open", 1), duration_ns=2000)
    assert spans(rows) == {0: (0, 1000), 1: (1000, 2000)}, "limits are applied before anything starts"
    # Two moves of op 1: the cut finds it issued, and without a drain both are made; with one, what is under way ends.
    moves[1] = [store(1), ("delete", 1, NVME, -1, KB), store(3)]
    rows = rows_of(taken, moves, profile(), Load("open", 1), duration_ns=1500)
    assert [(row.op_id, row.end_ns) for row in rows] == [(0, 1000), (1, 2000), (1, 2000), (1, 3000)]
    rows = rows_of(taken, moves, profile(), Load("open", 1), duration_ns=1500, drain_ns=100)
    assert [(row.op_id, row.end_ns) for row in rows] == [(0, 1000), (1, 2000)]
