"""Doubts just above and just below their thresholds, MLPerf's faults as crafted logs, and logs that were tampered with."""

import ast
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from analysis import audit, between, device_doubts, doubts, machine_doubts, recomputed, render
from analysis.between import together
from analysis.cli import main
from analysis.evidence import Doubt
from analysis.summary import checked, summarise
from replayer import run_json
from replayer.schema import LOG_ENUMS, TIERS, parts, ranks_of, read_run
from tests.support.crafted_runs import REQUESTS, SECOND, SIZE, Crafted, clean, sampled
from tests.support.logs import as_version_1
from tests.support.paths import ROOT
from tracegen.schema import InputError

Dict = dict[str, Any]
Change = Callable[[Crafted], object]
GIB = 2**30
pytestmark = pytest.mark.usefixtures("latencies_once")
CODE = {name: {word: code for code, word in enumerate(words)} for name, words in LOG_ENUMS.items()}


def found(run: Crafted, place: Path) -> dict[str, list[Doubt]]:
    """What `analysis summary` doubts, by kind."""
    kinds: dict[str, list[Doubt]] = {}
    for doubt in summarise(run.save(place / "run"))["doubts"]:
        kinds.setdefault(doubt["kind"], []).append(Doubt(**doubt))
    return kinds


def call(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def put(info: Dict, path: str, value: Any) -> None:
    *above, last = path.split(".")
    for step in above:
        info = info[step]
    info[last] = value


def drop(info: Dict, path: str) -> None:
    *above, last = path.split(".")
    for step in above:
        info = info[step]
    info.pop(last)


# A clean run, which all others are changes of


@pytest.mark.parametrize(
    "options",
    [{}, {"cpu_objects": 30}, {"cpu_objects": 1}, {"cpu_objects": 30, "nvme_objects": 400}, {"executed": 1700}],
    ids=str,
)
def test_a_clean_run_is_valid_and_nobody_doubts_it(tmp_path: Path, options: Dict) -> None:
    place = clean(**options).save(tmp_path / "run")
    summary = checked(place)
    assert (summary["valid"], summary["findings"], summary["doubts"]) == (True, [], [])


# Every doubt, just above its threshold and just below


def waits(run: Crafted, share: float, cause: str = "order") -> None:
    """Requests whose first moves wait for a share of the time from end to end."""
    for request in range(1, REQUESTS):  # nothing is due before the run
        mine = np.flatnonzero(run.rows["request_id"] == request)
        whole = run.rows["end_ns"][mine].max() - run.rows["ready_ns"][mine[0]]
        run.rows["due_ns"][mine[0]] = run.rows["ready_ns"][mine[0]] - int(whole * share / (1 - share))
    run.rows["due_ns"] = run.rows["due_ns"].clip(0)
    waited = run.rows["ready_ns"] - run.rows["due_ns"]
    if cause in ("window", "order"):
        run.rows[f"{cause}_ns"] = waited
    else:
        run.rows["waited_for"][:] = CODE["waited_for"][cause]
    run.settle()


def verified(run: Crafted, share: float) -> None:
    run.rows["verify_ns"] = ((run.rows["read_ns"] + run.rows["write_ns"]) * share).astype(np.int64)


def counted(run: Crafted, read: float = 1.0, written: float = 1.0) -> None:
    run.samples = sampled(run.rows, read, written)


def each_sample(run: Crafted, **values: Any) -> None:
    assert run.samples is not None
    run.samples = [sample | values for sample in run.samples]


def conditions(run: Crafted, **values: Any) -> None:
    run.info["conditions"] |= values


def drained(run: Crafted, share: float) -> None:
    """The same run, said to have been cut so early that draining took this share of the window."""
    asked_s = float(run.rows["end_ns"].max()) / 1e9 / (1 + share)
    conditions(run, duration_s=asked_s)
    run.info["window"]["cut_s"] = asked_s
    run.info["executed_ops"] = int(run.rows["op_id"].max()) + 1
    run.settle()


def queued(run: Crafted, share: float) -> None:
    """Moves that wait for a worker for this share of the time from ready to end."""
    io = run.rows["end_ns"] - run.rows["start_ns"]
    run.rows["ready_ns"] = run.rows["start_ns"] - (io * share / (1 - share)).astype(np.int64)
    early = -min(0, int(run.rows["ready_ns"].min()))
    for name in ("ready_ns", "start_ns", "end_ns"):
        run.rows[name] = run.rows[name] + early
    run.rows["due_ns"] = run.rows["ready_ns"].copy()
    run.settle()
    each_sample(run, utilisation=0.49)


def late(run: Crafted, late_s: float) -> None:
    """Requests all of which begin so late under pace open."""
    conditions(run, pace="open")
    began = run.rows["start_ns"].copy()
    for name in ("start_ns", "end_ns"):
        run.rows[name] = run.rows["due_ns"] + int(late_s * 1e9) + (run.rows[name] - began).clip(0)
    run.settle()


def fast_device(run: Crafted, side: str, gib_s: float) -> None:
    """Device times in which this many GiB/s pass; whole times are twice as long."""
    mine = run.rows[f"{side}_ns"] > 0
    run.rows[f"device_{side}_ns"] = np.where(mine, int(SIZE / GIB / gib_s * 1e9), 0)
    run.rows[f"{side}_ns"] = run.rows[f"device_{side}_ns"] * 2
    run.rows["end_ns"] = run.rows["start_ns"] + run.rows["read_ns"] + run.rows["write_ns"]
    run.settle()


def short_device(run: Crafted, side: str, share: float) -> None:
    """Device times that are a share of whole times, of moves slow enough for any device."""
    run.slower(40)
    run.rows[f"device_{side}_ns"] = (run.rows[f"{side}_ns"] * share).astype(np.int64)


def lost(run: Crafted, side: str, share: float) -> None:
    """Times of which a share was taken off."""
    for name in (f"{side}_ns", f"device_{side}_ns"):
        run.rows[name] = (run.rows[name] * (1 - share)).astype(np.int64)


ELAPSED_S = 89.95
THRESHOLDS: list[tuple[str, str | None, Change, Change]] = [  # kind, a word of its text, what fires, what does not
    ("short run", None, lambda run: run.slower(59.5 / ELAPSED_S), lambda run: run.slower(60.5 / ELAPSED_S)),
    ("plan wait", "order", lambda run: waits(run, 0.052), lambda run: waits(run, 0.048)),
    ("plan wait", "window", lambda run: waits(run, 0.052, "window"), lambda run: waits(run, 0.048, "window")),
    ("verification", None, lambda run: verified(run, 0.101), lambda run: verified(run, 0.099)),
    ("long drain", None, lambda run: drained(run, 0.101), lambda run: drained(run, 0.099)),
    ("page cache", "delivered", lambda run: counted(run, read=0.89), lambda run: counted(run, read=0.91)),
    ("counters disagree", "read", lambda run: counted(run, read=1.26), lambda run: counted(run, read=1.24)),
    ("counters disagree", "written", lambda run: counted(run, written=1.26), lambda run: counted(run, written=1.24)),
    ("counters disagree", "took", lambda run: counted(run, written=0.89), lambda run: counted(run, written=0.91)),
    ("replayer-bound", "cores", lambda run: each_sample(run, process_cpu=14.5), lambda run: each_sample(run, process_cpu=14.3)),
    ("replayer-bound", "worker", lambda run: queued(run, 0.21), lambda run: queued(run, 0.19)),
    ("fell behind", None, lambda run: late(run, 1.01), lambda run: late(run, 0.99)),
    ("device times", "GiB/s", lambda run: fast_device(run, "read", 65), lambda run: fast_device(run, "read", 63)),
    ("device times", "whole times", lambda run: short_device(run, "write", 0.049), lambda run: short_device(run, "write", 0.051)),
    ("lost time", "reads", lambda run: lost(run, "read", 0.081), lambda run: lost(run, "read", 0.079)),
    ("lost time", "writes", lambda run: lost(run, "write", 0.081), lambda run: lost(run, "write", 0.079)),
    ("verification off", None, lambda run: conditions(run, verify="off"), lambda run: conditions(run, verify="full")),
    ("emulated tier", "nvme", lambda run: conditions(run, layout="null"), lambda run: conditions(run, layout="slab")),
    ("throttled tier", None, lambda run: conditions(run, throttle={"nvme": {"mib_s": 9.0, "latency_us": 0.0}}), lambda run: conditions(run, throttle=None)),
]  # fmt: skip
INVALIDATING = {"page cache", "device times", "lost time"}


@pytest.mark.parametrize(
    ("kind", "word", "fires", "silent"), THRESHOLDS, ids=[f"{case[0]}-{case[1] or ''}" for case in THRESHOLDS]
)
def test_a_doubt_fires_above_its_threshold_and_is_silent_below(
    tmp_path: Path, kind: str, word: str | None, fires: Change, silent: Change
) -> None:
    run = clean()
    fires(run)
    told = found(run, tmp_path)
    assert set(told) == {kind}, "no other doubt comes with it"
    (doubt,) = told[kind]
    assert (word or "") in doubt.text
    assert re.search(r"\d", doubt.text) or kind in {"emulated tier", "throttled tier", "verification off"}
    assert doubt.advice
    assert doubt.invalidates == (kind in INVALIDATING)
    run = clean()
    silent(run)
    assert found(run, tmp_path / "silent") == {}


@pytest.mark.parametrize("cause", ["data", "eviction"])
def test_a_server_waits_for_data_and_for_its_evictions_too(tmp_path: Path, cause: str) -> None:
    run = clean()
    waits(run, 0.9, cause)
    assert "plan wait" not in found(run, tmp_path)


@pytest.mark.parametrize(("cause", "remedy"), [("order", "--order"), ("window", "--window")])
def test_the_advice_on_plan_waits_is_of_their_cause(tmp_path: Path, cause: str, remedy: str) -> None:
    run = clean()
    waits(run, 0.9, cause)
    (doubt,) = found(run, tmp_path)["plan wait"]
    assert remedy in doubt.advice
    assert re.search(rf"is (89\.\d|90\.0)% of the mean end to end time \({cause} ", doubt.text)


def test_what_a_log_of_version_1_waited_for_is_not_known(tmp_path: Path) -> None:
    run = clean()
    waits(run, 0.2)
    place = as_version_1(run.save(tmp_path / "run"))
    (doubt,) = [doubt for doubt in summarise(place)["doubts"] if doubt["kind"] == "plan wait"]
    assert "(no known cause 20.0%)" in doubt["text"]


def test_a_log_of_version_1_holds(tmp_path: Path) -> None:
    place = as_version_1(clean(60, cpu_objects=5, executed=100).save(tmp_path / "run"))
    assert checked(place)["valid"]
    assert not checked(tampered(place, swap("key", HITS)))["valid"]


def test_too_few_samples_per_percentile(tmp_path: Path) -> None:
    run = clean(99)
    (p95, p99) = found(run, tmp_path / "a")["few samples"]
    assert "P95: nvme writes (99), requests (99)" in p95.text
    assert "P99: nvme reads (197)" in p99.text
    assert "100 are the least" in p95.advice
    assert [doubt.text for doubt in found(clean(100), tmp_path / "b")["few samples"]] == [
        "too few samples for a P99: nvme reads (199), nvme writes (100), requests (100)"
    ]
    assert "few samples" not in found(clean(500), tmp_path / "c")


@pytest.mark.parametrize(("requests", "small"), [(327, True), (328, False)])
def test_less_data_than_a_drive_caches(tmp_path: Path, requests: int, small: bool) -> None:
    assert (requests * SIZE < 16 * GIB) == small
    assert ("demo-sized" in found(clean(requests), tmp_path)) == small


def test_what_was_written_before_the_run_fills_caches_too(tmp_path: Path) -> None:
    run = clean(327)
    run.info["precondition"] = {"gib": 1.0, "s": 1.0}
    assert "demo-sized" not in found(run, tmp_path)


def test_errors_and_what_they_took_along(tmp_path: Path) -> None:
    run = clean()
    run.info |= {"status": "failed", "reason": "1 moves failed"}
    run.rows["status"][5], run.rows["error"][5] = (
        CODE["status"]["error"],
        "OSError: [Errno 5] Input/output error: '/c/1.kv'",
    )
    run.rows["status"][9] = CODE["status"]["upstream"]
    told = found(run, tmp_path)
    assert set(told) == {"incomplete", "errors"}
    text = "1 move failed and 1 more could not be made after it: 1 × Input/output error"
    assert told["errors"][0].text == text
    assert all(doubt.invalidates for kind in told.values() for doubt in kind)


@pytest.mark.parametrize("status", ["running", "incomplete", "failed"])
def test_a_run_that_did_not_end_well(tmp_path: Path, status: str) -> None:
    run = clean()
    run.info |= {"status": status, "reason": "it rained"}
    (doubt,) = found(run, tmp_path)["incomplete"]
    assert "it rained" in doubt.text
    assert doubt.invalidates


def test_a_tier_that_is_not_there_is_no_stand_in(tmp_path: Path) -> None:
    run = clean(cpu_objects=REQUESTS, nvme_objects=0)
    conditions(run, layout="null", gpu_device="cpu", direct=None)
    assert found(run, tmp_path) == {}
    run = clean()
    conditions(run, gpu_device="cpu")
    run.info["conditions"]["usable_bytes"] |= {"gpu": 5}
    assert set(found(run, tmp_path / "gpu")) == {"emulated tier"}


def test_a_device_may_idle_where_it_is_not_the_work(tmp_path: Path) -> None:
    """Hits of the cpu tier that wait for workers say nothing about the device."""
    run = clean(cpu_objects=REQUESTS)
    queued(run, 0.5)
    assert "replayer-bound" not in found(run, tmp_path)


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"pace": "closed", "users": 4, "workers": 4}, "QoS classes cannot differ"),
        ({"pace": "closed", "users": 5, "workers": 4}, None),
        ({"pace": "open", "users": 4, "workers": 4}, None),
        ({"pace": "asap", "users": 4, "workers": 4}, "No times per request under pace asap"),
    ],
)
def test_what_times_of_requests_can_show_is_said_once(tmp_path: Path, changes: Dict, note: str | None) -> None:
    run = clean(60)
    run.rows["qos"] = run.rows["request_id"] % 3
    conditions(run, **changes)
    told = call("summary", run.save(tmp_path / "run")).stdout
    notes = [line for line in told.splitlines() if line.startswith(("QoS classes", "No times per request"))]
    assert [line.startswith(note or "") for line in notes] == [True] * (note is not None)
    assert ("end to end P95 ms" in told) == (changes["pace"] != "asap")


