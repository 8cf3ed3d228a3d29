"""Logs of any size, as a replay of conversations on a cpu and an nvme tier would leave them; for timing analysis."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replayer.record.run_directory import RunDirectory
from replayer.schema import LOG_ENUMS
from tests.support.run_json import save_run_json

PART = 1 << 17
WORKERS = 64
OPS_PER_REQUEST = 10
EXAMPLE = json.loads((Path(__file__).parent.parent / "data" / "run" / "run.json").read_text())
CODE = {name: {word: code for code, word in enumerate(words)} for name, words in LOG_ENUMS.items()}
KINDS = [  # share, move, op, phase, source, from, to, seq
    (0.40, "hit", "read", "decode", "user", "nvme", None, 0),
    (0.15, "hit", "read", "decode", "user", "cpu", None, 0),
    (0.20, "hit", "read", "prefill", "multi_turn", "nvme", None, 0),
    (0.05, "hit", "read", "prefill", "system", "cpu", None, 0),
    (0.02, "miss", "read", "prefill", "multi_turn", None, None, 0),
    (0.08, "store", "write", "prefill", "user", None, "cpu", 0),
    (0.08, "demote", "write", "prefill", "user", "cpu", "nvme", 1),
    (0.02, "drop", "write", "prefill", "user", "nvme", None, 1),
]


def write_log(place: Path, rows: int, seed: int = 0) -> Path:
    """A run directory with so many rows, in parts like the replayer's; complete, but of no trace."""
    directory, rng = RunDirectory(place), np.random.default_rng(seed)
    for begin in range(0, rows, PART):
        directory.write_part(_part(rng, begin, min(PART, rows - begin)))
    save_run_json(place, _info(pl.scan_parquet(place / "moves" / "*.parquet"), rows))
    directory.close()
    return place


def _part(rng: np.random.Generator, begin: int, count: int) -> dict[str, Any]:
    at = np.arange(begin, begin + count)
    kind = rng.choice(len(KINDS), count, p=[one[0] for one in KINDS])
    words = {
        name: np.array([CODE[name].get(one[place], -1) for one in KINDS])[kind]
        for place, name in enumerate(("move", "op", "phase", "source", "from_tier", "to_tier"), 1)
    }
    seq = np.array([one[7] for one in KINDS])[kind]
    tokens = rng.integers(16, 2048, count)
    size = tokens * EXAMPLE["conditions"]["bytes_per_token"]
    reads, writes = words["from_tier"] >= 0, words["to_tier"] >= 0
    reads &= words["move"] != CODE["move"]["drop"]
    pace = size / 2e9 * 1e9 * rng.lognormal(0, 0.5, count)
    read, write = (pace * reads).astype(np.int64), (pace * 1.5 * writes).astype(np.int64)
    start = 10_000_000 + at * 40_000 + rng.integers(2_200_000, 6_200_000, count)  # nothing was due before the run
    ready = start - rng.integers(0, 2_000_000, count)
    return {
        "op_id": at, "position": at, "window_ns": np.zeros(count, np.int64), "order_ns": np.zeros(count, np.int64), "waited_for": np.full(count, -1), "seq": seq, "request_id": at // OPS_PER_REQUEST, "session_id": at // 50, "user_id": at // 10 % 200,
        "turn": at // 10 % 5 + 1, "step": at % OPS_PER_REQUEST, "qos": at // 10 % 3, **words,
        "new_tokens": np.where(seq == 0, rng.integers(0, 32, count), 0), "key": at // 7, "tokens": tokens,
        "size_bytes": size, "status": np.zeros(count, np.int8), "due_ns": ready - rng.integers(0, 100_000, count),
        "ready_ns": ready, "start_ns": start, "end_ns": start + read + write + 20_000, "read_ns": read, "write_ns": write,
        "device_read_ns": read * 9 // 10, "device_write_ns": write * 9 // 10, "verify_ns": size // 8, "worker": at % WORKERS,
        "rank": np.zeros(count, np.int64), "warmup": np.zeros(count, bool), "error": np.full(count, None),
    }  # fmt: skip


def _info(log: pl.LazyFrame, rows: int) -> dict[str, Any]:
    moves = log.group_by("move", "from_tier", "to_tier").agg(count=pl.len(), size=pl.col("size_bytes").sum())
    found = moves.with_columns(pl.col("move", "from_tier", "to_tier").cast(pl.String)).collect()
    first = pl.col("seq") == 0
    totals = log.select(
        ops=first.sum(), new_tokens=pl.col("new_tokens").sum(), first_ns=pl.col("start_ns").min(),
        last_ns=pl.col("start_ns").max(), recomputed=pl.col("tokens").filter(pl.col("move") == "miss").sum(),
    ).collect().row(0, named=True)  # fmt: skip

    def add(column: str, moves: Sequence[str], **where: str) -> int:
        return int(found.filter(pl.col("move").is_in(moves), **where)[column].sum())

    def by_tier(column: str, side: str, *moves: str) -> dict[str, int]:
        return {tier: add(column, moves, **{side: tier}) for tier in LOG_ENUMS["from_tier"]}

    plan = {
        "ops": totals["ops"], "misses": add("count", ["miss"]), "promotions": 0, "drops": add("count", ["drop"]),
        "bypasses": 0, "hits": by_tier("count", "from_tier", "hit"), "stores": by_tier("count", "to_tier", "store"),
        "demotions": {"gpu>cpu": 0, "gpu>nvme": 0, "cpu>nvme": add("count", ["demote"])},
        "recomputed_tokens": totals["recomputed"], "read_bytes": by_tier("size", "from_tier", "hit", "demote"),
        "write_bytes": by_tier("size", "to_tier", "store", "demote"), "plan_fingerprint": "0" * 64,
    }  # fmt: skip
    trace = EXAMPLE["trace"]
    counts = trace["counts"] | {"ops": rows, "tokens_generated": totals["new_tokens"]}
    return EXAMPLE | {
        "trace": trace | {"ops": rows, "counts": counts},
        "plan": plan, "executed": plan, "executed_ops": rows, "executed_fingerprint": "0" * 64, "warnings": [],
        "conditions": EXAMPLE["conditions"] | {"workers": WORKERS}, "warmup": {"ops": 0, "end_ns": totals["first_ns"]},
        "window": {"duration_s": None, "cut_s": None, "issued_s": totals["last_ns"] / 1e9, "drain_s": 0.0},
    }  # fmt: skip
