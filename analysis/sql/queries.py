"""SQL over a run's log, for questions that no metric answers. It only reads."""

import difflib
import errno
import json
import math
import re
from pathlib import Path
from typing import Any, BinaryIO, Final

import polars as pl

from analysis.log.log import scan
from analysis.runs.opening import open_run
from analysis.runs.samples import make_null_columns
from analysis.sql.csv_cells import as_text
from replayer.schema import DEVICE_SCHEMA, LOG_COLUMNS, LOG_ENUMS, counters
from tracegen.errors import InputError, escape_controls

TABLE_ROWS: Final = 50
FORMATS: Final = ("table", "json", "csv")
_TIMES: Final = ("due_ns", "ready_ns", "start_ns", "end_ns")
_SELECT: Final = re.compile(r"(?>\s+|--[^\n]*|/\*.*?\*/)*+(?:select|with)\b", re.IGNORECASE | re.DOTALL)
_FILES: Final = re.compile(r"(?<![^\W\d])(?:read|scan)_\w+[\"`\]]?\s*(?:\(|/\*|//|--|#)", re.IGNORECASE)
"""A table function of Polars, which reads a file or an address.

It is sought in the text as it stands, in literals and comments, too: no word of a query hides it from the search.
"""
_TEXT: Final = re.compile("'[^']*'")
_TERM: Final = re.compile(
    r"[^\w\s,;.()'\"\[\]]+|\b(?:and|or|not|is|in|like|between|when|union|intersect|except|join|select)\b", re.IGNORECASE
)
_COUNT, _LEN = (re.compile(text, re.IGNORECASE) for text in (r"\bcount\s*\(\s*\*\s*\)", r"\blen\b"))
TERMS: Final = 300
"""Operators and clauses of a query; from 1,000 on, Polars needs minutes, or more stack than it has."""
_UNKNOWN_COLUMN: Final = re.compile(r"(?:unable to find column|no column named) [\"'](.+?)[\"']")
_UNKNOWN_TABLE: Final = re.compile(r"relation '(.+?)' was not found")


def tables(run: Path) -> dict[str, pl.LazyFrame]:
    """`moves`, the log with enums as words, and `device`, if it was sampled; of all ranks, on the first one's clock.

    Raises:
        InputError: the run is missing, damaged or without a log, or its ranks' clocks are days apart.
    """
    opened = open_run(run)
    found = {"moves": pl.concat([_moves(opened.files[place], shift_ns) for place, shift_ns in opened.shifts.items()])}
    sampled = [
        _device(path, shift_ns, opened.info_of[place].rank or 0)
        for place, shift_ns in opened.shifts.items()
        if (path := counters(place)) is not None
    ]
    return found | ({"device": pl.concat(sampled)} if sampled else {})


def _moves(files: list[Path], shift_ns: int) -> pl.LazyFrame:
    words = pl.col(list(LOG_ENUMS)).cast(pl.String)
    return scan(files).select(LOG_COLUMNS).with_columns(words, pl.col(_TIMES) + shift_ns)


def _device(path: Path, shift_ns: int, rank: int) -> pl.LazyFrame:
    samples = pl.scan_parquet(path, glob=False)
    samples = samples.with_columns(make_null_columns(samples.collect_schema().names())).select(DEVICE_SCHEMA.names)
    return samples.with_columns(pl.col("time_ns") + shift_ns, pl.lit(rank, pl.Int32).alias("rank"))


