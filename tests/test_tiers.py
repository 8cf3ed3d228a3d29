"""One contract for every tier; a new tier subclasses it."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.payload import Payload
from replayer.tiers.cache_dir import MARKER
from replayer.tiers.contract import ALIGNMENT, Buffer, Tier
from replayer.tiers.memory import CpuTier, NullTier
from replayer.tiers.nvme import FileTier
from tracegen.schema import InputError

CHUNK = 4 << 20
PAYLOAD = Payload(0)
BUFFER, OTHER = Buffer(CHUNK), Buffer(CHUNK)


def put(tier: Tier, key: int, size: int) -> None:
    with tier.create(key, size) as target:
        for offset in range(0, size, CHUNK):
            length = min(CHUNK, size - offset)
            PAYLOAD.fill(BUFFER.words, key, offset, -(-length // ALIGNMENT) * ALIGNMENT)
            target.write(offset, length, BUFFER)
        assert target.device_ns >= 0


def wrong(tier: Tier, key: int, size: int) -> str | None:
    """Read an object back; what differs from what `put` wrote."""
    found = None
    with tier.open(key, size) as source:
        for offset in range(0, size, CHUNK):
            length = min(CHUNK, size - offset)
            BUFFER.bytes[:] = 0
            source.read(offset, length, BUFFER)
            found = found or PAYLOAD.check_bytes(BUFFER.words, OTHER.words, key, offset, length)
    return found


class TierContract:
    """What execution relies on."""

    @pytest.fixture
    def tier(self, tmp_path: Path) -> Tier:
        raise NotImplementedError

    @pytest.mark.parametrize("size", [1, 511, 512, 4096, 70_272, CHUNK, CHUNK + 128, 2 * CHUNK + 5000])
    def test_bytes_come_back(self, tier: Tier, size: int) -> None:
        put(tier, 1, size)
        put(tier, 2, size)
        if tier.keeps_bytes:
            assert wrong(tier, 1, size) is None
            assert wrong(tier, 2, size) is None

    def test_what_is_not_there_cannot_be_read(self, tier: Tier) -> None:
        with pytest.raises(OSError, match="7"):
            tier.open(7, 512)
        put(tier, 7, 512)
        tier.discard(7)
        with pytest.raises(OSError, match="7"):
            tier.open(7, 512)

    def test_discarding_nothing_is_no_error(self, tier: Tier) -> None:
        tier.discard(3)

    def test_a_key_may_come_back(self, tier: Tier) -> None:
        for size in (5000, 100, 9000):
            put(tier, 1, size)
            if tier.keeps_bytes:
                assert wrong(tier, 1, size) is None
            tier.discard(1)

    def test_closing_twice_is_no_error(self, tier: Tier) -> None:
        put(tier, 1, 512)
        tier.close()


class TestNullTier(TierContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> Tier:
        return NullTier()


class TestCpuTier(TierContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> Tier:
        return CpuTier(32 << 20)

    def test_it_never_takes_more_than_its_budget(self) -> None:
        tier = CpuTier(10_000)
        put(tier, 1, 6000)
        with pytest.raises(OSError, match="arena") as refused:
            tier.create(2, 4001)
        assert refused.value.errno == errno.ENOMEM
        put(tier, 2, 4000)
        assert wrong(tier, 1, 6000) is None

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3000)), max_size=60))
    def test_fragmentation_never_refuses_what_the_account_allows(self, steps: list[tuple[int, int]]) -> None:
        tier, held = CpuTier(8000), dict[int, int]()
        for key, size in steps:
            if key in held:
                assert wrong(tier, key, held.pop(key)) is None
                tier.discard(key)
            elif sum(held.values()) + size <= 8000:
                put(tier, key, size)
                held[key] = size
        assert all(wrong(tier, key, size) is None for key, size in held.items())
        for key in list(held):
            tier.discard(key)
        put(tier, 99, 8000)
        assert wrong(tier, 99, 8000) is None


class TestFileTier(TierContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> FileTier:
        return FileTier(tmp_path, "test")

    def test_o_direct_is_used_where_it_works(self, tier: FileTier) -> None:
        put(tier, 1, 512)
        with tier.open(1, 512) as source:
            flags = Path(f"/proc/self/fdinfo/{source._descriptor}").read_text()  # type: ignore[attr-defined]
        assert bool(int(flags.split("flags:")[1].split()[0], 8) & os.O_DIRECT) == tier.direct

    def test_a_file_cut_short_is_a_short_read(self, tier: FileTier) -> None:
        put(tier, 1, 70_000)
        os.truncate(tier._path(1), 8192)
        with pytest.raises(OSError, match="short read: ends at byte 8192"):
            wrong(tier, 1, 70_000)

    def test_reads_that_return_less_go_on(self, tier: FileTier, monkeypatch: pytest.MonkeyPatch) -> None:
        put(tier, 1, 70_000)
        whole = os.preadv
        monkeypatch.setattr(os, "preadv", lambda fd, views, at: whole(fd, [views[0][:ALIGNMENT]], at))
        assert wrong(tier, 1, 70_000) is None

    def test_writes_that_take_less_go_on(self, tier: FileTier, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = os.pwritev
        monkeypatch.setattr(os, "pwritev", lambda fd, views, at: whole(fd, [views[0][:ALIGNMENT]], at))
        put(tier, 1, 70_000)
        assert wrong(tier, 1, 70_000) is None

    def test_only_its_own_files_are_removed(self, tmp_path: Path) -> None:
        (tmp_path / "precious").write_text("x")
        (tmp_path / f"{MARKER}-other").mkdir()
        tier = FileTier(tmp_path, "test")
        put(tier, 1, 512)
        tier.close()
        assert {path.name for path in tmp_path.iterdir()} == {"precious", f"{MARKER}-other"}

    def test_a_strangers_file_among_them_stays(self, tier: FileTier) -> None:
        (tier.folder / "precious").write_text("x")
        put(tier, 1, 512)
        tier.close()
        assert [path.name for path in tier.folder.iterdir()] == ["precious"]

    def test_kept_files_stay(self, tmp_path: Path) -> None:
        tier = FileTier(tmp_path, "test", keep=True)
        put(tier, 1, 512)
        tier.close()
        assert [path.name for path in tier.folder.iterdir()] == ["00000001.kv"]

    def test_places_that_will_not_do_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
            with pytest.raises(InputError, match="--cache-dir"):
                FileTier(place, "test")


def test_buffers_are_aligned_for_o_direct() -> None:
    assert Buffer(CHUNK).words.ctypes.data % ALIGNMENT == 0
    assert np.shares_memory(BUFFER.words, BUFFER.bytes)
