"""Every number of analysis: against plain Python, against golden answers, by hand, and by what must hold of any log."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import glossary, log, spreads, summary
from analysis.cli import main
from analysis.log import Log, Targets
from analysis.metrics import METRICS
from analysis.runs import open_run
from analysis.tables import TABLES
from analysis.terms import KEPT
from replayer.schema import LOG_ENUMS, TIERS, WAITS
from tests.analysis import metric_oracle
from tests.analysis.metric_oracle import GOLDEN_TARGETS, in_ms
from tests.support.latencies import latencies_known
from tests.support.logs import TOKEN_NS, as_version_1, follow, make_rows, samples, warm_end, write_run
from tests.support.paths import ROOT

GIB = 2**30
Dict = dict[str, Any]
Rows = list[Dict]


def opened(path: Path, targets: Dict | None = None) -> Log:
    return summary.open_log(open_run(path), Targets(**(targets or {})))


def log_of(rows: Rows, **settings: Any) -> Log:
    """A log without files."""
    kinds = {name: pl.Enum(words) for name, words in LOG_ENUMS.items()} | {"warmup": pl.Boolean}
    columns = ["warmup", *KEPT]
    frame = pl.DataFrame({n: [row[n] for row in rows] for n in columns}, {n: kinds.get(n, pl.Int64) for n in columns})
    return Log(log.held(frame.lazy(), len(rows), len(rows)), token_ns=TOKEN_NS, **settings)


def same(found: Dict, expected: Dict) -> None:
    """Whole numbers and words exactly, others to 1e-9."""
    unlike = {}
    for name, value in expected.items():
        wanted = pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value
        if found[name] != wanted:
            unlike[name] = (found[name], value)
    assert not unlike, f"(found, expected): {unlike}"


def of_rows(place: Path, rows: Rows, **info: Any) -> tuple[Dict, Dict]:
    """What analysis says of a run, and plain Python."""
    write_run(place, rows, **info)
    return summary.summarise(place), metric_oracle.summary(metric_oracle.read(place))


def differ(found: Dict, expected: Dict, names: str) -> None:
    same(found, {name: value for name, value in expected.items() if re.fullmatch(names, name)})


MARKS = ("t_s", "share", "rank", "size_class")
"""What tells a table's rows apart, beside its words."""


def by_mark(rows: Rows) -> dict[tuple[Any, ...], Dict]:
    found = {}
    for row in rows:
        words = {n: round(v, 9) if n == "t_s" else v for n, v in row.items() if n in MARKS or isinstance(v, str)}
        found[tuple(sorted(words.items()))] = row
    assert len(found) == len(rows), "two rows for one mark"
    return found


def same_table(found: pl.DataFrame, expected: Rows) -> None:
    one, other = by_mark(found.rows(named=True)), by_mark(expected)
    assert set(one) == set(other)
    for mark, row in other.items():
        assert set(one[mark]) == set(row)
        same(one[mark], row)


# Against plain Python


def plain(place: Path, seed: int, count: int, parts: int) -> Path:
    return write_run(place, make_rows(seed, count), parts)


def followed(place: Path) -> Path:
    """Three tiers, a warm-up that ends within a sample of the counters."""
    rows = follow(1, warm_ops=30)
    return write_run(place, rows, device=samples(1, 4), warmup={"ops": 30, "end_ns": warm_end(rows)})


def long(place: Path) -> Path:
    """Longer than 10 s; nothing counts its block device."""
    rows = follow(2, 200, span_s=25.0)
    machine = {"cores": 3, "storage": {"device": None}}
    return write_run(place, rows, device=samples(2, 20, counted=False, measured=False), token_ms=0.0, machine=machine)


def ranks(place: Path) -> Path:
    """Processes with the same requests, let go at other times, on two hosts; two share a device, the third has none."""
    for rank, zero in enumerate((0, -7 * 10**8, 123_456_789)):
        rows = follow(10 + rank, 120, warm_ops=10 * rank)
        for row in rows:
            row |= {"rank": rank}
        machine = {"host": f"host{rank // 2}", "cores": 8, "host_cores": 16, "storage": {"device": "/dev/nvme0n1"}}
        warmup = {"ops": 10 * rank, "end_ns": warm_end(rows) if rank else None}
        about = {"rank": rank, "clock": {"zero_ns": 10**18 + zero}, "warmup": warmup, "machine": machine}
        write_run(place / f"rank_{rank}", rows, device=samples(rank, 3, counted=rank < 2), **about)
    (place / "run.json").write_text(json.dumps({"run_version": 1, "ranks": 3, "status": "failed"}))
    return place


def instant(place: Path) -> Path:
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