# Page cache


@pytest.mark.parametrize(
    ("direct", "samples", "kind", "invalidates"),
    [
        (True, True, None, False),
        (False, True, "page cache", True),  # though the device did deliver the bytes: whose, nobody knows
        (False, False, "page cache", True),
        (True, False, "unchecked reads", False),
    ],
)
def test_who_says_that_a_device_was_read(
    tmp_path: Path, direct: bool, samples: bool, kind: str | None, invalidates: bool
) -> None:
    run = clean()
    conditions(run, direct=direct)
    if not samples:
        run.samples = None
    told = found(run, tmp_path)
    assert set(told) == ({kind} if kind else set())
    assert [doubt.invalidates for doubt in told.get(kind or "", [])] == ([invalidates] if kind else [])


def test_counters_of_no_device_count_nothing(tmp_path: Path) -> None:
    run = clean()
    each_sample(run, read_bytes=None, written_bytes=None, utilisation=None)
    assert set(found(run, tmp_path)) == {"unchecked reads"}


def test_memory_that_calls_itself_a_file_system(tmp_path: Path) -> None:
    run = clean()
    run.samples, run.info["machine"]["storage"]["filesystem"] = None, "tmpfs"
    (doubt,) = found(run, tmp_path)["page cache"]
    assert doubt.invalidates


@pytest.mark.parametrize("warm", [0.3, 0.7])
def test_a_warm_up_from_the_device_hides_no_cached_reads(tmp_path: Path, warm: float) -> None:
    run = clean()
    boundary = int(warm * len(run.rows["op_id"]))
    run.rows["warmup"] = run.rows["op_id"] < boundary
    run.settle()
    assert set(found(deepcopy(run), tmp_path)) <= {"few samples", "short run"}
    assert run.samples is not None
    for sample in run.samples:
        if sample["time_ns"] - SECOND > run.info["warmup"]["end_ns"]:
            sample["read_bytes"] = 0
    assert "page cache" in found(run, tmp_path / "cached")


