"""Real runs keep the pace that the oracle computes."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from replayer.planning.pace import Pace
from tests.replayer.arrangements.oracle import moves
from tests.replayer.arrangements.tiers import Usable, ops_of
from tests.replayer.pacing.paced_runs import chat, check_paced, go, latency, lay_out, options, paced, whole
from tests.replayer.pacing.pacing_oracle import due_times
from tests.support import traces

MS = 1_000_000  # ns
UNIT = 1024  # bytes per token of the real runs
UNLIMITED: Usable = (0, 0, None)


@pytest.mark.parametrize("depth", [1, None], ids=["depth 1", "all at once"])
@pytest.mark.parametrize("kind", ["asap", "closed", "open"])
def test_real_workers_keep_the_pace(tmp_path: Path, kind: Any, depth: int | None) -> None:
    trace = traces.write(tmp_path / "t.parquet", lay_out(chat(3, 4, gap=7 * MS, think=11 * MS)))
    pace = Pace(kind, 2, token_ms=1.5, prefill_tok_s=1000, request_depth=depth)
    info, log = go(trace, tmp_path / "run", options(9), pace=pace, throttles=latency(1))
    assert (info["status"], info["executed_ops"]) == ("complete", trace.ops)
    rows = moves(ops_of(whole(trace)), {}, (0, 0, 9 * UNIT), UNIT)
    assert "miss" in {row[2] for row in rows}, "some prefill is recomputed"
    check_paced(whole(trace), log, pace, rows)


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
