"""Replays on disks of known speed beside fio on the same disks."""

import contextlib
import json
import os
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.bench.measure import PAIRS, make_trace, show
from tests.bench.replay_part import Replay, phased, write_ops


def run(*command: object) -> str:
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def fast_disk(folder: Path, gib: int = 6) -> Iterator[Path]:
    """ext4 with O_DIRECT on a loop device over RAM."""
    ram, mount = folder / "ram", folder / "disk"
    ram.mkdir()
    mount.mkdir()
    with contextlib.ExitStack() as undo:
        run("mount", "-t", "tmpfs", "-o", f"size={gib + 1}g", "none", ram)
        undo.callback(run, "umount", ram)
        run("truncate", "-s", f"{gib}G", ram / "disk.img")
        loop = run("losetup", "-f", "--show", "--direct-io=on", ram / "disk.img").strip()
        undo.callback(run, "losetup", "-d", loop)
        run("mkfs.ext4", "-q", "-F", loop)
        run("mount", loop, mount)
        undo.callback(run, "umount", mount)
        # The first write to a page of the RAM below costs the kernel more than the copy: it is none of the disk's.
        run("dd", "if=/dev/zero", f"of={mount}/fill", "bs=1M", f"count={gib * 950}")
        (mount / "fill").unlink()
        yield mount


@contextlib.contextmanager
def throttled(place: Path, mib_s: float) -> Iterator[list[str]]:
    """A command prefix under which the block device below a directory reads and writes so much each."""
    limit, number = int(mib_s * 2**20), place.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    blkio = Path("/sys/fs/cgroup/blkio")
    group = (blkio if blkio.is_dir() else blkio.parent) / f"bench.{os.getpid()}"
    group.mkdir()
    if blkio.is_dir():
        for way in ("read", "write"):
            (group / f"blkio.throttle.{way}_bps_device").write_text(f"{device} {limit}")
    else:
        (group / "io.max").write_text(f"{device} rbps={limit} wbps={limit}")
    try:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        group.rmdir()


def fio(place: Path, kind: str, size: str, jobs: int, *more: str, prefix: Sequence[str] = ()) -> float:
    """The bytes per second of fio with direct I/O of one block size."""
    command = [*prefix, "fio", "--name=x", f"--directory={place}", f"--rw={kind}", f"--bs={size}", "--direct=1"]
    command += ["--ioengine=psync", f"--numjobs={jobs}", "--group_reporting", "--output-format=json", "--time_based"]
    out = subprocess.run([*command, *more], check=True, capture_output=True, text=True).stdout
    return float(json.loads(out)["jobs"][0][kind]["bw_bytes"])


def best(place: Path, kind: str, jobs: int, sizes: Sequence[str]) -> float:
    """fio's best bandwidth over some block sizes, in GiB/s."""
    return max(fio(place, kind, size, jobs, "--size=256M", "--runtime=1", "--ramp_time=0.5") for size in sizes) / 2**30


def disk(folder: Path) -> None:
    """NVMe-only replays with 4 workers against fio at 4 jobs, on a RAM-backed disk."""
    with fast_disk(folder) as mount:
        for name, size, keys, reads, sizes in (
            ("16 MiB", 16 << 20, 128, 12, ("1M", "4M", "16M")),
            ("1 MiB", 1 << 20, 2000, 8, ("256k", "1M")),
            ("128 KiB", 128 << 10, 8000, 8, ("128k",)),
        ):
            trace = phased(folder / "d.parquet", size, keys, reads)
            print(f"fast disk: objects of {name}, nvme only, 4 workers, not verified")
            for layout in ("slab", "files"):
                flags = (*four_workers(mount), "--layout", layout, "--verify", "off")
                if layout == "slab":
                    flags = (*flags, "--precondition", 3)
                measured: dict[str, list[tuple[float, float]]] = {"read": [], "write": []}
                for _ in range(PAIRS + 1):
                    found = Replay.of(trace, folder / "run", *flags).summary
                    for side, pairs in measured.items():
                        pairs.append((found[f"nvme_{side}_busy_gib_s"], best(mount, side, 4, sizes)))
                for side, pairs in measured.items():
                    show(f"{layout}: {side} GiB/s against fio psync", pairs[1:], "GiB/s", "at least 0.8 to 0.95")


