"""The drive that was meant: where the cache lies, how full it may get, what is left there, and what a run says of it."""

import errno
import json
import os
import shutil
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from analysis.summary import summarise
from replayer import machine, room
from replayer.model import TokenBytes
from replayer.opening import Settings
from replayer.pace import Span
from replayer.plan import PlanOptions
from replayer.run import replay
from replayer.schema import causes_of, commonest, read_run
from replayer.tiers.cache_dir import MARKER, clean, leftovers
from replayer.tiers.contract import ALIGNMENT
from replayer.tiers.nvme import BlockIO, FileTier, SlabTier
from replayer.tiers.reserve import Reserve
from tests.replayer.tiers.contract import put
from tests.support import traces
from tests.support.command_line import Run, sentence
from tests.support.mounts import tmpfs
from tracegen.schema import InputError, Trace

UNIT = 1 << 16  # bytes of a token
MIB = 1 << 20
NAMED = "20260102T030405678901-4242"


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Eight objects of 64 KiB to 512 KiB, each read once."""
    steps = [(op, key, 1 + key) for key in range(8) for op in "wd"]
    return traces.write(tmp_path / "t.parquet", traces.columns(steps, [key // 2 for key in range(16)]))


def replayed(
    trace: Trace, place: Path, *, run: str = "run", nonce: int | None = None, **settings: Any
) -> dict[str, Any]:
    (place / "cache").mkdir(exist_ok=True)
    chosen = Settings(**({"workers": 2, "cache_dir": place / "cache"} | settings))
    plan = PlanOptions(TokenBytes(UNIT), (Decimal(0), Decimal(0), None), demand=chosen.demand)
    return replay(trace, "test", plan, chosen, place / run, nonce=nonce)


# A directory that is not there


GRID = """
trials = 1
[[case]]
name = "a"
trace = "t.parquet"
model = "tiny-1b"
"""
COMMANDS = {
    "run": ["run", "t.parquet", "--model", "tiny-1b"],
    "sweep": ["sweep", "grid.toml"],
    "autoscale": ["autoscale", "t.parquet", "--mode", "capacity", "--model", "tiny-1b", "--users", "1"],
    "scenarios": ["scenarios", "storage-only"],
    "scenarios dry": ["scenarios", "storage-only", "--dry-run"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_cache_directory_that_is_not_mounted_is_refused(run: Run, trace: Trace, tmp_path: Path, name: str) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    before = sorted(tmp_path.iterdir())
    missing = tmp_path / "typo" / "nvme"
    told = run("replayer", *COMMANDS[name], "--cache-dir", missing, "-o", "out", ok=False, cwd=tmp_path)
    sentence(told, f"--cache-dir {missing}: no such directory; is it mounted? --make-cache-dir makes it.")
    assert sorted(tmp_path.iterdir()) == before, "nothing is made"
    assert trace.path in before


@pytest.mark.parametrize("name", ["run", "sweep"])
def test_a_cache_directory_that_is_asked_for_is_made_and_stays(
    run: Run, trace: Trace, tmp_path: Path, name: str
) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    place = tmp_path / "new" / "nvme"
    flags = ["--make-cache-dir", "--cache-dir", place, "-o", "out"]
    run("replayer", *COMMANDS[name], *flags, cwd=tmp_path, alone=name == "sweep")
    assert place.is_dir()
    assert list(place.iterdir()) == []
    assert trace.path.exists()


# Which device it is


def mounted(monkeypatch: pytest.MonkeyPatch, place: Path, *points: str, kind: str = "ext4") -> None:
    """The file system of `place`, mounted at these points in this order."""
    number = place.stat().st_dev
    lines = [
        f"{i} 1 {os.major(number)}:{os.minor(number)} / {point} rw shared:1 - {kind} /dev/nvme9n1 rw"
        for i, point in enumerate(points)
    ]
    (place / "mountinfo").write_text("\n".join(lines) + "\n")
    monkeypatch.undo()
    found = machine.mounts(place / "mountinfo")
    monkeypatch.setattr(machine, "mounts", lambda: found)


def test_of_many_mounts_the_one_that_the_path_goes_through(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spaced = tmp_path / "a b"
    spaced.mkdir()
    mounted(monkeypatch, tmp_path, "/etc/hosts", str(tmp_path), str(spaced).replace(" ", "\\040"), "/", "/opt")
    assert machine.storage(tmp_path)["mount_point"] == str(tmp_path)
    assert machine.storage(spaced)["mount_point"] == str(spaced)
    mounted(monkeypatch, tmp_path, "/etc/hosts", "/opt")
    assert machine.storage(tmp_path)["mount_point"] == "/etc/hosts", "none is above it: any names the device"


@pytest.mark.parametrize("partition", [False, True])
def test_the_model_of_a_partition_and_of_a_volume(
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


FACTS = {
    "filesystem": "ext4",
    "mount_point": "/mnt/nvme",
    "mount_options": "rw",
    "device": "/dev/nvme0n1",
    "device_model": "Samsung PM9A3",
}


def test_the_first_line_names_the_drive(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "storage", lambda _: FACTS)
    info = replayed(trace, tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"nvme tier: {tmp_path}/cache on ext4 at /mnt/nvme, /dev/nvme0n1 (Samsung PM9A3)"
    assert lines[1] == "disk: up to 2.3 MiB at a time; 2.2 MiB to write and 2.2 MiB to read in the whole plan"
    assert lines[2].startswith("time: as long as the tiers take")
    assert info["machine"]["storage"] == FACTS
    assert not [text for text in info["warnings"] if "root file system" in text]


def test_summary_and_report_name_the_drive(
    run: Run, trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "storage", lambda _: FACTS)
    replayed(trace, tmp_path)
    told = "nvme tier on ext4 at /mnt/nvme, /dev/nvme0n1 (Samsung PM9A3)"
    assert told in run("analysis", "summary", tmp_path / "run").stdout
    assert told in run("analysis", "report", tmp_path / "run", "--format", "md").stdout


def test_the_root_file_system_is_a_doubt_that_does_not_invalidate(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "storage", lambda _: FACTS | {"mount_point": "/"})
    info = replayed(trace, tmp_path)
    assert f"{tmp_path}/cache is on the root file system (ext4), which the whole machine uses." in info["warnings"]
    told = [doubt for doubt in summarise(tmp_path / "run")["doubts"] if "root file system" in doubt["text"]]
    assert [(doubt["kind"], doubt["invalidates"]) for doubt in told] == [("root file system", False)]


def test_a_run_without_a_place_is_still_read(trace: Trace, tmp_path: Path) -> None:
    """As earlier releases, and runs without an nvme tier, leave it."""
    replayed(trace, tmp_path)
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    del info["machine"]["storage"], info["payload_nonce"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(info))
    assert summarise(tmp_path / "run")["storage"] is None


# How full it may get


def test_new_files_leave_the_reserve(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "16m") as place:
        tier = FileTier(place, "test", BlockIO(direct="off"))
        tier.reserve(8 * MIB)
        for key in range(7):
            put(tier, key, MIB)
        with pytest.raises(OSError, match="No space left above the reserve") as refused:
            put(tier, 9, 2 * MIB)
        assert refused.value.errno == errno.ENOSPC
        assert not tier.path(9).exists()
        tier.discard(0)
        tier.discard(1)
        put(tier, 9, 2 * MIB)
        with tier.create(10, ALIGNMENT), pytest.raises(OSError, match="reserve"):
            tier.create(11, MIB)  # what is promised to the one that is open counts
        free = os.statvfs(place)
        assert free.f_bavail * free.f_frsize >= 8 * MIB
        tier.reserve(0)
        put(tier, 12, 4 * MIB)
        tier.close()


def test_what_is_open_and_what_another_writes_counts(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "16m") as place:
        tier = FileTier(place, "test", BlockIO(direct="off"))
        tier.reserve(8 * MIB)
        with tier.create(1, 5 * MIB), pytest.raises(OSError, match="reserve"):
            tier.create(2, 4 * MIB)
        tier.discard(1)
        (place / "anothers").write_bytes(bytes(7 * MIB))
        put(tier, 3, MIB // 2)
        with pytest.raises(OSError, match="reserve"):
            put(tier, 4, MIB)
        tier.close()


@pytest.mark.parametrize("layout", ["files", "slab"])
def test_a_plan_that_needs_the_reserve_is_refused(trace: Trace, tmp_path: Path, layout: Any) -> None:
    with tmpfs(tmp_path / "small", "4m") as place:
        with pytest.raises(InputError) as refused:
            replayed(trace, tmp_path, cache_dir=place, layout=layout, reserve=Reserve(share=0.5))
        assert "GiB are free beside the 0.00 GiB that --reserve 50% keeps" in refused.value.message
        assert refused.value.message.endswith("or a smaller --reserve.")
        assert list(place.iterdir()) == []
        assert replayed(trace, tmp_path, cache_dir=place, layout=layout)["status"] == "complete"


def test_a_disk_that_others_fill_fails_the_run_with_the_cause(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody fills it between the check and the stores."""
    with tmpfs(tmp_path / "small", "4m") as place:
        monkeypatch.setattr(room, "free_bytes", lambda _: 1 << 40)
        (place / "anothers").write_bytes(bytes(3 * MIB))
        info = replayed(trace, tmp_path, cache_dir=place)
        assert info["status"] == "failed"
        cause = "No space left above the reserve that the file system keeps (--reserve)"
        assert info["reason"].endswith(f" × {cause}")
        assert (os.statvfs(place).f_bavail * os.statvfs(place).f_frsize) >= 4 * MIB // 20
        (told,) = [one for one in summarise(tmp_path / "run")["doubts"] if one["kind"] == "errors"]
        assert told["text"].endswith(f" × {cause}")


