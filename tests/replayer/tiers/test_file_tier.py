"""The nvme tier in files."""

import errno
import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.tiers.cache_dir import MARKER, clean
from replayer.tiers.files import FileTier
from tests.replayer.tiers.contract import (
    BUFFER,
    DEEP,
    TierContract,
    deep,
    interrupted,
    io_of,
    less_at_a_time,
    put,
    wrong,
)
from tests.support import system_calls
from tests.support.mounts import tmpfs
from tracegen.errors import InputError


class TestFileTier(TierContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> FileTier:
        return FileTier(tmp_path, "test")

    def test_o_direct_is_used_where_it_works(self, tier: FileTier) -> None:
        for opened in (tier.create(1, 512), tier.open(1, 512)):
            with opened as one:
                descriptor = one.struct.descriptor  # type: ignore[attr-defined]
                flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
                assert fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
            assert bool(flags & os.O_DIRECT) == tier.direct
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(descriptor)

    def test_a_file_cut_short_is_a_short_read(self, tier: FileTier) -> None:
        put(tier, 1, 70_000)
        os.truncate(tier.path(1), 8192)
        with pytest.raises(OSError, match="short read: ends at byte 8192") as short:
            wrong(tier, 1, 70_000)
        assert short.value.errno == errno.EIO
        assert str(tier.path(1)) in str(short.value)

    def test_reads_that_return_less_go_on(self, tier: FileTier) -> None:
        put(tier, 1, 70_000)
        with less_at_a_time():
            assert wrong(tier, 1, 70_000) is None

    def test_writes_that_take_less_go_on(self, tier: FileTier) -> None:
        with less_at_a_time():
            put(tier, 1, 70_000)
        assert wrong(tier, 1, 70_000) is None

    def test_calls_that_are_interrupted_are_made_again(self, tier: FileTier) -> None:
        with interrupted():
            put(tier, 1, 70_000)
            assert wrong(tier, 1, 70_000) is None

    def test_an_error_names_the_file(self, tier: FileTier) -> None:
        with tier.create(1, 512) as target, pytest.raises(OSError, match="Bad file descriptor") as refused:
            target.read(0, 512, BUFFER)
        assert refused.value.filename == str(tier.path(1))
        with pytest.raises(FileExistsError) as there:
            tier.create(1, 512)
        assert there.value.filename == str(tier.path(1))

    def test_a_full_disk_is_an_error_of_the_write(self, tier: FileTier, tmp_path: Path) -> None:
        with tmpfs(tmp_path / "small", "128k") as place:
            small = FileTier(place, "test", io_of(tier))
            with pytest.raises(OSError, match="No space left"):
                put(small, 1, 400_000)
            small.discard(1)
            put(small, 2, 70_000)
            assert wrong(small, 2, 70_000) is None
            small.close()
            assert list(place.iterdir()) == []

    def test_a_folder_that_cannot_be_removed_is_a_warning(self, tmp_path: Path) -> None:
        warnings = list[str]()
        tier = FileTier(tmp_path, "gone", say=warnings.append)
        put(tier, 1, 512)
        shutil.rmtree(tier.folder)
        tier.close()
        tier.close()
        assert warnings == [f"{tier.folder} is left behind: No such file or directory."], "once"

    def test_the_lock_is_the_last_file_to_go(self, tier: FileTier, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is killed while it removes its files is found again."""
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
            with pytest.raises(InputError, match="cache_dir"):
                FileTier(place, "test")


class TestFileTierOfDeepRequests(TestFileTier):
    """Small requests, four of one object in flight."""

    @pytest.fixture
    def tier(self, tmp_path: Path) -> FileTier:
        system_calls.skip_without_uring()
        return deep(FileTier(tmp_path, "test", DEEP))


@given(st.lists(st.integers(0, 2**63 - 1), max_size=50, unique=True))
def test_keys_stay_in_the_folder_and_are_known_as_ours(tmp_path_factory: Any, keys: list[int]) -> None:
    tier = FileTier(tmp_path_factory.mktemp("keys"), "test")
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
