"""Open loop: lateness past the tier's capacity, and runs that are cut before their first op."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from replayer.planning.pace import Pace, Span
from replayer.run.replay import Replay
from tests.replayer.pacing.paced_runs import go, latency, options
from tests.support import traces
from tests.support.run_settings import settings as make_settings

MS = 1_000_000  # ns


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
    chosen = make_settings(workers=2, cache_dir=None, layout="null", pace=Pace("open"), span=Span(0.1))
    info = Replay(trace, "test", replace(options(4), demand=chosen.demand), chosen, tmp_path / "run").run().to_json()
    assert (info["status"], info["executed_ops"], info["executed"]["ops"]) == ("failed", 0, 0)
    assert "no op was executed within the duration" in info["reason"]
