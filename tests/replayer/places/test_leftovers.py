"""Leftovers of killed runs, and folders that are swapped for links."""

import errno
from pathlib import Path

import pytest

from replayer.tiers.cache_dir import MARKER, clean, leftovers
from replayer.tiers.disk import FileTier, SlabTier
from tests.replayer.places.replays import MIB
from tests.replayer.tiers.contract import check_sentence, file_tier, put, slab_tier
from tracegen.errors import InputError


def folder(place: Path, name: str, *files: str) -> Path:
    made = place / name
    made.mkdir()
    for file in files:
        (made / file).write_text("x")
    return made


@pytest.mark.parametrize(
    ("name", "files"),
    [
        (f".new-{MARKER}-starting", ("lock",)),
        (f"{MARKER}-mine", ()),
        (f"{MARKER}-kept", ("0000002a.kv",)),  # as --set keep_cache=true leaves it
    ],
)
def test_folders_without_a_free_lock_are_no_leftovers(tmp_path: Path, name: str, files: tuple[str, ...]) -> None:
    folder(tmp_path, name, *files)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("layout", ["files", "slab"])
def test_a_folder_swapped_for_a_link_leaves_the_target_alone(tmp_path: Path, layout: str) -> None:
    warnings = list[str]()
    precious = folder(tmp_path, "precious", "lock", "00000001.kv", "00000002.kv", "slab-0.kv")
    tier: FileTier | SlabTier
    if layout == "files":
        tier = file_tier(tmp_path, say=warnings.append)
    else:
        tier = slab_tier(tmp_path, MIB, say=warnings.append)
    put(tier, 1, 5000)
    moved = tier.folder.rename(tmp_path / "moved")
    tier.folder.symlink_to(precious)
    put(tier, 2, 5000)
    assert (moved / ("00000002.kv" if layout == "files" else "slab-0.kv")).exists()
    tier.discard(1)
    tier.close()
    assert {file.name: file.read_text() for file in precious.iterdir()} == dict.fromkeys(
        ("lock", "00000001.kv", "00000002.kv", "slab-0.kv"), "x"
    )
    assert list(moved.iterdir()) == [], "its own files are removed where they are now"
    assert warnings == [f"{tier.folder} is left behind: Not a directory."]


def test_an_object_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    tier = file_tier(tmp_path)
    put(tier, 1, 5000)
    (tmp_path / "precious").write_bytes(tier.path(1).read_bytes())
    tier.path(1).unlink()
    tier.path(1).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links") as refused:
        tier.open(1, 5000)
    assert refused.value.errno == errno.ELOOP
    tier.close()
    assert (tmp_path / "precious").exists()


def test_the_folder_of_a_live_run_is_no_leftover(tmp_path: Path) -> None:
    alive = file_tier(tmp_path, "alive")
    assert leftovers(tmp_path) == []
    kept = file_tier(tmp_path, "kept", keep_cache=True)
    kept.close()
    dead = tmp_path / f"{MARKER}-dead"
    dead.mkdir()
    (dead / "lock").touch()
    assert leftovers(tmp_path) == [dead]
    alive.close()


def test_foreign_files_survive_cleaning(tmp_path: Path) -> None:
    dead = tmp_path / f"{MARKER}-dead"
    dead.mkdir()
    for name in ("lock", "probe", "0000002a.kv", "slab-3.kv", "notes.txt", "backup-0000002a.kv", "0000002a.kv.gz"):
        (dead / name).write_text("x")
    with pytest.raises(InputError) as refused:
        clean(dead)
    check_sentence(refused.value, str(dead), "check what it contains")
    assert {path.name for path in dead.iterdir()} - {"lock"} == {"notes.txt", "backup-0000002a.kv", "0000002a.kv.gz"}


def test_cleaning_does_not_follow_links(tmp_path: Path) -> None:
    dead = tmp_path / f"{MARKER}-dead"
    dead.mkdir()
    (tmp_path / "precious").write_text("x")
    (dead / "0000002a.kv").symlink_to(tmp_path / "precious")
    (dead / "lock").touch()
    clean(dead)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
