"""Cells: sums over rows of the log that are alike.

A log has a few hundred cells. Most metrics are computed from them, and they show values that no
replay writes.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import polars as pl
from polars import col

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

# Quantities that are summed over moves.
SUMS: Final = {
    "tokens": col("tokens"),
    "new_tokens": col("new_tokens"),
    "size_bytes": SIZE,
    **{name: col(name) for name in TIMES},
    "io_ns": IO,
    "queue_ns": QUEUE,
    "plan_wait_ns": PLAN_WAIT,
    "window_ns": WINDOW_WAIT,
    "order_ns": ORDER_WAIT,
}
# Sums that may exceed 64 bits: waits of all moves of a long run that falls behind.
_FLOAT_SUMS: Final = ("queue_ns", "plan_wait_ns", "window_ns", "order_ns")
_NUMBERS: Final = ("position", "seq", "request_id", "tokens", "new_tokens", "size_bytes")


def make_class(name: str) -> tuple[pl.Expr, int]:
    """Return an enum column as a class to group by: its codes, and the number of its words."""
    return col(name).to_physical(), len(LOG_ENUMS[name])


_ENUM_CLASSES: Final[Classes] = {name: make_class(name) for name in LOG_ENUMS}
_CELL_CLASSES: Final[Classes] = {
    **_ENUM_CLASSES,
    "warmup": (col("warmup"), 2),
    "first": (col("seq") == 0, 2),
    "size_class": (SIZE_CLASS, 32),
}


def sum_by_cell(rows: pl.LazyFrame, executed_ops: int | None = None) -> pl.DataFrame:
    """Sum rows that are alike in every enum and in `warmup`, `first`, `size_class` and `beyond`.

    `first` means seq 0; `beyond` means a position of at least `executed_ops`.

    Returns:
        One row per cell. Columns:

        - the columns that the rows share, `rows` (their number), and the sums of SUMS;
        - the first start_ns, last_start_ns and the last end_ns;
        - least_position, most_position, least_rank, most_rank and most_request_id;
        - nulls: the number of nulls in required columns, 0 in honest logs;
        - least: the minimum of what is at least 0 in honest logs: ids, counts, stamps, the time from one
          stamp to the next, times, and the part of a move that is neither reading nor writing;
        - least_host_{read,write}_ns: that of the part of a read or write outside system calls;
        - most_stamp_ns and most_ns (of times).
    """
    beyond = pl.lit(False) if executed_ops is None else col("position") >= executed_ops
    classes = {**_CELL_CLASSES, "beyond": (beyond, 2)}
    cells = rows.group_by(pack_classes(classes).alias("code")).agg(*_sums(), *_extremes()).collect(engine="streaming")
    codes = _unpack(cells, classes)
    flags = [pl.Series(name, codes[name] == 1) for name in ("warmup", "first", "beyond")]
    size_class = pl.Series("size_class", codes["size_class"])
    return cells.drop("code").with_columns(*_decode_enums(codes), *flags, size_class)


def _sums() -> list[pl.Expr]:
    """Return the sums of a cell, and the number of its rows."""
    sums = [
        value.cast(pl.Float64 if name in _FLOAT_SUMS else pl.Int64).sum().alias(name) for name, value in SUMS.items()
    ]
    return [*sums, pl.len().cast(pl.Int64).alias("rows")]


def _extremes() -> list[pl.Expr]:
    """Return the first and last values of a cell, and those by which it shows rows that no replay writes."""
    required = ["warmup", *(name for name in KEPT if name not in OPTIONAL)]
    rest = IO - col("read_ns") - col("write_ns")
    least = pl.min_horizontal(*STAMPS, *TIMES, *_NUMBERS, WINDOW_WAIT, ORDER_WAIT, BLOCKED, QUEUE, IO, rest)
    return [
        col("start_ns").min(),
        col("start_ns").max().alias("last_start_ns"),
        col("end_ns").max(),
        *(col(name).min().alias(f"least_{name}") for name in ("position", "rank")),
        *(col(name).max().alias(f"most_{name}") for name in ("position", "rank", "request_id")),
        pl.sum_horizontal(col(name).null_count() for name in required).alias("nulls"),
        least.min().alias("least"),
        *((col(f"{way}_ns") - col(f"device_{way}_ns")).min().alias(f"least_host_{way}_ns") for way in TOUCHES),
        pl.max_horizontal(*STAMPS).max().alias("most_stamp_ns"),
        pl.max_horizontal(*TIMES, IO, QUEUE).max().alias("most_ns"),
    ]


def sum_within(rows: pl.LazyFrame, begin: int, end: int) -> pl.DataFrame:
    """Sum SUMS by enums, each row by its share in a span, minus the rows that are not warm-up.

    Integers are subtracted exactly.
    """
    inside = share(begin, end)
    steady = ~col("warmup")
    sums = {name: (value * inside).sum() - (value * steady).sum() for name, value in SUMS.items()}
    grouped = rows.group_by(pack_classes(_ENUM_CLASSES).alias("code")).agg(**sums)
    cells = grouped.collect(engine="streaming")
    return cells.with_columns(*_decode_enums(_unpack(cells, _ENUM_CLASSES)))


def _unpack(cells: pl.DataFrame, classes: Classes) -> dict[str, Ints]:
    return unpack_classes(cells["code"].to_numpy().astype(np.int64), classes)


def _decode_enums(codes: dict[str, Ints]) -> list[pl.Series]:
    return [decode_words(name, codes[name], words) for name, words in LOG_ENUMS.items()]


def decode_words(name: str, codes: Iterable[int | None], words: Sequence[str]) -> pl.Series:
    """Return the column of words that codes stand for; unknown codes become null."""
    word_of: dict[int | None, str] = dict(enumerate(words))
    return pl.Series(name, [word_of.get(code) for code in codes], pl.String)
