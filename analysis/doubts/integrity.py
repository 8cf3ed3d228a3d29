"""Contradictions between a log and its run.json: rows that were lost, swapped or edited."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import polars as pl
from polars import col

from analysis.log.columns import MAX_NS, MAX_REQUESTS
from analysis.runs.plan_order import has_chunks, kind_of
from analysis.runs.reading import scan
from analysis.runs.run import Doubt, RankDirectory, Run
from replayer.schema import (
    ARRANGED_PLAN_VERSION,
    CHECKPOINT_OPS,
    MOVES,
    ORDERED_PLAN_VERSION,
    PLAN_VERSION,
    TIERS,
    RunInfo,
    Totals,
    Window,
    parts,
)
from tracegen.errors import InputError

MAX_STAMP_NS: Final = 1 << 56  # 2.3 years: no run takes longer
CLOCK_S: Final = 1e-6  # seconds in run.json are floats, those of the log integers of nanoseconds
PLAN_COLUMNS: Final = ("op_id", "seq", "move", "key", "from_tier", "to_tier", "size_bytes")
HASHED_OPS: Final = CHECKPOINT_OPS * 64  # the ops whose moves are sorted at once

_FROM, _TO = col("from_tier").is_not_null(), col("to_tier").is_not_null()
_SHAPE: Final = {  # by kinds of move: the tiers that their rows must and must not name
    ("hit", "promote", "drop"): _FROM & ~_TO,
    ("store",): ~_FROM & _TO,
    ("demote", "copy"): _FROM & _TO,
    ("miss", "bypass"): ~_FROM & ~_TO,
    ("delete",): ~_TO,
}


def make_doubts(texts: Iterable[str]) -> Iterator[Doubt]:
    """Make a doubt of each contradiction."""
    for text in dict.fromkeys(texts):
        yield Doubt("altered log", text, "copy the run again, or replay it", invalidates=True)


def refuse_impossible_rows(run: Run) -> None:
    """Refuse logs with rows that no replay writes.

    Raises:
        InputError: a log cannot be read, or has such rows.
    """
    for rank in run.ranks:
        found = rank.cells.select(**_impossible_rows(rank.info)).row(0, named=True)
        for name in (name for name, is_there in found.items() if is_there):
            problem = f"its log holds {name}: it was altered or damaged"
            raise InputError(problem, "copy the run again", subject=rank.path)


def _impossible_rows(info: RunInfo) -> dict[str, pl.Expr]:
    """Return tests for rows that no replay writes, by description."""
    shapes = [col("move").is_in(moves) & ~shape for moves, shape in _SHAPE.items()]
    least = [col("least")]
    if not info.conditions.gds:  # cuFile's clock differs from the host's, and from a GPU's
        for side, tier in (("read", "from_tier"), ("write", "to_tier")):
            least.append(pl.when(col(tier) != "gpu").then(f"least_host_{side}_ns"))
    too_much = (
        (col("most_ns") > MAX_NS) | (col("most_stamp_ns") > MAX_STAMP_NS) | (col("most_request_id") >= MAX_REQUESTS)
    )
    return {
        "nulls where a replay leaves none": (col("nulls") > 0).any(),
        "numbers below 0, or times that run backwards or do not add up": (pl.min_horizontal(least) < 0).any(),
        "numbers that are too large, moves of days or runs of years": too_much.any(),
        "moves between tiers that do not go together": pl.any_horizontal(shape.any() for shape in shapes),
    }


def find_contradictions(run: Run, counted: Counter[str]) -> Iterator[Doubt]:
    """Yield a doubt for each contradiction in a run whose status is complete.

    Args:
        run: the run.
        counted: the counts of all logs together, without rows beyond executed_ops.
    """
    texts = list[str]()
    complete = [rank for rank in run.ranks if rank.info.status == "complete"]
    for rank in complete:
        info = rank.info
        if rank.last_ns is not None:  # else the rank had nothing to do, as the counts confirm
            texts += [*_compare_rows(info, rank.cells), *_compare_times(rank, rank.last_ns)]
        texts += _compare_with_plan(info)
        if info.prediction is None and info.payload_nonce is None and rank.samples is None:
            texts.append("run.json names neither a payload nor a profile: was it measured or predicted?")
    if len(complete) == len(run.ranks):
        texts += _compare_counts(run.infos, counted)
    return make_doubts(texts)


def _compare_rows(info: RunInfo, cells: pl.DataFrame) -> Iterator[str]:
    """Compare the rows of one log with its run.json: ranks, positions, warm-up."""
    rank = info.rank or 0
    if others := {*cells["least_rank"], *cells["most_rank"]} - {rank}:
        yield f"rows of rank {max(others)} are in the log of rank {rank}"
    last_position = cells.select(col("most_position").max()).item()
    # A run that was cut may have begun ops beyond its prefix.
    if info.cut_s is None and info.executed_ops is not None and last_position >= info.executed_ops:
        yield f"the log goes on to op {last_position:,}, run.json says that {info.executed_ops:,} were executed"
    warmup = info.warmup
    if warmup is None:
        return
    ops = warmup.ops or 0
    misplaced = pl.when("warmup").then(col("most_position") >= ops).otherwise(col("least_position") < ops)
    begin = col("start_ns").filter(~col("warmup")).min()
    is_misplaced, begin_ns = cells.select(misplaced.any(), begin).row(0)
    if is_misplaced:
        yield "rows are marked as warm-up at other places than run.json says"
    if (warmup.end_ns or 0) != (begin_ns or 0):
        yield "the warm-up did not end at the time that run.json names"


def _compare_times(rank: RankDirectory, last_ns: int) -> Iterator[str]:
    """Compare the times of one log, whose last move ended at last_ns, with its run.json and its counters."""
    window = rank.info.window or Window()
    issued_s = rank.cells.select(col("last_start_ns").max()).item() / 1e9
    if window.issued_s is not None and abs(window.issued_s - issued_s) > CLOCK_S:
        yield f"the last move began {issued_s:.3f} s into the log, run.json says {window.issued_s:.3f} s"
    last_s = last_ns / 1e9
    drained_s = max(0.0, last_s - (window.duration_s or 0)) if window.cut_s is not None else 0.0
    if window.drain_s is not None and abs(window.drain_s - drained_s) > CLOCK_S:
        yield f"the log drained for {drained_s:.3f} s, run.json says {window.drain_s:.3f} s"
    if rank.uncounted_ns is not None:
        yield f"device.parquet counts for {rank.uncounted_ns / 1e9:.3f} s, the log goes on for {last_s:.3f} s"


def _compare_with_plan(info: RunInfo) -> Iterator[str]:
    """Compare what a run that was not cut executed with its plan: it must be all of it."""
    conditions, plan = info.conditions, info.plan
    if info.cut_s is not None or plan is None or (conditions.ops is not None and conditions.ops < plan.ops):
        return
    planned, executed = flatten_totals(plan), flatten_totals(info.executed)
    if any(planned.get(name, count) != count for name, count in executed.items()):
        yield "run.json says that the whole plan was executed, but counts other work than the plan's"
    if len({info.plan_fingerprint, info.executed_fingerprint} - {None}) > 1:
        yield "run.json says that the whole plan was executed, but names another fingerprint than the plan's"
    # Positions in the trace's order count ops that `users` left out.
    ops = (info.trace.ops or 0) * (conditions.cycles or 1)
    if info.executed_ops not in (None, plan.ops, ops):
        yield f"run.json says that the whole plan was executed, but names {info.executed_ops:,} ops of {plan.ops:,}"


def _compare_counts(infos: list[RunInfo], counted: Counter[str]) -> Iterator[str]:
    """Compare the counts of the log with those of what was executed."""
    executed = [flatten_totals(info.executed or info.plan) for info in infos]
    names = set.intersection(*(set(counts) for counts in executed))
    if any(has_chunks(info.conditions) for info in infos):  # a log does not say what its hits lack
        names -= {"recomputed_tokens"}
    for name in sorted(names):
        planned = sum(counts[name] for counts in executed)
        if counted[name] != planned:
            yield f"the log has {name} = {counted[name]:,}, the plan {planned:,}: parts are missing or altered"


def compare_fingerprint(place: Path, info: RunInfo) -> Iterator[str]:
    """Compare the plan fingerprint of a process' rows, and its checkpoints, with those of run.json."""
    planned = None if info.plan is None else info.plan.plan_checkpoints
    version = PLAN_VERSION if kind_of(info.conditions) == "trace" else ORDERED_PLAN_VERSION
    if info.conditions.rules is not None:
        version = ARRANGED_PLAN_VERSION
    fingerprint, checkpoints = fingerprint_rows(scan(parts(place)), info.executed_ops, len(planned or ()) + 1, version)
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
        col(name).cast(pl.Enum(words)).to_physical().cast(pl.Int64)
        for name, words in (("move", MOVES), ("from_tier", TIERS), ("to_tier", TIERS))
    ]
    if executed_ops is not None:
        rows = rows.filter(col("position") < executed_ops)
    rows = rows.with_columns(codes).select("position", col(PLAN_COLUMNS).cast(pl.Int64).fill_null(-1))
    hashed = hashlib.sha256(version.to_bytes(8, "little"))
    checkpoints = list[str]()
    stretch_of = col("position") // HASHED_OPS
    for stretch in rows.select(stretch_of.unique()).collect(engine="streaming")["position"].sort():
        ordered = rows.filter(stretch_of == stretch).collect(engine="streaming").sort("position", "seq")
        blocks = ordered["position"].to_numpy() // CHECKPOINT_OPS
        moves = ordered.select(PLAN_COLUMNS).to_numpy(order="c").astype("<i8")
        for begin, end in itertools.pairwise([0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(moves)]):
            while len(checkpoints) < min(blocks[begin], most):
                checkpoints.append(hashed.hexdigest())
            hashed.update(moves[begin:end].data)
    return hashed.hexdigest(), checkpoints


