"""The requests that a cut leaves unfinished, against the trace and the log."""

import json
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.command_line import Run

PROFILE = """
profile_version = 2
name = "slow"
kind = "data sheet"
source = "by hand"
[cpu]
cores = 64.0
make_ns_per_byte = 0.0
check_ns_per_byte = 0.0
move_us = 0.0
[nvme]
writes_on_reads = 1.0
reads_on_writes = 1.0
smallest_bytes = 1
largest_bytes = 1_000_000_000_000
[nvme.read]
latency_us = 0.0
stream_gb_s = SPEED
bandwidth_gb_s = SPEED
[nvme.write]
latency_us = 0.0
stream_gb_s = SPEED
bandwidth_gb_s = SPEED
"""


@pytest.mark.parametrize(
    ("pace", "speed", "placement"),
    [("closed", 0.2, "planned"), ("closed", 2.0, "live"), ("open", 0.2, "live"), ("open", 20.0, "planned")],
)
def test_requests_that_were_due_and_are_not_done_are_listed(
    run: Run, tmp_path: Path, pace: str, speed: float, placement: str
) -> None:
    """Each op is one row here. In a closed loop a user's next request is due when the last one ends, and thought about."""
    profile = tmp_path / "slow.toml"
    profile.write_text(PROFILE.replace("SPEED", str(speed)))
    trace = tmp_path / "t.parquet"
    run("tracegen", "generate", "chat", "--users", "9", "--requests", "120", "--set", "session_rate=0", "-o", trace)
    flags = ("--profile", profile, "--pace", pace, "--cpu-mem-gb", "0", "--token-ms", "0", "--decode", "reread")
    limits = ("--duration", "20", "--set", "drain=1", "--placement", placement)
    run("replayer", "predict", trace, *flags, *limits, "-o", tmp_path / "run")
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    ends: dict[int, int] = {}
    for part in (tmp_path / "run" / "moves").glob("*.parquet"):
        ends |= {row["op_id"]: row["end_ns"] for row in pq.read_table(part).to_pylist()}
    requests = defaultdict(list)
    for row in pq.read_table(trace).to_pylist():
        requests[row["request_id"]].append(row)
    cut_ns = info["window"]["cut_s"] * 1e9
    expected = {}
    free: dict[int, int | None] = {}  # by user, the end of its last request; None: it has not ended
    for request, ops in sorted(requests.items()):
        user = ops[0]["user_id"]
        due = ops[0]["time_ns"]
        if pace == "closed" and user in free:
            ended = free[user]
            if ended is None:
                continue
            due = ended + ops[0]["think_ns"]
        missing = [op for op in ops if op["op_id"] not in ends]
        free[user] = None if missing else max(ends[op["op_id"]] for op in ops)
        if missing and due < cut_ns:
            expected[request] = (due, any(op["phase"] == "prefill" for op in missing))
    listed = info["unfinished"]
    values = zip(listed["due_ns"], map(bool, listed["in_prefill"]), strict=True)
    assert dict(zip(listed["request_id"], values, strict=True)) == expected
    assert expected or speed == 20.0
