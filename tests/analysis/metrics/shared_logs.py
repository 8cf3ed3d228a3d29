"""Logs that several tests of metrics use: one worked by hand, and any that a cache could write."""

from pathlib import Path

from hypothesis import strategies as st

from tests.analysis.metric_oracle.facts import Rows
from tests.support.logs import follow, make_rows, samples, warm_end, write_run
from tests.support.run_json import save_above

GIB = 2**30


def followed(place: Path) -> Path:
    """Write a run with three tiers, whose warm-up ends within a sample of the counters."""
    rows = follow(1, warm_ops=30)
    return write_run(place, rows, device=samples(1, 4), warmup={"ops": 30, "end_ns": warm_end(rows)})


def ranks(place: Path) -> Path:
    """Write a run of three ranks on two hosts; two share a device, the third has none."""
    for rank, zero in enumerate((0, -7 * 10**8, 123_456_789)):
        rows = follow(10 + rank, 120, warm_ops=10 * rank)
        for row in rows:
            row |= {"rank": rank}
        machine = {"host": f"host{rank // 2}", "cores": 8, "host_cores": 16, "storage": {"device": "/dev/nvme0n1"}}
        warmup = {"ops": 10 * rank, "end_ns": warm_end(rows) if rank else None}
        about = {"rank": rank, "clock": {"zero_ns": 10**18 + zero}, "warmup": warmup, "machine": machine}
        write_run(place / f"rank_{rank}", rows, device=samples(rank, 3, counted=rank < 2), **about)
    save_above(place, 3)
    return place


def busy(place: Path) -> Path:
    """Write a run of two ranks that keep one core of their host busy each."""
    for rank in range(2):
        rows = [row | {"rank": rank} for row in make_rows(rank, 50)]
        counted = [row | {"process_cpu": 0.95} for row in samples(rank, 2)]
        about = {"rank": rank, "machine": {"host": "one", "cores": 2}, "clock": {"zero_ns": 0}}
        write_run(place / f"rank_{rank}", rows, device=counted, **about)
    save_above(place, 2)
    return place


S = 10**9
HAND = """
    id seq req qos         phase   op    source     move    from  to   GiB tokens new due ready start end read write device
    0  0   0   interactive prefill write user       store   -     cpu  1   1000   0   0   0     0     1   0    0.6   0.5
    1  0   0   interactive decode  read  user       hit     cpu   -    1   1000   10  1   1     1.5   2   0.5  0     0.25
    2  0   1   batch       prefill write user       demote  cpu   nvme 1   1000   5   1   2     2     4   0.5  1.5   1.25
    2  1   1   batch       prefill write user       store   -     cpu  2   2000   0   1   4     4     5   0    1     0.5
    3  0   1   batch       prefill read  multi_turn hit     nvme  -    1   1000   0   5   5     5     7   2    0     1
    4  0   1   batch       prefill read  system     miss    -     -    0.5 500    20  8   8     8     8   0    0     0
    4  1   1   batch       prefill read  system     bypass  -     -    0.5 500    0   8   8     8     8   0    0     0
"""


"""Times in s. Device times of the demotion: 0.25 s of reading, 1 s of writing. A token takes 100 ms to generate."""


def by_hand() -> Rows:
    lines = [line.split() for line in HAND.strip().splitlines()]
    rows = []
    for line in lines[1:]:
        cell = dict(zip(lines[0], line, strict=True))
        ns = {name: int(float(cell[name]) * S) for name in ("due", "ready", "start", "end", "read", "write", "device")}
        device_read = S // 4 if cell["move"] == "demote" else ns["device"] * bool(ns["read"])
        rows.append(
            make_rows(0, 1)[0]
            | {
                "op_id": int(cell["id"]), "position": int(cell["id"]), "window_ns": 0, "order_ns": 0,
                "waited_for": {"demote": "data", "store": "eviction"}[cell["move"]] if ns["due"] < ns["ready"] else None,
                "seq": int(cell["seq"]), "request_id": int(cell["req"]), "session_id": int(cell["req"]), "qos": cell["qos"],
                "phase": cell["phase"], "op": cell["op"], "source": cell["source"], "move": cell["move"], "status": "ok",
                "from_tier": None if cell["from"] == "-" else cell["from"], "to_tier": None if cell["to"] == "-" else cell["to"],
                "size_bytes": int(float(cell["GiB"]) * GIB), "tokens": int(cell["tokens"]), "new_tokens": int(cell["new"]),
                "due_ns": ns["due"], "ready_ns": ns["ready"], "start_ns": ns["start"], "end_ns": ns["end"],
                "read_ns": ns["read"], "write_ns": ns["write"], "device_read_ns": device_read,
                "device_write_ns": ns["device"] - device_read,
            }
        )  # fmt: skip
    return rows


seeds = st.integers(0, 10**6)


@st.composite
def logs(draw: st.DrawFn) -> Rows:
    rows = (
        make_rows(draw(seeds), draw(st.integers(1, 60)))
        if draw(st.booleans())
        else follow(draw(seeds), draw(st.integers(1, 60)))
    )
    warm = draw(st.integers(0, max(row["op_id"] for row in rows)).map(lambda op: min(op, 10)))
    return [row | {"warmup": row["op_id"] < warm} for row in rows]