def busy(place: Path) -> Path:
    """Two processes that keep both cores of their host busy, half each."""
    for rank in range(2):
        rows = [row | {"rank": rank} for row in make_rows(rank, 50)]
        counted = [row | {"process_cpu": 0.95} for row in samples(rank, 2)]
        about = {"rank": rank, "machine": {"host": "one", "cores": 2}, "clock": {"zero_ns": 0}}
        write_run(place / f"rank_{rank}", rows, device=counted, **about)
    (place / "run.json").write_text(json.dumps({"run_version": 1, "ranks": 2, "status": "failed"}))
    return place


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


def cut_ranks(place: Path) -> Path:
    for rank in range(2):
        cut(place / f"rank_{rank}", rank, 20, rank=rank, clock={"zero_ns": 10**18 + rank * 10**8})
    (place / "run.json").write_text(json.dumps({"run_version": 2, "ranks": 2, "status": "failed"}))
    return place


def older(place: Path) -> Path:
    """Of version 1, which knows no order and not what a move waited for."""
    return as_version_1(write_run(place, make_rows(8, 200)))


CASES: dict[str, Callable[[Path], Path]] = {
    "hundreds of rows": lambda place: plain(place, 1, 400, 3),
    "tens of rows": lambda place: plain(place, 2, 30, 1),
    "one row": lambda place: plain(place, 3, 1, 1),
    "no token": lambda place: write_run(place, [row | {"new_tokens": 0} for row in make_rows(7, 100)]),
    "followed": followed,
    "long": long,
    "ranks": ranks,
    "instant": instant,
    "misses alone": misses_alone,
    "idle": idle,
    "busy": busy,
    "warm-up alone": warm_up_alone,
    "stopped": stopped,
    "cut": cut,
    "cut after a warm-up": lambda place: cut(place, 2, 40),
    "cut in its warm-up": lambda place: cut(place, 3, 200, 1.0),
    "cut ranks": cut_ranks,
    "asap": lambda place: write_run(place, follow(9, 200), pace="asap"),
    "version 1": older,
}
HELD = {
    "qos_ms": {"interactive": 3.0, "responsive": 400.0, "batch": 1500.0},
    "qos_ms_per_gib": 1e6,
    "tier_gib_s": {"nvme": (6.5, 4.0), "gpu": (600.0, 500.0)},
    "tbw": 600.0,
    "drive_tb": 3.84,
}
ABOUT = {
    "run", "valid", "findings", "doubts", "status", "executed_ops", "trace_fingerprint", "plan_fingerprint", "conditions",
    "machine", "host_cores", "storage", "zero_ns", "cut", "users", "ended_ns",
}  # fmt: skip
"""What a summary says beside numbers."""


@pytest.mark.parametrize("case", CASES)
def test_every_metric_against_plain_python(tmp_path: Path, case: str) -> None:
    place = CASES[case](tmp_path / "run")
    with latencies_known():  # by no targets
        summaries = [summary.summarise(place, targets=Targets(**targets)) for targets in ({}, HELD)]
    for targets, found in zip((None, HELD), summaries, strict=True):
        expected = metric_oracle.summary(metric_oracle.read(place, targets))
        assert set(found) - ABOUT == set(expected), "no metric goes unchecked"
        same(found, expected)


@pytest.mark.parametrize("case", CASES)
def test_every_table_against_plain_python(tmp_path: Path, case: str) -> None:
    place = CASES[case](tmp_path / "run")
    found, facts = opened(place), metric_oracle.read(place)
    assert set(TABLES) == set(metric_oracle.TABLES), "no table goes unchecked"
    for name, table in TABLES.items():
        same_table(table(found), metric_oracle.TABLES[name](facts))


def test_rows_of_the_warm_up_do_not_count(tmp_path: Path) -> None:
    rows = make_rows(4, 100)
    warm = [row | {"warmup": True} for row in make_rows(5, 50)]
    found = summary.summarise(write_run(tmp_path / "run", rows + warm))
    assert found["tokens_generated"] == sum(row["new_tokens"] for row in rows)


def test_a_run_of_no_duration_has_no_rates(tmp_path: Path) -> None:
    found = summary.summarise(instant(tmp_path / "run"))
    assert found["elapsed_s"] == 0
    assert found["tokens_generated"] == 3
    assert found["wall_clock_tok_s"] is None
    json.dumps(found, allow_nan=False)


def test_ranks_are_one_run(tmp_path: Path) -> None:
    found = summary.summarise(ranks(tmp_path / "run"))
    alone = [summary.summarise(tmp_path / "run" / f"rank_{rank}") for rank in range(3)]
    assert found["conditions"]["ranks"] == 3
    assert found["requests"] == sum(one["requests"] for one in alone), "equal ids in several ranks are several requests"
    assert found["rank_sum_wall_clock_tok_s"] == pytest.approx(sum(one["wall_clock_tok_s"] for one in alone))
    assert found["cpu_read_rank_max_p95_ms"] == max(one["cpu_read_p95_ms"] for one in alone)


