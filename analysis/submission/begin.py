"""First step of a submission: checks against the rules, description of system and environment."""

import os
import platform
import re
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from analysis.submission.package_tree import MOST_BYTES, Begun, Submission, flatten_tree, read_json
from replayer.schema import check_file
from tracegen.errors import InputError

_HEAD: Final = "# Replace every null. docs/submitting.md explains the fields.\n"


_SUT: Final = "system_under_test"
NAME: Final = f"{_SUT}.solution.submission_name"
# The fields that the rules require of a description; more are allowed.
_REQUIRED: Final = (
    *(f"{_SUT}.clients.0.{name}" for name in ("chassis", "networking", "drives", "operating_system", "quantity")),
    *(f"{_SUT}.solution.{name}" for name in ("friendly_description", "nodes", "usable_capacity_tib")),
    *(f"{_SUT}.solution.architecture.{name}" for name in ("product_API", "benchmark_API")),
    f"{_SUT}.deployment",
    NAME,
)


class Environment(msgspec.Struct):
    """The content of environment.json: the host, and the versions of all software."""

    host: str
    file_systems: dict[str, str]
    platform: str
    python: str
    packages: dict[str, str]


def begin(work: Path, asked: Begun, cache_dir: Path, results: Path) -> list[str]:
    """Make the directory of a submission, or continue one that was begun with the same settings.

    Args:
        work: the submission's directory.
        asked: its names, its kind, and the number of its trials.
        cache_dir: an existing directory on the system under test.
        results: root of the tree of packages.

    Returns:
        Dotted names of the description's fields that are still to be filled in.

    Raises:
        InputError: the rules do not allow the settings, or the directory belongs to another
            submission.
    """
    asked.check()
    places = _check_rules(asked, cache_dir, results)
    known, environment, system = (work / name for name in ("submission.json", "environment.json", "system.yaml"))
    if known.exists() and read_json(known, Begun) != asked:
        problem = "begun for another submission or with another number of trials"
        raise InputError(problem, "choose another `system`", subject=work)
    try:
        work.mkdir(parents=True, exist_ok=True)
        write_file(known, encode_json(asked))
        if not environment.exists():
            write_file(environment, encode_json(_describe_environment(places)))
        if not system.exists():
            write_file(system, _HEAD + yaml.safe_dump(_describe_system(asked, cache_dir), sort_keys=False))
    except OSError as error:
        problem = f"cannot begin a submission here ({error})"
        raise InputError(problem, "choose another `results`", subject=work) from None
    return list_empty(read_description(system))


def write_file(path: Path, text: str) -> None:
    """Write a file atomically: it appears under its name when it is complete."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:  # a signal may end it in between
        partial.unlink(missing_ok=True)


def encode_json(content: Any) -> str:
    """Encode the content of a JSON file, a line for each value."""
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"


def _check_rules(asked: Begun, cache_dir: Path, results: Path) -> dict[str, str]:
    """Check the settings of a submission; return the device numbers of the file systems of cache and results.

    Raises:
        InputError: the rules do not allow them.
    """
    rules = asked.rules
    if asked.is_closed and asked.trials != rules.trials:
        remedy = f"pass `trials={rules.trials}` or `division=open`"
        raise InputError(f"CLOSED requires {rules.trials} trials", remedy, subject=asked.trials, setting="trials")
    if not cache_dir.is_dir():
        remedy = "create it, or mount its file system"
        raise InputError("no such directory", remedy, subject=cache_dir, setting="cache_dir")
    places = {"cache": _find_device(cache_dir), "results": _find_device(results)}
    if asked.is_closed and rules.submittable and places["cache"] == places["results"]:
        problem = f"on the same file system as `results` {results}, but the rules require two"
        raise InputError(problem, "choose another `results`", subject=cache_dir, setting="cache_dir")
    return places


def list_empty(description: dict[str, Any]) -> list[str]:
    """Return the dotted names of a description's fields that are still to be filled in."""
    return [name for name, value in description.items() if value is None]


def read_description(path: Path) -> dict[str, Any]:
    """Read the fields of a system's description by their dotted names.

    Raises:
        InputError: the file is missing, or lacks a field that the rules require.
    """
    try:
        check_file(path, MOST_BYTES)
        values = flatten_tree(msgspec.yaml.decode(path.read_bytes()))
        lacking = [field for field in _REQUIRED if not any(f"{name}.".startswith(f"{field}.") for name in values)]
        if lacking:
            raise ValueError(f"the field {lacking[0]} is missing")
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        reason = str(error).splitlines()[0]
        remedy = "correct it; `analysis submission begin` writes one with every field"
        raise InputError(f"cannot be read ({reason})", remedy, subject=path) from None
    return values


def _describe_system(submission: Submission, cache_dir: Path) -> dict[str, Any]:
    """Return MLPerf's system description, with null for values that this machine cannot report."""
    described: dict[str, Any] = msgspec.yaml.decode((Path(__file__).parent / "system.yaml").read_bytes())
    client, solution = described[_SUT]["clients"][0], described[_SUT]["solution"]
    release = platform.freedesktop_os_release()
    client["chassis"] = {"model_name": _read_line("/sys/class/dmi/id/product_name"), **_describe_processor()}
    client["operating_system"] = {"name": release.get("NAME"), "version": release.get("VERSION_ID", "rolling")}
    solution["submission_name"] = submission.system
    solution["usable_capacity_tib"] = round(shutil.disk_usage(cache_dir).total / 2**40, 3)
    return described


def _describe_environment(places: dict[str, str]) -> Environment:
    packages = sorted((package.metadata["Name"], package.version) for package in metadata.distributions())
    return Environment(platform.node(), places, platform.platform(), platform.python_version(), dict(packages))


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
    text = _read_line("/proc/cpuinfo") or ""
    models = re.findall(r"^model name\s*: (.*)$", text, re.MULTILINE)
    sockets = set(re.findall(r"^physical id\s*: (\d+)$", text, re.MULTILINE))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu_model": models[0] if models else platform.processor() or None,
        "cpu_qty": len(sockets) or 1,
        "cpu_cores": os.cpu_count(),
        "memory_capacity": round(memory / 2**30),
    }
