"""Rows of the log added up: a few hundred cells that most metrics are computed from, and that show what cannot be."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import polars as pl

from analysis.log.columns import (
    BLOCKED,
    IO,
    KEPT,
    OPTIONAL,
    ORDER_WAIT,
    PLAN_WAIT,
    QUEUE,
    SIZE,
    SIZE_CLASS,
    STAMPS,
    TIMES,
    TOUCHES,
    WINDOW_WAIT,
    share,
)
from analysis.log.quantiles import Classes, Ints, pack_classes, unpack_classes
from replayer.schema import LOG_ENUMS

SUMS: Final = {
    "tokens": pl.col("tokens"),
    "new_tokens": pl.col("new_tokens"),
    "size_bytes": SIZE,
    **{name: pl.col(name) for name in TIMES},
    "io_ns": IO,
    "queue_ns": QUEUE,
    "plan_wait_ns": PLAN_WAIT,
    "window_ns": WINDOW_WAIT,
    "order_ns": ORDER_WAIT,
}
"""What is added up over moves."""
_SUMMED: Final = dict.fromkeys(("queue_ns", "plan_wait_ns", "window_ns", "order_ns"), pl.Float64)
"""Waits of all moves at once: of long runs that fall behind, more than 64 bits hold."""


def make_class(name: str) -> tuple[pl.Expr, int]:
    """A column of words as a class of spreads."""
    return pl.col(name).to_physical(), len(LOG_ENUMS[name])


_CELL: Final[Classes] = {name: make_class(name) for name in LOG_ENUMS} | {
    "warmup": (pl.col("warmup"), 2),
    "first": (pl.col("seq") == 0, 2),
    "size_class": (SIZE_CLASS, 32),
}


def sum_by_cell(rows: pl.LazyFrame, executed_ops: int | None = None) -> pl.DataFrame:
    """Rows that are alike in every enum, in `warmup`, `first` (seq 0), `size_class`, `beyond` executed_ops, added up.

    Columns: those; `rows`; the sums of SUMS; start_ns the first, last_start_ns, end_ns the last; least and most of
    position and rank, most of request_id; `most_bytes` the most of size_bytes / tokens, `most_stamp_ns` of stamps,
    `most_ns` of times. In honest logs `nulls` is 0, and 0 or more are `least_step_ns` of the stamps and from one to the
    next, `least_number` of ids and counts, `least_time_ns` of times and of what I/O leaves of a move, and
    `least_host_{side}_ns` of what system calls leave of that.
    """
    required = ["warmup", *(name for name in KEPT if name not in OPTIONAL)]
    beyond = pl.lit(False) if executed_ops is None else pl.col("position") >= executed_ops
    classes = {**_CELL, "beyond": (beyond, 2)}
    numbers = ("position", "seq", "request_id", "tokens", "new_tokens", "size_bytes")
    spent = IO - pl.col("read_ns") - pl.col("write_ns")
    cells = (
        rows.group_by(pack_classes(classes).alias("code"))
        .agg(
            *(value.cast(_SUMMED.get(name, pl.Int64)).sum().alias(name) for name, value in SUMS.items()),
            pl.len().cast(pl.Int64).alias("rows"),
            pl.col("start_ns").min(),
            pl.col("start_ns").max().alias("last_start_ns"),
            pl.col("end_ns").max(),
            *(pl.col(name).min().alias(f"least_{name}") for name in ("position", "rank")),
            *(pl.col(name).max().alias(f"most_{name}") for name in ("position", "rank", "request_id")),
            (SIZE / pl.col("tokens")).fill_nan(0).max().alias("most_bytes"),
            pl.max_horizontal(*STAMPS).max().alias("most_stamp_ns"),
            pl.max_horizontal(*TIMES, IO, QUEUE).max().alias("most_ns"),
            _least(*(pl.col(name) for name in STAMPS), WINDOW_WAIT, ORDER_WAIT, BLOCKED, QUEUE, IO).alias(
                "least_step_ns"
            ),
            _least(*(pl.col(name) for name in numbers)).alias("least_number"),
            _least(spent, *(pl.col(name) for name in TIMES)).alias("least_time_ns"),
            *(_least(pl.col(f"{s}_ns") - pl.col(f"device_{s}_ns")).alias(f"least_host_{s}_ns") for s in TOUCHES),
            pl.sum_horizontal(pl.col(name).null_count() for name in required).alias("nulls"),
        )
        .collect(engine="streaming")
    )
    found = _decoded(cells, classes)
    flags = [pl.Series(name, found[name] == 1) for name in ("warmup", "first", "beyond")]
    return cells.drop("code").with_columns(*_named(found), *flags, pl.Series("size_class", found["size_class"]))


def sum_within(rows: pl.LazyFrame, begin: int, end: int) -> pl.DataFrame:
    """SUMS by enums over the share of rows that lies in a span, less those of rows that are no warm-up in whole.

    Whole numbers are taken off exactly.
    """
    classes, inside, steady = {name: make_class(name) for name in LOG_ENUMS}, share(begin, end), ~pl.col("warmup")
    more = {name: (value * inside).sum() - (value * steady).sum() for name, value in SUMS.items()}
    cells = rows.group_by(pack_classes(classes).alias("code")).agg(**more).collect(engine="streaming")
    return cells.with_columns(*_named(_decoded(cells, classes)))


def _decoded(cells: pl.DataFrame, classes: Classes) -> dict[str, Ints]:
    return unpack_classes(cells["code"].to_numpy().astype(np.int64), classes)


def _named(found: dict[str, Ints]) -> list[pl.Series]:
    return [decode_words(name, found[name], LOG_ENUMS[name]) for name in LOG_ENUMS]


def _least(*values: pl.Expr) -> pl.Expr:
    return pl.min_horizontal(values).min()


def decode_words(name: str, codes: Iterable[int | None], known: Sequence[str]) -> pl.Series:
    """A column of words for codes, null for those beyond."""
    names: dict[int | None, str] = dict(enumerate(known))
    return pl.Series(name, [names.get(code) for code in codes], pl.String)
