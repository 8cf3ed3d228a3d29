"""SQL queries over a run's log, for questions that no metric answers. They only read."""

import difflib
import errno
import json
import math
import re
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

from analysis.log.log import scan
from analysis.runs.opening import open_run
from analysis.runs.samples import make_null_columns
from analysis.sql.csv_cells import as_text
from replayer.schema import DEVICE_SCHEMA, LOG_COLUMNS, LOG_ENUMS, counters
from tracegen.errors import InputError, escape_controls

TABLE_ROWS: Final = 50
"""Rows of a table unless the user asks for another number."""
FORMATS: Final = ("table", "json", "csv")
_TIMES: Final = ("due_ns", "ready_ns", "start_ns", "end_ns")
_SELECT: Final = re.compile(r"(?>\s+|--[^\n]*|/\*.*?\*/)*+(?:select|with)\b", re.IGNORECASE | re.DOTALL)
_FILES: Final = re.compile(r"(?<![^\W\d])(?:read|scan)_\w+[\"`\]]?\s*(?:\(|/\*|//|--|#)", re.IGNORECASE)
"""A table function of Polars, which reads a file or an address.

It is searched for in literals and comments, too, so that nothing in a query can hide it.
"""
_TEXT: Final = re.compile("'[^']*'")
_TERM: Final = re.compile(
    r"[^\w\s,;.()'\"\[\]]+|\b(?:and|or|not|is|in|like|between|when|union|intersect|except|join|select)\b",
    re.IGNORECASE,
)
_COUNT: Final = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)
_LEN: Final = re.compile(r"\blen\b", re.IGNORECASE)
TERMS: Final = 300
"""Most operators and clauses of a query; from 1,000 on, Polars needs minutes or exhausts its stack."""
_UNKNOWN_COLUMN: Final = re.compile(r"(?:unable to find column|no column named) [\"'](.+?)[\"']")
_UNKNOWN_TABLE: Final = re.compile(r"relation '(.+?)' was not found")


def open_tables(run: Path) -> dict[str, pl.LazyFrame]:
    """Open the tables of a run: `moves`, and `device` if it was sampled.

    `moves` is the log with enums as words. The tables contain all ranks, on the first rank's clock.

    Raises:
        InputError: the run is missing, damaged or without a log, or its ranks' clocks are days
            apart.
    """
    opened = open_run(run)
    moves = [_scan_moves(opened.files[place], shift_ns) for place, shift_ns in opened.shifts.items()]
    samples = [
        _scan_device(path, shift_ns, opened.info_of[place].rank or 0)
        for place, shift_ns in opened.shifts.items()
        if (path := counters(place)) is not None
    ]
    tables = {"moves": pl.concat(moves)}
    if samples:
        tables["device"] = pl.concat(samples)
    return tables


def _scan_moves(files: list[Path], shift_ns: int) -> pl.LazyFrame:
    words = pl.col(list(LOG_ENUMS)).cast(pl.String)
    return scan(files).select(LOG_COLUMNS).with_columns(words, pl.col(_TIMES) + shift_ns)


def _scan_device(path: Path, shift_ns: int, rank: int) -> pl.LazyFrame:
    samples = pl.scan_parquet(path, glob=False)
    samples = samples.with_columns(make_null_columns(samples.collect_schema().names()))
    shifted = pl.col("time_ns") + shift_ns
    own_rank = pl.lit(rank, pl.Int32).alias("rank")
    return samples.select(DEVICE_SCHEMA.names).with_columns(shifted, own_rank)