def execute(run: Path, statement: str, how: str, rows: int | None, out: BinaryIO) -> None:
    """Answer a query on a run: a table for people, an array of JSON objects, or CSV.

    Args:
        run: its directory.
        statement: one select, in the dialect of Polars, on `moves` and `device`.
        how: one of FORMATS; a table and CSV are written as they are computed, an array is held in memory.
        rows: print at most so many; None: 50 in a table, else all.
        out: where to.

    Raises:
        InputError: the run cannot be read, or the query not be answered.
    """
    _check(statement)
    known = tables(run)
    try:
        frame = _named(pl.SQLContext(known, eager=False).execute(statement), statement)
        if how == "table":
            out.write(_table(frame, TABLE_ROWS if rows is None else rows).encode())
        elif how == "csv":
            shown = frame.with_columns(as_text(pl.selectors.string(), terminal=out.isatty()))
            (shown if rows is None else shown.head(rows)).sink_csv(out, engine="streaming")
        else:
            out.write(_json((frame if rows is None else frame.head(rows)).collect(engine="streaming")).encode())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if str(error).startswith("parquet: "):
            reason = str(error).splitlines()[0]
            raise InputError(f"{run}: its log cannot be read ({reason}); copy the run anew.") from None
        raise InputError(_refusal(str(error), known)) from None
    except OSError as error:
        if "os error 32" in str(error):  # Polars writes to the descriptor itself; whoever read the output has enough
            raise BrokenPipeError(errno.EPIPE, "Broken pipe") from None
        raise InputError(f"{run}: {str(error).splitlines()[0]}; copy the run anew, or make room.") from None


def _named(frame: pl.LazyFrame, statement: str) -> pl.LazyFrame:
    """Polars calls count(*) without a name `len`; here it is `count`, as in other tools."""
    names = frame.collect_schema().names()
    if _COUNT.search(statement) and not _LEN.search(statement) and "len" in names and "count" not in names:
        return frame.rename({"len": "count"})
    return frame


def _check(statement: str) -> None:
    """Refuse what is no query, or no query of this run alone, before Polars sees it.

    Raises:
        InputError: it is.
    """
    if not _SELECT.match(statement):
        raise InputError("SQL: this is no query; pass one that begins with select or with.")
    if _FILES.search(statement):
        raise InputError(
            "SQL: a query reads moves and device and no other file; to join one, such as the trace, read both with"
            " DuckDB or Polars (docs/reading-logs.md)."
        )
    if (terms := len(_TERM.findall(_TEXT.sub("", statement)))) > TERMS:
        raise InputError(f"SQL: the query has {terms:,} operators and clauses, and {TERMS} are the most; shorten it.")


def _refusal(message: str, known: dict[str, pl.LazyFrame]) -> str:
    """One sentence for what Polars says in many lines, with the name that was meant."""
    reason = message.strip().splitlines()[0].split("; valid columns")[0].removesuffix(":") if message.strip() else "?"
    column, table = _UNKNOWN_COLUMN.search(message), _UNKNOWN_TABLE.search(message)
    near = difflib.get_close_matches(table[1], known, n=1) if table else []
    if column:
        names = [name for frame in known.values() for name in frame.collect_schema().names()]
        near = difflib.get_close_matches(column[1], names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"tables: {', '.join(known)} (docs/reading-logs.md)."
    return f"SQL: {reason[:200]}; {hint}"


def _table(frame: pl.LazyFrame, rows: int) -> str:
    """The first rows, every column in full, and how many more there are."""
    shown, counted = pl.collect_all([frame.head(rows), frame.select(pl.len())], engine="streaming")
    cells = [[*map(_cell, shown.columns)], *([_cell(value) for value in row] for row in shown.iter_rows())]
    widths = [max(len(row[column]) for row in cells) for column in range(shown.width)]
    right = [kind.is_numeric() for kind in shown.dtypes]
    lines = ["  ".join(_padded(row, widths, right)).rstrip() for row in cells]
    if more := counted.item() - shown.height:
        lines.append(f"… and {more:,} more rows; print more with --rows.")
    return "\n".join(lines) + "\n"


def _padded(row: list[str], widths: list[int], right: list[bool]) -> list[str]:
    return [
        cell.rjust(width) if align else cell.ljust(width) for cell, width, align in zip(row, widths, right, strict=True)
    ]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else " ".join(escape_controls(str(value)).splitlines())


def _json(frame: pl.DataFrame) -> str:
    """An array with a line per row; JSON knows no NaN and no infinity, they are null."""
    rows = ({name: _plain(value) for name, value in row.items()} for row in frame.iter_rows(named=True))
    return "[" + ",\n ".join(json.dumps(row, default=str) for row in rows) + "]\n"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
