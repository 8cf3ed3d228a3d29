"""Checks that read every row: the plan fingerprint, and objects, workers and times that contradict each other."""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from analysis.doubts.doubt import Doubt
from analysis.log.log import STRETCH, scan
from analysis.log.plan_order import is_inclusive, kind_of
from replayer.schema import (
    ARRANGED_PLAN_VERSION,
    CHECKPOINT_OPS,
    MOVES,
    ORDERED_PLAN_VERSION,
    PLAN_VERSION,
    TIERS,
    RunInfo,
    parts,
)

PLAN_COLUMNS: Final = ("op_id", "seq", "move", "key", "from_tier", "to_tier", "size_bytes")
HASHED_OPS: Final = CHECKPOINT_OPS * 64  # the ops whose moves are sorted at once


def check_rows(place: Path, info: RunInfo) -> Iterator[Doubt]:
    """Yield a doubt for each contradiction that only a pass over all rows of a log shows.

    Args:
        place: the run directory of one process.
        info: its run.json.
    """
    rows = scan(parts(place))
    texts = [*_check_fingerprint(place, info, rows), *_check_objects(place, rows), *_check_workers(place, rows)]
    inclusive = is_inclusive(info.conditions)
    if early := count_early_moves(rows, inclusive=inclusive):
        texts.append(f"{early:,} moves of {place} began before a move that they had to wait for was done")
    for text in texts:
        yield Doubt("altered log", text, "copy the run again, or replay it", invalidates=True)


def _check_objects(place: Path, rows: pl.LazyFrame) -> Iterator[str]:
    """Check that every object keeps its number of tokens."""
    tokens = rows.group_by("key").agg(unlike=pl.col("tokens").min() != pl.col("tokens").max())
    if unlike := tokens.select(pl.col("unlike").sum()).collect(engine="streaming").item():
        yield f"{unlike:,} objects of {place} change their number of tokens"


def _check_workers(place: Path, rows: pl.LazyFrame) -> Iterator[str]:
    """Check that no worker was busy for longer than it was active."""
    spent = (pl.col("end_ns") - pl.col("start_ns") + pl.col("verify_ns")).sum()
    active = (pl.col("end_ns") + pl.col("verify_ns")).max() - pl.col("start_ns").min()
    workers = rows.group_by("worker").agg(over=spent > active)
    if over := workers.select(pl.col("over").sum()).collect(engine="streaming").item():
        yield f"{over:,} workers of {place} were busy for longer than they were active"


