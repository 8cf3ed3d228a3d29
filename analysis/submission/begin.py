"""What is known before anything runs: whose submission it is, the system's description, the environment."""

import json
import os
import platform
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import yaml

from analysis.submission.package_tree import MOST_BYTES, SCHEMA, About
from replayer.schema import check_file, code_digests
from tracegen.errors import InputError

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
_HEAD: Final = (
    "# Fill in every null; what the machine could say is filled in. docs/submitting.md explains the fields.\n"
)


def begin(work: Path, about: About, cache_dir: Path, results: Path, trials: int) -> list[str]:
    """Make the directory of a submission, or find it made for the same; what is still to be filled in.

    Raises:
        InputError: the rules do not allow it, or the directory is of another submission.
    """
    about.check()
    if about.division == "closed" and trials != about.rules.trials:
        raise InputError(f"--trials {trials}: CLOSED asks for {about.rules.trials}; choose --division open.")
    if not cache_dir.is_dir():
        raise InputError(f"--cache-dir {cache_dir}: no such directory; is it mounted?")
    place = {"cache": _device(cache_dir), "results": _device(results)}
    if about.division == "closed" and about.rules.submittable and place["cache"] == place["results"]:
        raise InputError(
            f"--cache-dir {cache_dir} and --results {results} are on one file system; the rules ask for two."
        )
    known, asked = work / "submission.json", {"schema": SCHEMA, **vars(about), "trials": trials}
    try:
        work.mkdir(parents=True, exist_ok=True)
        if known.exists() and json.loads(known.read_text()) != asked:
            raise InputError(f"{work} was begun for another submission or other trials; choose another --system.")
        write(known, json.dumps(asked, indent=1) + "\n")
        if not (work / "environment.json").exists():
            write(work / "environment.json", json.dumps(environment(place), indent=1) + "\n")
        if not (work / "system.yaml").exists():
            write(work / "system.yaml", _HEAD + yaml.safe_dump(describe(about, cache_dir), sort_keys=False))
    except (OSError, ValueError) as error:
        raise InputError(f"{work}: {error}; choose another --results.") from None
    return unfilled(description(work / "system.yaml"))


def write(path: Path, text: str) -> None:
    """Write a file that appears under its name when it is whole."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def description(path: Path) -> dict[str, Any]:
    """A system's description.

    Raises:
        InputError: it is missing, or no table of YAML.
    """
    try:
        check_file(path, MOST_BYTES[".yaml"])
        text = path.read_text(encoding="utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, _LOADER)):
            raise InputError(f"{path} has aliases (*name), which may stand for any amount of text; write it out.")
        found = yaml.load(text, _LOADER)  # noqa: S506 (a safe loader, too)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({str(error).splitlines()[0]}); mend it.") from None
    if not isinstance(found, dict) or not isinstance(found.get("system_under_test"), dict):
        raise InputError(
            f"{path} has no system_under_test; begin with the one that `analysis submission begin` writes."
        )
    return found


def unfilled(value: Any, name: str = "") -> list[str]:
    """Dotted names of fields that are null."""
    if isinstance(value, dict):
        return [one for key, part in value.items() for one in unfilled(part, f"{name}.{key}" if name else str(key))]
    if isinstance(value, list):
        return [one for number, part in enumerate(value) for one in unfilled(part, f"{name}[{number}]")]
    return [name] if value is None else []


def describe(about: About, cache_dir: Path) -> dict[str, Any]:
    """MLPerf's system description with what this machine says of itself; null for what only people know."""
    free = shutil.disk_usage(cache_dir)
    release = platform.freedesktop_os_release()
    client = {
        "friendly_description": None,
        "chassis": {"model_name": _line("/sys/class/dmi/id/product_name"), **_processor()},
        "networking": list(_networks()),
        "drives": list(_drives()),
        "operating_system": {"name": release.get("NAME"), "version": release.get("VERSION_ID", "rolling")},
        "quantity": 1,
    }
    solution = {
        "submission_name": about.system,
        "friendly_description": None,
        "architecture": {
            "storage_location": None,
            "benchmark_API": "file",
            "product_API": None,
            "client_footprint": None,
            "client_installation": None,
        },
        "capabilities": dict.fromkeys(("multi_host", "simultaneous_write", "simultaneous_read")),
        "nodes": None,
        "usable_capacity_tib": round(free.total / 2**40, 3),
        "availability": None,
    }
    return {"system_under_test": {"clients": [client], "deployment": None, "solution": solution}}


def environment(places: dict[str, str]) -> dict[str, Any]:
    """Versions of everything that took part, and digests of our own code.

    Args:
        places: device numbers of the file systems that the rules want to differ.
    """
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        **code_digests(),
        "file_systems": places,
        "packages": dict(sorted({one.metadata["Name"]: one.version for one in metadata.distributions()}.items())),
    }


def _there(path: Path) -> Path:
    return next(one for one in (path, *path.absolute().parents) if one.exists())


def _device(path: Path) -> str:
    number = _there(path).stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def _line(path: str | Path) -> str | None:
    try:
        return Path(path).read_text().strip() or None
    except OSError:
        return None


def _processor() -> dict[str, Any]:
    pairs = [line.partition(":") for line in (_line("/proc/cpuinfo") or "").splitlines()]
    values = [(name.strip(), value.strip()) for name, _, value in pairs]
    models = [value for name, value in values if name == "model name"]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu_model": models[0] if models else platform.processor() or None,
        "cpu_qty": len({value for name, value in values if name == "physical id"}) or 1,
        "cpu_cores": os.cpu_count(),
        "memory_capacity": round(memory / 2**30),
    }


def _networks() -> Iterator[dict[str, Any]]:
    """Network cards, speed in Gb/s; what the kernel does not know is null."""
    for card in sorted(Path("/sys/class/net").glob("*")):
        if (card / "device").exists():
            speed = int(_line(card / "speed") or -1)
            yield {
                "type": None,
                "state": _line(card / "operstate"),
                "unit_count": 1,
                "speed": speed / 1000 if speed > 0 else None,
                "traffic": None,
            }


def _drives() -> Iterator[dict[str, Any]]:
    """Block devices with hardware below them."""
    for disk in sorted(Path("/sys/block").glob("*")):
        if (disk / "device").exists() and (sectors := int(_line(disk / "size") or 0)):
            yield {
                "vendor_name": _line(disk / "device" / "vendor"),
                "model_name": _line(disk / "device" / "model"),
                "interface": "nvme" if disk.name.startswith("nvme") else None,
                "capacity_in_GB": round(sectors * 512 / 1e9),
                "unit_count": 1,
                "media_type": None,
            }
