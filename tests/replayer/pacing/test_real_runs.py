"""Real runs keep the pace that the oracle computes."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from replayer.planning.pace import Pace, Span
from tests.replayer.arrangements.oracle import moves
from tests.replayer.arrangements.tiers import Usable, ops_of
from tests.replayer.pacing.paced_runs import chat, check_paced, go, latency, lay_out, options, paced, whole
from tests.replayer.pacing.pacing_oracle import Due, due_times
from tests.support import traces

MS = 1_000_000  # ns
UNIT = 1024  # bytes per token of the real runs
UNLIMITED: Usable = (0, 0, None)


@pytest.mark.parametrize("kind", ["asap", "closed", "open"])
def test_generation_keeps_a_run_going(tmp_path: Path, kind: Any) -> None:
    """As long at least as the oracle says of moves that take no time; none, or some."""
    trace = traces.write(tmp_path / "t.parquet", lay_out(chat(2, 3, new_tokens=9)))
    rows = moves(ops_of(whole(trace)), {}, UNLIMITED, UNIT)
    last: list[Fraction] = []
    for token_ms in (0, 10):
        pace = Pace(kind, token_ms=token_ms)
        info, log = go(trace, tmp_path / f"{token_ms}", pace=pace, workers=3)
        check_paced(whole(trace), log, pace, rows)
        instant = due_times(paced(whole(trace), rows), pace, lambda _, due: due, dict.fromkeys(range(trace.ops), 0))
        last.append(max(instant.values()))
        assert log["end_ns"].max() >= last[-1]
        assert info["conditions"]["token_ms"] == token_ms
    # two decode reads of 9 and 1 tokens, one after the other, are a step; closed: three requests, the last one's
    # generation aside, which nothing waits for
    assert last[1] - last[0] == {"asap": 100, "closed": 2 * 190 + 100, "open": 100}[kind] * MS


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


def test_lateness_grows_past_capacity_only(tmp_path: Path) -> None:
    """One request every 5 ms. A worker that takes 15 ms for each falls behind by 10 ms a request, and every latency
    counts from when its request was scheduled; four workers that take 1 ms keep up."""
    count = 40
    columns = traces.columns(
        [("w", key, 1) for key in range(count)], qos=[0] * count, time_ns=[10 * MS * i for i in range(count)]
    )
    trace = traces.write(tmp_path / "t.parquet", columns)
    late = {}
    for name, workers, ms in (("over", 1, 15), ("under", 4, 1)):
        pace = Pace("open", speedup=2)
        _, log = go(trace, tmp_path / name, pace=pace, workers=workers, throttles=latency(ms))
        assert log["due_ns"].to_list() == [5 * MS * i for i in range(count)], "whatever was late before"
        late[name] = (log["start_ns"] - log["due_ns"]).to_list()
        assert min(late[name]) >= 0
        latencies = (log["end_ns"] - log["due_ns"]).to_list()
        assert all(spent >= ms * MS + waited for spent, waited in zip(latencies, late[name], strict=True))
    assert min(np.diff(late["over"])) >= 9.9 * MS
    assert np.median(late["under"]) < np.median(late["over"]) / 2


def test_a_run_that_is_cut_before_anything_is_issued_fails(tmp_path: Path) -> None:
    trace = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 1), ("w", 1, 1)], time_ns=[2 * 10**9] * 2))
    info, _ = go(trace, tmp_path / "run", options(4), pace=Pace("open"), span=Span(0.1))
    assert (info["status"], info["executed_ops"], info["executed"]["ops"]) == ("failed", 0, 0)


def test_the_oracle_by_hand() -> None:
    """One user, 2 ms a token, 1,000 tokens per second of prefill; ops take 5 ms.

    Request 0 at 10/2 ms: an op of 3 tokens to compute (3 ms), then at 5 + 5 + 3 = 13 ms two more, one after the other,
    13..18..23 ms, which generate 4 + 1 tokens (10 ms): done at 33 ms. Request 1 thinks for 8/2 ms: due at 37 ms.
    """
    ops = [
        Due(0, 0, 0, 0, 10 * MS, 0, 0, 3),
        Due(1, 0, 0, 1, 11 * MS, 0, 4, 0),
        Due(2, 0, 0, 1, 11 * MS, 0, 1, 0),
        Due(3, 1, 0, 0, 12 * MS, 8 * MS, 0, 0),
    ]
    pace = Pace("closed", 2, 2, 1000, 1)
    assert list(due_times(ops, pace, lambda _, due: due + 5 * MS, {}).values()) == [5 * MS, 13 * MS, 18 * MS, 37 * MS]
