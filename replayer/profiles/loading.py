"""Loading of profiles: those that ship with the tool, and TOML files."""

import importlib.resources
import tomllib
from pathlib import Path
from typing import Any, Final, cast, get_args

from replayer.profiles.profile import (
    CpuProfile,
    MeasuredCell,
    Profile,
    ProfileConditions,
    TierProfile,
)
from replayer.profiles.stations import read_station
from replayer.profiles.tables import TomlTable
from replayer.record.columns import TIERS
from replayer.record.options import Fsync, GpuRead, Layout, ProfileKind, Verify
from replayer.record.run_info import IoEngine, Tier
from tracegen.errors import InputError, quote_value

PROFILE_VERSION: Final = 2
SETTING: Final = "profile"
"""The setting that names a profile."""
CELL_COLUMNS: Final = tuple(MeasuredCell.__dataclass_fields__)
_SHIPPED: Final = importlib.resources.files("replayer") / "drives"
_MAX_FILE: Final = 16 << 20  # bytes; a measured profile has some ten thousand
_ANY_SIZE: Final = (1, 1 << 40)
"""Sizes of objects that a data sheet is for if it names none."""


def shipped_profiles() -> tuple[str, ...]:
    """Return the names of the profiles that ship with the tool."""
    names = [path.name for path in _SHIPPED.iterdir()] if _SHIPPED.is_dir() else []
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def load_profile(name: str | Path) -> Profile:
    """Return a profile that ships with the tool, or that a TOML file describes.

    Args:
        name: its name, or the path of a TOML file.

    Raises:
        InputError: no profile has that name, or the file does not describe a profile.
    """
    text_name = str(name)
    try:
        if text_name in shipped_profiles():
            return parse_profile(text_name, (_SHIPPED / f"{text_name}.toml").read_text("utf-8"))
        return parse_profile(text_name, _read_text(Path(name)))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        remedy = "name a file that `replayer profile` wrote"
        if shipped_profiles():
            remedy += f", or one of {', '.join(shipped_profiles())}"
        raise _error(text_name, f"cannot be read ({reason})", remedy) from None


def _read_text(path: Path) -> str:
    if path.exists() and not path.is_file():  # opening a pipe would wait for its writer
        raise _error(str(path), "is not a file", "name a profile")
    if path.stat().st_size > _MAX_FILE:
        raise _error(str(path), "has more than 16 MiB", "name a profile")
    return path.read_text(encoding="utf-8")


def parse_profile(file: str, text: str) -> Profile:
    """Return the profile that a TOML text describes.

    Args:
        file: what messages call the text.
        text: in TOML.

    Raises:
        InputError: it is not TOML, or does not describe a profile.
    """
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of Python: too many digits, too many brackets
        raise _error(file, f"is not TOML ({error})", "mend the file") from None
    top = TomlTable(file, "", content, SETTING)
    if top.whole("profile_version") != PROFILE_VERSION:
        remedy = "measure again, or write 2 and delete `error`, `tail_error` and all `…_range`"
        raise top.refuse("profile_version", f"is not {PROFILE_VERSION}", remedy)
    kind = cast("ProfileKind", top.word("kind", get_args(ProfileKind)))
    is_measured = kind == "measured"
    source = top.text("source", "" if is_measured else None)
    if not is_measured and not source:
        raise top.refuse("source", "is empty", "write where the numbers are from, and the date")
    profile = Profile(
        name=_read_name(top),
        kind=kind,
        source=source,
        conditions=_read_conditions(top.table("conditions")) if is_measured else None,
        machine=_read_machine(top.table("machine")) if "machine" in top else {},
        cpu=_read_cpu(top.table("cpu")),
        tiers=_read_tiers(top, is_measured=is_measured),
        cells=_read_cells(top.table("cells")) if "cells" in top else (),
    )
    top.end()
    return profile


def _read_name(top: TomlTable) -> str:
    name = top.text("name")
    if not name.strip() or not name.isprintable():
        raise top.refuse("name", f"is {quote_value(name)}", "write one line that is not empty")
    return name