WARNINGS = {
    "--direct off: the page cache of /mnt (ext4) may serve its reads.": "page cache",
    "/mnt (ext4) refuses O_DIRECT; the page cache may serve its reads.": "page cache",
    "a cache served reads: the nvme tier read 3.00 GiB, the device delivered 1.00 GiB (67% less).": "page cache",
    "no block device counts what /mnt (nfs) does; nothing checks its reads.": "unchecked reads",
    "/mnt is on the root file system (ext4), which the whole machine uses.": "root file system",
    "the nvme tier is the null layout: nothing is stored, its times are the replayer's own.": "emulated tier",
    "the gpu tier is emulated in host memory (--gpu-device cpu); its times are no GPU's.": "emulated tier",
    "the nvme tier is throttled to 470 MiB/s and 80 us; its times are of that limit.": "throttled tier",
    "verification is off; wrong bytes will go unnoticed.": "verification off",
}


def test_what_the_replayer_warned_of_is_not_said_twice(tmp_path: Path) -> None:
    run = clean()
    counted(run, read=0.5)
    run.info["warnings"] = [text for text, kind in WARNINGS.items() if kind == "page cache"]
    told = found(run, tmp_path / "a")
    assert {kind: len(texts) for kind, texts in told.items()} == {"page cache": 1}
    run = clean()
    run.info["warnings"] = ["a new kind of warning.", "a new kind of warning."]
    (doubt,) = found(run, tmp_path / "b")["replayer"]
    assert doubt.text == "a new kind of warning"


def test_every_warning_of_the_replayer_is_known(tmp_path: Path) -> None:
    source = (ROOT / "replayer" / "opening.py").read_text() + (ROOT / "replayer" / "run.py").read_text()
    for words in doubts.COVERED:
        assert words in source, words
    for text, kind in WARNINGS.items():
        assert next(kind for words, kind in doubts.COVERED.items() if words in text) == kind
    assert source.count("found.append(") + source.count("yield f") == 8, (
        "a new warning: say in COVERED which doubt it is"
    )


def test_a_cache_that_the_replayer_saw_invalidates_without_its_counters(tmp_path: Path) -> None:
    run = clean()
    run.samples, run.info["warnings"] = None, [text for text in WARNINGS if text.startswith("a cache")]
    (doubt,) = found(run, tmp_path)["page cache"]
    assert doubt.invalidates


# The faults of MLPerf Storage v3.0's results (../shared/mlperf.md)


def test_rates_leave_out_what_draining_moved(tmp_path: Path) -> None:
    """All bytes over a nominal 300 s while requests drained until 492.7 s overstate by 1.64."""
    run = clean(executed=1700)
    run.slower(492.7e9 / float(run.rows["end_ns"].max()))
    conditions(run, duration_s=300.0)
    run.info["window"]["cut_s"] = 300.0
    summary = summarise(run.settle().save(tmp_path / "run"))
    rows, read = run.rows, run.rows["read_ns"] > 0
    inside = ((300e9 - rows["start_ns"]) / (rows["end_ns"] - rows["start_ns"])).clip(0, 1) * rows["size_bytes"]
    begin_s = float(rows["start_ns"].min()) / 1e9
    assert summary["elapsed_s"] == pytest.approx(300 - begin_s)
    assert summary["drain_s"] == pytest.approx(192.7)
    assert summary["nvme_read_gib_s"] == pytest.approx(float(inside[read].sum()) / GIB / (300 - begin_s))
    assert summary["drained_bytes"] == pytest.approx(float((rows["size_bytes"] - inside).sum()))
    (doubt,) = [doubt for doubt in summary["doubts"] if doubt["kind"] == "long drain"]
    assert "192.7 s past the 300 s" in doubt["text"]
    assert summary["valid"]
    assert "drain, after it" in call("summary", tmp_path / "run").stdout


def test_gib_are_gib(tmp_path: Path) -> None:
    """10 GB in a second are 9.31 GiB/s."""
    run = clean(2)
    for name in ("due_ns", "ready_ns", "start_ns"):
        run.rows[name][:] = 0
    run.rows["end_ns"][:] = SECOND
    run.rows["size_bytes"][run.rows["read_ns"] > 0] = 10**10 // int((run.rows["read_ns"] > 0).sum())
    summary = summarise(run.settle().save(tmp_path / "run"))
    assert summary["nvme_read_bytes"] == pytest.approx(1e10)
    assert summary["nvme_read_gib_s"] == pytest.approx(9.3132, rel=1e-4)
    assert not [name for name in summary if "gbps" in name or "_gb_" in name]
    assert re.search(r"nvme read GiB/s +9\.31\n", call("summary", tmp_path / "run").stdout)
    assert "nvme_read_gib_s" in json.loads(call("summary", tmp_path / "run", "--json").stdout)


def rank_runs(
    place: Path, count: int = 2, change: Callable[[int, Crafted], object] | None = None, requests: int = 30
) -> Path:
    """A run of ranks, each of which replayed all of the trace."""
    infos = []
    for rank in range(count):
        run = clean(requests)
        run.info |= {"rank": rank}
        conditions(run, ranks=count)
        run.rows["rank"][:] = rank
        run.info["machine"] = run.info["machine"] | {"host": f"host{rank}"}
        if change:
            change(rank, run)
        run.save(place / f"rank_{rank}")
        infos.append(run.info)
    above = {
        "run_version": 1, "ranks": count, "status": "complete", "reason": None, "clocks": [i["clock"] for i in infos],
        "executed_ops": sum(info["executed"]["ops"] for info in infos),
    }  # fmt: skip
    (place / "run.json").write_text(json.dumps(above))
    return place


def edit(path: Path, **values: Any) -> None:
    info = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(info | values))


def test_the_p95_of_devices_is_not_that_of_whole_times(tmp_path: Path) -> None:
    """Beside the pooled P95: the device's of each rank, the worst of them."""

    def slow(rank: int, run: Crafted) -> None:
        run.rows["device_read_ns"] = run.rows["read_ns"] * (3 + 5 * rank) // 10

    summary = summarise(rank_runs(tmp_path / "run", 2, slow, REQUESTS))
    assert (summary["valid"], summary["doubts"]) == (True, [])
    whole = SIZE // 2**20 / 1024 * 1e3
    assert summary["nvme_read_p95_ms"] == pytest.approx(whole)
    assert summary["nvme_read_device_rank_max_p95_ms"] == pytest.approx(whole * 0.8)
    assert summary["nvme_read_device_p50_ms"] == pytest.approx(whole * 0.55)


