"""What a run says about the machine that it ran on."""

import os
import platform
import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from replayer.record.code_digests import code_digests

BLOCKS: Final = Path("/sys/dev/block")
PACKAGES = ("kv-tier-bench", "numpy", "polars", "pyarrow")


def describe() -> dict[str, Any]:
    """CPU, memory (bytes), kernel, versions, and digests of this tool's own code."""
    return {
        "host": platform.node(),
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),  # that this process may use
        "host_cores": os.cpu_count(),
        "memory_bytes": meminfo("MemTotal"),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        **code_digests(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def meminfo(name: str) -> int:
    """A line of /proc/meminfo in bytes; 0 where there is none."""
    return int((_field("/proc/meminfo", name) or "0 kB").split()[0]) * 1024


def storage(path: Path) -> dict[str, Any]:
    """File system, mount options and block device under a path (proc(5), mountinfo)."""
    number = path.stat().st_dev
    wanted = f"{os.major(number)}:{os.minor(number)}"
    same = [mount for mount in mounts() if mount.number == wanted]
    above = [mount for mount in same if path.resolve().is_relative_to(mount.point)]
    if not same:
        return {"filesystem": None, "mount_point": None, "mount_options": None, "device": wanted, "device_model": None}
    # Of several mounts of the file system that which the path goes through; what is mounted later covers the others.
    mount = max(reversed(above), key=lambda mount: len(mount.point)) if above else same[0]
    return {
        "filesystem": mount.kind,
        "mount_point": mount.point,
        "mount_options": mount.options,
        "device": mount.device,
        "device_model": model_of(_block_number(number, mount.device)),
    }


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo.

    Attributes:
        number: of the file system, as major:minor.
        root: the part of it that is mounted.
        point: where.
        options: of the mount.
        kind: of the file system.
        device: what is mounted.
        more: options of the file system.
    """

    number: str
    root: str
    point: str
    options: str
    kind: str
    device: str
    more: str


def mounts(path: Path = Path("/proc/self/mountinfo")) -> list[Mount]:
    """What is mounted where.

    Raises:
        OSError: nothing says.
    """
    found = []
    for line in path.read_text().splitlines():
        before, _, after = line.partition(" - ")
        _, _, number, root, point, options, *_ = (_spaced(word) for word in before.split())
        kind, device, more = (_spaced(word) for word in after.split())
        found.append(Mount(number, root, point, options, kind, device, more))
    return found


def _spaced(word: str) -> str:
    """With its spaces and backslashes, which mountinfo writes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


def model_of(number: str) -> str | None:
    """Of a disk, of a partition's disk, or of the disks that a volume lies on, all by sysfs."""
    place = (BLOCKS / number).resolve()
    for model in (place / "device" / "model", place.parent / "device" / "model"):
        if model.is_file():
            return model.read_text().strip()
    below = sorted((place / "slaves").iterdir()) if (place / "slaves").is_dir() else []
    models = [model_of((slave / "dev").read_text().strip()) for slave in below]
    return ", ".join(dict.fromkeys(model for model in models if model)) or None


def block_device(path: Path) -> str | None:
    """The block device under a path as major:minor; None where there is none that the kernel counts."""
    name = _block_number(path.stat().st_dev, str(storage(path)["device"]))
    return name if (BLOCKS / name).exists() else None


def _block_number(number: int, device: str) -> str:
    """Of a file system of that number on that device; some have numbers of their own."""
    if os.major(number) == 0 and Path(device).is_block_device():
        number = Path(device).stat().st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


def _field(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    values = (line.partition(":")[2].strip() for line in lines if line.split(":")[0].strip() == name)
    return next(values, None)
