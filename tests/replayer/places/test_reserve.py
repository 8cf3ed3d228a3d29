"""The reserve: free space that new objects leave on a drive."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.summary.summary import summarise
from replayer.machine.reserve import Reserve
from replayer.run import preflight as room
from replayer.schema import causes_of, commonest
from replayer.tiers.base import ALIGNMENT
from replayer.tiers.disk import FileTier
from replayer.tiers.request import BlockIO
from tests.replayer.places.replays import MIB, replayed
from tests.replayer.tiers.contract import file_tier, put
from tests.support.command_line import Run, sentence
from tests.support.mounts import tmpfs
from tracegen.errors import InputError
from tracegen.schema import Trace


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[FileTier]:
    """Files on a disk of 16 MiB, 8 of which are to stay free."""
    with tmpfs(tmp_path / "small", "16m") as place:
        tier = file_tier(place, io=BlockIO(direct="off"), reserve=Reserve(bytes=8 * MIB))
        try:
            yield tier
        finally:
            tier.close()  # else the disk could not be unmounted


def test_new_files_leave_the_reserve(tier: FileTier) -> None:
    for key in range(7):
        put(tier, key, MIB)
    with pytest.raises(OSError, match="reserve") as refused:
        put(tier, 9, 2 * MIB)
    assert refused.value.errno == errno.ENOSPC
    assert not tier.path(9).exists()
    tier.discard(0)
    tier.discard(1)
    put(tier, 9, 2 * MIB)
    with tier.create(10, ALIGNMENT), pytest.raises(OSError, match="reserve"):
        tier.create(11, MIB)  # what is promised to the one that is open counts
    free = os.statvfs(tier.folder)
    assert free.f_bavail * free.f_frsize >= 8 * MIB


def test_open_objects_and_foreign_files_count_against_the_reserve(tier: FileTier) -> None:
    with tier.create(1, 5 * MIB), pytest.raises(OSError, match="reserve"):
        tier.create(2, 4 * MIB)
    tier.discard(1)
    (tier.folder.parent / "anothers").write_bytes(bytes(7 * MIB))
    put(tier, 3, MIB // 2)
    with pytest.raises(OSError, match="reserve"):
        put(tier, 4, MIB)


def test_a_plan_that_needs_the_reserve_is_refused(trace: Trace, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "4m") as place:
        with pytest.raises(InputError) as refused:
            replayed(trace, tmp_path, cache_dir=place, reserve=Reserve(share=0.5))
        assert "`reserve`" in str(refused.value)
        assert list(place.iterdir()) == []
        assert replayed(trace, tmp_path, cache_dir=place)["status"] == "complete"


def test_a_disk_that_others_fill_fails_the_run_with_the_cause(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process fills the disk between the check and the stores. One worker: two could both find room for the
    last object before either has written it."""
    with tmpfs(tmp_path / "small", "4m") as place:
        monkeypatch.setattr(room, "free_bytes", lambda _: 1 << 40)
        (place / "anothers").write_bytes(bytes(3 * MIB))
        info = replayed(trace, tmp_path, cache_dir=place, workers=1)
        assert info["status"] == "failed"
        cause = "No space left above the reserve of free space"
        assert f" × {cause}" in info["reason"]
        assert (os.statvfs(place).f_bavail * os.statvfs(place).f_frsize) >= 4 * MIB // 20
        doubts = [doubt for doubt in summarise(tmp_path / "run").to_json()["doubts"] if doubt["kind"] == "errors"]
        assert [doubt["text"].endswith(f" × {cause}") for doubt in doubts] == [True]


def test_a_reserve_is_a_share_or_gib(run: Run, trace: Trace, tmp_path: Path) -> None:
    whole = os.statvfs(tmp_path)
    assert Reserve(0.05).bytes_on(tmp_path / "missing") == int(whole.f_blocks * whole.f_frsize * 0.05)
    assert Reserve(bytes=3 << 29).bytes_on(tmp_path) == 3 << 29
    for wrong in ("100%", "-1", "much"):
        flags = ["--model", "tiny-1b", "--set", f"reserve={wrong}", "--cache-dir", tmp_path, "-o", tmp_path / "run"]
        sentence(run("replayer", "run", trace.path, *flags, ok=False), repr(wrong), "write 5% or 10")


def test_the_commonest_cause_without_names_and_numbers() -> None:
    errors = [f"OSError: [Errno 28] No space left on device: '/mnt/c: d/{key:08x}.kv'" for key in range(3)]
    errors += ["CorruptionError: 3 of 8 sectors wrong from byte 0 on: sector 1 of key 2 holds no stamp of this run"]
    causes = causes_of(errors)
    assert commonest(causes_of(errors[:3])) == "3 × No space left on device"
    assert commonest(causes) == "3 × No space left on device, and 1 for other causes"
    assert set(causes) == {"No space left on device", "N of N sectors wrong from byte N on"}
