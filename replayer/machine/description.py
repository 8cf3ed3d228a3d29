"""The description of the machine in run.json: CPU, memory, kernel, versions, storage."""

import hashlib
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Final

from replayer.record.run_parts import Machine, Storage
from tracegen.control_groups import list_mounts
from tracegen.memory import meminfo

BLOCKS: Final = Path("/sys/dev/block")
_OWN: Final = ("tracegen", "replayer", "analysis")
_OTHERS: Final = ("kv-tier-bench", "numpy", "polars", "pyarrow")


def describe() -> Machine:
    """Describe CPU, memory (bytes), kernel, versions, and the digests of this tool's own code."""
    return Machine(
        host=platform.node(),
        cpu=_model_of_cpu(),
        cores=len(os.sched_getaffinity(0)),  # those that this process may use
        host_cores=os.cpu_count(),
        memory_bytes=meminfo("MemTotal"),
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        packages={name: version(name) for name in _OTHERS},
        code_sha256=digest_code("*.py"),
        core_sha256=digest_code("*.so"),
    )


def storage(path: Path) -> Storage:
    """Describe the file system, mount and block device under a path (proc(5), mountinfo)."""
    device_number = path.stat().st_dev
    wanted = f"{os.major(device_number)}:{os.minor(device_number)}"
    same = [mount for mount in list_mounts() if mount.number == wanted]
    above = [mount for mount in same if path.resolve().is_relative_to(mount.point)]
    if not same:
        return Storage(device=wanted)
    # Of several mounts of the file system, the one that the path goes through; later mounts cover
    # earlier ones.
    mount = max(reversed(above), key=lambda mount: len(mount.point)) if above else same[0]
    return Storage(
        filesystem=mount.kind,
        mount_point=mount.point,
        mount_options=mount.options,
        device=mount.device,
        device_model=model_of(_block_number(device_number, mount.device)),
    )


def model_of(number: str) -> str | None:
    """Return the model of a disk, of a partition's disk, or of a volume's disks, from sysfs.

    Args:
        number: of the block device, as major:minor.
    """
    place = (BLOCKS / number).resolve()
    for model in (place / "device" / "model", place.parent / "device" / "model"):
        if model.is_file():
            return model.read_text().strip()
    slaves = place / "slaves"
    below = sorted(slaves.iterdir()) if slaves.is_dir() else []
    models = [model_of((slave / "dev").read_text().strip()) for slave in below]
    return ", ".join(dict.fromkeys(model for model in models if model)) or None


def block_device(path: Path) -> str | None:
    """Return the block device under a path as major:minor; None if the kernel counts none."""
    name = _block_number(path.stat().st_dev, str(storage(path).device))
    return name if (BLOCKS / name).exists() else None


def _block_number(number: int, device: str) -> str:
    """Return a file system's block device as major:minor.

    Args:
        number: of the file system; some file systems have numbers that no device has.
        device: the mounted device's path.
    """
    if os.major(number) == 0 and Path(device).is_block_device():
        number = Path(device).stat().st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


def _model_of_cpu() -> str:
    """Return the processor's name, as far as it is known."""
    try:
        found = re.search(r"^model name\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor()


def digest_code(pattern: str) -> str:
    """Compute the digest of this tool's own files of a pattern, over names and contents in order of their names.

    That of *.py is the same for every installation of a release; that of *.so each build makes anew.
    """
    top = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in (path for package in _OWN for path in sorted((top / package).rglob(pattern))):
        if path.parent.name != "core":  # C and how it is built, which is not installed
            digest.update(f"{path.relative_to(top).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()
