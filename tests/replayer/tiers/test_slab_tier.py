"""The nvme tier in slabs."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.tiers import disk
from replayer.tiers.base import ALIGNMENT, align_up
from replayer.tiers.disk import SlabTier
from replayer.tiers.request import BlockIO
from tests.replayer.tiers.contract import (
    BUFFER,
    DEEP,
    MIB,
    PAYLOAD,
    DiskContract,
    check_sentence,
    count_in_flight,
    extents_of,
    find_damage,
    list_rings,
    put,
    read,
    slab_tier,
)
from tests.support import system_calls
from tests.support.mounts import tmpfs
from tracegen.errors import InputError


class TestSlabTier(DiskContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> SlabTier:
        return slab_tier(tmp_path, 32 * MIB, io=self.io)

    def test_room_is_claimed_before_the_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(disk, "SLAB", MIB)
        tier = slab_tier(tmp_path, 2 * MIB + 5000)
        slabs = sorted(tier.folder.glob("slab-*.kv"))
        assert [file.stat().st_size for file in slabs] == [MIB, MIB, 8192]
        assert all(file.stat().st_blocks * 512 >= file.stat().st_size for file in slabs), "claimed, not sparse"
        put(tier, 1, MIB)
        assert sorted(tier.folder.glob("*.kv")) == slabs, "no other file, however much is written"
        tier.close()
        assert not tier.folder.exists()

    def test_a_disk_too_small_for_the_slabs_is_refused(self, tmp_path: Path) -> None:
        with tmpfs(tmp_path / "small", "1m") as place:
            with pytest.raises(InputError) as refused:
                slab_tier(place, 2 * MIB)
            assert list(place.iterdir()) == [], "nothing is left behind"
            check_sentence(refused.value, f"cache_dir {place}", "0.00 GiB", "`layout=files`")
            with pytest.raises(InputError):
                slab_tier(place, 2 * MIB, keep_cache=True)
            assert list(place.iterdir()) == [], "nor where it was to be kept"

    def test_ctrl_c_while_room_is_claimed_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def stopped(*_: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "posix_fallocate", stopped)
        with pytest.raises(KeyboardInterrupt):
            slab_tier(tmp_path, 2 * MIB)
        assert list(tmp_path.iterdir()) == []

    def test_an_object_may_cross_slabs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(disk, "SLAB", 64 << 10)
        small = slab_tier(tmp_path, 8 * (64 << 10), "small", self.io)
        put(small, 1, 50_000)
        put(small, 2, 200_000)
        ((start, size),) = extents_of(small, 2, 200_000)
        assert start // disk.SLAB < (start + size - 1) // disk.SLAB, "one extent, which goes on in the next slabs"
        put(small, 3, 50_000)
        small.discard(1)
        put(small, 4, 250_000)
        assert len(extents_of(small, 4, 250_000)) > 1, "fragmented: in the gap of 1, and after 3"
        for key, size in ((2, 200_000), (3, 50_000), (4, 250_000)):
            assert find_damage(small, key, size) is None
        assert {file.stat().st_size for file in small.folder.glob("slab-*.kv")} == {disk.SLAB}, "none has grown"

    @pytest.mark.parametrize("failing", [0, 2])
    def test_an_error_names_the_slab(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
        """One request of four fails; all are waited for, as the worker uses its buffer again at once."""
        monkeypatch.setattr(disk, "SLAB", 64 << 10)
        small = slab_tier(tmp_path, 4 * (64 << 10), "small", self.io)
        put(small, 1, 4 * (64 << 10))
        blind = os.open(small.folder / f"slab-{failing}.kv", os.O_WRONLY)
        os.dup2(blind, small._slabs[failing])
        os.close(blind)
        with small.open(1, 4 * (64 << 10)) as source, pytest.raises(OSError, match="Bad file descriptor") as refused:
            source.read(0, 4 * (64 << 10), BUFFER)
        assert refused.value.filename == str(small.folder / f"slab-{failing}.kv")
        assert not any(count_in_flight(ring) for ring in list_rings())
        small.close()

    def test_many_extents_are_transferred_in_several_batches(self, tmp_path: Path) -> None:
        """An object has 400 extents of one unit, more than one batch of requests holds."""
        room = slab_tier(tmp_path, 800 * ALIGNMENT, "pieces", self.io)
        for key in range(800):
            room.create(key, ALIGNMENT)
        for key in range(0, 800, 2):
            room.discard(key)
        put(room, 1000, 400 * ALIGNMENT - 77)
        extents = extents_of(room, 1000, 400 * ALIGNMENT - 77)
        assert len(extents) == 400
        assert find_damage(room, 1000, 400 * ALIGNMENT - 77) is None
        with room.open(1000, 400 * ALIGNMENT - 77) as source:
            for offset in range(0, 400 * ALIGNMENT, 23 * ALIGNMENT):
                length = min(23 * ALIGNMENT, 400 * ALIGNMENT - 77 - offset)
                assert PAYLOAD.check(read(room, source, offset, length).words, 1000, offset, length) is None
        room.close()

    def test_all_slabs_under_an_object_are_synced(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(disk, "SLAB", 64 << 10)
        tier, synced = slab_tier(tmp_path, 4 * (64 << 10), "sync", BlockIO(fsync="data")), set[int]()
        with system_calls.replaced("fdatasync", synced.add):
            put(tier, 1, 150_000)
        assert synced == set(tier._slabs[:3])

    def test_a_slab_is_synced_once_for_all_its_extents(self, tmp_path: Path) -> None:
        tier, synced = slab_tier(tmp_path, 40 * ALIGNMENT, "sync", BlockIO(fsync="data")), list[int]()
        for key in range(40):
            tier.create(key, ALIGNMENT)
        for key in range(0, 40, 2):
            tier.discard(key)
        with system_calls.replaced("fdatasync", synced.append):
            put(tier, 100, 20 * ALIGNMENT)
        assert len(extents_of(tier, 100, 20 * ALIGNMENT)) == 20
        assert synced == tier._slabs


@system_calls.needs_uring
class TestSlabTierOfDeepRequests(TestSlabTier):
    io = DEEP


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30_000)), max_size=40))
def test_extents_of_slabs_never_overlap(tmp_path_factory: Any, steps: list[tuple[int, int]]) -> None:
    """Against a model with padded sizes: an object that fits is stored, and no bytes change."""
    room, held = 24 * ALIGNMENT, dict[int, int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "SLAB", 3 * ALIGNMENT)
        tier = slab_tier(tmp_path_factory.mktemp("slabs"), room, io=BlockIO(ALIGNMENT))
        for key, size in steps:
            if key in held:
                assert find_damage(tier, key, held.pop(key)) is None
                tier.discard(key)
            elif sum(align_up(one) for one in held.values()) + align_up(size) <= room:
                put(tier, key, size)
                held[key] = size
            else:
                with pytest.raises(OSError, match="slabs") as refused:
                    tier.create(key, size)
                assert refused.value.errno == errno.ENOSPC
            extents = sorted(extent for one, size in held.items() for extent in extents_of(tier, one, size))
            ends = [0] + [start + count for start, count in extents]
            assert all(start >= end for (start, _), end in zip(extents, ends, strict=False))
            assert all(start % ALIGNMENT == count % ALIGNMENT == 0 for start, count in extents)
            assert ends[-1] <= room
        assert all(find_damage(tier, key, size) is None for key, size in held.items())
        tier.close()
