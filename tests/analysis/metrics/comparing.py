"""Logs made of rows, and comparisons of the metrics of analysis with those of the oracle."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.log.columns import KEPT
from analysis.log.counted import OPEN_COLUMNS, RequestBounds
from analysis.log.log import Log
from analysis.log.targets import Targets
from analysis.runs.opening import open_run
from analysis.runs.reading import load_stretches
from analysis.summary import summary
from replayer.schema import LOG_ENUMS
from tests.analysis import metric_oracle
from tests.analysis.metric_oracle.facts import Row, Rows
from tests.support.logs import TOKEN_NS, write_run


def open_log_of(path: Path, targets: Row | None = None) -> Log:
    return summary.open_log(open_run(path), Targets(**(targets or {})))


def log_of(rows: Rows, **settings: Any) -> Log:
    """Make a log without files."""
    kinds = {name: pl.Enum(words) for name, words in LOG_ENUMS.items()} | {"warmup": pl.Boolean}
    columns = ["warmup", *KEPT]
    frame = pl.DataFrame({n: [row[n] for row in rows] for n in columns}, {n: kinds.get(n, pl.Int64) for n in columns})
    known = RequestBounds(unfinished=pl.DataFrame(schema=OPEN_COLUMNS))
    stretches = load_stretches(frame.lazy(), len(rows))
    return Log(stretches, token_ns=TOKEN_NS, **{"request_bounds": known, **settings})


def assert_same(found: Row, expected: Row) -> None:
    """Assert that values are equal: whole numbers and words exactly, others to 1e-9."""
    unlike = {}
    for name, value in expected.items():
        wanted = pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value
        if found[name] != wanted:
            unlike[name] = (found[name], value)
    assert not unlike, f"(found, expected): {unlike}"


def summarise_both_ways(place: Path, rows: Rows, **info: Any) -> tuple[Row, Row]:
    """Return the summary of a run by analysis, and the one by the oracle."""
    write_run(place, rows, **info)
    return summary.summarise(place).to_json(), metric_oracle.summary(metric_oracle.read(place))


MARKS = ("t_s", "depth", "share", "rank", "size_class")


"""The columns that identify a row of a table, together with its words."""


def index_rows(rows: Rows) -> dict[tuple[Any, ...], Row]:
    found = {}
    for row in rows:
        words = {n: round(v, 9) if n == "t_s" else v for n, v in row.items() if n in MARKS or isinstance(v, str)}
        found[tuple(sorted(words.items()))] = row
    assert len(found) == len(rows), "two rows for one mark"
    return found


def assert_same_table(found: pl.DataFrame, expected: Rows) -> None:
    one, other = index_rows(found.rows(named=True)), index_rows(expected)
    assert set(one) == set(other)
    for mark, row in other.items():
        assert set(one[mark]) == set(row)
        assert_same(one[mark], row)


ABOUT = {
    "run", "valid", "findings", "doubts", "status", "executed_ops", "trace_fingerprint", "plan_fingerprint", "conditions",
    "machine", "host_cores", "storage", "zero_ns", "cut", "users", "ended_ns", "predicted", "more_than",
}  # fmt: skip


"""The entries of a summary that are not metrics of its log."""


def numbers(found: Log) -> Row:
    return summary.measure(found)


def facts_of(rows: Rows) -> metric_oracle.Facts:
    return metric_oracle.Facts(metric_oracle.frame(rows), TOKEN_NS)
