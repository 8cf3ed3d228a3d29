"""What a run says about the machine that it ran on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("kv-tier-bench", "numpy", "polars", "pyarrow")


def describe() -> dict[str, Any]:
    """CPU, memory (bytes), kernel and versions."""
    return {
        "host": platform.node(),
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),  # that this process may use
        "host_cores": os.cpu_count(),
        "memory_bytes": meminfo("MemTotal"),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def meminfo(name: str) -> int:
    """A line of /proc/meminfo in bytes; 0 where there is none."""
    return int((_field("/proc/meminfo", name) or "0 kB").split()[0]) * 1024


def storage(path: Path) -> dict[str, Any]:
    """File system, mount options and block device under a path (proc(5), mountinfo)."""
    number = path.stat().st_dev
    wanted = f"{os.major(number)}:{os.minor(number)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, device, *_) = before.split(), after.split()
        if fields[2] == wanted:
            model = Path(f"/sys/dev/block/{wanted}/device/model")
            return {
                "filesystem": kind,
                "mount_point": fields[4],
                "mount_options": fields[5],
                "device": device,
                "device_model": model.read_text().strip() if model.exists() else None,
            }
    return {"filesystem": None, "mount_point": None, "mount_options": None, "device": wanted, "device_model": None}


def block_device(path: Path) -> str | None:
    """The block device under a path as major:minor; None where there is none that the kernel counts."""
    number = path.stat().st_dev
    source = Path(str(storage(path)["device"]))
    if os.major(number) == 0 and source.is_block_device():  # file systems with device numbers of their own
        number = source.stat().st_rdev
    name = f"{os.major(number)}:{os.minor(number)}"
    return name if Path(f"/sys/dev/block/{name}").exists() else None


def _field(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    values = (line.partition(":")[2].strip() for line in lines if line.split(":")[0].strip() == name)
    return next(values, None)