def test_a_rank_that_began_before_the_first(tmp_path: Path) -> None:
    place = tmp_path / "run"
    for rank, zero in enumerate((S, 0)):
        write_run(
            place / f"rank_{rank}", [row | {"rank": rank} for row in by_hand()], rank=rank, clock={"zero_ns": zero}
        )
    (place / "run.json").write_text(json.dumps({"run_version": 1, "ranks": 2, "status": "failed"}))
    same(summary.summarise(place), metric_oracle.summary(metric_oracle.read(place)))


# Golden answers


GOLDEN = metric_oracle.DATA / "golden"
AGAIN = "; where the definition was meant to change: python -m tests.analysis.metric_oracle"


def test_the_golden_metrics_of_the_shipped_run() -> None:
    found = summary.summarise(metric_oracle.DATA / "run", targets=Targets(**GOLDEN_TARGETS))
    golden = {
        row["name"]: row["text"] if row["number"] is None else row["number"]
        for row in pq.read_table(GOLDEN / "metrics.parquet").to_pylist()
    }
    assert set(found) - ABOUT == set(golden), f"other names{AGAIN}"
    same(found, golden)


@pytest.mark.parametrize("name", TABLES)
def test_the_golden_tables_of_the_shipped_run(name: str) -> None:
    same_table(TABLES[name](opened(metric_oracle.DATA / "run")), pq.read_table(GOLDEN / f"{name}.parquet").to_pylist())


def test_golden_answers_are_of_the_reference_not_of_analysis() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {"metrics", *TABLES}
    assert not re.search(r"^(import|from) (analysis|polars|numpy)", Path(metric_oracle.__file__).read_text(), re.M)


def test_the_shipped_run_is_small_and_has_every_kind_of_row() -> None:
    assert sum(path.stat().st_size for path in metric_oracle.DATA.rglob("*") if path.is_file()) <= 200_000
    found = summary.summarise(metric_oracle.DATA / "run")
    assert found["valid"], found["findings"]
    assert all(found[name] for name in ("cpu_hits", "nvme_hits", "misses", "demotes", "promotes", "drops", "bypasses"))
    assert found["device_read_bytes"] is not None


# By hand

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


