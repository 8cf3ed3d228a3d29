"""Doubts that the device was read: page caches, file systems in memory, and the replayer's own warnings."""

from copy import deepcopy
from pathlib import Path

import pytest

from tests.support.crafted_runs import SECOND, clean
from tests.support.doubts import conditions, counted, found

pytestmark = pytest.mark.usefixtures("latencies_once")


@pytest.mark.parametrize(
    ("direct", "samples", "kind", "invalidates"),
    [
        (True, True, None, False),
        (False, True, "page cache", True),  # though the device did deliver the bytes: whose, nobody knows
        (False, False, "page cache", True),
        (True, False, "unchecked reads", False),
    ],
)
def test_reads_need_direct_io_and_counters_to_be_trusted(
    tmp_path: Path, direct: bool, samples: bool, kind: str | None, invalidates: bool
) -> None:
    run = clean()
    conditions(run, direct=direct)
    if not samples:
        run.samples = None
    told = found(run, tmp_path)
    assert set(told) == ({kind} if kind else set())
    assert [doubt.invalidates for doubt in told.get(kind or "", [])] == ([invalidates] if kind else [])


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


def test_warnings_with_a_kind_are_covered_by_the_doubt_of_that_kind(tmp_path: Path) -> None:
    run = clean()
    counted(run, read=0.5)
    run.info["warnings"] = [{"kind": "page cache", "text": "x"}, {"kind": "page cache served reads", "text": "y"}]
    assert set(found(run, tmp_path / "a")) == {"page cache"}
    run.info["warnings"] = [{"kind": "slow log", "text": "workers waited."}, {"kind": "note", "text": "a note."}]
    told = found(run, tmp_path / "b")["replayer"]
    assert [doubt.text for doubt in told] == ["workers waited", "a note"]


def test_a_cache_that_the_replayer_saw_invalidates_without_its_counters(tmp_path: Path) -> None:
    run = clean()
    run.samples = None
    run.info["warnings"] = [{"kind": "page cache served reads", "text": "a cache served reads: 1 of 3 GiB."}]
    (doubt,) = found(run, tmp_path)["page cache"]
    assert doubt.invalidates