def test_a_run_with_a_rank_missing_is_not_complete(tmp_path: Path) -> None:
    place = rank_runs(tmp_path / "run", 3)
    assert checked(place)["valid"], "of ranks that are all there"
    for path in sorted((place / "rank_1").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    summary = summarise(place)
    assert not summary["valid"]
    assert summary["status"] == "failed"
    assert any("rank 1 of 3 is missing" in finding for finding in summary["findings"])


@pytest.mark.parametrize("direct", [True, False])
def test_a_run_served_by_the_page_cache_is_no_run_of_storage(tmp_path: Path, direct: bool) -> None:
    run = clean()
    conditions(run, direct=direct)
    counted(run, read=0.4)
    summary = summarise(run.save(tmp_path / "run"))
    told = {
        True: "the device delivered 40% of what the nvme tier read: a cache served the rest",
        False: "the nvme tier was read and written through the page cache; devices delivered 40% of its reads",
    }
    assert summary["findings"] == [told[direct]]


def test_device_writes_that_time_only_the_fsync(tmp_path: Path) -> None:
    """1.03 ms of 3,682 ms."""
    run = clean()
    writes = run.rows["write_ns"] > 0
    run.slower(3_682_000_000 / int(run.rows["write_ns"][writes][0]))
    run.rows["device_write_ns"] = np.where(writes, 1_030_000, 0)
    summary = summarise(run.save(tmp_path / "run"))
    (finding,) = summary["findings"]
    assert finding.startswith("device times of nvme writes are 0.03% of their whole times, 3,682 ms")


def test_counters_beyond_all_bounds_are_refused_in_a_sentence(tmp_path: Path) -> None:
    run = clean()
    path = run.save(tmp_path / "run") / "device.parquet"
    table = pq.read_table(path)
    most = pa.array([2**63 - 1] * len(table), table.schema.field("read_bytes").type)
    pq.write_table(table.set_column(table.schema.get_field_index("read_bytes"), "read_bytes", most), path)
    assert "run backwards or are impossible" in call("check", path.parent, code=2).stderr


def test_what_a_promotion_removes_is_no_lost_time() -> None:
    """It removes the object's file inside its time; a hit does nothing of the kind."""
    cells = pl.DataFrame(
        {"move": ["promote", "hit"], "from_tier": ["nvme"] * 2, "to_tier": pl.Series([None, None], dtype=pl.String), "status": ["ok"] * 2}
        | {"rows": [3, 2], "io_ns": [900, 200], "read_ns": [100, 199], "write_ns": [0, 0]}
    )  # fmt: skip
    assert audit.lost(cells)["read"] == (2, 200, 1)


def test_one_seed_and_unlike_work(tmp_path: Path) -> None:
    one, other = clean(), clean(cpu_objects=30, nvme_objects=400)
    places = [one.save(tmp_path / "one"), other.save(tmp_path / "other")]
    assert one.info["trace"]["fingerprint"] == other.info["trace"]["fingerprint"]
    shown = call("summary", *places).stdout.splitlines()[-1]
    assert shown == ("2 runs, 2 configurations, which do unlike work: compare with --vary says what follows from it.")
    rows = clean(nvme_objects=400)
    rows.info["conditions"] = one.info["conditions"]
    shown = call("summary", places[0], rows.save(tmp_path / "alike")).stdout.splitlines()[-1]
    assert shown.startswith("2 runs, unlike work, these differ: ")
    assert "plan_fingerprint" in shown


# Between runs


def summary_of(**values: Any) -> Dict:
    return {
        "trace_fingerprint": "t", "conditions": {"model": "m"}, "machine": ["h", "cpu", 8, "/dev/a"], "executed_ops": 5,
        "wall_clock_tok_s": 100.0, "hit_rate_reuse": 0.5, "hit_rate": 0.5, "doubts": [], "zero_ns": [None],
    } | values  # fmt: skip


def kinds(*summaries: Dict) -> list[list[str]]:
    """Of the doubts that each has beside the others."""
    return [[doubt["kind"] for doubt in summary["doubts"]] for summary in together([*summaries])]


def test_trials_that_disagree() -> None:
    """Of one machine and one configuration, however far each of them came in its window."""
    first, second = together([summary_of(doubts=[{}]), summary_of(wall_clock_tok_s=107.5, executed_ops=6)])
    assert first["doubts"] == [{}, *second["doubts"]]
    (doubt,) = second["doubts"]
    assert doubt["kind"] == "trials disagree"
    assert doubt["text"].startswith("2 trials of one configuration disagree: wall-clock throughput varies by 5.1%")
    assert kinds(summary_of(), summary_of(wall_clock_tok_s=107.2)) == [[], []]
    assert kinds(summary_of(), summary_of(wall_clock_tok_s=500.0, conditions={"model": "n"})) == [[], []]
    assert kinds(summary_of(), summary_of(wall_clock_tok_s=None)) == [[], []]
    assert kinds(summary_of()) == [[]]


def test_each_configuration_has_its_own_trials() -> None:
    """Two that disagree are told apart, and a third that does not stays out of it."""
    runs = [summary_of(conditions={"model": m}, wall_clock_tok_s=v) for m in "no" for v in (100.0, 120.0 + 20 * ord(m))]
    told = together([*runs, summary_of()])
    texts = [[doubt["text"] for doubt in summary["doubts"]] for summary in told]
    assert texts[0] == texts[1] != texts[2] == texts[3]
    assert texts[4] == []
    assert render.doubts([summary | {"run": f"run{i}"} for i, summary in enumerate(told)])[0].count(" trials of ") == 2


def test_copies_are_no_trials() -> None:
    """What began at one nanosecond on one host is one run."""
    assert kinds(*[summary_of(zero_ns=[5])] * 2, summary_of(zero_ns=[6])) == [["copies"], ["copies"], []]
    assert kinds(summary_of(zero_ns=[5]), summary_of(zero_ns=[5], machine=["h2", "cpu", 8, "/dev/a"])) == [[], []]
    assert kinds(*[summary_of(zero_ns=[5, None])] * 2) == [[], []]


def test_unlike_machines_are_no_trials() -> None:
    other = summary_of(machine=["h", "cpu", 8, "/dev/b"], wall_clock_tok_s=500.0)
    assert kinds(summary_of(), other) == [["unlike machines"]] * 2
    assert kinds(summary_of(), summary_of(machine=["h2", "cpu", 8, "/dev/a"])) == [[], []]


def test_hit_rates_that_differ() -> None:
    (doubt,) = together([summary_of(), summary_of(hit_rate_reuse=0.502)])[0]["doubts"]
    assert (doubt["kind"], "50.0% to 50.2%" in doubt["text"]) == ("hit rates differ", True)
    assert kinds(summary_of(), summary_of(hit_rate_reuse=0.5009)) == [[], []]
    assert kinds(summary_of(), summary_of(hit_rate=0.6)) == [["hit rates differ"]] * 2
    assert kinds(summary_of(), summary_of(hit_rate_reuse=0.9, trace_fingerprint="u")) == [[], []]
    assert kinds(summary_of(hit_rate_reuse=None), summary_of(hit_rate_reuse=None)) == [[], []]


# Ranks


def test_a_rank_alone_is_not_the_run(tmp_path: Path) -> None:
    place = rank_runs(tmp_path / "run")
    summary = summarise(place / "rank_0")
    assert summary["findings"] == ["this is one of 2 ranks; the others are left out"]


def test_ranks_stay_apart_where_the_first_is_missing(tmp_path: Path) -> None:
    place = rank_runs(tmp_path / "run", 3)
    shutil.rmtree(place / "rank_0")
    summary = summarise(place)
    assert not summary["valid"]
    assert summary["requests"] == sum(summarise(place / f"rank_{rank}")["requests"] for rank in (1, 2))


def test_a_rank_without_rows_is_told_by_what_it_lacks(tmp_path: Path) -> None:
    place = rank_runs(tmp_path / "run")
    for part in parts(place / "rank_1"):
        pl.read_parquet(part).clear().write_parquet(part)
    assert "parts are missing or altered" in summarise(place)["findings"][0]


@pytest.mark.parametrize(
    ("above", "finding"),
    [
        ({"status": "failed", "reason": "rank 1 fell"}, "the run is failed: rank 1 fell"),
        ({"status": "incomplete"}, "the run is incomplete"),
        ({"status": "running"}, "the run is running"),
        ({"executed_ops": 5}, "the ranks executed"),
        ({"clocks": [{"offset_ns": 1}, {}]}, "the clocks of the ranks"),
        ({"ranks": 1}, "rank_1 is none of the 1 ranks"),
        ({"ranks": 3}, "rank 2 of 3 is missing"),
    ],
)
def test_what_stands_above_the_ranks_counts(tmp_path: Path, above: Dict, finding: str) -> None:
    place = rank_runs(tmp_path / "run")
    edit(place, **above)
    summary = summarise(place)
    assert not summary["valid"]
    assert any(finding in one for one in summary["findings"]), summary["findings"]
    assert summary["status"] == above.get("status", summary["status"])


def test_ranks_under_unlike_conditions_and_on_unlike_machines(tmp_path: Path) -> None:
    def unlike(rank: int, run: Crafted) -> None:
        conditions(run, fsync=("none", "data")[rank])
        run.info["machine"]["cores"] = 16 + rank

    told = summarise(rank_runs(tmp_path / "run", 2, unlike, REQUESTS))["doubts"]
    assert [(doubt["kind"], doubt["invalidates"]) for doubt in told] == [("ranks", True), ("unlike machines", False)]
    assert told[0]["text"].endswith("unlike conditions: fsync")


def test_parts_of_one_trace_are_like_conditions(tmp_path: Path) -> None:
    """`--ranks partition` gives each rank a part of its own."""

    def part(rank: int, run: Crafted) -> None:
        conditions(run, part=[rank, 2])
        run.info["trace"]["counts"] = {}

    assert summarise(rank_runs(tmp_path / "run", 2, part))["valid"]


def test_clocks_that_are_days_apart(tmp_path: Path) -> None:
    def far(rank: int, run: Crafted) -> None:
        run.info["clock"]["zero_ns"] = rank * (1 << 62)

    place = rank_runs(tmp_path / "run", 2, far)
    assert "days apart" in call("summary", place, code=2).stderr


# run.json of other kinds than written


PRESENT = ["status", "reason", "warnings", "trace", "plan", "conditions", "trace.fingerprint", "conditions.model",
           "conditions.bytes_per_token", "conditions.usable_bytes", "conditions.workers", "conditions.pace", "conditions.direct",
           "conditions.verify", "plan.ops", "plan.hits", "plan.hits.nvme", "plan.demotions.cpu>nvme", "plan.read_bytes.cpu",
           "plan.stores.gpu", "executed.hits.gpu", "executed.write_bytes", "run_version"]  # fmt: skip
WRONG: list[tuple[str, Any]] = [
    *[(name, value) for name in ("plan.ops", "plan.hits.cpu", "executed.ops", "executed_ops", "warmup.ops") for value in ("5", -1, True, 1.5, [], 1 << 63)],
    *[(name, value) for name in ("window.drain_s", "window.cut_s", "conditions.token_ms", "conditions.duration_s")
      for value in ("5", -1, True, {}, float("nan"), float("inf"), -float("inf"))],
    *[(name, value) for name in ("trace", "plan", "conditions", "plan.hits", "executed", "window", "warmup", "clock", "machine", "machine.storage", "executed.stores")
      for value in ([], "x", 5)],
    *[(name, value) for name in ("clock.zero_ns", "rank", "warmup.end_ns", "machine.cores") for value in ("1", 0.5, False, 1 << 70)],
    *[(name, value) for name in ("trace.fingerprint", "conditions.model", "executed_fingerprint", "machine.host") for value in (5, {}, ["x"])],
    ("status", "done"), ("status", 5), ("status", None), ("reason", 5), ("warnings", "none"), ("warnings", [1]), ("warnings", None),
    ("plan.ops", None), ("plan.hits.cpu", None), ("conditions.workers", 0), ("conditions.bytes_per_token", 0),
    ("conditions.pace", "brisk"), ("conditions.verify", None), ("conditions.layout", "tape"), ("conditions.direct", "on"),
    ("conditions.usable_bytes.cpu", "1"), ("conditions.usable_bytes", []), ("conditions.throttle", {"nvme": 5}), ("conditions.throttle", {"disk": {}}),
    ("conditions.part", [2, 2]), ("conditions.part", "0/1"), ("conditions.ranks", 0), ("conditions.ranks", 1 << 20), ("trace.counts", {"x": "y"}),
    ("trace.ops", "many"), ("plan.plan_checkpoints", "x"), ("plan.plan_fingerprint", 5), ("machine.cores", 0), ("run_version", "1"), ("run_version", 0),
    ("conditions.token_ms", 1e300), ("conditions.token_ms", 1e7), ("window.cut_s", 1e18), ("conditions.speedup", 1e300),
    ("trace.sources", 5), ("trace.sources", [5]), ("trace.sources", [{"name": 5}]), ("trace.sources", {"name": "a"}),
    ("run_version", True), ("precondition", [1]), ("precondition.gib", "1"), ("conditions.cycles", 0), ("conditions.decode", "thrice"),
]  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = clean(5)
    run.info["precondition"] = {"gib": 1.0, "s": 1.0}
    return run.save(tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture
def plain_info(plain: Path) -> Any:
    """Its run.json, to be changed; as it was afterwards."""
    kept = (plain / "run.json").read_text()
    yield json.loads(kept)
    (plain / "run.json").write_text(kept)


def refusal(place: Path) -> str:
    """The one sentence with which a run is refused; nothing is printed otherwise."""
    for command in ("summary", "check"):
        done = call(command, place, code=2)
        assert done.stdout == ""
        (line,) = done.stderr.strip().splitlines()
        assert line.startswith("Error: ")
        assert str(place) in line
        assert len(line) < 500
    return line


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{name}={str(value)[:12]}" for name, value in WRONG])
def test_fields_of_other_kinds_are_refused(plain: Path, plain_info: Dict, name: str, value: Any) -> None:
    put(plain_info, name, value)
    (plain / "run.json").write_text(json.dumps(plain_info))
    with pytest.raises(InputError) as caught:
        read_run(plain)
    message = str(caught.value)
    assert "\n" not in message
    assert str(plain) in message
    assert name.rpartition(".")[2] in message or name == "run_version"


@pytest.mark.parametrize("name", PRESENT)
def test_fields_that_every_run_has(plain: Path, plain_info: Dict, name: str) -> None:
    drop(plain_info, name)
    (plain / "run.json").write_text(json.dumps(plain_info))
    assert name.partition(".")[0] in refusal(plain)


def test_fields_that_older_writers_left_out(plain: Path, plain_info: Dict) -> None:
    whole = set(plain_info) - {"run_version", "status", "reason", "warnings", "trace", "plan", "conditions"}
    kept = "model bytes_per_token usable_bytes workers pace direct verify".split()
    paths = [*whole, *(f"conditions.{name}" for name in set(plain_info["conditions"]) - set(kept)), "plan.reads",
             "plan.peak_bytes", "plan.plan_fingerprint", "plan.plan_checkpoints", "trace.counts", "trace.ops", "trace.path"]  # fmt: skip
    for change in (drop, lambda info, path: put(info, path, None)):
        for some in [*([path] for path in whole), [path for path in paths if path not in whole], paths]:
            info = deepcopy(plain_info)
            for path in some:
                change(info, path)
            (plain / "run.json").write_text(json.dumps(info))
            read_run(plain)
            if change is drop or some is paths:
                summary = summarise(plain)
                assert summary["valid"], (some, summary["findings"])
    assert checked(plain)["valid"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "5", "{}", '{"run_version": 1}', "[" * 100_000, '{"a":' * 100_000, "\udcff", "{'run_version': 1}", '{"run_version": 9' * 9],
    ids=lambda text: repr(text)[:20],
)  # fmt: skip
def test_files_that_are_no_run_json(plain: Path, plain_info: Dict, text: str) -> None:
    (plain / "run.json").write_text(text, errors="surrogateescape")
    refusal(plain)


def test_numbers_of_thousands_of_digits(plain: Path, plain_info: Dict) -> None:
    for digits in (50, 400, 5_000):
        text = json.dumps(plain_info | {"more": "HUGE"}).replace('"HUGE"', "9" * digits)
        (plain / "run.json").write_text(text)
        assert f"(a number has {digits:,} digits)" in refusal(plain)


def test_a_newer_run_is_named_before_its_fields(plain: Path, plain_info: Dict) -> None:
    (plain / "run.json").write_text('{"run_version": 3, "ranks": "many"}')
    assert "is of run format 3, this release reads up to 2; upgrade it" in refusal(plain)


@pytest.mark.parametrize(
    "above",
    [{"ranks": 0}, {"ranks": "2"}, {"ranks": None}, {"ranks": 1 << 20}, {"ranks": True}, {"status": "fine"}, {"status": None},
     {"reason": 5}, {"executed_ops": -1}, {"clocks": 5}, {"clocks": [5]}, {"run_version": None}],
    ids=str,
)  # fmt: skip
def test_what_stands_above_ranks_is_typed_too(tmp_path: Path, above: Dict) -> None:
    place = rank_runs(tmp_path / "run", 1)
    assert ranks_of(place) == 1
    edit(place, **above)
    assert next(iter(above)) in refusal(place)


# Parts and counters that are none


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def column(name: str, make: Callable[[pa.ChunkedArray], Any]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, make(table[name]))


def one_cell(name: str, value: Any, row: int = 0) -> Callable[[pa.Table], pa.Table]:
    """A table with another value in one cell, in the column's own type."""

    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[row] = value
        kind = table.schema.field(name).type
        plain = pa.string() if pa.types.is_dictionary(kind) else kind
        made = pa.array(values, plain)
        made = made.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else made
        fields = [pa.field(one.name, one.type, nullable=True) for one in table.schema]
        arrays = [made if one == name else table[one] for one in table.column_names]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=table.schema.metadata))

    return change