# What a move is counted as; a promotion is counted apart, too.
_NAMES: Final = {
    "hit": "hits.{from_tier}",
    "promote": "hits.{from_tier}",
    "store": "stores.{to_tier}",
    "demote": "demotions.{from_tier}>{to_tier}",
    "copy": "copies.{from_tier}>{to_tier}",
    "miss": "misses",
    "drop": "drops",
    "bypass": "bypasses",
}
_READS: Final = ("hit", "promote", "demote", "copy")
_WRITES: Final = ("store", "demote", "copy")
_NO_COPIES: Final = {f"{upper}>{lower}": 0 for upper, lower in combinations(TIERS, 2)}


def count_moves(cells: pl.DataFrame) -> Counter[str]:
    """Count the moves of a log as `replayer plan` does, by dotted names, e.g. `hits.nvme`."""
    counts = Counter[str]()
    for cell in cells.iter_rows(named=True):
        move, rows = cell["move"], cell["rows"]
        if move in _NAMES:
            counts[_NAMES[move].format_map(cell)] += rows
        if move == "promote":
            counts["promotions"] += rows
        if move in _READS:
            counts[f"read_bytes.{cell['from_tier']}"] += cell["size_bytes"]
        if move in _WRITES:
            counts[f"write_bytes.{cell['to_tier']}"] += cell["size_bytes"]
        if move == "miss" or (move == "bypass" and cell["first"]):
            counts["recomputed_tokens"] += cell["tokens"]
        if cell["first"]:
            counts["ops"] += rows
            counts["reads"] += rows if cell["op"] == "read" else 0
    return counts


def flatten_totals(totals: Totals | None) -> dict[str, int]:
    """Return the counts of a plan, or of its execution, by dotted names, without missing counts."""
    if totals is None:
        return {}
    # A plan that copies nothing leaves them out.
    plain = {"copies": _NO_COPIES} | msgspec.to_builtins(totals)
    counts = dict[str, int]()
    for name in Totals.__struct_fields__:
        parts = plain[name] if isinstance(plain[name], dict) else {"": plain[name]}
        counts |= {f"{name}.{part}".rstrip("."): count for part, count in parts.items() if count is not None}
    return counts