def test_a_case_worked_by_hand(tmp_path: Path) -> None:
    place = write_run(tmp_path / "run", by_hand(), token_ms=100.0)
    held = Targets(qos_ms_per_gib=1600.0, tier_gib_s={"nvme": (1.0, 2.0), "cpu": (4.0, 4.0)}, tbw=1.0, drive_tb=2.0)
    found = summary.summarise(place, targets=held)
    same(
        found,
        {
            # 10 + 5 + 20 tokens; from 0 to 8 s; 1 + 0.5 + 2 + 1 + 2 s of I/O
            "tokens_generated": 35, "elapsed_s": 8.0, "storage_io_s": 6.5, "wall_clock_tok_s": 35 / 8,
            "storage_tok_s": 35 / 6.5, "mean_inflight": 6.5 / 8, "requests_per_s": 2 / 8,
            # from the first start to the last, at 8 s, when the miss that carries 20 tokens begins and ends
            "steady_s": 8.0, "steady_tok_s": 35 / 8, "steady_decode_read_gib_s": 1 / 8,
            "steady_nvme_read_gib_s": 1 / 8, "steady_nvme_write_gib_s": 1 / 8,
            "decode_read_bytes": GIB, "cpu_decode_read_bytes": GIB, "prefill_write_bytes": 3 * GIB,
            "nvme_tokens_processed": 2000, "nvme_tok_s": 250.0,
            # prefill writes 1000 and 2000 tokens first, finds 1000 and misses 500; session 0 writes alone
            "prompt_tokens": 4500, "compulsory_misses": 2, "compulsory_tokens": 3000,
            "hit_rate_prompt": 1 / 4, "hit_rate_prompt_tokens": 1000 / 4500,
            "hit_rate_sessions": (0 + 1000 / 3500) / 2, "hit_rate_sessions_p5": 0.05 * 1000 / 3500,
            "hit_rate_sessions_p50": 500 / 3500,
            # 1 and 2 GiB stored in cpu, the first of them demoted
            "cpu_left_objects": 1, "cpu_left_bytes": 2 * GIB, "cpu_left_share": 0.5,
            "nvme_left_objects": 1, "nvme_left_bytes": GIB, "nvme_left_share": 0.5, "gpu_left_objects": 0,
            # ops 1 and 3 of reads 1, 3, 4; without source user 3 of 3, 4; with writes 0 and 2 among five
            "hit_rate": 2 / 3, "hit_rate_tokens": 0.8, "hit_rate_reuse": 0.5, "hit_rate_refs": 0.4,
            "hit_rate_requests": (1 + 1 / 2) / 2, "system_hit_rate": 0.0, "rag_hit_rate": None, "nvme_hit_rate": 1 / 3,
            "logged_ops": 5, "evictions": 1, "recomputed_tokens": 500, "cpu_reads": 2, "nvme_read_bytes": GIB,
            # 0.6 and 1 s
            "cpu_write_mean_ms": 800.0, "cpu_write_p50_ms": 800.0, "cpu_write_p95_ms": 980.0, "cpu_write_max_ms": 1000.0,
            "cpu_write_host_max_ms": 500.0, "cpu_read_queue_max_ms": 500.0, "nvme_write_eviction_p99_ms": 1500.0,
            "nvme_write_foreground_p99_ms": None, "nvme_write_device_max_ms": 1000.0,
            # 2 GiB in 8 s; in the 2.5 s from 1.5 to 4; in 0.5 + 0.5 s
            "cpu_read_gib_s": 0.25, "cpu_read_busy_gib_s": 0.8, "cpu_read_io_gib_s": 2.0, "cpu_read_best10_gib_s": None,
            "nvme_read_efficiency": 0.5, "nvme_write_efficiency": 0.25, "cpu_read_efficiency": 0.2,
            "gpu_read_efficiency": None,
            # request 0 waits 0.5 s for a worker; 1 waits for the demotion, due at 1, stored from 4
            "eviction_wait_mean_ms": 1500.0, "eviction_wait_share": 3 / 12, "data_wait_mean_ms": 0.0,
            "data_wait_s": 1.0, "eviction_wait_s": 3.0, "room_wait_s": 0.0, "window_wait_s": 0.0,
            "requests": 2, "io_mean_ms": (1500 + 3000) / 2, "queue_max_ms": 500.0, "plan_wait_max_ms": 3000.0, "lateness_max_ms": 3000.0,
            "ttfb_p50_ms": (1000 + 7000) / 2, "generation_mean_ms": (1000 + 2500) / 2,
            # 2 s + 1 s; the miss at 8 s + 2 s of its tokens − due at 1
            "e2e_mean_ms": (3000 + 9000) / 2,
            # 3000 − 1500 − 500 − 1000; 9000 − 3000 − 3000 − 2500
            "other_mean_ms": (0 + 500) / 2,
            # 1 s of 50 ms + 1 GiB; 7 s of 1 s + 3 GiB that moved, the miss's 0.5 did not
            "interactive_requests": 1, "interactive_kept": 1, "batch_requests": 1, "batch_compliance": 0.0,
            "responsive_requests": 0, "responsive_kept": None,
            # nothing was due from 7 to 8
            "idle_s": 1.0, "plan_wait_s": 4.0, "queue_s": 0.5, "device_s": 3.5, "host_s": 6.1 - 3.5,
            "nvme_device_read_s": 1.0, "nvme_device_write_s": 1.0, "bottleneck": "device",
            "cpu_break_even_tok_s": 2000.0, "nvme_break_even_tok_s": 500.0, "gpu_break_even_tok_s": None,
            # 2 + 1 GiB read for 2 of hits, 3 + 1 written for 3 of stores
            "read_amplification": 1000 / 35, "read_bytes_ratio": 1.5, "write_amplification": 4 / 3, "nvme_write_amplification": 1 / 3,
            "nvme_write_bytes_per_day": GIB * 10_800.0, "drive_writes_per_day": GIB * 10_800 / 2e12,
            "endurance_years": 1e12 / (GIB * 10_800 * 365.25),
        },
    )  # fmt: skip


def test_tables_worked_by_hand(tmp_path: Path) -> None:
    log = opened(write_run(tmp_path / "run", by_hand(), token_ms=100.0))
    lies = TABLES["occupancy_over_time"](log).filter(pl.col("t_s").round(3).is_in([0.0, 1.0, 4.0, 5.0, 8.0]))
    assert lies.filter(tier="cpu")["gib"].to_list() == [0, 1, 0, 2, 2]  # stored at 1 s, demoted at 4, 2 GiB stored at 5
    assert lies.filter(tier="nvme")["gib"].to_list() == [0, 0, 1, 1, 1]
    depth = TABLES["depth_over_time"](log).filter(pl.col("t_s").round(3).is_in([0.5, 1.2, 2.0, 7.5]))
    assert depth["in_flight"].to_list() == [1, 0, 1, 0]
    assert depth["waiting"].to_list() == [0, 1, 0, 0]
    hits = [("user", "cpu", 1, 1000, 1.0), ("multi_turn", "nvme", 1, 1000, 1.0), ("system", "recomputed", 1, 500, 1.0)]
    assert sorted(TABLES["hits"](log).rows()) == sorted(hits)