def versioned(version: bytes) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.replace_schema_metadata({b"kv-run": version})


STRANGE_PARTS: list[tuple[str, Callable[[pa.Table], pa.Table], str]] = [
    ("a column less", lambda table: table.drop_columns(["device_read_ns"]), "column device_read_ns is missing"),
    ("numbers as text", column("size_bytes", lambda c: c.cast(pa.string())), "column size_bytes is string, not int64"),
    ("numbers as floats", column("end_ns", lambda c: c.cast(pa.float64())), "column end_ns is double, not int64"),
    ("flags as numbers", column("warmup", lambda c: c.cast(pa.int8())), "column warmup is int8, not bool"),
    ("words as codes", column("move", lambda c: pa.array([0] * len(c), pa.int64())), "column move is int64, not text"),
    ("an unknown word", one_cell("move", "teleport"), "move = 'teleport', which is none of hit, store"),
    ("an unknown tier", one_cell("to_tier", "tape"), "to_tier = 'tape', which is none of gpu, cpu, nvme"),
    ("a newer version", versioned(b"3"), "is of run format 3"),
    ("a strange version", versioned(b"x\xff"), "is of run format x"),
    *[(f"a null in {name}", one_cell(name, None), f"column {name} holds nulls") for name in ("op_id", "end_ns", "move", "warmup", "worker", "session_id")],
    ("no rows", lambda table: table.slice(0, 0), "its log has no rows"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "reason"), [case[1:] for case in STRANGE_PARTS], ids=[c[0] for c in STRANGE_PARTS])
