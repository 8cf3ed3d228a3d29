"""First step of a submission: checks against the rules, description of system and environment."""

import json
import os
import platform
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import yaml

from analysis.submission.package_tree import MOST_BYTES, SCHEMA, Submission
from replayer.schema import check_file, code_digests
from tracegen.errors import InputError

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
_HEAD: Final = "# Replace every null. docs/submitting.md explains the fields.\n"


def begin(
    work: Path,
    submission: Submission,
    cache_dir: Path,
    results: Path,
    trials: int,
) -> list[str]:
    """Make the directory of a submission, or continue one that was begun with the same settings.

    Args:
        work: the submission's directory.
        submission: its names and its kind.
        cache_dir: an existing directory on the system under test.
        results: root of the tree of packages.
        trials: number of trials of each option.

    Returns:
        Dotted names of the description's fields that are still to be filled in.

    Raises:
        InputError: the rules do not allow the settings, or the directory belongs to another
            submission.
    """
    submission.check()
    places = _check_rules(submission, cache_dir, results, trials)
    known = work / "submission.json"
    settings = {"schema": SCHEMA, **vars(submission), "trials": trials}
    try:
        work.mkdir(parents=True, exist_ok=True)
        if known.exists() and json.loads(known.read_text()) != settings:
            raise InputError(
                "begun for another submission or with another number of trials",
                "choose another `system`",
                subject=work,
            )
        write_file(known, json.dumps(settings, indent=1) + "\n")
        environment = work / "environment.json"
        if not environment.exists():
            write_file(environment, json.dumps(describe_environment(places), indent=1) + "\n")
        system = work / "system.yaml"
        if not system.exists():
            described = describe_system(submission, cache_dir)
            write_file(system, _HEAD + yaml.safe_dump(described, sort_keys=False))
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot begin a submission here ({error})",
            "choose another `results`",
            subject=work,
        ) from None
    return find_empty_fields(read_description(work / "system.yaml"))


def _check_rules(
    submission: Submission,
    cache_dir: Path,
    results: Path,
    trials: int,
) -> dict[str, str]:
    """Check the settings of a submission; return the device number of each file system.

    Raises:
        InputError: the rules do not allow them.
    """
    rules = submission.rules
    if submission.is_closed and trials != rules.trials:
        raise InputError(
            f"CLOSED requires {rules.trials} trials",
            f"pass `trials={rules.trials}` or `division=open`",
            subject=trials,
            setting="trials",
        )
    if not cache_dir.is_dir():
        raise InputError(
            "no such directory",
            "create it, or mount its file system",
            subject=cache_dir,
            setting="cache_dir",
        )
    places = {"cache": _find_device(cache_dir), "results": _find_device(results)}
    if submission.is_closed and rules.submittable and places["cache"] == places["results"]:
        raise InputError(
            f"on the same file system as `results` {results}, but the rules require two",
            "choose another `results`",
            subject=cache_dir,
            setting="cache_dir",
        )
    return places


def write_file(path: Path, text: str) -> None:
    """Write a file atomically: it appears under its name when it is complete."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_description(path: Path) -> dict[str, Any]:
    """Read the description of a system.

    Raises:
        InputError: the file is missing, or is not a YAML table with `system_under_test`.
    """
    try:
        check_file(path, MOST_BYTES[".yaml"])
        text = path.read_text(encoding="utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, _LOADER)):
            raise InputError(
                "YAML aliases (*name) are not allowed, as they may expand to any amount of text",
                "write the text out",
                subject=path,
            )
        content = yaml.load(text, _LOADER)  # noqa: S506 (a safe loader, too)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot be read ({reason})", "correct it", subject=path) from None
    if not isinstance(content, dict) or not isinstance(content.get("system_under_test"), dict):
        raise InputError(
            "system_under_test is missing",
            "begin with the file that `analysis submission begin` writes",
            subject=path,
        )
    return content


def find_empty_fields(value: Any, name: str = "") -> list[str]:
    """Find the fields of a description that are null; return their dotted names."""
    if isinstance(value, dict):
        names = [f"{name}.{key}" if name else str(key) for key in value]
        fields = zip(names, value.values(), strict=True)
    elif isinstance(value, list):
        fields = zip((f"{name}[{index}]" for index in range(len(value))), value, strict=True)
    else:
        return [name] if value is None else []
    return [empty for inner, part in fields for empty in find_empty_fields(part, inner)]


def describe_system(submission: Submission, cache_dir: Path) -> dict[str, Any]:
    """Return MLPerf's system description, with null for values that this machine cannot report.

    Args:
        submission: whose description it is.
        cache_dir: its file system gives the usable capacity, in TiB.
    """
    free = shutil.disk_usage(cache_dir)
    release = platform.freedesktop_os_release()
    client = {
        "friendly_description": None,
        "chassis": {
            "model_name": _read_line("/sys/class/dmi/id/product_name"),
            **_describe_processor(),
        },
        "networking": list(_list_networks()),
        "drives": list(_list_drives()),
        "operating_system": {
            "name": release.get("NAME"),
            "version": release.get("VERSION_ID", "rolling"),
        },
        "quantity": 1,
    }
    solution = {
        "submission_name": submission.system,
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


def describe_environment(places: dict[str, str]) -> dict[str, Any]:
    """Return the versions of all software, and the digests of this tool's code.

    Args:
        places: device numbers of the file systems that must differ.
    """
    packages = {package.metadata["Name"]: package.version for package in metadata.distributions()}
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        **code_digests(),
        "file_systems": places,
        "packages": dict(sorted(packages.items())),
    }


def _find_device(path: Path) -> str:
    """Return the device number of the file system that a path is or will be on."""
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    number = existing.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def _read_line(path: str | Path) -> str | None:
    try:
        return Path(path).read_text().strip() or None
    except OSError:
        return None


def _describe_processor() -> dict[str, Any]:
    """Describe the processor; memory in GiB."""
    pairs = [line.partition(":") for line in (_read_line("/proc/cpuinfo") or "").splitlines()]
    values = [(name.strip(), value.strip()) for name, _, value in pairs]
    models = [value for name, value in values if name == "model name"]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu_model": models[0] if models else platform.processor() or None,
        "cpu_qty": len({value for name, value in values if name == "physical id"}) or 1,
        "cpu_cores": os.cpu_count(),
        "memory_capacity": round(memory / 2**30),
    }


def _list_networks() -> Iterator[dict[str, Any]]:
    """List the network cards; speed in Gb/s, null if the kernel does not know it."""
    for card in sorted(Path("/sys/class/net").glob("*")):
        if (card / "device").exists():
            speed = int(_read_line(card / "speed") or -1)
            yield {
                "type": None,
                "state": _read_line(card / "operstate"),
                "unit_count": 1,
                "speed": speed / 1000 if speed > 0 else None,
                "traffic": None,
            }


def _list_drives() -> Iterator[dict[str, Any]]:
    """List the block devices with hardware behind them; capacity in 10^9 bytes."""
    for disk in sorted(Path("/sys/block").glob("*")):
        sectors = int(_read_line(disk / "size") or 0)
        if (disk / "device").exists() and sectors:
            yield {
                "vendor_name": _read_line(disk / "device" / "vendor"),
                "model_name": _read_line(disk / "device" / "model"),
                "interface": "nvme" if disk.name.startswith("nvme") else None,
                "capacity_in_GB": round(sectors * 512 / 1e9),
                "unit_count": 1,
                "media_type": None,
            }
