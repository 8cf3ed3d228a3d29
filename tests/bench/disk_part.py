"""Replays on disks of known speed beside fio on the same disks."""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.measure import PAIRS, show
from tests.bench.replay_part import Replay, phased


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


def fio(place: Path, kind: str, size: str, jobs: int) -> float:
    """The bytes per second of fio with direct I/O of one block size."""
    command = ["fio", "--name=x", f"--directory={place}", f"--rw={kind}", f"--bs={size}", "--direct=1"]
    command += ["--ioengine=psync", f"--numjobs={jobs}", "--group_reporting", "--output-format=json", "--time_based"]
    command += ["--size=256M", "--runtime=1", "--ramp_time=0.5"]
    return float(json.loads(run(*command))["jobs"][0][kind]["bw_bytes"])


def best(place: Path, kind: str, jobs: int, sizes: Sequence[str]) -> float:
    """fio's best bandwidth over some block sizes, in GiB/s."""
    return max(fio(place, kind, size, jobs) for size in sizes) / 2**30


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
                flags = ["--workers", 4, "--cache-dir", mount / "c", "--layout", layout, "--verify", "off"]
                if layout == "slab":
                    flags += ["--precondition", 3]
                measured: dict[str, list[tuple[float, float]]] = {"read": [], "write": []}
                for _ in range(PAIRS + 1):
                    found = Replay.of(trace, folder / "run", *flags).summary
                    for side, pairs in measured.items():
                        pairs.append((found[f"nvme_{side}_busy_gib_s"], best(mount, side, 4, sizes)))
                for side, pairs in measured.items():
                    show(f"{layout}: {side} GiB/s against fio psync", pairs[1:], "GiB/s", "at least 0.8 to 0.95")