FAST, SLOW = 470, 100  # MiB/s
SPEEDS = ("elapsed_s", "wall_clock_tok_s", "storage_tok_s", "decode_read_gib_s", "nvme_read_gib_s", "nvme_write_gib_s")
SMALL = {"personas.coding.weight": 0, "personas.document.context": [1024, 4096]}
OPTIONS = (
    ("mlperf_option_1", {"users": 8, "requests": 24}, ("--cpu-mem-gb", "0")),
    ("mlperf_option_2", {"users": 24, "requests": 96}, ("--cpu-mem-gb", "0.5", "--decode", "once")),
    ("mlperf_option_3", {"users": 6, "requests": 20}, ("--cpu-mem-gb", "0")),
)
# Large objects need more, because the first and last of them move alone.
WHOLE_MIB = {128 << 10: 2200, 1 << 20: 2200, 16 << 20: 6000}


def throttle(folder: Path) -> None:
    """Two devices 4.7 times apart: every speed must differ by the ratio that fio measures."""
    with fast_disk(folder) as mount:
        theirs = _fio_ratio(mount)
        print(f"throttled {FAST} against {SLOW} MiB/s: fio reads {theirs:.3f} times as fast; ours, of that ratio")
        path = folder / "d.parquet"
        for size, whole in WHOLE_MIB.items():
            trace = steady(path, size, (whole << 20) // size)
            apart(f"{size >> 10} KiB", theirs, folder, mount, trace, "--cpu-mem-gb", "0", "--workers", 8)
        for name, changes, more in OPTIONS:
            make_trace(path, name, SMALL | changes)
            flags = (*more, "--model", "tiny-1b", "--pace", "closed", "--duration", "unlimited")
            apart(name, theirs, folder, mount, path, *flags)


def steady(path: Path, size: int, count: int) -> Path:
    """A trace of one mix from its first op to its last: of each four ops one writes and three read what lies there."""
    ids = np.arange(count)
    is_write, written = ids % 4 == 0, ids // 4
    return write_ops(path, size, ~is_write, np.where(is_write, written, (ids * 7919) % np.maximum(written // 2, 1)))


def apart(what: str, theirs: float, folder: Path, mount: Path, trace: Path, *flags: object) -> None:
    """How far apart a replay finds the two devices, as a share of fio's ratio; medians of 3 pairs."""
    pairs = [[_throttled(folder, mount, trace, speed, *flags).summary for speed in (FAST, SLOW)] for _ in range(3)]
    found = []
    for name in SPEEDS:
        ratios = [fast[name] / slow[name] for fast, slow in pairs if fast[name] and slow[name]]
        ratio = statistics.median(ratios) if ratios else float("nan")
        found.append(f"{name} {(1 / ratio if name == 'elapsed_s' else ratio) / theirs:.3f}")
    print(f"  {what:28} {', '.join(found)} (wanted 0.98 to 1.02)", flush=True)


def _fio_ratio(mount: Path) -> float:
    bandwidth: dict[float, list[float]] = {FAST: [], SLOW: []}
    for speed in (FAST, SLOW) * 3:
        with throttled(mount, speed) as prefix:
            bandwidth[speed].append(fio(mount, "read", "1M", 4, "--size=64M", "--runtime=10", prefix=prefix))
    return statistics.median(bandwidth[FAST]) / statistics.median(bandwidth[SLOW])


def _throttled(folder: Path, mount: Path, trace: Path, speed: float, *flags: object) -> Replay:
    with throttled(mount, speed) as prefix:
        return Replay.of(trace, folder / "run", *four_workers(mount), "--layout", "slab", *flags, prefix=prefix)


def four_workers(mount: Path) -> tuple[object, ...]:
    """Flags of most replays on a disk."""
    return ("--workers", 4, "--cache-dir", mount / "c")
