"""Metrics that were wrong once."""

from pathlib import Path

import polars as pl
import pytest

from analysis.log import quantiles as spreads
from analysis.summary.distributions import TABLES
from tests.analysis import metric_oracle
from tests.analysis.metrics.comparing import (
    assert_same_table,
    facts_of,
    log_of,
    summarise_both_ways,
)
from tests.analysis.metrics.shared_logs import S, by_hand


def test_generation_begins_when_the_op_has_ended(tmp_path: Path) -> None:
    """A miss at 8 s with 20 tokens, stored by 9 s: done at 11 s, due at 1."""
    rows = by_hand()
    rows[-1] |= {"move": "store", "to_tier": "nvme", "end_ns": 9 * S, "write_ns": S}
    found, _ = summarise_both_ways(tmp_path / "run", rows, token_ms=100.0)
    assert found["e2e_max_ms"] == 10_000


def test_objects_that_the_warm_up_stored_late_count_as_contents() -> None:
    rows = by_hand()
    rows[0] |= {"warmup": True, "end_ns": 20 * S}
    lies = TABLES["occupancy_over_time"](log_of(rows)).filter(tier="cpu")
    assert lies["gib"][-1] == 2


@pytest.mark.parametrize("name", ["bandwidth_over_time", "latency_over_time"])
def test_a_move_that_ends_on_a_bound_counts_in_the_next_interval(name: str) -> None:
    times = {"due_ns": 0, "ready_ns": 0, "start_ns": 0, "end_ns": 43 * 10**6}
    rows = [by_hand()[1] | times]
    assert_same_table(TABLES[name](log_of(rows)), metric_oracle.TABLES[name](facts_of(rows)))


def test_means_of_large_values() -> None:
    frame = pl.DataFrame({"v": [2**61] * 5})
    ((_, values),) = spreads.sort([frame.lazy()], {}, {"v": pl.col("v")})
    assert values.spread(["all"])["mean_ms"].to_list() == pytest.approx([2**61 / 1e6])
