"""Disks of known speed, and fio on them."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path


@contextlib.contextmanager
def fast_disk(folder: Path, gib: int = 6) -> Iterator[Path]:
    """ext4 with O_DIRECT on a loop device over RAM."""
    ram, mount = folder / "ram", folder / "disk"
    ram.mkdir()
    mount.mkdir()
    run = lambda *command: subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout  # noqa: E731
    run("mount", "-t", "tmpfs", "-o", f"size={gib + 1}g", "none", ram)
    try:
        run("truncate", "-s", f"{gib}G", ram / "disk.img")
        loop = run("losetup", "-f", "--show", "--direct-io=on", ram / "disk.img").strip()
        try:
            run("mkfs.ext4", "-q", "-F", loop)
            run("mount", loop, mount)
            try:
                # The first write to a page of the RAM below costs the kernel more than the copy: it is none of the disk's.
                run("dd", "if=/dev/zero", f"of={mount}/fill", "bs=1M", f"count={gib * 950}")
                (mount / "fill").unlink()
                yield mount
            finally:
                run("umount", mount)
        finally:
            run("losetup", "-d", loop)
    finally:
        run("umount", ram)


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


def fio(place: Path, kind: str, size: str, jobs: int, *more: str, prefix: Sequence[str] = ()) -> dict[str, float]:
    """fio with direct I/O of one block size; its report for this kind, runtime in ms."""
    command = [*prefix, "fio", "--name=x", f"--directory={place}", f"--rw={kind}", f"--bs={size}", "--direct=1"]
    command += ["--ioengine=psync", f"--numjobs={jobs}", "--group_reporting", "--output-format=json", *more]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report: dict[str, float] = json.loads(out)["jobs"][0][kind]
    return report


def best(place: Path, kind: str, jobs: int, sizes: Sequence[str]) -> float:
    """fio's best bandwidth over some block sizes, in GiB/s."""
    timed = ("--size=256M", "--time_based", "--runtime=1", "--ramp_time=0.5")
    return max(fio(place, kind, size, jobs, *timed)["bw_bytes"] for size in sizes) / 2**30