def test_parts_that_are_none(tmp_path: Path, change: Any, reason: str) -> None:
    place = clean(5).save(tmp_path / "run", parts=1)
    rewritten(place / "moves" / "part-00000.parquet", change)
    assert reason in refusal(place)


def test_nulls_are_found_without_statistics_too(tmp_path: Path) -> None:
    place = clean(5).save(tmp_path / "run", parts=1)
    part = place / "moves" / "part-00000.parquet"
    for name in ("op_id", "warmup", "key", "worker", "rank", "read_ns"):
        table = pq.read_table(part)
        pq.write_table(one_cell(name, None)(table), part, write_statistics=False)
        assert "its log holds nulls" in refusal(place)
        pq.write_table(table, part)


def test_logs_that_other_tools_rewrote_stay_readable(tmp_path: Path) -> None:
    place = clean(50).save(tmp_path / "run", parts=3)
    before = checked(place)
    for path in parts(place):
        pl.read_parquet(path).write_parquet(path)
    assert checked(place) == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is not readable"),
        (lambda path: path.write_bytes(b"PAR1"), "is not readable"),
        (lambda path: path.write_bytes(b""), "is not readable"),
        (lambda path: pl.DataFrame({"a": [1]}).write_parquet(path), "column time_ns is missing"),
        (lambda path: rewritten(path, lambda table: table.drop_columns(["system_cpu"])), "column system_cpu is missing"),
        (lambda path: rewritten(path, column("read_bytes", lambda c: c.cast(pa.string()))), "column read_bytes is string"),
        (lambda path: rewritten(path, versioned(b"7")), "is of run format 7"),
        (lambda path: rewritten(path, one_cell("time_ns", None)), "column time_ns holds nulls"),
        (lambda path: rewritten(path, one_cell("time_ns", -5)), "run backwards"),
        (lambda path: rewritten(path, one_cell("interval_ns", 0)), "run backwards"),
        (lambda path: rewritten(path, one_cell("read_bytes", -5)), "run backwards"),
        (lambda path: path.write_bytes(bytes(200) + path.read_bytes()[200:]), "device.parquet"),
        (lambda path: (path.unlink(), path.mkdir()), "is not a regular file"),
    ],
)  # fmt: skip
def test_counters_that_are_none(tmp_path: Path, change: Callable[[Path], object], reason: str) -> None:
    place = clean(50).save(tmp_path / "run")
    change(place / "device.parquet")
    message = refusal(place)
    assert reason in message
    assert "device.parquet" in message