# What must hold of any log


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
def test_spreads_of_any_classes(rows: Rows, by: list[str]) -> None:
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "b": pl.Boolean, "v": pl.Int64})
    classes = {"a": (pl.col("a"), 5), "b": (pl.col("b"), 2)}
    ((_, values),) = spreads.sort([frame.lazy()], classes, {"v": pl.col("v")})
    groups = metric_oracle.grouped(
        rows, lambda row: tuple(None if row[name] is None else int(row[name]) for name in by)
    )
    found = values.spread(by).rows(named=True)
    assert len(found) == len(groups)
    points = values.points(by, (0.0, 0.3, 1.0)).rows(named=True) if by else []
    for row in found:
        mine = sorted(one["v"] for one in groups[tuple(row[name] for name in by)])
        same(row, {"count": len(mine)} | in_ms(mine))
        curve = [point["ms"] for point in points if all(point[name] == row[name] for name in by)]
        assert not by or curve == pytest.approx(
            [mine[0] / 1e6, metric_oracle.quantile(mine, 3000) / 1e6, mine[-1] / 1e6]
        )


def test_spreads_of_nothing() -> None:
    ((_, values),) = spreads.sort([pl.LazyFrame(schema={"v": pl.Int64})], {}, {"v": pl.col("v")})
    assert values.spread(["all"]).height == values.points(["all"], (0.5,)).height == 0


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


def numbers(found: Log) -> Dict:
    return summary.measure(found)


def latencies(rows: Rows) -> Dict:
    return METRICS["latency"](log_of(rows)).collect().row(0, named=True)


def agree(one: Log, other: Log) -> None:
    same(numbers(one), numbers(other))
    for table in TABLES.values():
        same_table(table(one), table(other).rows(named=True))


@settings(max_examples=6)
@given(rows=logs(), order=st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: Rows, order: random.Random) -> None:
    shuffled = order.sample(rows, len(rows))
    agree(log_of(shuffled), log_of(rows))


@pytest.mark.parametrize("parts", [1, 7])
def test_how_rows_lie_in_parts_does_not_matter(tmp_path: Path, parts: int) -> None:
    rows = follow(6, 100)
    agree(opened(write_run(tmp_path / "run", random.Random(0).sample(rows, len(rows)), parts)), log_of(rows))


@settings(max_examples=6)
@given(rows=logs())
def test_a_log_in_stretches_says_the_same(rows: Rows) -> None:
    with pytest.MonkeyPatch.context() as patch:
        whole = log_of(rows)
        numbers(whole)  # taken at once, and kept
        patch.setattr(log, "STRETCH", 7)
        patch.setattr(log, "AT_ONCE", 1)
        agree(log_of(rows), whole)


@settings(max_examples=10)
@given(rows=logs(), tier=st.sampled_from(TIERS))
def test_latencies_of_a_tier_are_its_own(rows: Rows, tier: str) -> None:
    rows = [row | {"warmup": False} for row in rows]
    alone = [row for row in rows if tier in (row["from_tier"], row["to_tier"])] or rows
    mine, found = ({n: v for n, v in latencies(some).items() if n.startswith(tier)} for some in (rows, alone))
    assert len(mine) == 2 * 6 * 8
    same(found, mine)


@settings(max_examples=15)
@given(rows=logs())
def test_depth_adds_up_to_the_time_spent(rows: Rows) -> None:
    measured = [row for row in rows if not row["warmup"]]
    found = TABLES["depth_over_time"](log_of(rows))
    width = metric_oracle.intervals(_facts(rows))[0] / 1e9
    first = min(row["start_ns"] for row in measured)
    assert found["in_flight"].sum() * width == pytest.approx(
        sum(row["end_ns"] - row["start_ns"] for row in measured) / 1e9, abs=1e-9
    )
    waited = sum(row["start_ns"] - max(first, row["ready_ns"]) for row in measured) / 1e9
    assert found["waiting"].sum() * width == pytest.approx(waited, abs=1e-9)


def _facts(rows: Rows) -> metric_oracle.Facts:
    return metric_oracle.Facts(rows, TOKEN_NS, None, [], 1, 1, 1, 0.0, {}, 0.0, (None, None), None)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_generation_where_ops_are_one_row(tmp_path: Path, seed: int) -> None:
    rows = [row for row in make_rows(seed, 200) if row["move"] not in ("demote", "drop")]
    found, expected = of_rows(tmp_path / "run", rows)
    assert expected["generation_max_ms"]
    differ(found, expected, "(generation|e2e)_.*")


