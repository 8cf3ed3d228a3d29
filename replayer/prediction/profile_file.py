"""Profiles as TOML files: those that ship, and those that `replayer profile` writes."""

import importlib.resources
import re
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import tomli_w

from replayer.prediction.profile import CpuProfile, MeasuredCell, Profile, TierProfile
from replayer.prediction.stations import DataSheet, Station, scale_spread
from replayer.record.options import TIERS
from tracegen.errors import InputError
from tracegen.outputs import open_output
from tracegen.typed_files import Table, convert, load_toml

PROFILE_VERSION: Final = 2
# The setting that names a profile
SETTING: Final = "profile"
_LEAST_US: Final = 1e-6  # besides 0: shorter stages would overflow their progress
_SHIPPED: Final = Path(str(importlib.resources.files("replayer") / "drives"))
_CPU_KEYS: Final = {one.name for one in fields(CpuProfile)}
_CELL_KEYS: Final = [one.name for one in fields(MeasuredCell)]
# The keys of tiers that data sheets may leave out
_OF_DATA_SHEETS: Final[Table] = {
    "writes_on_reads": 1.0,
    "reads_on_writes": 1.0,
    "smallest_bytes": 1,
    "largest_bytes": 1 << 40,
}
_INNERMOST: Final = re.compile(r"\[\n\s*([^\[\]]*),\n\s*\]")


@dataclass(frozen=True)
class _Cells:
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    def to_tables(self) -> list[Table]:
        return [dict(zip(self.columns, row, strict=False)) for row in self.rows]


def shipped_profiles() -> tuple[str, ...]:
    """Return the names of the profiles that ship with the tool."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.toml")))


def load_profile(name: str | Path) -> Profile:
    """Return a profile that ships with the tool, or that a TOML file describes.

    Args:
        name: its name, or the path of a TOML file.

    Raises:
        InputError: no profile has that name, or the file does not describe a profile.
    """
    names = shipped_profiles()
    path = _SHIPPED / f"{name}.toml" if str(name) in names else Path(name)
    remedy = f"name a file that `replayer profile` wrote, or one of {', '.join(names)}"
    return read_profile(load_toml(path, remedy, SETTING), str(name))


def read_profile(content: Table, file: str) -> Profile:
    """Return the profile of a file's content.

    Raises:
        InputError: it does not describe a profile.
    """
    version = content.pop("profile_version", None)
    if version != PROFILE_VERSION:
        problem = f"profile_version is {version}, not {PROFILE_VERSION}"
        raise InputError(problem, "measure again", subject=file, setting=SETTING)
    workers = _split_cpu(content)
    # A measured file without them is damaged.
    defaults = {} if content.get("kind") == "measured" else _OF_DATA_SHEETS
    tiers = dict[str, TierProfile]()
    for tier in TIERS:
        if table := content.pop(tier, None):
            tiers[tier] = _read_tier(file, tier, table, defaults)
    cells = convert(content.get("cells", {}), _Cells, file, SETTING, "cells").to_tables()
    return convert(content | workers | {"tiers": tiers, "cells": cells}, Profile, file, SETTING)


def _split_cpu(content: Table) -> Table:
    """Take from [cpu] what it says of workers; the rest of the table is the cpu tier's."""
    table = content.get("cpu")
    if not isinstance(table, dict):
        return {}
    content["cpu"] = {key: value for key, value in table.items() if key not in _CPU_KEYS}
    return {"cpu": {key: value for key, value in table.items() if key in _CPU_KEYS}}


def _read_tier(file: str, tier: str, content: object, defaults: Table) -> TierProfile:
    """Return the profile of a tier from its table, in which stations may be given in short."""
    table = defaults | convert(content, Table, file, SETTING, tier)
    for direction in ("read", "write"):
        station = table.get(direction)
        if isinstance(station, dict):
            place = f"{tier}.{direction}"
            table[direction] = _read_station(station, file, place)
    return convert(table, TierProfile, file, SETTING, tier)


def _read_station(table: Table, file: str, place: str) -> Station:
    if "stream_gb_s" in table or "in_flight" not in table:
        return convert(table, DataSheet, file, SETTING, place).to_station()
    station = convert(table, Station, file, SETTING, place)
    times = (*station.open_us, *station.latency_us, *station.remove_us)
    if any(0 < time < _LEAST_US for time in times):
        problem = f"{place} has a time below {_LEAST_US:g} us"
        raise InputError(problem, "write 0, or a longer one", subject=file, setting=SETTING)
    spread = tuple(scale_spread(one) if one else one for one in station.spread)
    return replace(station, spread=spread if any(spread) else ())


def save_profile(profile: Profile, path: Path) -> None:
    """Write a profile to a file, whole or not at all; an older file is replaced.

    Raises:
        InputError: the file cannot be written.
    """
    with open_output(path, force=True) as file:
        file.write(format_profile(profile).encode())


def format_profile(profile: Profile) -> str:
    """Return a profile as TOML; `read_profile` gives an equal one."""
    content = {"profile_version": PROFILE_VERSION, **asdict(profile)}
    tiers = content.pop("tiers")
    content["cpu"] |= tiers.pop("cpu", {})
    content |= tiers
    if profile.conditions is None:
        del content["conditions"]
    rows = [list(astuple(cell)) for cell in profile.cells]
    content["cells"] = {"columns": _CELL_KEYS, "rows": rows}
    # tomli-w writes a number per line: rows of cells stay on one.
    text = tomli_w.dumps(content)
    return _INNERMOST.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