def execute(run: Path, statement: str, form: str, rows: int | None, output: BinaryIO) -> None:
    """Answer a query on a run as a table, as an array of JSON objects, or as CSV.

    Args:
        run: a run directory.
        statement: one select on `moves` and `device`, in the dialect of Polars.
        form: one of FORMATS; a table and CSV are written as they are computed, while an array is
            held in memory.
        rows: most rows to print; None prints 50 in a table, otherwise all.
        output: takes the answer.

    Raises:
        InputError: the run cannot be read, or the query cannot be answered.
        BrokenPipeError: the reader of the output has gone.
    """
    _check_statement(statement)
    tables = open_tables(run)
    try:
        context = pl.SQLContext(tables, eager=False)
        frame = _name_count(context.execute(statement), statement)
        if form == "table":
            output.write(_render_table(frame, TABLE_ROWS if rows is None else rows).encode())
            return
        limited = frame if rows is None else frame.head(rows)
        if form == "csv":
            text = as_text(pl.selectors.string(), terminal=output.isatty())
            limited.with_columns(text).sink_csv(output, engine="streaming")
        else:
            output.write(_render_json(limited.collect(engine="streaming")).encode())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if str(error).startswith("parquet: "):
            reason = str(error).splitlines()[0]
            problem = f"its log cannot be read ({reason})"
            raise InputError(problem, "copy the run again", subject=run) from None
        raise _refuse(str(error), tables) from None
    except OSError as error:
        if "os error 32" in str(error):  # Polars writes to the descriptor itself
            raise BrokenPipeError(errno.EPIPE, "Broken pipe") from None
        reason = str(error).splitlines()[0]
        raise InputError(reason, "copy the run again, or free disk space", subject=run) from None


def _name_count(frame: pl.LazyFrame, statement: str) -> pl.LazyFrame:
    """Rename a column without a name of its own, count(*), from Polars' `len` to `count`."""
    names = frame.collect_schema().names()
    is_unnamed = _COUNT.search(statement) and not _LEN.search(statement) and "len" in names
    return frame.rename({"len": "count"}) if is_unnamed and "count" not in names else frame


def _check_statement(statement: str) -> None:
    """Refuse a statement that is not a query of this run alone, before Polars opens anything.

    Raises:
        InputError: it changes something, reads another file, or is too long for Polars.
    """
    if not _SELECT.match(statement):
        raise InputError("not a query", "pass one that begins with select or with", subject="SQL")
    if _FILES.search(statement):
        raise InputError(
            "a query reads moves and device and no other file",
            "to join another file, such as the trace, read both with DuckDB or Polars (docs/reading-logs.md)",
            subject="SQL",
        )
    terms = len(_TERM.findall(_TEXT.sub("", statement)))
    if terms > TERMS:
        raise InputError(
            f"the query has {terms:,} operators and clauses, more than {TERMS}",
            "shorten it",
            subject="SQL",
        )


def _refuse(message: str, tables: dict[str, pl.LazyFrame]) -> InputError:
    """Make the error of a query that Polars refuses, with the nearest known name."""
    reason = "?"
    if message.strip():
        reason = message.strip().splitlines()[0].split("; valid columns")[0].removesuffix(":")
    column = _UNKNOWN_COLUMN.search(message)
    table = _UNKNOWN_TABLE.search(message)
    near: list[str] = []
    if column:
        names = [name for frame in tables.values() for name in frame.collect_schema().names()]
        near = difflib.get_close_matches(column[1], names, n=1)
    elif table:
        near = difflib.get_close_matches(table[1], tables, n=1)
    remedy = f"tables: {', '.join(tables)} (docs/reading-logs.md)"
    return InputError(reason[:200], f"did you mean {near[0]}?" if near else remedy, subject="SQL")


def _render_table(frame: pl.LazyFrame, rows: int) -> str:
    """Return the first rows with all columns in full, and the number of the other rows."""
    head, counts = pl.collect_all([frame.head(rows), frame.select(pl.len())], engine="streaming")
    cells = [[_format_cell(value) for value in row] for row in (head.columns, *head.iter_rows())]
    widths = [max(len(row[column]) for row in cells) for column in range(head.width)]
    right = [kind.is_numeric() for kind in head.dtypes]
    lines = ["  ".join(_pad(row, widths, right)).rstrip() for row in cells]
    if rest := counts.item() - head.height:
        lines.append(f"… and {rest:,} more rows; this table is limited to {rows:,}.")
    return "\n".join(lines) + "\n"


def _pad(row: list[str], widths: list[int], right: list[bool]) -> list[str]:
    return [
        cell.rjust(width) if is_right else cell.ljust(width)
        for cell, width, is_right in zip(row, widths, right, strict=True)
    ]


def _format_cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(escape_controls(str(value)).splitlines())


def _render_json(frame: pl.DataFrame) -> str:
    """Return an array with a line for each row; JSON has no NaN and no infinity, so they are null."""
    rows = ({name: _drop_non_finite(value) for name, value in row.items()} for row in frame.iter_rows(named=True))
    return "[" + ",\n ".join(json.dumps(row, default=str) for row in rows) + "]\n"


def _drop_non_finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
