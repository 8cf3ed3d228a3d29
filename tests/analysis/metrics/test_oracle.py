"""Every metric and every table against the oracle."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.log.targets import Targets
from analysis.summary import summary
from analysis.summary.distributions import TABLES
from tests.analysis import metric_oracle
from tests.analysis.metrics.comparing import ABOUT, assert_same, assert_same_table, open_log_of
from tests.analysis.metrics.shared_logs import S, busy, by_hand, followed, ranks
from tests.support.latencies import latencies_known
from tests.support.logs import follow, make_rows, samples, warm_end, with_copies, write_run
from tests.support.run_json import save_above


def make_run(place: Path, seed: int, count: int, parts: int) -> Path:
    return write_run(place, make_rows(seed, count), parts)


def make_long_run(place: Path) -> Path:
    """Longer than 10 s; nothing counts its block device."""
    rows = follow(2, 200, span_s=25.0)
    machine = {"cores": 3, "storage": {"device": None}}
    return write_run(place, rows, device=samples(2, 20, counted=False, measured=False), token_ms=0.0, machine=machine)


def make_instant_run(place: Path) -> Path:
    """One move that took no time."""
    times = dict.fromkeys(("due_ns", "ready_ns", "start_ns", "end_ns"), 5)
    spent = dict.fromkeys(("read_ns", "write_ns", "device_read_ns", "device_write_ns", "window_ns", "order_ns"), 0)
    return write_run(place, [make_rows(1, 1)[0] | times | spent | {"new_tokens": 3, "seq": 0}])


def misses_alone(place: Path) -> Path:
    return write_run(place, [row for row in make_rows(4, 100) if row["move"] == "miss"])


def warm_up_alone(place: Path) -> Path:
    rows = [row | {"warmup": True} for row in make_rows(5, 50)]
    return write_run(place, rows, warmup={"ops": 50, "end_ns": None})


def idle(place: Path) -> Path:
    """Two bursts far apart: the source, not the system, took the time."""
    rows = make_rows(6, 60)
    for row in rows[30:]:
        row |= {name: row[name] + 10**10 for name in ("due_ns", "ready_ns", "start_ns", "end_ns")}
    return write_run(place, rows)


def stopped(place: Path) -> Path:
    """Stopped for 4 s within a warm-up and after it; a quota and others on the CPU explain a third wait."""
    rows, counted, at = follow(3, warm_ops=30, span_s=20.0), samples(3, 8), 0
    waits = {1: ({}, 4), 3: ({}, 4), 5: ({"sampler_delay_ns": 2 * S, "throttled_ns": S}, 4)}
    for number, sample in enumerate(counted):
        changes, more_s = waits.get(number, ({}, 0))
        sample.update(changes | {"interval_ns": sample["interval_ns"] + more_s * S})
        at += sample["interval_ns"]
        sample["time_ns"] = at
    machine = {"host": "h", "cores": 2, "host_cores": 4}
    return write_run(place, rows, device=counted, warmup={"ops": 30, "end_ns": warm_end(rows)}, machine=machine)


def cut(place: Path, seed: int = 1, warm_ops: int = 0, at_s: float = 1.5, **info: Any) -> Path:
    """Cut in time, with moves that straddle the cut and moves that the drain issued."""
    rows = follow(seed, warm_ops=warm_ops)
    window = {"duration_s": at_s, "cut_s": at_s, "issued_s": 3.0, "drain_s": 1.5}
    warmup = {"ops": warm_ops, "end_ns": warm_end(rows) if warm_ops else None}
    machine = {"cores": 3, "host": "h", "storage": {"device": None}}
    about = {"window": window, "warmup": warmup, "executed_ops": 280, "machine": machine} | info
    return write_run(place, rows, device=samples(seed, 4), **about)


def stopped_requests(place: Path, seed: int, *, since_s: float = 0.9, **info: Any) -> Path:
    """Cut, with requests that are not done: some in prefill, some that never began, one that is due after the cut."""
    rows = follow(seed)
    due = {row["request_id"]: row["due_ns"] for row in reversed(rows) if row["due_ns"] > since_s * S}
    began = sorted(due)[::3]
    never = [(1000 + n, S + n * S // 10) for n in range(7)]
    opened = [(request, due[request]) for request in began] + never
    listed = {"request_id": [one for one, _ in opened], "due_ns": [due for _, due in opened]}
    listed["qos"] = [(n % 3) for n in range(len(opened))]
    listed["in_prefill"] = [int(n % 2 or n >= len(began)) for n in range(len(opened))]
    return cut(place, seed, unfinished=listed, **info)


def cut_ranks(place: Path) -> Path:
    for rank in range(2):
        cut(place / f"rank_{rank}", rank, 20, rank=rank, clock={"zero_ns": 10**18 + rank * 10**8})
    save_above(place, 2)
    return place


def early_rank(place: Path) -> Path:
    """The second rank began before the first."""
    for rank, zero in enumerate((S, 0)):
        rows = [row | {"rank": rank} for row in by_hand()]
        write_run(place / f"rank_{rank}", rows, rank=rank, clock={"zero_ns": zero})
    save_above(place, 2)
    return place


CASES: dict[str, Callable[[Path], Path]] = {
    "hundreds of rows": lambda place: make_run(place, 1, 400, 3),
    "one row": lambda place: make_run(place, 3, 1, 1),
    "no token": lambda place: write_run(place, [row | {"new_tokens": 0} for row in make_rows(7, 100)]),
    "followed": followed,
    "long": make_long_run,
    "ranks": ranks,
    "a rank that began early": early_rank,
    "instant": make_instant_run,
    "misses alone": misses_alone,
    "idle": idle,
    "busy": busy,
    "warm-up alone": warm_up_alone,
    "stopped": stopped,
    "cut": cut,
    "cut after a warm-up": lambda place: cut(place, 2, 40),
    "cut in its warm-up": lambda place: cut(place, 3, 200, 1.0),
    "cut ranks": cut_ranks,
    "unfinished requests": lambda place: stopped_requests(place, 4),
    "unfinished from early on": lambda place: stopped_requests(place, 5, since_s=0.1),
    "asap": lambda place: write_run(place, follow(9, 200), pace="asap"),
    "copies": lambda place: write_run(place, with_copies(follow(11), 11)),
    "copies in several parts of a warm-up": lambda place: write_run(
        place, with_copies(follow(12, warm_ops=60), 12), 7, warmup={"ops": 60, "end_ns": None}
    ),
}


HELD = {
    "qos_ms": {"interactive": 3.0, "responsive": 400.0, "batch": 1500.0},
    "tier_gib_s": {"nvme": (6.5, 4.0), "gpu": (600.0, 500.0)},
    "tbw": 600.0,
    "drive_tb": 3.84,
}


@pytest.mark.parametrize("case", CASES)
def test_every_metric_against_the_oracle(tmp_path: Path, case: str) -> None:
    place = CASES[case](tmp_path / "run")
    with latencies_known():  # by no targets
        summaries = [summary.summarise(place, targets=Targets(**targets)).to_json() for targets in ({}, HELD)]
    for targets, found in zip((None, HELD), summaries, strict=True):
        expected = metric_oracle.summary(metric_oracle.read(place, targets))
        assert set(found) - ABOUT == set(expected), "no metric goes unchecked"
        assert_same(found, expected)


@pytest.mark.parametrize("case", CASES)
def test_every_table_against_the_oracle(tmp_path: Path, case: str) -> None:
    place = CASES[case](tmp_path / "run")
    found, facts = open_log_of(place), metric_oracle.read(place)
    assert set(TABLES) == set(metric_oracle.TABLES), "no table goes unchecked"
    for name, table in TABLES.items():
        assert_same_table(table(found), metric_oracle.TABLES[name](facts))