def count_early_moves(rows: pl.LazyFrame, *, inclusive: bool) -> int:
    """Count moves that began before a move that they wait for was done (docs/ordering.md).

    Moves on one object wait for each other in plan order; if several tiers may hold it
    (`inclusive`), moves on one copy do. Reads share a copy, and a move that waits for a hit may
    begin before the hit's last piece is verified. A miss or bypass touches no copy. Logs of version
    1 have another order.
    """
    stamps = ("start_ns", "end_ns", "verify_ns")
    columns = ("position", "seq", "key", "move", "from_tier", "to_tier", *stamps)
    touches = ~_KIND.is_in(["miss", "bypass"]) & (pl.col("status").cast(pl.String) == "ok")
    shares = -(-rows.select(pl.len()).collect().item() // STRETCH)
    count = 0
    for share in range(shares):  # a share of the keys at a time, so that few rows are sorted at once
        moves = rows.filter(pl.col("key") % shares == share).filter(touches).select(columns)
        touched = _touch_copies(moves) if inclusive else _touch_objects(moves)
        early = [_with_previous(touched.sort("position", "seq")).filter(_IS_EARLY)]
        if inclusive:
            early.append(_find_early_stores(moves))
        found = pl.concat(rows.select("position", "seq") for rows in early).unique()
        count += found.select(pl.len()).collect().item()
    return count


_KIND: Final = pl.col("move").cast(pl.String)
_IS_EXCLUSIVE: Final = pl.col("exclusive")
_START: Final = pl.col("start_ns")
_IS_EARLY: Final = (pl.col("last") > _START) | (_IS_EXCLUSIVE & (pl.col("reads") > _START))


def _touch_objects(moves: pl.LazyFrame) -> pl.LazyFrame:
    """Add what a move touches, its object, as `place`, and whether it does more than read it."""
    return moves.with_columns(place="key", exclusive=_KIND != "hit")


def _touch_copies(moves: pl.LazyFrame) -> pl.LazyFrame:
    """Return a row for each copy that a move reads, ends or begins."""
    sides = {"from_tier": ~_KIND.is_in(["hit", "copy"]), "to_tier": pl.lit(True)}
    return pl.concat(
        moves.filter(pl.col(tier).is_not_null()).with_columns(
            place=pl.col("key") * len(TIERS) + pl.col(tier).cast(pl.Enum(TIERS)).to_physical(),
            exclusive=exclusive,
        )
        for tier, exclusive in sides.items()
    )


def _find_early_stores(moves: pl.LazyFrame) -> pl.LazyFrame:
    """Return the stores that began before the hit of their op was done."""
    hits = moves.filter(_KIND == "hit").select("position", hit_ns="end_ns")
    stores = moves.filter(_KIND == "store").join(hits, on="position")
    return stores.filter(pl.col("start_ns") < pl.col("hit_ns"))


def _with_previous(moves: pl.LazyFrame) -> pl.LazyFrame:
    """Add the ends that each move waits for.

    Those are `last` of its place's exclusive moves, and `reads` of the reads since.
    """
    done = pl.when(_IS_EXCLUSIVE).then(pl.col("end_ns") + pl.col("verify_ns"))
    grouped = moves.with_columns(group=_IS_EXCLUSIVE.cum_sum().over("place"))
    ends = grouped.with_columns(
        last=done.forward_fill().shift(1).over("place"),
        reads=pl.when(~_IS_EXCLUSIVE).then("end_ns").max().over("place", "group"),
    )
    return ends.with_columns(reads=pl.col("reads").forward_fill().shift(1).over("place"))


def _check_fingerprint(place: Path, info: RunInfo, rows: pl.LazyFrame) -> Iterator[str]:
    """Compare the plan fingerprint of the rows, and its checkpoints, with those of run.json."""
    planned = None if info.plan is None else info.plan.plan_checkpoints
    version = PLAN_VERSION if kind_of(info.conditions) == "trace" else ORDERED_PLAN_VERSION
    if info.conditions.rules is not None:
        version = ARRANGED_PLAN_VERSION
    fingerprint, checkpoints = fingerprint_rows(rows, info.executed_ops, len(planned or ()) + 1, version)
    if info.executed_fingerprint not in (None, fingerprint):
        yield f"the rows of {place} are not those of its plan: their fingerprint is {fingerprint[:12]}…"
    if planned is not None and planned[: len(checkpoints)] != tuple(checkpoints):
        yield f"the rows of {place} are not a prefix of the plan that run.json names"


def fingerprint_rows(
    rows: pl.LazyFrame, executed_ops: int | None, most: int, version: int = PLAN_VERSION
) -> tuple[str, list[str]]:
    """Compute the plan fingerprint of rows; docs/waterfall.md and docs/ordering.md specify it.

    Args:
        rows: the rows of a log.
        executed_ops: the position below which rows count; None: all rows.
        most: the maximum number of checkpoints.
        version: the version of the plan format.

    Returns:
        The fingerprint, and the fingerprint at each checkpoint.
    """
    codes = [
        pl.col(name).cast(pl.Enum(words)).to_physical().cast(pl.Int64)
        for name, words in (("move", MOVES), ("from_tier", TIERS), ("to_tier", TIERS))
    ]
    if executed_ops is not None:
        rows = rows.filter(pl.col("position") < executed_ops)
    rows = rows.with_columns(codes).select("position", pl.col(PLAN_COLUMNS).cast(pl.Int64).fill_null(-1))
    hashed = hashlib.sha256(version.to_bytes(8, "little"))
    checkpoints = list[str]()
    stretch_of = pl.col("position") // HASHED_OPS
    for stretch in rows.select(stretch_of.unique()).collect(engine="streaming")["position"].sort():
        ordered = rows.filter(stretch_of == stretch).collect(engine="streaming").sort("position", "seq")
        blocks = ordered["position"].to_numpy() // CHECKPOINT_OPS
        moves = ordered.select(PLAN_COLUMNS).to_numpy(order="c").astype("<i8")
        for begin, end in itertools.pairwise([0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(moves)]):
            while len(checkpoints) < min(blocks[begin], most):
                checkpoints.append(hashed.hexdigest())
            hashed.update(moves[begin:end].data)
    return hashed.hexdigest(), checkpoints
