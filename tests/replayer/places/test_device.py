"""The drive that holds the cache directory, as run.json, summary and report name it."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from analysis.summary.summary import summarise
from replayer.machine import description as machine
from replayer.record.run_parts import Storage
from replayer.schema import to_plain
from tests.replayer.places.replays import Lines, replayed
from tests.replayer.run.replays import UNIT
from tests.support.run_json import run_json
from tracegen.control_groups import list_mounts
from tracegen.schema import Trace


def mounted(monkeypatch: pytest.MonkeyPatch, place: Path, *points: str, kind: str = "ext4") -> None:
    """Mount the file system of `place` at these points, in this order."""
    number = place.stat().st_dev
    lines = [
        f"{i} 1 {os.major(number)}:{os.minor(number)} / {point} rw shared:1 - {kind} /dev/nvme9n1 rw"
        for i, point in enumerate(points)
    ]
    (place / "mountinfo").write_text("\n".join(lines) + "\n")
    monkeypatch.undo()
    entries = list_mounts(place / "mountinfo")
    monkeypatch.setattr(machine, "list_mounts", lambda: entries)


def test_storage_describes_the_mount_that_the_path_goes_through(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spaced = tmp_path / "a b"
    spaced.mkdir()
    mounted(monkeypatch, tmp_path, "/etc/hosts", str(tmp_path), str(spaced).replace(" ", "\\040"), "/", "/opt")
    assert machine.storage(tmp_path).mount_point == str(tmp_path)
    assert machine.storage(spaced).mount_point == str(spaced)
    mounted(monkeypatch, tmp_path, "/etc/hosts", "/opt")
    assert machine.storage(tmp_path).mount_point == "/etc/hosts", "none is above it: any names the device"


@pytest.mark.parametrize("partition", [False, True])
def test_the_model_of_a_partition_or_volume_is_its_disks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, partition: bool
) -> None:
    disk, blocks = tmp_path / "devices" / "nvme0n1", tmp_path / "block"
    for folder in (disk / "device", disk / "nvme0n1p1", tmp_path / "devices" / "dm-0" / "slaves" / "nvme0n1p1", blocks):
        folder.mkdir(parents=True)
    (disk / "device" / "model").write_text("Samsung PM9A3   \n")
    (tmp_path / "devices" / "dm-0" / "slaves" / "nvme0n1p1" / "dev").write_text("259:1\n")
    for number, target in {"259:0": disk, "259:1": disk / "nvme0n1p1", "253:0": tmp_path / "devices" / "dm-0"}.items():
        (blocks / number).symlink_to(target)
    monkeypatch.setattr(machine, "BLOCKS", blocks)
    assert machine.model_of("259:1" if partition else "253:0") == machine.model_of("259:0") == "Samsung PM9A3"
    assert machine.model_of("8:0") is None


FACTS = Storage(
    filesystem="ext4",
    mount_point="/mnt/nvme",
    mount_options="rw",
    device="/dev/nvme0n1",
    device_model="Samsung PM9A3",
)


def test_the_first_line_and_the_record_name_the_drive(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "storage", lambda _: FACTS)
    console = Lines()
    info = replayed(trace, tmp_path, console=console)
    place, use, time = console.lines[:3]
    assert place == f"nvme tier: {tmp_path}/cache on ext4 at /mnt/nvme, /dev/nvme0n1 (Samsung PM9A3)"
    assert re.findall(r"[\d.]+ MiB", use) == ["2.281 MiB", "2.25 MiB", "2.25 MiB"], "at a time, to write, to read"
    assert time.startswith("time: ")
    assert info["machine"]["storage"] == to_plain(FACTS)
    assert "root file system" not in {warning["kind"] for warning in info["warnings"]}


def test_the_root_file_system_is_a_doubt_that_does_not_invalidate(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "storage", lambda _: msgspec.structs.replace(FACTS, mount_point="/"))
    info = replayed(trace, tmp_path)
    assert "root file system" in {warning["kind"] for warning in info["warnings"]}
    doubts = [doubt for doubt in summarise(tmp_path / "run").to_json()["doubts"] if doubt["kind"] == "root file system"]
    assert [doubt["invalidates"] for doubt in doubts] == [False]


def test_two_trials_share_no_block_on_the_drive(trace: Trace, tmp_path: Path) -> None:
    def blocks(run: str, **more: Any) -> tuple[str, set[bytes]]:
        info = replayed(trace, tmp_path, run=run, keep_cache=True, precondition=2 / 1024, **more)
        (folder,) = (tmp_path / "cache").iterdir()
        whole = [file.read_bytes() for file in folder.glob("*.kv")]
        shutil.rmtree(folder)
        return info["payload_nonce"], {one[at : at + 4096] for one in whole for at in range(0, len(one), 4096)}

    first, second, third = blocks("a"), blocks("b"), blocks("c", nonce=7)
    assert len(first[1]) == len(second[1]) == 36 * UNIT // 4096
    assert not first[1] & second[1]
    assert first[0] != second[0]
    assert third == blocks("d", nonce=7), "an injected nonce makes the same bytes"
    assert third[0] == f"{7:016x}" == run_json(tmp_path / "c")["payload_nonce"]