def test_a_reserve_is_a_share_or_gib(run: Run, trace: Trace, tmp_path: Path) -> None:
    whole = os.statvfs(tmp_path)
    assert Reserve(0.05).of(tmp_path / "missing") == int(whole.f_blocks * whole.f_frsize * 0.05)
    assert (Reserve(bytes=3 << 29).of(tmp_path), Reserve(bytes=3 << 29).said()) == (3 << 29, "1.5")
    for wrong in ("100%", "-1", "much"):
        flags = ["--model", "tiny-1b", "--reserve", wrong, "--cache-dir", tmp_path, "-o", tmp_path / "run"]
        sentence(run("replayer", "run", trace.path, *flags, ok=False), repr(wrong), "as 5%, nor GiB, as 10")


def test_the_commonest_cause_without_names_and_numbers() -> None:
    errors = [f"OSError: [Errno 28] No space left on device: '/mnt/c: d/{key:08x}.kv'" for key in range(3)]
    errors += ["CorruptionError: 3 of 8 sectors wrong from byte 0 on: sector 1 of key 2 holds no stamp of this run"]
    causes = causes_of(errors)
    assert commonest(causes_of(errors[:3])) == "3 × No space left on device"
    assert commonest(causes) == "3 × No space left on device, and 1 for other causes"
    assert set(causes) == {"No space left on device", "N of N sectors wrong from byte N on"}


