"""Loading of arrangements: those that ship with the tool, TOML files, and run.json's tables."""

import difflib
import importlib.resources
import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from replayer.arrangements.arrangement import Arrangement, EngineSource, TierRules
from replayer.arrangements.values import RULES, TIER_RULES, normalize
from replayer.record.columns import TIERS
from tracegen.errors import InputError

_SHIPPED: Final = importlib.resources.files("replayer.arrangements")
_MAX_FILE: Final = 1 << 20  # bytes; a table has a few hundred
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


def shipped_names() -> tuple[str, ...]:
    """Return the names of the arrangements that ship with the tool; the waterfall is the first."""
    names = (path.name for path in _SHIPPED.iterdir())
    stems = (name.removesuffix(".toml") for name in names if name.endswith(".toml"))
    return tuple(sorted(stems, key=lambda name: (name != "waterfall", name != "spillover", name)))


def read_shipped(name: str) -> str:
    """Return the TOML text of an arrangement that ships with the tool.

    Raises:
        InputError: no arrangement has that name.
    """
    if name not in shipped_names():
        raise _unknown(name, shipped_names(), None, "name")
    return (_SHIPPED / f"{name}.toml").read_text(encoding="utf-8")


def load_arrangement(name: str) -> Arrangement:
    """Return an arrangement that ships with the tool, or that a TOML file describes.

    Args:
        name: its name, or the path of a TOML file.

    Raises:
        InputError: no arrangement has that name, or the file does not describe an arrangement.
    """
    if name in shipped_names():
        return parse_arrangement(name, read_shipped(name))
    path = Path(name)
    try:
        if path.stat().st_size > _MAX_FILE:
            raise _error(name, "has more than 1 MiB", "name a TOML file of rules")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        names = shipped_names()
        if "/" not in name and not name.endswith(".toml"):
            raise _unknown(name, names, "arrangement", "name a TOML file or") from None
        reason = getattr(error, "strerror", None) or "it is not text"
        remedy = f"name a TOML file, or one of {', '.join(names)}"
        raise _error(name, f"cannot be read ({reason})", remedy) from None
    return parse_arrangement(path.name, text)


def load_engine(name: str) -> Arrangement:
    """Return the arrangement of a serving engine.

    Raises:
        InputError: there is no engine of that name.
    """
    engines = tuple(one for one in shipped_names() if load_arrangement(one).source is not None)
    if name not in engines:
        raise _unknown(name, engines, "engine", "name")
    return load_arrangement(name)


def parse_arrangement(name: str, text: str) -> Arrangement:
    """Return the arrangement that a TOML text describes.

    Raises:
        InputError: it is not TOML, or does not describe an arrangement.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _error(name, f"is not TOML ({error})", "mend the file") from None
    description = table.pop("description", "")
    if not isinstance(description, str):
        raise _error(name, "`description` is not text", "write a line in quotes")
    origin = table.pop("source", None)
    source = None if origin is None else _make_origin(name, origin)
    return make_arrangement(name, table, description, source)


def make_arrangement(
    name: str,
    table: Mapping[str, object],
    description: str = "",
    source: EngineSource | None = None,
) -> Arrangement:
    """Return the arrangement of a table, as run.json records it.

    Args:
        name: its name.
        table: its keys; absent ones have their defaults.
        description: what it is, in one line.
        source: the engine that it describes.

    Raises:
        InputError: a key is unknown, or a value is not one that its key may have.
    """
    rules = {key: _read_rule(name, key, value) for key, value in table.items()}
    return Arrangement(name, description, source, **rules)


def _read_rule(name: str, key: str, value: object) -> Any:
    """Return the value of a key, or the rules of a tier."""
    if key in TIERS:
        return _make_tier(name, key, value)
    if key not in RULES:
        raise _unknown_key(name, key, (*RULES, *TIERS))
    return normalize(value, RULES[key])


def describe_arrangement(arrangement: Arrangement) -> str:
    """Return the name of an arrangement, and the rules that are not those of its name."""
    record = arrangement.to_record()
    if record.rules is None:
        return f"{record.name}, promoting" if record.promote else record.name
    name = arrangement.name
    base = load_arrangement(name) if name in shipped_names() else arrangement
    rules, usual = _flatten(arrangement), _flatten(base)
    changed = [f"{key}={value}" for key, value in rules.items() if value != usual[key]]
    for key in TIER_RULES:
        values = {rules[f"{tier}.{key}"] for tier in TIERS}
        own = [f"{tier}.{key}={rules[f'{tier}.{key}']}" for tier in TIERS]
        if len(values) == 1 and set(own) <= set(changed):
            changed = [one for one in changed if one not in own] + [f"{key}={values.pop()}"]
    return ", ".join([name, *changed])


def _flatten(arrangement: Arrangement) -> dict[str, str]:
    """Return all rules but the look-up as text, by path as in cpu.policy."""
    tiers = arrangement.tiers().items()
    rules = {key: getattr(arrangement, key) for key in RULES if key != "lookup"}
    rules |= {f"{tier}.{key}": getattr(one, key) for tier, one in tiers for key in TIER_RULES}
    return {key: _format_rule(value) for key, value in rules.items()}


def _format_rule(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _make_tier(name: str, tier: str, table: object) -> TierRules:
    if not isinstance(table, Mapping):
        raise _error(name, f"`{tier}` is not a table of rules", f"write [{tier}] above its rules")
    for key in table:
        if key not in TIER_RULES:
            raise _unknown_key(name, f"{tier}.{key}", [f"{tier}.{one}" for one in TIER_RULES])
    return TierRules(**{key: normalize(value, TIER_RULES[key]) for key, value in table.items()})


def _make_origin(name: str, table: object) -> EngineSource:
    keys = [one.name for one in fields(EngineSource)]
    is_right = (
        isinstance(table, dict)
        and set(table) == set(keys)
        and all(isinstance(value, str) and value for value in table.values())
        and _DATE.fullmatch(table["date"])
    )
    if not is_right:
        wanted = f"the texts {', '.join(keys[:-1])} and {keys[-1]} (YYYY-MM-DD)"
        raise _error(name, f"`source` does not have {wanted}", "mend the file")
    assert isinstance(table, dict)
    return EngineSource(**table)


def _unknown(name: str, names: tuple[str, ...], setting: str | None, verb: str) -> InputError:
    remedy = f"{verb} one of {', '.join(names)}"
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        remedy = f"did you mean {near[0]}? Otherwise {remedy}"
    return InputError("is unknown", remedy, subject=name, setting=setting)


def _unknown_key(name: str, key: str, keys: "list[str] | tuple[str, ...]") -> InputError:
    near = difflib.get_close_matches(key, keys, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"its keys are {', '.join(keys)}"
    return _error(name, f"`{key}` is not a rule", remedy)


def _error(name: str, problem: str, remedy: str) -> InputError:
    return InputError(problem, remedy, subject=name, setting="arrangement")