@settings(max_examples=15)
@given(rows=logs())
def test_a_tier_ends_up_with_what_was_stored_and_not_evicted(rows: Rows) -> None:
    found = TABLES["occupancy_over_time"](log_of(rows))
    for tier, lies in found.group_by("tier", maintain_order=True).agg(pl.col("gib").last()).rows():
        ok = [row for row in rows if row["status"] == "ok"]
        entered = sum(row["size_bytes"] for row in ok if row["to_tier"] == tier)
        left = sum(row["size_bytes"] for row in ok if row["from_tier"] == tier and row["move"] != "hit")
        assert lies == pytest.approx((entered - left) / GIB, abs=1e-9)


@settings(max_examples=10)
@given(rows=logs())
def test_curves_rise_to_the_largest(rows: Rows) -> None:
    found = log_of(rows)
    largest = {
        (row["tier"], row["side"]): row["max_ms"]
        for row in found.latency.filter(split="all", clock="total").rows(named=True)
    }
    for (tier, side), curve in found.curves.group_by("tier", "side", maintain_order=True):
        assert curve["ms"].is_sorted()
        assert curve["ms"][-1] == largest[tier, side]


@settings(max_examples=25)
@given(rows=logs())
def test_times_of_a_request_fit_into_it(rows: Rows) -> None:
    found = log_of(rows).requests.collect()
    e2e, parts = found["done_ns"] - found["due_ns"], found.select("io_ns", "queue_ns", "plan_wait_ns")
    assert (parts.sum_horizontal() <= e2e).all()
    assert parts.select(pl.min_horizontal(pl.all()) >= 0).to_series().all()


def test_what_a_request_has_at_once_counts_once(tmp_path: Path) -> None:
    """Ten hits due at 0, one after the other at work from 1 to 11 s: a queue of 1 s, not of 1 + 2 + … + 10."""
    hit = by_hand()[1] | {"due_ns": 0, "ready_ns": 0, "window_ns": 0, "order_ns": 0}
    rows = [hit | {"op_id": n, "position": n, "start_ns": (n + 1) * S, "end_ns": (n + 2) * S} for n in range(10)]
    found, _ = of_rows(tmp_path / "run", rows, token_ms=0.0)
    same(found, {"queue_max_ms": 1000.0, "io_max_ms": 10_000.0, "plan_wait_max_ms": 0.0, "e2e_max_ms": 11_000.0})


@pytest.mark.parametrize("cause", ["data", "eviction", "room", "order", "window", None])
def test_what_a_request_waited_for(tmp_path: Path, cause: str | None) -> None:
    """Due at 0, ready at 3 s, done at 4."""
    row = by_hand()[1] | {"due_ns": 0, "ready_ns": 3 * S, "start_ns": 3 * S, "end_ns": 4 * S}
    row |= {"waited_for": cause if cause in WAITS else None, "window_ns": 0, "order_ns": 0}
    row |= {f"{cause}_ns": 3 * S} if cause in ("order", "window") else {}
    found, _ = of_rows(tmp_path / "run", [row], token_ms=0.0, workers=8)
    names = ("data", "eviction", "room", "order", "window")
    same(found, {f"{name}_wait_mean_ms": 3000.0 * (name == cause) for name in names})
    same(found, {f"{name}_wait_share": 0.75 * (name == cause) for name in names})
    same(found, {f"{name}_wait_s": 3.0 * (name == cause) for name in names} | {"plan_wait_s": 3.0})
    assert found["bottleneck"] == (cause or "plan")


@pytest.mark.parametrize(
    ("workers", "times", "bottleneck"),
    [
        (10, {"device_read_ns": 9}, "device"), (12, {"device_read_ns": 9}, "device"), (13, {"device_read_ns": 9}, "data"),
        (10, {"device_read_ns": 1}, "host"), (10, {"device_read_ns": 1, "verify_ns": 11}, "verify"),
        (30, {"verify_ns": 0}, "data"), (30, {"verify_ns": 15}, "verify"),
    ],
)  # fmt: skip
def test_the_bottleneck_is_where_busy_workers_are(tmp_path: Path, workers: int, times: Dict, bottleneck: str) -> None:
    """Ten moves at once for 10 s, which had waited for 200 s in all, beside so many workers."""
    hit = by_hand()[1] | {"due_ns": 0, "ready_ns": 20 * S, "start_ns": 20 * S, "end_ns": 30 * S, "waited_for": "data"}
    hit |= {"read_ns": 10 * S} | {name: value * S for name, value in times.items()}
    rows = [hit | {"op_id": n, "position": n} for n in range(10)]
    found, expected = of_rows(tmp_path / "run", rows, workers=workers)
    assert found["bottleneck"] == expected["bottleneck"] == bottleneck


