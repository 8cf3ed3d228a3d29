"""Profiles as TOML text, aligned for people to read."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Final

from replayer.profiles.loading import CELL_COLUMNS, PROFILE_VERSION
from replayer.profiles.profile import (
    CpuProfile,
    MeasuredCell,
    Profile,
    ProfileConditions,
    Station,
    TierProfile,
)
from replayer.record.columns import TIERS

_DIGITS_APART: Final = 100_000
"""Whole numbers from here on are written in groups of three digits."""
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def save_profile(profile: Profile, path: Path) -> None:
    """Write a profile to a file, whole or not at all; an older file is replaced.

    Raises:
        OSError: the file cannot be written.
    """
    other = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        other.write_text(format_profile(profile), encoding="utf-8")
        other.replace(path)
    finally:
        other.unlink(missing_ok=True)


def format_profile(profile: Profile) -> str:
    """Return a profile as TOML; `parse_profile` gives an equal one."""
    lines = [
        f"profile_version = {PROFILE_VERSION}",
        f"name = {_format(profile.name)}",
        f"kind = {_format(profile.kind)}",
        f"source = {_format(profile.source)}",
    ]
    if profile.machine:
        lines += ["", "[machine]", *_format_keys(profile.machine)]
    if profile.conditions is not None:
        lines += _format_conditions(profile.conditions)
    tiers = {str(tier): one for tier, one in profile.tiers.items()}
    lines += _format_cpu(profile.cpu)
    lines += _format_tier("cpu", tiers.get("cpu"), heading=False)
    for tier in TIERS:
        if tier != "cpu":
            lines += _format_tier(tier, tiers.get(tier), heading=True)
    if profile.cells:
        lines += _format_cells(profile.cells)
    return "\n".join(lines) + "\n"


def _format_conditions(conditions: ProfileConditions) -> list[str]:
    plain = {name: value for name, value in vars(conditions).items() if name != "throttle"}
    comment = "# replays under other conditions cannot be predicted"
    lines = ["", f"[conditions]    {comment}", *_format_keys(plain)]
    for tier, limits in conditions.throttle.items():
        lines += [f"[conditions.throttle.{tier}]", *_format_keys(limits)]
    return lines


def _format_cpu(cpu: CpuProfile) -> list[str]:
    return ["", "[cpu]", *_format_keys(vars(cpu))]


def _format_tier(name: str, tier: TierProfile | None, *, heading: bool) -> list[str]:
    if tier is None:
        return []
    plain = {key: value for key, value in vars(tier).items() if not isinstance(value, Station)}
    keys = _format_keys(plain)
    lines = ["", f"[{name}]", *keys] if heading else keys
    for direction, station in (("read", tier.read), ("write", tier.write)):
        lines += ["", f"[{name}.{direction}]", *_format_station(station)]
    return lines


def _format_station(station: Station) -> list[str]:
    """Return the lines of a station; the numbers of a point are in one column."""
    lists: dict[str, Sequence[float]] = {
        "in_flight": station.in_flight,
        "open_us": station.open_us,
        "latency_us": station.latency_us,
        "bandwidth_gb_s": station.bandwidth_gb_s,
    }
    if station.remove_us:
        lists["remove_us"] = station.remove_us
    texts = {key: [repr(value) for value in values] for key, values in lists.items()}
    widths = [max(map(len, column)) for column in zip(*texts.values(), strict=True)]
    left = max(map(len, texts))
    lines = []
    for key, values in texts.items():
        cells = ", ".join(f"{one:>{width}}" for one, width in zip(values, widths, strict=True))
        lines.append(f"{key:{left}} = [{cells}]")
    if station.spread:
        lines += ["spread = [", *(f"    {_format(list(one))}," for one in station.spread), "]"]
    return lines


def _format_keys(values: Mapping[str, object]) -> list[str]:
    keys = {key: key if _BARE_KEY.fullmatch(key) else _format(key) for key in values}
    return [f"{keys[key]} = {_format(value)}" for key, value in values.items()]


def _format_cells(cells: Iterable[MeasuredCell]) -> list[str]:
    rows = [[_format(value) for value in astuple(cell)] for cell in cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["", "[cells]    # all that was measured; residual = model ÷ measured − 1"]
    lines += [f"columns = {_format(list(CELL_COLUMNS))}", "rows = ["]
    for row in rows:
        texts = (f"{text:>{width}}" for text, width in zip(row, widths, strict=True))
        lines.append(f"    [{', '.join(texts)}],")
    return [*lines, "]"]


def _format(value: object) -> str:
    """Format a text, number, truth value or list as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}" if value >= _DIGITS_APART else str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_format, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
