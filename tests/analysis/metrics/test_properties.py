"""Properties of the metrics of any log."""

import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.log import log
from analysis.log import quantiles as spreads
from analysis.log.log import Log
from analysis.runs import reading
from analysis.summary.distributions import TABLES
from tests.analysis.metric_oracle import in_ms
from tests.analysis.metric_oracle.facts import Rows
from tests.analysis.metrics.comparing import assert_same, assert_same_table, log_of, numbers
from tests.analysis.metrics.shared_logs import logs


@st.composite
def classed(draw: st.DrawFn) -> Rows:
    """Rows of two classes, either of which may be null, and a value: few, equal, or as large as may be."""
    value = st.one_of(st.integers(0, 3), st.integers(0, 10**9), st.integers(0, 2**58 - 1), st.just(2**58 - 1))
    row = st.fixed_dictionaries(
        {"a": st.one_of(st.none(), st.integers(0, 4)), "b": st.one_of(st.none(), st.booleans()), "v": value}
    )
    return draw(st.lists(row, max_size=40))


@settings(max_examples=60)
@given(rows=classed(), by=st.sampled_from([[], ["a"], ["b"], ["a", "b"]]))
def test_quantiles_of_any_classes(rows: Rows, by: list[str]) -> None:
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "b": pl.Boolean, "v": pl.Int64})
    classes = {"a": (pl.col("a"), 5), "b": (pl.col("b"), 2)}
    ((_, values),) = spreads.sort([frame.lazy()], classes, {"v": pl.col("v")})
    found = values.spread(by).rows(named=True)
    groups = frame.partition_by(by, as_dict=True) if by else {(): frame} if rows else {}
    assert len(found) == len(groups)
    points = values.points(by, (0.0, 0.3, 1.0)).rows(named=True) if by else []
    for row in found:
        mine = groups[tuple(row[name] for name in by)]["v"]
        assert_same(row, {"count": len(mine)} | in_ms(mine))
        curve = [point["ms"] for point in points if all(point[name] == row[name] for name in by)]
        assert not by or curve == pytest.approx([mine.min() / 1e6, np.quantile(mine, 0.3) / 1e6, mine.max() / 1e6])


def assert_logs_agree(one: Log, other: Log) -> None:
    assert_same(numbers(one), numbers(other))
    for table in TABLES.values():
        assert_same_table(table(one), table(other).rows(named=True))


@settings(max_examples=4)
@given(rows=logs(), order=st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: Rows, order: random.Random) -> None:
    shuffled = order.sample(rows, len(rows))
    assert_logs_agree(log_of(shuffled), log_of(rows))


@settings(max_examples=4)
@given(rows=logs())
def test_a_log_read_in_stretches_gives_the_same_metrics(rows: Rows) -> None:
    with pytest.MonkeyPatch.context() as patch:
        whole = log_of(rows)
        numbers(whole)  # taken at once, and kept
        patch.setattr(reading, "STRETCH", 7)
        patch.setattr(log, "AT_ONCE", 1)
        assert_logs_agree(log_of(rows), whole)
