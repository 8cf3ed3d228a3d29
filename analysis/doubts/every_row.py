"""What only a look at every row beside the others shows: rows of another plan, keys, workers and times at odds."""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from analysis.doubts.doubt import Doubt
from analysis.log.log import STRETCH, scan
from analysis.log.plan_order import kind_of
from replayer.schema import CHECKPOINT_OPS, MOVES, ORDERED_PLAN_VERSION, PLAN_VERSION, TIERS, RunInfo, parts

PLAN_COLUMNS: Final = ("op_id", "seq", "move", "key", "from_tier", "to_tier", "size_bytes")
HASHED_OPS: Final = CHECKPOINT_OPS * 64  # whose moves are sorted at once


def check_rows(place: Path, info: RunInfo) -> Iterator[Doubt]:
    """What only a look at every row beside the others shows: other moves than the plan's, keys and workers at odds."""
    rows = scan(parts(place))
    texts = [*_of_plan(place, info, rows)]
    tokens = rows.group_by("key").agg(unlike=pl.col("tokens").min() != pl.col("tokens").max())
    if unlike := tokens.select(pl.col("unlike").sum()).collect(engine="streaming").item():
        texts.append(f"{unlike:,} objects of {place} hold other numbers of tokens at other times")
    spent = (pl.col("end_ns") - pl.col("start_ns") + pl.col("verify_ns")).sum()
    there = (pl.col("end_ns") + pl.col("verify_ns")).max() - pl.col("start_ns").min()
    workers = rows.group_by("worker").agg(over=spent > there)
    if over := workers.select(pl.col("over").sum()).collect(engine="streaming").item():
        texts.append(f"{over:,} workers of {place} were busy for longer than they were there")
    if info.run_version > 1 and (early := _too_early(rows)):
        texts.append(f"{early:,} moves of {place} began before a move that they had to wait for was done")
    for text in texts:
        yield Doubt("altered log", text, "copy the run anew, or replay it", invalidates=True)


def _too_early(rows: pl.LazyFrame) -> int:
    """Moves that began before what they had to wait for was done (docs/ordering.md), in logs of version 2.

    Moves on one object wait for one another in plan order; hits share a copy, and what waits for a hit goes on before
    its last piece is verified. A miss or bypass touches no copy.
    """
    kind = pl.col("move").cast(pl.String)
    other = kind != "hit"
    columns = ("position", "seq", "key", "move", "status", "start_ns", "end_ns", "verify_ns")
    found, shares = 0, -(-rows.select(pl.len()).collect().item() // STRETCH)
    for share in range(shares):  # so that few rows are sorted at once
        some = rows.filter(pl.col("key") % shares == share).select(columns)
        some = some.filter(~kind.is_in(["miss", "bypass"]) & (pl.col("status").cast(pl.String) == "ok"))
        some = some.sort("position", "seq").with_columns(group=other.cum_sum().over("key"))
        last = pl.when(other).then(pl.col("end_ns") + pl.col("verify_ns")).forward_fill().shift(1).over("key")
        hits = pl.when(~other).then("end_ns").max().over("key", "group")
        some = some.with_columns(last=last, hits=hits)
        some = some.with_columns(hits=pl.col("hits").forward_fill().shift(1).over("key"))
        early = (pl.col("start_ns") < pl.col("last")) | (other & (pl.col("start_ns") < pl.col("hits")))
        found += some.select(early.sum()).collect().item()
    return found


def _of_plan(place: Path, info: RunInfo, rows: pl.LazyFrame) -> Iterator[str]:
    """The rows' plan fingerprint against the one of what was executed, and its checkpoints against the plan's."""
    planned = None if info.plan is None else info.plan.plan_checkpoints
    version = PLAN_VERSION if kind_of(info.conditions) == "trace" else ORDERED_PLAN_VERSION
    fingerprint, checkpoints = fingerprint_rows(rows, info.executed_ops, len(planned or ()) + 1, version)
    if info.executed_fingerprint not in (None, fingerprint):
        yield f"the rows of {place} are not those of its plan: their fingerprint is {fingerprint[:12]}…"
    if planned is not None and planned[: len(checkpoints)] != tuple(checkpoints):
        yield f"the rows of {place} are no prefix of the plan that run.json names"


def fingerprint_rows(
    rows: pl.LazyFrame, executed_ops: int | None, most: int, version: int = PLAN_VERSION
) -> tuple[str, list[str]]:
    """The plan fingerprint of rows below a position, and that at each checkpoint, at most so many.

    docs/waterfall.md and docs/ordering.md specify it.
    """
    codes = [
        pl.col(name).cast(pl.Enum(words)).to_physical().cast(pl.Int64)
        for name, words in (("move", MOVES), ("from_tier", TIERS), ("to_tier", TIERS))
    ]
    if executed_ops is not None:
        rows = rows.filter(pl.col("position") < executed_ops)
    rows = rows.with_columns(codes).select("position", pl.col(PLAN_COLUMNS).cast(pl.Int64).fill_null(-1))
    hashed, checkpoints = hashlib.sha256(version.to_bytes(8, "little")), list[str]()
    stretch_of = pl.col("position") // HASHED_OPS
    for stretch in rows.select(stretch_of.unique()).collect(engine="streaming")["position"].sort():
        some = rows.filter(stretch_of == stretch).collect(engine="streaming").sort("position", "seq")
        blocks = some["position"].to_numpy() // CHECKPOINT_OPS
        moves = some.select(PLAN_COLUMNS).to_numpy(order="c").astype("<i8")
        for begin, end in itertools.pairwise([0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(moves)]):
            while len(checkpoints) < min(blocks[begin], most):
                checkpoints.append(hashed.hexdigest())
            hashed.update(moves[begin:end].data)
    return hashed.hexdigest(), checkpoints