def _read_conditions(table: TomlTable) -> ProfileConditions:
    conditions = ProfileConditions(
        layout=table.word("layout", get_args(Layout)),
        direct=table.flag("direct"),
        io_bytes=table.whole("io_bytes"),
        io_depth=table.whole("io_depth"),
        io_engine=table.word("io_engine", get_args(IoEngine)),
        fsync=table.word("fsync", get_args(Fsync)),
        verify=table.word("verify", get_args(Verify)),
        gpu_read=table.word("gpu_read", get_args(GpuRead), "host"),
        throttle=_read_throttles(table.table("throttle")) if "throttle" in table else {},
    )
    table.end()
    return conditions


def _read_throttles(table: TomlTable) -> dict[Tier, dict[str, float]]:
    throttles = dict[Tier, dict[str, float]]()
    for tier in cast("tuple[Tier, ...]", TIERS):
        if tier not in table:
            continue
        limits = table.table(tier)
        throttles[tier] = {"mib_s": limits.number("mib_s")}
        throttles[tier]["latency_us"] = limits.number("latency_us", has_zero=True)
        if "write_mib_s" in limits:
            throttles[tier]["write_mib_s"] = limits.number("write_mib_s")
        limits.end()
    table.end()
    return throttles


def _read_machine(table: TomlTable) -> dict[str, str | int | float]:
    facts = dict[str, str | int | float]()
    for key in table.names():
        value = table.value(key, "a text or a number")
        if not isinstance(value, str | int | float):
            raise table.refuse(key, "is neither a text nor a number", "write one of them")
        facts[key] = value
    return facts


def _read_cpu(table: TomlTable) -> CpuProfile:
    """Read what [cpu] says of workers; the rest of the table is the cpu tier's."""
    return CpuProfile(
        cores=table.number("cores"),
        make_ns_per_byte=table.number("make_ns_per_byte", has_zero=True),
        check_ns_per_byte=table.number("check_ns_per_byte", has_zero=True),
        move_us=table.number("move_us", has_zero=True),
    )


def _read_tiers(top: TomlTable, *, is_measured: bool) -> dict[Tier, TierProfile]:
    tiers = dict[Tier, TierProfile]()
    for tier in cast("tuple[Tier, ...]", TIERS):
        if tier not in top:
            continue
        table = top.table(tier)
        if tier == "cpu":
            _read_cpu(table)
        if tier != "cpu" or "read" in table or "write" in table:
            tiers[tier] = _read_tier(table, is_measured=is_measured)
        table.end()
    if not tiers:
        raise top.refuse("nvme", "is missing", "write [nvme.read] and [nvme.write]")
    return tiers


def _read_tier(table: TomlTable, *, is_measured: bool) -> TierProfile:
    weight = None if is_measured else 1.0
    smallest, largest = (None, None) if is_measured else _ANY_SIZE
    tier = TierProfile(
        read=read_station(table.table("read")),
        write=read_station(table.table("write"), removes=True),
        writes_on_reads=table.number("writes_on_reads", has_zero=True, default=weight),
        reads_on_writes=table.number("reads_on_writes", has_zero=True, default=weight),
        smallest_bytes=table.whole("smallest_bytes", smallest),
        largest_bytes=table.whole("largest_bytes", largest),
        turn_bytes=table.whole("turn_bytes", 1),
    )
    if tier.smallest_bytes > tier.largest_bytes:
        remedy = "exchange the two"
        raise table.refuse("smallest_bytes", "is more than `largest_bytes`", remedy)
    return tier


def _read_cells(table: TomlTable) -> tuple[MeasuredCell, ...]:
    columns = table.value("columns", "the names of the columns")
    if columns != list(CELL_COLUMNS):
        remedy = f"write {', '.join(CELL_COLUMNS)}, or leave [cells] out"
        raise table.refuse("columns", "does not have the names of cells", remedy)
    rows = table.value("rows", "a list of rows")
    table.end()
    try:
        return tuple(_make_cell(row) for row in rows)
    except (TypeError, ValueError):
        remedy = "measure again, or leave [cells] out"
        raise table.refuse("rows", "has a row that is not a cell", remedy) from None


def _make_cell(row: list[Any]) -> MeasuredCell:
    """Make a cell of its row.

    Raises:
        TypeError: a row has too few or too many values.
        ValueError: a value is of another kind.
    """
    tier, what, size, workers, *times = row
    if tier not in TIERS or not isinstance(what, str):
        raise ValueError
    return MeasuredCell(cast("Tier", tier), what, int(size), int(workers), *map(float, times))


def _error(file: str, problem: str, remedy: str) -> InputError:
    return InputError(problem, remedy, subject=file, setting=SETTING)