@pytest.mark.parametrize("name", ["run.json", "moves", "moves/part-00000.parquet", "device.parquet"])
def test_what_belongs_to_others_is_not_called_damaged(name: str) -> None:
    """Not in tmp_path, which others may not enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = clean(50).save(Path(folder) / "run", parts=1)
        (place / name).chmod(0)
        me = os.geteuid()
        try:
            os.seteuid(me or 65534)  # root may read everything
            message = refusal(place)
        finally:
            os.seteuid(me)
            (place / name).chmod(0o755)
    assert f"{place / name}: you may not read it" in message


# Tampering


Log = Callable[[pl.DataFrame], pl.DataFrame]


def tampered(place: Path, change: Log) -> Path:
    """All rows of a run changed at once; types, enums and parts as they were."""
    for path in parts(place):
        schema, table = pq.read_schema(path), pl.read_parquet(path)
        words = [pl.col(name).cast(pl.String) for name in LOG_ENUMS if name in table.columns]
        changed = change(table.with_columns(words)).to_arrow()
        arrays = [changed[one.name].cast(pa.string()).dictionary_encode().cast(one.type) if pa.types.is_dictionary(one.type)
                  else changed[one.name].cast(one.type) for one in schema]  # fmt: skip
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
    return place


def cell(name: str, value: Any, where: pl.Expr | None = None) -> Log:
    """The first row that fits (or all rows that do, for an expression) with another value."""

    def change(table: pl.DataFrame) -> pl.DataFrame:
        wanted = pl.lit(True) if where is None else where
        rows = table.with_row_index("n").filter(wanted)["n"]
        chosen = pl.int_range(pl.len()).is_in([rows[0]]) if not isinstance(value, pl.Expr) and len(rows) else wanted
        made = value if isinstance(value, pl.Expr) else pl.lit(value)
        return table.with_columns(
            pl.when(chosen).then(made).otherwise(pl.col(name)).cast(table[name].dtype).alias(name)
        )

    return change


HITS, STORES = pl.col("move") == "hit", pl.col("move") == "store"
DEMOTES = pl.col("move") == "demote"


def swap(name: str, by: pl.Expr) -> Log:
    """Two neighbours of a kind exchange values: every total stays."""

    def change(table: pl.DataFrame) -> pl.DataFrame:
        rows = table.with_row_index("n").filter(by)
        pair = next(
            (a, b) for a, b in zip(rows.rows(named=True), rows.rows(named=True)[1:], strict=False) if a[name] != b[name]
        )
        values = table[name].to_list()
        values[pair[0]["n"]], values[pair[1]["n"]] = pair[1][name], pair[0][name]
        return table.with_columns(pl.Series(name, values, table[name].dtype))

    return change  # fmt: skip


def twice_and_gone(table: pl.DataFrame) -> pl.DataFrame:
    hits = table.with_row_index("n").filter(HITS)["n"]
    return pl.concat([table.filter(pl.int_range(pl.len()) != hits[5]), table.filter(pl.int_range(pl.len()) == hits[9])])


IMPOSSIBLE: dict[str, tuple[Log, str]] = {
    "an end before its start": (cell("end_ns", pl.col("start_ns") - 1, pl.col("op_id") == 9), "times that run backwards"),
    "a start before it was ready": (cell("ready_ns", pl.col("start_ns") + 1, pl.col("op_id") == 9), "times that run backwards"),
    "negative times": (cell("due_ns", -1), "times that run backwards"),
    "times that overflow": (cell("due_ns", -(1 << 63)), "times that run backwards"),
    "a window longer than the wait": (cell("window_ns", pl.col("ready_ns") - pl.col("due_ns") + 1, HITS), "times that run backwards"),
    "a negative window": (cell("window_ns", -1), "times that run backwards"),
    "a time of days": (cell("end_ns", 1 << 50, pl.col("op_id") == 9), "moves of days"),
    "negative reading": (cell("read_ns", -5, STORES), "times of I/O that do not fit"),
    "negative verification": (cell("verify_ns", -5), "times of I/O that do not fit"),
    "reading for longer than the move": (cell("read_ns", pl.col("end_ns") - pl.col("start_ns") + 1, HITS & (pl.col("op_id") == 9)), "times of I/O that do not fit"),
    "a device slower than the whole": (cell("device_read_ns", pl.col("read_ns") + 1, HITS), "times of I/O that do not fit"),
    "a device slower than the write": (cell("device_write_ns", pl.col("write_ns") + 1, STORES), "times of I/O that do not fit"),
    "an end that overflows": (cell("end_ns", -(1 << 63)), "times that run backwards"),
    "a verification of centuries": (cell("verify_ns", (1 << 63) - 1), "moves of days"),
    "a start that overflows": (cell("start_ns", -(1 << 63)), "times that run backwards"),
    "ids that would mix with another rank's": (cell("request_id", 1 << 40), "or too large"),
    "a negative size": (cell("size_bytes", -5), "numbers that are negative"),
    "a negative key": (cell("key", -5), "numbers that are negative"),
    "negative tokens": (cell("new_tokens", -5), "numbers that are negative"),
    "a hit of no tier": (cell("from_tier", None, HITS), "moves between tiers"),
    "a store from a tier": (cell("from_tier", "cpu", STORES), "moves between tiers"),
    "a demotion to nowhere": (cell("to_tier", None, DEMOTES), "moves between tiers"),
}  # fmt: skip


@pytest.mark.parametrize("column", ["device_read_ns", "device_write_ns"])
def test_no_device_takes_days_whatever_its_clock(tmp_path: Path, column: str) -> None:
    """cuFile's clock may say more than the host's, and is bounded all the same."""
    run = clean(60)
    conditions(run, gds=True)
    assert "moves of days" in refusal(tampered(run.save(tmp_path / "run", parts=1), cell(column, 1 << 50)))


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_rows_that_no_replay_writes_are_refused(tmp_path: Path, what: str) -> None:
    change, reason = IMPOSSIBLE[what]
    place = tampered(clean(60, cpu_objects=5).save(tmp_path / "run", parts=1), change)
    assert reason in refusal(place)


def test_a_gpu_may_say_more_than_the_host(tmp_path: Path) -> None:
    run = clean(60, cpu_objects=5)
    for name in ("from_tier", "to_tier"):
        run.rows[name] = np.where(run.rows[name] == CODE[name]["cpu"], CODE[name]["gpu"], run.rows[name])
    run.rows["device_read_ns"] = np.where(
        run.rows["from_tier"] == 0, run.rows["read_ns"] + 5, run.rows["device_read_ns"]
    )
    run.info["status"] = "failed"
    summarise(run.save(tmp_path / "run"))


SEEN: dict[str, Log] = {  # by `analysis summary`: totals or single figures show them
    "a row less": lambda table: table.slice(0, len(table) - 1),
    "a row twice": lambda table: pl.concat([table, table.slice(3, 1)]),
    "a size": cell("size_bytes", pl.col("size_bytes") - 1, STORES & (pl.col("op_id") == 0)),
    "sizes beyond their tokens": cell("size_bytes", pl.col("size_bytes") + 1, pl.col("op_id") == 9),
    "fewer tokens": cell("tokens", 1, HITS),
    "a write called a read": cell("op", "read", pl.col("op") == "write"),
    "all rows warm-up": cell("warmup", pl.lit(True)),
    "half of the rows warm-up": cell("warmup", pl.col("op_id") % 2 == 0, pl.lit(True)),
    "more tokens generated": cell("new_tokens", pl.col("new_tokens") * 2, pl.lit(True)),
    "tokens generated by evictions": cell("new_tokens", 5, pl.col("seq") > 0),
    "another rank's rows": cell("rank", 1),
    "a worker too many": cell("worker", 99),
    "an op past the end": cell("op_id", 10**6, pl.col("op_id") == 100),
    "a position past the end": cell("position", 10**6, pl.col("op_id") == 100),
    "an error hidden": cell("error", "OSError", HITS),
    "an error made up": cell("status", "error", HITS),
    "the end moved": lambda table: table.with_columns(
        pl.col("start_ns", "end_ns") + pl.when(pl.col("start_ns") == pl.col("start_ns").max()).then(5000).otherwise(0)
    ),
    "no verification": cell("verify_ns", pl.lit(0)),
}
SWAPPED: dict[str, Log] = {  # by `analysis check` only: every total stays
    "a row twice, another gone": twice_and_gone,
    "keys swapped": swap("key", HITS),
    "tiers swapped": swap("from_tier", HITS),
    "positions swapped": swap("position", HITS & (pl.col("phase") == "decode")),
    "ops swapped": swap("op_id", HITS & (pl.col("phase") == "decode")),
    "one object with other tokens": cell("tokens", 401, HITS & (pl.col("key") == 20) & (pl.col("phase") == "decode")),
    "a worker in two places": cell("end_ns", pl.col("end_ns") + SECOND * 3, HITS & (pl.col("worker") == 1) & (pl.col("op_id") < 60)),
}  # fmt: skip


@pytest.mark.parametrize("what", SEEN)
def test_tampering_that_a_summary_shows(tmp_path: Path, what: str) -> None:
    place = clean(60, cpu_objects=1).save(tmp_path / "run", parts=1)
    summary = summarise(tampered(place, SEEN[what]))
    assert not summary["valid"]
    assert {doubt["kind"] for doubt in summary["doubts"] if doubt["invalidates"]} <= {
        "altered log",
        "errors",
        "incomplete",
    }


@pytest.mark.parametrize("what", SWAPPED)
def test_tampering_that_a_check_shows(tmp_path: Path, what: str) -> None:
    place = tampered(clean(60, cpu_objects=1).save(tmp_path / "run", parts=1), SWAPPED[what])
    assert summarise(place)["valid"]
    shown = call("check", place, code=1).stdout
    assert shown.startswith("INVALID: altered log: ")
    assert "\nNOT VALID: " in shown


def test_windows_of_a_log_that_is_hashed_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputed, "HASHED_OPS", 16)
    place = clean(60, cpu_objects=5, executed=100).save(tmp_path / "run")
    assert checked(place)["valid"]
    assert not checked(tampered(place, swap("key", HITS)))["valid"]


def ordered(run: Crafted, seed: int = 0) -> Crafted:
    """The same plan made in another order: op_ids are no longer those of positions, and it is hashed as version 2."""
    ops = np.random.default_rng(seed).permutation(int(run.rows["position"].max()) + 1)
    run.rows["op_id"] = ops[run.rows["position"]]
    conditions(run, order={"kind": "reference", "name": "nvme-7", "profile": {}, "window": 4096}, placement="planned")
    rows = [tuple(int(run.rows[n][i]) for n in ("position", *recomputed.PLAN_COLUMNS)) for i in range(len(ops))]
    executed = sorted(row for row in rows if row[0] < run.info["executed_ops"])
    hashed = hashlib.sha256((2).to_bytes(8, "little") + np.array([row[1:] for row in executed], "<i8").tobytes())
    run.info["executed_fingerprint"] = hashed.hexdigest()
    if run.info["window"]["cut_s"] is None:
        run.info["plan"] |= {"plan_fingerprint": hashed.hexdigest()}
    return run


@pytest.mark.parametrize("executed", [None, 150])
def test_a_plan_of_another_order(tmp_path: Path, executed: int | None) -> None:
    """One row per op, so that an order is a permutation of rows."""
    run = ordered(clean(60, executed=executed))
    place = run.save(tmp_path / "run")
    assert (checked(place)["findings"], checked(place)["valid"]) == ([], True)
    assert not checked(tampered(place, swap("op_id", HITS)))["valid"]


def beyond(run: Crafted, ops: int) -> Crafted:
    """The last ops of the log were executed inside the window, but past the exact prefix."""
    kept, whole = clean(60, executed=ops), run.info
    for name in ("executed", "executed_ops", "executed_fingerprint"):
        whole[name] = kept.info[name]
    return run


def test_rows_beyond_the_prefix_are_those_of_a_cut_run(tmp_path: Path) -> None:
    cut = beyond(clean(60, executed=120), 100)
    assert checked(cut.save(tmp_path / "cut"))["findings"] == []
    assert summarise(tmp_path / "cut")["logged_ops"] == 120
    whole = beyond(clean(60), 100)
    assert any("the log goes on to op 178" in one for one in summarise(whole.save(tmp_path / "whole"))["findings"])


def test_a_run_of_the_first_ops_asked_for(tmp_path: Path) -> None:
    run = clean(60, executed=100)
    conditions(run, ops=100, duration_s=None)
    put(run.info, "window.cut_s", None)
    summary = checked(run.settle().save(tmp_path / "run"))
    assert (summary["findings"], summary["cut"]) == ([], False)
    conditions(run, ops=101)
    assert any("ended after 101 ops, and counts 100" in one for one in summarise(run.save(tmp_path / "b"))["findings"])


def test_a_live_run_has_no_plan_until_it_has_ended(tmp_path: Path) -> None:
    run = clean(60)
    run.info |= {"plan": None, "status": "running"}
    conditions(run, placement="live", order={"kind": "live"})
    assert {doubt["kind"] for doubt in summarise(run.save(tmp_path / "run"))["doubts"]} >= {"incomplete"}
    conditions(run, placement="planned")
    assert "plan is None, not an object" in refusal(run.save(tmp_path / "b"))


def test_an_op_id_beyond_all_ops_costs_no_time(tmp_path: Path) -> None:
    place = tampered(clean(60).save(tmp_path / "run", parts=1), cell("position", (1 << 62) - 1, HITS))
    info = json.loads((place / "run.json").read_text())
    del info["executed_ops"]
    (place / "run.json").write_text(json.dumps(info))
    assert not checked(place)["valid"]


def test_parts_of_other_runs(tmp_path: Path) -> None:
    """Of another trace, of another rank, of a trial of the same trace; and a part that is gone."""
    names = ["part-00000.parquet", "part-00001.parquet"]
    one, other, slower = clean(60, cpu_objects=5), clean(80, cpu_objects=5), clean(60, cpu_objects=5).slower(1.1)
    foreign = other.save(tmp_path / "foreign")
    trial = slower.save(tmp_path / "trial", parts=1)
    for number, name in enumerate(names):
        place = one.save(tmp_path / f"run{number}")
        (place / "moves" / name).write_bytes((foreign / "moves" / name).read_bytes())
        assert not summarise(place)["valid"]
        (place / "moves" / name).unlink()
        assert not summarise(place)["valid"]
    whole = one.save(tmp_path / "whole", parts=1)
    (whole / "moves" / names[0]).write_bytes((trial / "moves" / names[0]).read_bytes())
    assert any("the last move began" in finding for finding in summarise(whole)["findings"])
    ranks = rank_runs(tmp_path / "ranks")
    (ranks / "rank_0" / "moves" / names[0]).write_bytes((ranks / "rank_1" / "moves" / names[0]).read_bytes())
    assert "rows of rank 1 lie in the log of rank 0" in summarise(ranks)["findings"]


CLAIMS: list[tuple[str, Any, str]] = [
    ("executed.ops", 5, "the log has ops = 179, the plan 5"),
    ("executed.hits.nvme", 5, "the log has hits.nvme"),
    ("executed.stores.cpu", 5, "the log has stores.cpu"),
    ("executed.demotions.cpu>nvme", 5, "the log has demotions.cpu>nvme"),
    ("executed.reads", 5, "the log has reads"),
    ("executed.read_bytes.cpu", 5, "the log has read_bytes.cpu"),
    ("plan.hits.cpu", 5, "counts other work than the plan's"),
    ("executed_fingerprint", "0" * 64, "names another fingerprint than the plan's"),
    ("executed_ops", 178, "the log goes on to op 178"),
    ("executed_ops", 200, "200 ops of 179"),
    ("warmup.ops", 5, "rows are marked as warm-up"),
    ("warmup.end_ns", 5, "the warm-up did not end when"),
    ("window.drain_s", 5.0, "the log drained for 0.000 s, run.json says 5.000 s"),
    ("window.issued_s", 5.0, "the last move began"),
    ("window.duration_s", 5.0, "names two durations"),
    ("window.cut_s", 5.0, "cut after 5.000 s, not at a duration"),
    ("conditions.duration_s", 5.0, "names two durations"),
    ("conditions.workers", 2, "worker 3 made moves, and there were 2"),
    ("conditions.bytes_per_token", 5, "moved more bytes than their tokens have"),
    ("trace.counts.tokens_generated", 5, "179 tokens generated, the trace 5"),
    ("rank", 1, "rows of rank 0 lie in the log of rank 1"),
]


@pytest.mark.parametrize(("name", "value", "finding"), CLAIMS, ids=[f"{case[0]}={case[1]}" for case in CLAIMS])
def test_claims_of_run_json_that_the_log_contradicts(tmp_path: Path, name: str, value: Any, finding: str) -> None:
    run = clean(60, cpu_objects=5)
    put(run.info, name, value)
    findings = summarise(run.save(tmp_path / "run"))["findings"]
    assert any(finding in one for one in findings), findings


def test_a_cut_run_that_calls_itself_whole_or_drains_less(tmp_path: Path) -> None:
    run = clean(60, cpu_objects=5, executed=100)
    put(run.info, "window.cut_s", None)
    assert any("whole plan" in finding for finding in summarise(run.settle().save(tmp_path / "a"))["findings"])
    run = clean(60, cpu_objects=5, executed=100)
    put(run.info, "window.drain_s", 0.0)
    assert any("drained for" in finding for finding in summarise(run.save(tmp_path / "b"))["findings"])
    run = clean(60, cpu_objects=5, executed=100)
    run.info |= {"executed": run.info["plan"], "executed_ops": 179}
    assert any("parts are missing" in finding for finding in summarise(run.save(tmp_path / "c"))["findings"])
    run = clean(60, cpu_objects=5, executed=100)
    run.info["executed_fingerprint"] = "0" * 64
    place = run.save(tmp_path / "d")
    assert summarise(place)["valid"], "nothing but its rows tells the fingerprint of a cut run"
    assert "are not those of its plan" in call("check", place, code=1).stdout


def test_an_interrupted_run_that_calls_itself_complete(tmp_path: Path) -> None:
    run = clean(60, cpu_objects=5, executed=100)
    put(run.info, "window.cut_s", None)
    run.info["conditions"]["duration_s"] = None
    assert run.settle().info["status"] == "complete"
    findings = summarise(run.save(tmp_path / "run"))["findings"]
    assert any("100 ops of 179" in finding for finding in findings)


def test_counters_of_another_run(tmp_path: Path) -> None:
    run = clean()
    assert run.samples is not None
    run.samples = run.samples[:50]
    findings = summarise(run.save(tmp_path / "run"))["findings"]
    assert any("device.parquet counts for 50.000 s, the log goes on for" in finding for finding in findings)


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, None),
        ({"cycles": 2, "trace.ops": None}, 90),  # 179 is no multiple of 2
        ({"users": 5}, 5), ({"decode": "once"}, 5), ({"part": [0, 2]}, 5),  # no part of a trace says how many
    ],
)  # fmt: skip
def test_tokens_are_those_of_the_trace_where_it_says(tmp_path: Path, changes: Dict, tokens: int | None) -> None:
    run = clean(60)
    for name, value in changes.items():
        put(run.info, name if "." in name else f"conditions.{name}", value)
    if tokens:
        put(run.info, "trace.counts.tokens_generated", tokens)
    findings = summarise(run.save(tmp_path / "run"))["findings"]
    assert any("tokens generated" in one for one in findings) == ("cycles" in changes)


# The command line


def test_check_says_by_its_exit_code_whether_runs_hold(tmp_path: Path) -> None:
    good, bad = clean(60), clean(60)
    bad.info["status"] = "incomplete"
    places = [good.save(tmp_path / "good"), bad.save(tmp_path / "bad")]
    assert "VALID: " in call("check", places[0]).stdout
    call("check", *places, code=1)
    call("check", places[0], places[0])
    told = json.loads(call("check", *places, "--json", code=1).stdout)
    assert [(one["run"], one["valid"]) for one in told] == [(str(places[0]), True), (str(places[1]), False)]
    (one,) = [doubt for doubt in told[1]["doubts"] if doubt["invalidates"]]
    assert set(one) == {"kind", "text", "advice", "invalidates"}
    assert json.loads(call("check", places[0], "--json").stdout)["valid"] is True
    done = call("check", places[0], tmp_path / "none", code=2)
    assert done.stdout == "", "nothing half-computed"


def test_a_summary_that_is_not_valid_says_so_first_and_last(tmp_path: Path) -> None:
    run = clean(60)
    run.info["status"] = "incomplete"
    place = run.save(tmp_path / "run")
    lines = call("summary", place).stdout.splitlines()
    assert lines[0].startswith("INVALID: incomplete: ")
    assert lines[-1].startswith("NOT VALID: ")
    assert json.loads(call("summary", place, "--json").stdout)["valid"] is False


def test_findings_that_invalidate_come_before_all_doubts(tmp_path: Path) -> None:
    run = clean(60)
    counted(run, read=0.1)
    put(run.info, "executed_ops", 5)
    flags = [doubt["invalidates"] for doubt in summarise(run.save(tmp_path / "run"))["doubts"]]
    assert flags == sorted(flags, reverse=True)
    assert flags.count(True) > 1
    assert flags.count(False) > 1


# Documentation


DOC = ROOT / "docs" / "doubts.md"


def test_the_docs_list_every_kind_that_the_code_can_tell() -> None:
    names = (
        "doubts",
        "device_doubts",
        "machine_doubts",
        "between",
        "audit",
        "recomputed",
        "replanned",
        "runs",
        "summary",
    )
    sources = [ROOT / "analysis" / f"{name}.py" for name in names]
    calls = [
        node
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Doubt"
    ]
    kinds = {node.args[0].value for node in calls if isinstance(node.args[0], ast.Constant)}
    assert len(kinds) > 15
    assert set(re.findall(r"^\| ([a-zI/O -]+?) \|", DOC.read_text(), re.M)) - {"kind"} == kinds


def test_the_docs_name_every_threshold() -> None:
    listed = {
        name: float(value.replace(",", "")) for name, value in re.findall(r"`([A-Z_]+)` ([\d.,]*\d)", DOC.read_text())
    }
    constants = vars(doubts) | vars(device_doubts) | vars(machine_doubts) | vars(between)
    known = {name: float(value) for name, value in constants.items() if name.isupper() and type(value) in (int, float)}
    known["DEVICE_CACHE_BYTES"] /= GIB
    known["LARGE_BYTES"] /= 2**20
    assert listed == {name: value for name, value in known.items() if name not in ("GIB", "LISTED")}


def test_the_kinds_of_fields_know_the_tiers() -> None:
    assert run_json.TIERS == TIERS