# Bytes of two runs


def test_two_trials_share_no_block_on_the_drive(trace: Trace, tmp_path: Path) -> None:
    def blocks(run: str, **more: Any) -> tuple[str, set[bytes]]:
        info = replayed(trace, tmp_path, run=run, keep_cache=True, precondition_gib=2 / 1024, **more)
        (folder,) = (tmp_path / "cache").iterdir()
        whole = [file.read_bytes() for file in folder.glob("*.kv")]
        shutil.rmtree(folder)
        return info["payload_nonce"], {one[at : at + 4096] for one in whole for at in range(0, len(one), 4096)}

    first, second, third = blocks("a"), blocks("b"), blocks("c", nonce=7)
    assert len(first[1]) == len(second[1]) == 36 * UNIT // 4096
    assert not first[1] & second[1]
    assert first[0] != second[0]
    assert third == blocks("d", nonce=7), "an injected nonce makes the same bytes"
    assert third[0] == f"{7:016x}" == read_run(tmp_path / "c")["payload_nonce"]


# What killed runs leave, and folders that are swapped


def folder(place: Path, name: str, *files: str, age_s: float = 3600) -> Path:
    made = place / name
    made.mkdir()
    for file in files:
        (made / file).write_text("x")
    os.utime(made, ns=(time.time_ns() - int(age_s * 1e9),) * 2)
    return made


@pytest.mark.parametrize(
    ("name", "files"),
    [(f".new-{MARKER}-{NAMED}", ()), (f".new-{MARKER}-{NAMED}-0001", ("lock",)), (f"{MARKER}-{NAMED}", ())],
)
def test_folders_killed_while_made_or_removed_are_found(tmp_path: Path, name: str, files: tuple[str, ...]) -> None:
    left = folder(tmp_path, name, *files)
    assert leftovers(tmp_path) == [left]
    clean(left)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "files"),
    [
        (f".new-{MARKER}-{NAMED}", ("lock", "notes.txt")),
        (f".new-{MARKER}-mine", ()),
        (f"{MARKER}-mine", ()),
        (f"{MARKER}-{NAMED}", ("0000002a.kv",)),  # as --keep-cache leaves it
        (f"{MARKER}-{NAMED}", ("notes.txt",)),
    ],
)
def test_folders_that_may_be_a_users_are_not(tmp_path: Path, name: str, files: tuple[str, ...]) -> None:
    folder(tmp_path, name, *files)
    assert leftovers(tmp_path) == []


