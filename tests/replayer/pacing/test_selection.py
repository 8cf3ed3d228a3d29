"""Users, ranks and cycles of a trace."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from replayer.planning.pace import Pace
from tests.replayer.arrangements.oracle import moves
from tests.replayer.arrangements.tiers import Usable, ops_of
from tests.replayer.pacing.paced_runs import chat, check_paced, fingerprint, go, lay_out, options, whole
from tests.support import traces
from tracegen.schema import Trace

MS = 1_000_000  # ns
UNIT = 1024  # bytes per token of the real runs
UNLIMITED: Usable = (0, 0, None)


def test_users_takes_the_first_ones(small_trace: Trace, tmp_path: Path) -> None:
    info, log = go(small_trace, tmp_path / "run", options(users=2))
    batch = whole(small_trace)
    assert set(log["op_id"]) == set(batch["op_id"][batch["user_id"] < 2].tolist())
    assert (info["status"], info["conditions"]["users"]) == ("complete", 2)
    assert log["user_id"].max() == 1


def test_ranks_share_the_trace(small_trace: Trace, tmp_path: Path) -> None:
    logs = [go(small_trace, tmp_path / f"{rank}", options(part=(rank, 3)))[1] for rank in range(3)]
    ops = [op_id for log in logs for op_id in log["op_id"].unique()]
    assert sorted(ops) == list(range(small_trace.ops)), "each op on one rank"
    assert sum(log["new_tokens"].sum() for log in logs) == small_trace.metadata.counts["tokens_generated"]
    sessions = [set(log["session_id"]) for log in logs]
    assert sum(map(len, sessions)) == len(set.union(*sessions)) == 5, "a session stays together"
    assert all(sessions)


def test_cycles_have_keys_of_their_own(small_trace: Trace, tmp_path: Path) -> None:
    batch = whole(small_trace)
    plain, once = go(small_trace, tmp_path / "plain", options(40))
    info, log = go(small_trace, tmp_path / "twice", options(40, cycles=2))
    assert (info["status"], info["executed_ops"]) == ("complete", 2 * small_trace.ops)
    ends = {name: int(batch[name].max()) + 1 for name in ("op_id", "time_ns", "key", "request_id", "session_id")}
    both = traces.joined([batch, batch | {name: batch[name] + end for name, end in ends.items()}])
    assert info["executed_fingerprint"] == info["plan"]["plan_fingerprint"] == fingerprint(both, 40)
    assert fingerprint(both, 40, small_trace.ops) == plain["executed_fingerprint"] == fingerprint(batch, 40)
    first, second = log.filter(pl.col("op_id") < small_trace.ops), log.filter(pl.col("op_id") >= small_trace.ops)
    assert first.select("op_id", "seq", "move", "key").rows() == once.select("op_id", "seq", "move", "key").rows()
    own = second.filter(~pl.col("move").is_in(["demote", "drop"]))
    assert set(own["key"]).isdisjoint(first["key"]), "nothing is read that the first cycle stored"
    assert set(second["request_id"]).isdisjoint(first["request_id"])
    assert set(second["session_id"]).isdisjoint(first["session_id"])


@pytest.mark.parametrize("kind", ["closed", "open"])
def test_a_cycle_follows_the_one_before(tmp_path: Path, kind: Any) -> None:
    """Open: once its times are over. Closed: each user goes on when it is done."""
    trace = traces.write(tmp_path / "t.parquet", lay_out(chat(2, 2, gap=4 * MS, think=5 * MS)))
    batch = whole(trace)
    _, log = go(trace, tmp_path / "run", options(cycles=2), pace=Pace(kind, token_ms=1))
    ends = {name: int(batch[name].max()) + 1 for name in ("op_id", "time_ns", "key", "request_id", "session_id")}
    both = traces.joined([batch, batch | {name: batch[name] + end for name, end in ends.items()}])
    check_paced(both, log, Pace(kind, token_ms=1), moves(ops_of(both), {}, UNLIMITED, UNIT))
