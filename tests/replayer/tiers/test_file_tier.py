"""The nvme tier with one file per object."""

import errno
import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.tiers.cache_dir import clean
from replayer.tiers.disk import FileTier
from tests.replayer.tiers.contract import (
    BUFFER,
    DEEP,
    DiskContract,
    file_tier,
    find_damage,
    interrupted_calls,
    put,
)
from tests.support import system_calls
from tests.support.mounts import tmpfs
from tracegen.errors import InputError


class TestFileTier(DiskContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> FileTier:
        return file_tier(tmp_path, io=self.io)

    def test_files_are_opened_with_o_direct_if_it_works(self, tier: FileTier) -> None:
        for opened in (tier.create(1, 512), tier.open(1, 512)):
            with opened as one:
                descriptor = one.struct.descriptor  # type: ignore[attr-defined]
                flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
                assert fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
            assert bool(flags & os.O_DIRECT) == tier.direct
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(descriptor)

    def test_reading_a_truncated_file_is_a_short_read(self, tier: FileTier) -> None:
        put(tier, 1, 70_000)
        os.truncate(tier.path(1), 8192)
        with pytest.raises(OSError, match="short read: ends at byte 8192") as short:
            find_damage(tier, 1, 70_000)
        assert short.value.errno == errno.EIO
        assert str(tier.path(1)) in str(short.value)

    def test_interrupted_calls_are_repeated(self, tier: FileTier) -> None:
        with interrupted_calls():
            put(tier, 1, 70_000)
            assert find_damage(tier, 1, 70_000) is None

    def test_an_error_names_the_file(self, tier: FileTier) -> None:
        with tier.create(1, 512) as target, pytest.raises(OSError, match="Bad file descriptor") as refused:
            target.read(0, 512, BUFFER)
        assert refused.value.filename == str(tier.path(1))
        with pytest.raises(FileExistsError) as there:
            tier.create(1, 512)
        assert there.value.filename == str(tier.path(1))

    def test_a_full_disk_fails_the_write(self, tier: FileTier, tmp_path: Path) -> None:
        with tmpfs(tmp_path / "small", "128k") as place:
            small = file_tier(place, io=self.io)
            with pytest.raises(OSError, match="No space left"):
                put(small, 1, 400_000)
            small.discard(1)
            put(small, 2, 70_000)
            assert find_damage(small, 2, 70_000) is None
            small.close()
            assert list(place.iterdir()) == []

    def test_a_folder_that_cannot_be_removed_is_a_warning(self, tmp_path: Path) -> None:
        warnings = list[str]()
        tier = file_tier(tmp_path, "gone", say=warnings.append)
        put(tier, 1, 512)
        shutil.rmtree(tier.folder)
        tier.close()
        tier.close()
        assert warnings == [f"{tier.folder} is left behind: No such file or directory."], "once"

    def test_the_lock_is_removed_last(self, tier: FileTier, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run killed while it removes its files leaves a folder that is found again."""
        whole, gone = os.unlink, list[str]()

        def unlink(path: Any, **more: Any) -> None:
            gone.append(Path(path).name)
            whole(path, **more)

        for key in range(20):
            put(tier, key, 512)
        monkeypatch.setattr(os, "unlink", unlink)
        tier.close()
        assert len(gone) == 21
        assert gone[-1] == "lock"

    def test_only_the_tiers_own_files_are_removed(self, tier: FileTier, tmp_path: Path) -> None:
        (tmp_path / "precious").write_text("x")
        (tier.folder / "precious").write_text("x")
        put(tier, 1, 512)
        tier.close()
        assert {path.name for path in tmp_path.iterdir()} == {"precious", tier.folder.name}
        assert [path.name for path in tier.folder.iterdir()] == ["precious"]

    def test_kept_files_stay(self, tmp_path: Path) -> None:
        tier = file_tier(tmp_path, keep_cache=True)
        put(tier, 1, 512)
        tier.close()
        assert [path.name for path in tier.folder.iterdir()] == ["00000001.kv"]

    def test_unusable_directories_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
            with pytest.raises(InputError, match="cache_dir"):
                file_tier(place)


@system_calls.needs_uring
class TestFileTierOfDeepRequests(TestFileTier):
    """The same with small requests, four of one object in flight."""

    io = DEEP


@given(st.lists(st.integers(0, 2**63 - 1), max_size=50, unique=True))
def test_files_of_all_keys_are_in_the_folder_and_recognised_as_ours(tmp_path_factory: Any, keys: list[int]) -> None:
    tier = file_tier(tmp_path_factory.mktemp("keys"))
    for key in keys:
        path = tier.path(key)
        assert path.parent == tier.folder
        assert path.resolve().parent == tier.folder.resolve()
        with tier.create(key, 512):
            assert path.is_file()
        tier.discard(key)
        path.touch()  # a killed run's: `clean` must know it
    (tier.folder / "lock").touch()
    clean(tier.folder)
    assert not tier.folder.exists()