def test_a_folder_that_is_being_made_is_no_leftover(tmp_path: Path) -> None:
    folder(tmp_path, f".new-{MARKER}-{NAMED}", age_s=1)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("layout", ["files", "slab"])
def test_a_folder_swapped_for_a_link_leaves_the_target_alone(
    tmp_path: Path, layout: str, capfd: pytest.CaptureFixture[str]
) -> None:
    precious = folder(tmp_path, "precious", "lock", "00000001.kv", "00000002.kv", "slab-0.kv")
    tier = FileTier(tmp_path, "test") if layout == "files" else SlabTier(tmp_path, "test", MIB)
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
    assert "is left behind" in capfd.readouterr().err


def test_an_object_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    tier = FileTier(tmp_path, "test")
    put(tier, 1, 5000)
    (tmp_path / "precious").write_bytes(tier.path(1).read_bytes())
    tier.path(1).unlink()
    tier.path(1).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links") as refused:
        tier.open(1, 5000)
    assert refused.value.errno == errno.ELOOP
    tier.close()
    assert (tmp_path / "precious").exists()


# What a run needs, and how long it takes


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            ["--pace", "asap"],
            "time: as long as the tiers take; --duration limits it",
        ),
        (
            ["--pace", "open"],
            "time: at least 40 s (times and pauses of the trace at pace open), as long as the tiers take",
        ),
        (
            ["--pace", "closed"],
            "time: at least 40 s (times and pauses of the trace at pace closed), as long as the tiers take",
        ),
        (["--pace", "open", "--speedup", "4"], "time: at least 10 s (times and pauses of the trace at pace open)"),
    ],
)
def test_a_plan_says_what_a_replay_needs(run: Run, tmp_path: Path, flags: list[str], told: str) -> None:
    steps = [("w", key, 64) for key in range(3)]
    batch = traces.columns(steps, [0, 1, 2], time_ns=[0, 20 * 10**9, 40 * 10**9])
    trace = traces.write(tmp_path / "t.parquet", batch).path
    shown = run("replayer", "plan", trace, "--model", "tiny-1b", *flags).stdout
    assert f"  {told}" in shown
    assert "  disk: up to 4.5 MiB at a time; 4.5 MiB to write and nothing to read in the whole plan" in shown


def test_a_closed_loop_takes_its_users_pauses(run: Run, tmp_path: Path) -> None:
    steps = [("w", key, 64) for key in range(4)]
    users = {"user_id": [0, 1, 0, 0], "session_id": [0, 1, 0, 0], "turn": [1, 1, 2, 3]}
    pauses = [0, 0, 20 * 10**9, 10 * 10**9]
    batch = traces.columns(
        steps, [0, 1, 2, 3], time_ns=[10**9, 2 * 10**9, 3 * 10**9, 4 * 10**9], think_ns=pauses, **users
    )
    trace = traces.write(tmp_path / "t.parquet", batch).path
    shown = run("replayer", "plan", trace, "--model", "tiny-1b", "--pace", "closed").stdout
    assert "time: at least 31 s (times and pauses of the trace at pace closed)" in shown


@pytest.mark.parametrize(
    ("span", "told"),
    [
        (Span(300, 30), "time: at most 330 s (--duration and --drain)"),
        (Span(300), "time: 300 s, and until what was issued by then has ended (no --drain limits it)"),
    ],
)
def test_a_cut_run_says_when_it_ends(
    trace: Trace, tmp_path: Path, span: Span, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    replayed(trace, tmp_path, span=span)
    assert told in capsys.readouterr().err.splitlines()


def test_a_cut_run_says_that_the_disk_holds_only_a_part(trace: Trace, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "2m") as place:
        info = replayed(trace, tmp_path, cache_dir=place, span=Span(300, 30), reserve=Reserve(bytes=MIB))
    (told,) = [text for text in info["warnings"] if "GiB at its peak" in text]
    assert (
        "this disk cannot hold the whole plan; where the run gets so far within --duration 300, its stores fail."
        in told
    )
