"""Rows of a log, read from its parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl
from polars import col

from replayer.schema import LOG_ENUMS, parts
from tracegen.errors import InputError

# The number of rows that are grouped at once.
#
# A log of at most this many rows is held in memory, at 118 bytes a row.
STRETCH: Final = 1 << 24
_UNREADABLE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


def scan(files: list[Path]) -> pl.LazyFrame:
    """Scan the parts of a log."""
    return pl.scan_parquet(files, glob=False)


def load_stretches(rows: pl.LazyFrame, count: int, siblings: int = 1) -> list[pl.LazyFrame]:
    """Load rows that are read several times, in stretches of at most STRETCH.

    If the log is too large for memory, only its enums are loaded, at 9 bytes a row: decoding them
    takes as long as decoding all numbers. The numbers are then read from the parts in every pass.

    Args:
        rows: the rows of a rank.
        count: the number of these rows.
        siblings: the number of ranks whose rows are held at the same time.
    """
    if count <= STRETCH // siblings:
        return [rows.collect(engine="streaming").lazy()]
    enums = rows.select("warmup", *LOG_ENUMS).collect(engine="streaming").lazy()
    both = pl.concat([enums, rows.drop("warmup", *LOG_ENUMS)], how="horizontal")
    return [both.slice(begin, STRETCH) for begin in range(0, count, STRETCH)] or [both]


@contextmanager
def explain_unreadable(place: Path) -> Iterator[None]:
    """Turn errors of Polars within the context into one sentence.

    Raises:
        InputError: the log cannot be read, or has a word that no replay writes.
    """
    try:
        yield
    except _UNREADABLE as error:
        raise _explain(place, error) from None


def _explain(place: Path, error: Exception) -> InputError:
    """Name a word which no replay writes; else give the first line of Polars' error."""
    for name, known in LOG_ENUMS.items():
        try:
            words = scan(parts(place)).select(col(name).cast(pl.String).unique()).collect()
        except _UNREADABLE:
            break
        if unknown := sorted(set(words[name].drop_nulls()) - set(known)):
            problem = f"its log has {name} = {unknown[0]!r}; it must be one of {', '.join(known)}"
            return InputError(problem, subject=place)
    reason = (str(error).strip().splitlines() or ["?"])[0]
    return InputError(f"its log cannot be read ({reason})", "copy the run again", subject=place)
