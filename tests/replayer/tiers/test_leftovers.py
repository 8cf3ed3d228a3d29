"""Folders of killed runs."""

from pathlib import Path

import pytest

from replayer.tiers.cache_dir import MARKER, clean, leftovers
from tests.replayer.tiers.contract import check_sentence, file_tier
from tracegen.errors import InputError


def test_the_folder_of_a_live_run_is_no_leftover(tmp_path: Path) -> None:
    alive = file_tier(tmp_path, "alive")
    assert leftovers(tmp_path) == []
    kept = file_tier(tmp_path, "kept", keep_cache=True)
    kept.close()
    (tmp_path / f"{MARKER}-strangers").mkdir()
    assert leftovers(tmp_path) == []
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
