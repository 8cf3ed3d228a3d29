"""Logs for tests of analysis: rows that are plausible one by one, rows of a cache that was followed, run directories."""

import random
from pathlib import Path
from typing import Any

from replayer.record.run_directory import RunDirectory
from replayer.schema import LOG_COLUMNS, LOG_ENUMS, MOVES, TIERS, WAITS
from tests.replayer.arrangements import oracle
from tests.replayer.arrangements.tiers import PROMOTING, Op
from tests.support.run_json import save_above, save_run_json
from tracegen.schema import ENUMS

Row = dict[str, Any]
Rows = list[Row]
READS, WRITES = ("hit", "promote", "demote", "copy"), ("store", "demote", "copy")
STATUSES = ("ok", "error", "upstream")


def _timed(rng: random.Random, due: int, move: str, source: str | None, target: str | None) -> Row:
    """When a move was due, ready, begun and done, and what it waited for; some are so quick that they take no time."""
    ready = due + rng.choice([0, rng.randrange(10**6)])
    window = rng.choice([0, (ready - due) // 2, ready - due])
    order = rng.choice([0, (ready - due - window) // 3])
    start = ready + rng.choice([0, rng.randrange(10**8)])
    read, write = (
        (move in moves) * rng.choice([rng.randrange(1, 2000) * 50, rng.randrange(10**8)]) for moves in (READS, WRITES)
    )
    # A GPU's clock may say more than the host's.
    device_read = read + 777 if source == "gpu" and read and rng.random() < 0.5 else read * 2 // 3
    device_write = write + 555 if target == "gpu" and write and rng.random() < 0.5 else write // 3
    return {
        "due_ns": due, "ready_ns": ready, "start_ns": start,
        "end_ns": start + read + write + rng.choice([0, rng.randrange(10**4)]),
        "window_ns": window, "order_ns": order,
        "waited_for": rng.choice(WAITS) if ready - due > window + order else None,
        "read_ns": read, "write_ns": write, "device_read_ns": device_read, "device_write_ns": device_write,
    }  # fmt: skip


def make_rows(seed: int, count: int) -> Rows:
    """Rows that are plausible one by one; words for enums, None for null."""
    rng = random.Random(seed)
    rows = Rows()
    for i in range(count):
        move = rng.choice(MOVES)
        source = rng.choice(TIERS[1:]) if move in READS or move == "drop" else None
        target = rng.choice(TIERS[1:]) if move in WRITES else None
        request, seq = rng.randrange(20), rng.choice([0, 0, 1])
        rows.append(
            dict.fromkeys(LOG_COLUMNS, 0)
            | _timed(rng, rng.randrange(10**9), move, source, target)
            | {
                "op_id": i, "position": i, "seq": seq, "request_id": request, "session_id": request // 3,
                "new_tokens": rng.randrange(40) if seq == 0 else 0,
                "qos": ENUMS["qos"][request % 3], "phase": rng.choice(ENUMS["phase"]), "source": rng.choice(ENUMS["source"]),
                "op": rng.choice(("write", "read")), "tokens": rng.randrange(1, 3000), "size_bytes": rng.randrange(1, 10**9),
                "move": move, "status": rng.choices(STATUSES, (8, 1, 1))[0], "from_tier": source, "to_tier": target,
                "warmup": False, "error": None,
            }
        )  # fmt: skip
    return rows


TOKEN_NS = 2_500_000


def write_run(
    path: Path,
    rows: Rows,
    parts: int = 3,
    *,
    device: Rows | None = None,
    token_ms: float = TOKEN_NS / 1e6,
    pace: str = "closed",
    workers: int = 1,
    **info: Any,
) -> Path:
    """A run directory of these rows, every `parts`-th in a part, with these samples of counters; `info` adds to run.json."""
    directory = RunDirectory(path)
    if device is not None:
        directory.write_device(device)
    coded = [
        {
            n: (LOG_ENUMS[n].index(row[n]) if row[n] is not None else -1) if n in LOG_ENUMS else row[n]
            for n in LOG_COLUMNS
        }
        for row in rows
    ]
    for part in range(parts):
        if chunk := coded[part::parts]:
            directory.write_part({n: [row[n] for row in chunk] for n in LOG_COLUMNS})
    conditions = {
        "model": "m", "bytes_per_token": 1, "usable_bytes": {"gpu": 0, "cpu": 5, "nvme": None}, "workers": workers,
        "pace": pace, "direct": True, "verify": "stamps",
        "token_ms": token_ms,
    }  # fmt: skip
    save_run_json(
        path,
        {
            "status": "failed", "reason": "r", "trace": {"fingerprint": "t"}, "warnings": [],
            "plan": dict.fromkeys("ops misses promotions drops bypasses recomputed_tokens".split(), 0)
            | {name: dict.fromkeys(TIERS, 0) for name in ("hits", "stores", "read_bytes", "write_bytes")}
            | {"demotions": {"gpu>cpu": 0, "gpu>nvme": 0, "cpu>nvme": 0}},
            "conditions": conditions, "executed_ops": len(rows), "executed_fingerprint": "p",
            "window": {"duration_s": 1, "drain_s": 1.5},
        }
        | info,
    )  # fmt: skip
    directory.close()
    return path


SIZES = [1, 3, 4, 5, 1000, 4**5 - 1, 4**5, 4**5 + 1, 4**6, 30_000, 4**8, 4**9 - 1, 4**9]
"""Bytes of objects: most at the bounds of classes."""


def planned(seed: int, count: int) -> tuple[Rows, list[oracle.Row]]:
    """Ops of a random trace, and what a cache of three tiers makes of them: promotions, demotions, drops, bypasses."""
    rng = random.Random(seed)
    ops: Rows = []
    sizes = [rng.choice(SIZES) for _ in range(count)]
    request, left, known = -1, 0, 0
    for op_id in range(count):
        if not left:
            request, left, phase, qos = request + 1, rng.randint(1, 9), "prefill", rng.choice(ENUMS["qos"])
            phase = rng.choice(["prefill", "prefill", "prefill", "decode"])
        elif rng.random() < 0.3:
            phase = "decode"
        left -= 1
        fresh = known == 0 or (phase == "prefill" and rng.random() < 0.5)
        key = known if fresh else max(0, known - 1 - int(rng.expovariate(0.1)))
        known += fresh
        kind = "write" if fresh else rng.choices(["read", "delete"], [30, 1])[0]
        ops.append(
            {
                "op_id": op_id, "request_id": request, "session_id": request // 3, "user_id": request % 5, "turn": 1,
                "step": 0, "qos": qos, "phase": phase, "op": kind, "source": rng.choice(ENUMS["source"]), "key": key,
                "tokens": sizes[key] // 3 + 1, "size_bytes": sizes[key], "new_tokens": rng.choice([0, 0, 1, 7, 32]),
            }
        )  # fmt: skip
    listed = [Op(o["op_id"], o["op"], o["key"], o["size_bytes"], o["phase"], o["request_id"]) for o in ops]
    return ops, oracle.moves(listed, PROMOTING, (20_000, 90_000, 250_000))


def follow(seed: int, count: int = 300, span_s: float = 3.0, warm_ops: int = 0, failing: float = 0.03) -> Rows:
    """The log of so many ops over about so many seconds, like one a replay leaves but for its random times.

    Moves fail or come after such.
    """
    ops, moves = planned(seed, count)
    rng, rows = random.Random(~seed), Rows()
    ends: dict[int, int] = {}  # per request: when its last op had ended
    for op_id, seq, move, key, source, target, size in moves:
        op = ops[op_id]
        due = max(ends.get(op["request_id"], 0), int(op_id / count * span_s * 1e9))
        from_tier, to_tier = (None if tier < 0 else TIERS[tier] for tier in (source, target))
        times = _timed(rng, due, move, from_tier, to_tier)
        ends[op["request_id"]] = max(ends.get(op["request_id"], 0), times["end_ns"])
        rows.append(
            op
            | times
            | {
                "position": op_id, "seq": seq, "new_tokens": op["new_tokens"] if seq == 0 else 0, "move": move,
                "key": key, "tokens": size // 3 + 1, "size_bytes": size, "from_tier": from_tier, "to_tier": to_tier,
                "status": rng.choices(STATUSES, (1 - failing, failing / 2, failing / 2))[0],
                "verify_ns": rng.randrange(10**5), "worker": rng.randrange(4), "rank": 0, "warmup": op_id < warm_ops,
                "error": None,
            }
        )  # fmt: skip
    return rows


def with_copies(rows: Rows, seed: int) -> Rows:
    """Add what an arrangement with copies may do: hits whose object is stored in a faster tier, and copies downwards.

    Copies, and drops in the background, end long after all others of their op.
    """
    rng, found = random.Random(seed), Rows()
    last = {row["op_id"]: row for row in rows}
    for row in rows:
        found.append(row)
        if row is not last[row["op_id"]] or row["move"] not in ("hit", "store"):
            continue
        at = row["from_tier"] or row["to_tier"]
        if row["move"] == "hit" and at != "gpu" and rng.random() < 0.5:
            found.append(_after(found[-1], rng, "store", None, TIERS[rng.randrange(TIERS.index(at))]))
        if at != "nvme" and rng.random() < 0.5:
            found.append(_after(found[-1], rng, "copy", at, TIERS[rng.randrange(TIERS.index(at) + 1, 3)], 10**9))
        if rng.random() < 0.2:
            found.append(_after(found[-1], rng, "drop", at, None, 10**9))
    return found


def _after(
    row: Row, rng: random.Random, move: str, source: str | None, target: str | None, late_ns: int = 10**7
) -> Row:
    """The row that follows in an op."""
    read, write = (rng.randrange(1, 10**8) * (tier is not None and move != "drop") for tier in (source, target))
    start = row["end_ns"] + rng.randrange(late_ns)
    return row | {
        "seq": row["seq"] + 1, "new_tokens": 0, "move": move, "from_tier": source, "to_tier": target, "status": "ok",
        "ready_ns": row["end_ns"], "start_ns": start, "end_ns": start + read + write, "read_ns": read, "write_ns": write,
        "device_read_ns": read // 2, "device_write_ns": write // 2, "window_ns": 0, "order_ns": 0,
        "waited_for": "data",
    }  # fmt: skip


def warm_end(rows: Rows) -> int:
    """When the first op past the warm-up started, as run.json says."""
    return int(min(row["start_ns"] for row in rows if not row["warmup"]))


def samples(seed: int, seconds: int, counted: bool = True, cpu: float = 4.0, measured: bool = True) -> Rows:
    """Rows of device.parquet; without a block device to count, only the CPU's; measured: what release 0.1 did not."""
    rng, rows, at = random.Random(seed), Rows(), 0
    for _ in range(seconds):
        interval = 10**9 + rng.randrange(10**7)
        at += interval
        row = {"time_ns": at, "interval_ns": interval, "process_cpu": rng.random() * cpu, "system_cpu": cpu}
        row |= {"read_requests": 1, "write_requests": 1, "queue": 1.0}
        if counted:
            row |= {name: rng.randrange(10**7) for name in ("read_bytes", "written_bytes")}
            row["utilisation"] = rng.random()
        if measured:
            row |= {f"process_{side}_bytes": rng.randrange(10**7) for side in ("read", "written")}
            row |= {f"{name}_ns": rng.randrange(10**8) for name in ("throttled", "run_delay", "sampler_delay")}
            row["steal_cpu"] = rng.random()
        rows.append(row)
    return rows


def ranks(place: Path, *statuses: str) -> tuple[Path, list[Rows]]:
    """A run of as many ranks, each with rows of its own, rank r let go r ms after rank 0."""
    rows = [make_rows(seed, 50) for seed in range(len(statuses))]
    for rank, (status, mine) in enumerate(zip(statuses, rows, strict=True)):
        for row in mine:
            row |= {"rank": rank}
        clock = {"zero_ns": 10**18 + rank * 10**6}
        write_run(place / f"rank_{rank}", mine, rank=rank, status=status, clock=clock)
    save_above(place, len(statuses), status="running")
    return place, rows
