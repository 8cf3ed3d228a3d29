"""Permits for stores that are in flight."""

from pathlib import Path

import numpy as np
import polars as pl

from replayer.planning.pace import Span
from tests.replayer.pacing.paced_runs import chat, go, latency, lay_out, options
from tests.support import traces


def most_at_once(log: pl.DataFrame) -> int:
    """Of a log's stores, by start and end; one that ends as another starts is not beside it."""
    stores = log.filter(pl.col("move") == "store")
    edges = sorted([(end, -1) for end in stores["end_ns"]] + [(start, 1) for start in stores["start_ns"]])
    return max(int(level) for level in np.cumsum([change for _, change in edges]))


def test_no_more_stores_than_permitted_are_in_flight(tmp_path: Path) -> None:
    trace = traces.write(tmp_path / "t.parquet", lay_out(chat(12, 4)))
    most = {}
    for allocs in (None, 1, 3):
        info, log = go(trace, tmp_path / f"{allocs}", workers=12, allocs=allocs, throttles=latency(6))
        assert (info["status"], info["conditions"]["max_concurrent_allocs"]) == ("complete", allocs)
        most[allocs] = most_at_once(log)
    assert most[None] > 3 >= most[3] > 1 == most[1]


def test_a_store_past_the_cut_takes_no_permit(tmp_path: Path) -> None:
    """Of one permit: op 0 holds it at the cut, op 1 waits for it; so does 3, more urgent, but past 2, the highest."""
    steps: list[traces.Step] = [("w", 0, 1), ("w", 1, 1), ("w", 2, 9), ("w", 3, 1)]  # 2 fits nowhere
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps, qos=[0, 2, 0, 0]))
    info, log = go(trace, tmp_path / "run", options(4), 4, allocs=1, span=Span(0.3), throttles=latency(600))
    assert (info["status"], info["executed_ops"]) == ("complete", 3)
    assert log["move"].to_list() == ["store", "store", "bypass"]
