"""A clean run is valid; every doubt is raised just above its threshold and not just below."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.summary.summary import check_run
from tests.analysis.doubts.tampering import CODE
from tests.support.crafted_runs import REQUESTS, SIZE, Crafted, clean
from tests.support.doubts import conditions, counted, each_sample, found, queued

GIB = 2**30
pytestmark = pytest.mark.usefixtures("latencies_once")


# A clean run, which all others are changes of


@pytest.mark.parametrize(
    "options",
    [{}, {"cpu_objects": 30}, {"cpu_objects": 1}, {"cpu_objects": 30, "nvme_objects": 400}, {"executed": 1700}],
    ids=str,
)
def test_a_clean_run_is_valid_without_doubts(tmp_path: Path, options: dict[str, Any]) -> None:
    place = clean(**options).save(tmp_path / "run")
    summary = check_run(place).to_json()
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


def drained(run: Crafted, share: float) -> None:
    """The same run, said to have been cut so early that draining took this share of the window."""
    asked_s = float(run.rows["end_ns"].max()) / 1e9 / (1 + share)
    conditions(run, duration_s=asked_s)
    run.info["window"]["cut_s"] = asked_s
    run.info["executed_ops"] = int(run.rows["op_id"].max()) + 1
    run.settle()


def unfinished(run: Crafted, share: float) -> None:
    """Requests at the end of a run that was cut, of which this share is not done."""
    drained(run, 0.05)
    cut_ns = int(run.info["window"]["cut_s"] * 1e9)
    counted_requests = len(np.unique(run.rows["request_id"][run.rows["due_ns"] < cut_ns]))
    never = round(counted_requests * share / (1 - share))
    listed = {"request_id": [10_000 + n for n in range(never)], "due_ns": [cut_ns - 1] * never}
    run.info["unfinished"] = listed | {"qos": [0] * never, "in_prefill": [1] * never}


def late(run: Crafted, late_s: float) -> None:
    """Requests all of which begin so late under pace open."""
    conditions(run, pace="open")
    began = run.rows["start_ns"].copy()
    for name in ("start_ns", "end_ns"):
        run.rows[name] = run.rows["due_ns"] + int(late_s * 1e9) + (run.rows[name] - began).clip(0)
    run.settle()


def fast_device(run: Crafted, gib_s: float) -> None:
    """Device times in which reads pass at this many GiB/s; whole times are twice as long."""
    run.rows["device_read_ns"] = np.where(run.rows["read_ns"] > 0, int(SIZE / GIB / gib_s * 1e9), 0)
    run.rows["read_ns"] = run.rows["device_read_ns"] * 2
    run.rows["end_ns"] = run.rows["start_ns"] + run.rows["read_ns"] + run.rows["write_ns"]
    run.settle()


def short_device(run: Crafted, share: float) -> None:
    """Device times of writes that are a share of whole times, of moves slow enough for any device."""
    run.slower(40)
    run.rows["device_write_ns"] = (run.rows["write_ns"] * share).astype(np.int64)


ELAPSED_S = 89.95
THROTTLE = {"nvme": {"mib_s": 9.0, "latency_us": 0.0}}
THRESHOLDS: list[tuple[str, str, Callable[[Crafted, Any], object], Any, Any]] = [
    # kind, a word of its text, a change, with what it fires and with what it does not
    ("short run", "", lambda run, s: run.slower(s / ELAPSED_S), 59.5, 60.5),
    ("plan wait", "order", waits, 0.052, 0.048),
    ("plan wait", "window", lambda run, share: waits(run, share, "window"), 0.052, 0.048),
    ("verification", "", verified, 0.101, 0.099),
    ("long drain", "", drained, 0.101, 0.099),
    ("unfinished requests", "not done", unfinished, 0.012, 0.008),
    ("page cache", "delivered", counted, 0.89, 0.91),
    ("counters disagree", "read", counted, 1.26, 1.24),
    ("counters disagree", "written", lambda run, share: counted(run, written=share), 1.26, 1.24),
    ("counters disagree", "took", lambda run, share: counted(run, written=share), 0.89, 0.91),
    ("replayer-bound", "cores", lambda run, cores: each_sample(run, process_cpu=cores), 14.5, 14.3),
    ("replayer-bound", "worker", queued, 0.21, 0.19),
    ("fell behind", "", late, 1.01, 0.99),
    ("device times", "GiB/s", fast_device, 65, 63),
    ("device times", "whole times", short_device, 0.049, 0.051),
    ("verification off", "", lambda run, verify: conditions(run, verify=verify), "off", "full"),
    ("emulated tier", "nvme", lambda run, layout: conditions(run, layout=layout), "null", "slab"),
    ("throttled tier", "", lambda run, throttle: conditions(run, throttle=throttle), THROTTLE, None),
]
INVALIDATING = {"page cache", "device times"}


@pytest.mark.parametrize(
    ("kind", "word", "change", "fires", "silent"), THRESHOLDS, ids=[f"{case[0]}-{case[1]}" for case in THRESHOLDS]
)
def test_a_doubt_fires_above_its_threshold_and_is_silent_below(
    tmp_path: Path, kind: str, word: str, change: Callable[[Crafted, Any], object], fires: Any, silent: Any
) -> None:
    run = clean()
    change(run, fires)
    told = found(run, tmp_path)
    assert set(told) == {kind}, "no other doubt comes with it"
    (doubt,) = told[kind]
    assert word in doubt.text
    assert doubt.advice
    assert doubt.invalidates == (kind in INVALIDATING)
    run = clean()
    change(run, silent)
    assert found(run, tmp_path / "silent") == {}


@pytest.mark.parametrize("cause", ["data", "eviction"])
def test_a_server_waits_for_data_and_for_its_evictions_too(tmp_path: Path, cause: str) -> None:
    run = clean()
    waits(run, 0.9, cause)
    assert "plan wait" not in found(run, tmp_path)


def test_too_few_samples_per_percentile(tmp_path: Path) -> None:
    (p95, p99) = found(clean(99), tmp_path / "a")["few samples"]
    assert "P95: nvme writes (99), requests (99)" in p95.text
    assert "P99: nvme reads (197)" in p99.text
    (p99,) = found(clean(100), tmp_path / "b")["few samples"]
    assert "P99: nvme reads (199), nvme writes (100), requests (100)" in p99.text
    assert "few samples" not in found(clean(500), tmp_path / "c")


@pytest.mark.parametrize(("requests", "small"), [(327, True), (328, False)])
def test_less_data_than_a_drive_caches(tmp_path: Path, requests: int, small: bool) -> None:
    assert (requests * SIZE < 16 * GIB) == small
    assert ("demo-sized" in found(clean(requests), tmp_path)) == small
    if small:  # preconditioning writes the rest
        run = clean(requests)
        run.info["precondition"] = {"gib": 1.0, "s": 1.0}
        assert "demo-sized" not in found(run, tmp_path / "preconditioned")


def test_failed_moves_are_counted_with_dependent_moves(tmp_path: Path) -> None:
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


def test_a_tier_without_capacity_is_not_an_emulated_tier(tmp_path: Path) -> None:
    run = clean(cpu_objects=REQUESTS, nvme_objects=0)
    conditions(run, layout="null", gpu_device="cpu", direct=None)
    assert found(run, tmp_path) == {}
    run = clean()
    conditions(run, gpu_device="cpu")
    run.info["conditions"]["usable_bytes"] |= {"gpu": 5}
    assert set(found(run, tmp_path / "gpu")) == {"emulated tier"}


def test_a_device_may_idle_if_the_work_is_elsewhere(tmp_path: Path) -> None:
    """Hits of the cpu tier that wait for workers say nothing about the device."""
    run = clean(cpu_objects=REQUESTS)
    queued(run, 0.5)
    assert "replayer-bound" not in found(run, tmp_path)