def test_a_system_twice_as_fast_cut_at_the_same_time_is_twice_as_fast(tmp_path: Path) -> None:
    """8 moves at once, each 1 GiB in 0.5 s or in 0.25 s; the prefix of both is the slower one's."""
    found = []
    for name, took in (("slow", S // 2), ("fast", S // 4)):
        hit = by_hand()[1] | {"from_tier": "nvme", "phase": "decode", "new_tokens": 10, "size_bytes": GIB}
        rows = []
        for n in range(400):
            at = {
                "due_ns": n // 8 * took,
                "ready_ns": n // 8 * took,
                "start_ns": n // 8 * took,
                "end_ns": (n // 8 + 1) * took,
            }
            rows.append(
                hit | at | {"op_id": n, "position": n, "request_id": n, "read_ns": took, "device_read_ns": took}
            )
        window = {"duration_s": 10.1, "cut_s": 10.1, "drain_s": 1.0}
        found.append(summary.summarise(write_run(tmp_path / name, rows, window=window)))
    for metric in ("wall_clock_tok_s", "steady_tok_s", "storage_tok_s", "decode_read_gib_s", "nvme_read_gib_s"):
        assert found[1][metric] / found[0][metric] == pytest.approx(2.0, rel=1e-9), metric
    assert found[0]["elapsed_s"] == found[0]["steady_s"] == 10.1
    assert found[0]["drained_bytes"] / GIB == pytest.approx(400 - 10.1 / 0.5 * 8)


def test_pace_asap_times_no_request(tmp_path: Path) -> None:
    found = summary.summarise(write_run(tmp_path / "run", follow(9, 200), pace="asap"))
    assert found["requests"] > 0
    assert found["generation_mean_ms"] > 0
    times = [f"{name}_p95_ms" for name in ("io", "queue", "plan_wait", "lateness", "ttfb", "e2e")]
    assert {
        found[name] for name in (*times, "batch_compliance", "batch_kept", "batch_ttfb_p95_ms", "room_wait_share")
    } == {None}


# What went wrong before


def test_without_counters_the_cpu_is_not_the_bottleneck(tmp_path: Path) -> None:
    found, expected = of_rows(tmp_path / "run", by_hand(), token_ms=100.0)
    assert found["bottleneck"] == expected["bottleneck"] == "device"


def test_ranks_share_the_cpu(tmp_path: Path) -> None:
    found = summary.summarise(busy(tmp_path / "run"))
    assert found["cpu_share"] == pytest.approx(0.95)
    assert found["bottleneck"] == "cpu"


def test_tokens_are_generated_whatever_row_carries_them(tmp_path: Path) -> None:
    differ(*of_rows(tmp_path / "run", by_hand(), token_ms=100.0), "generation_.*")


def test_generation_begins_when_the_op_has_ended(tmp_path: Path) -> None:
    """A miss at 8 s with 20 tokens, stored by 9 s: done at 11 s, due at 1."""
    rows = by_hand()
    rows[-1] |= {"move": "store", "to_tier": "nvme", "end_ns": 9 * S, "write_ns": S}
    found, _ = of_rows(tmp_path / "run", rows, token_ms=100.0)
    assert found["e2e_max_ms"] == 10_000


def test_requests_of_a_class_are_counted(tmp_path: Path) -> None:
    found, expected = of_rows(tmp_path / "run", [row | {"phase": "decode"} for row in by_hand()])
    assert [expected[f"{name}_requests"] for name in metric_oracle.QOS] == [1, 0, 1]
    differ(found, expected, "(interactive|responsive|batch)_requests")


def test_only_what_moved_prolongs_the_target(tmp_path: Path) -> None:
    place = write_run(tmp_path / "run", by_hand(), token_ms=100.0)
    assert summary.summarise(place, targets=Targets(qos_ms_per_gib=1600.0))["batch_kept"] == 0


def test_the_best_ten_seconds_of_a_side_that_ended_early(tmp_path: Path) -> None:
    rows = by_hand()
    rows[-1] |= {"end_ns": 30 * S}
    found, expected = of_rows(tmp_path / "run", rows)
    assert expected["cpu_read_best10_gib_s"] == 2 / 10
    differ(found, expected, "cpu_read_best10_gib_s")


def test_hosts_without_a_device_do_not_dilute_its_utilisation(tmp_path: Path) -> None:
    place = ranks(tmp_path / "run")
    differ(summary.summarise(place), metric_oracle.summary(metric_oracle.read(place)), "device_utilisation")


def test_counters_have_the_same_axis_as_moves(tmp_path: Path) -> None:
    place = followed(tmp_path / "run")
    expected = [row["t_s"] for row in metric_oracle.TABLES["device_over_time"](metric_oracle.read(place))]
    assert TABLES["device_over_time"](opened(place))["t_s"].to_list() == pytest.approx(expected)


def test_what_the_warm_up_stored_late_lies_there_too() -> None:
    rows = by_hand()
    rows[0] |= {"warmup": True, "end_ns": 20 * S}
    lies = TABLES["occupancy_over_time"](log_of(rows)).filter(tier="cpu")
    assert lies["gib"][-1] == 2


@pytest.mark.parametrize("name", ["bandwidth_over_time", "latency_over_time"])
def test_what_ends_on_a_bound_ends_in_the_interval_that_begins_there(name: str) -> None:
    times = {"due_ns": 0, "ready_ns": 0, "start_ns": 0, "end_ns": 43 * 10**6}
    rows = [by_hand()[1] | times]
    same_table(TABLES[name](log_of(rows)), metric_oracle.TABLES[name](_facts(rows)))


def test_targets_go_by_name(tmp_path: Path) -> None:
    place = write_run(tmp_path / "run", by_hand(), token_ms=100.0)
    one, other = (
        {"interactive": 1500.0, "responsive": 1.0, "batch": 1.0},
        {"batch": 1.0, "responsive": 1.0, "interactive": 1500.0},
    )
    assert summary.summarise(place, targets=Targets(qos_ms=one))["interactive_kept"] == 1
    assert summary.summarise(place, targets=Targets(qos_ms=other))["interactive_kept"] == 1


def test_means_of_large_values() -> None:
    frame = pl.DataFrame({"v": [2**61] * 5})
    ((_, values),) = spreads.sort([frame.lazy()], {}, {"v": pl.col("v")})
    assert values.spread(["all"])["mean_ms"].to_list() == pytest.approx([2**61 / 1e6])


# The glossary


def test_the_glossary_defines_every_name_and_no_other() -> None:
    names = [name for term in glossary.terms() for name in term.expanded()]
    assert len(names) == len(set(names)), "a name is defined twice"
    assert set(names) == set(numbers(log_of(make_rows(1, 50))))
    for metric, function in METRICS.items():
        assert set(function(log_of(make_rows(1, 50))).collect_schema()) == {
            name for term in glossary.terms() if term.metric == metric for name in term.expanded()
        }
        assert function.__name__ == metric
        assert glossary.about(metric)
    assert all(re.search(r"\w", term.definition) for term in glossary.terms())


UNITS = "s ms cpu bytes tokens tok_s gib_s rate ratio amplification years efficiency share sec per_s day compliance utilisation"
COUNTS = (
    "requests tokens_generated nvme_tokens_processed mean_inflight evictions logged_ops failed_moves upstream_moves"
    " compulsory_misses left_objects"
)
WITHOUT = {
    "bottleneck",
    "hit_rate_reuse",
    "hit_rate_refs",
    "hit_rate_requests",
    "hit_rate_prompt",
    "hit_rate_sessions",
    "hit_rate_sessions_p5",
    "hit_rate_sessions_p50",
    "kept",
    "reads",
    "writes",
    *metric_oracle.MOVES.values(),
}


def test_names_carry_their_units() -> None:
    for name in (name for term in glossary.terms() for name in term.expanded()):
        of, _, plain = name.partition("_")
        counted = {name, plain if of in (*TIERS, *LOG_ENUMS["qos"]) else name} & {*COUNTS.split(), *WITHOUT}
        assert name.endswith(tuple(f"_{unit}" for unit in UNITS.split())) or counted, name


DOC = ROOT / "docs" / "metrics.md"
WRITE = "; python -m tests.analysis.test_metrics writes docs/metrics.md anew"


def generated() -> dict[str, str]:
    """What stands between the markers of docs/metrics.md, by section."""
    told = CliRunner().invoke(main, ["metrics", "--markdown"], catch_exceptions=False).stdout.strip()
    rows = [f"| `{name}` | {' '.join((table.__doc__ or '').split())} |" for name, table in TABLES.items()]
    return {"metrics": told, "tables": "\n".join(["| table | rows |", "|---|---|", *rows])}


def marked(text: str) -> dict[str, str]:
    return dict(re.findall(r"<!-- (\w+): begin -->\n(.*?)\n?<!-- \1: end -->", text, re.S))


def test_the_docs_say_what_the_code_says() -> None:
    assert marked(DOC.read_text()) == generated(), WRITE


def write_docs() -> None:
    text = DOC.read_text()
    for name, told in generated().items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        head, _, rest = text.partition(begin)
        text = head + begin + told + "\n" + rest[rest.index(end) :]
    DOC.write_text(text)


if __name__ == "__main__":
    write_docs()
