"""Loading of arrangements: those that ship with the tool, TOML files, and run.json's tables."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from replayer.arrangements.arrangement import SETTING, Arrangement, list_changes
from replayer.record.options import TIERS
from tracegen.errors import InputError
from tracegen.typed_files import convert, load_toml, parse_toml, suggest

_SHIPPED: Final = Path(__file__).parent
_NO_RULES: Final = ("name", "description", "source", "lookup", *TIERS)


def shipped_names() -> tuple[str, ...]:
    """Return the names of the arrangements that ship with the tool; the waterfall is the first."""
    names = (path.stem for path in _SHIPPED.glob("*.toml"))
    # General rules first, then engines by name.
    return tuple(sorted(names, key=lambda name: (name != "waterfall", name != "spillover", name)))


def read_shipped(name: str) -> str:
    """Return the TOML text of an arrangement that ships with the tool.

    Raises:
        InputError: no arrangement has that name.
    """
    if name not in shipped_names():
        raise InputError("is unknown", suggest(name, shipped_names()), subject=name)
    return (_SHIPPED / f"{name}.toml").read_text(encoding="utf-8")


def load_arrangement(name: str) -> Arrangement:
    """Return an arrangement that ships with the tool, or that a TOML file describes.

    Args:
        name: its name, or the path of a TOML file.

    Raises:
        InputError: no arrangement has that name, or the file does not describe an arrangement.
    """
    names = shipped_names()
    if name in names:
        return parse_arrangement(name, read_shipped(name))
    path = Path(name)
    # A name without the look of a path is a mistyped name, not a missing file.
    if not path.exists() and path.suffix != ".toml" and "/" not in name:
        raise InputError("is unknown", f"name a TOML file, or {suggest(name, names)}", subject=name, setting=SETTING)
    content = load_toml(path, f"name a TOML file, or one of {', '.join(names)}", SETTING)
    return make_arrangement(path.name, content)


def parse_arrangement(name: str, text: str) -> Arrangement:
    """Return the arrangement that a TOML text describes.

    Raises:
        InputError: it is not TOML, or does not describe an arrangement.
    """
    return make_arrangement(name, parse_toml(text, name, SETTING))


def make_arrangement(name: str, table: Mapping[str, object]) -> Arrangement:
    """Return the arrangement of a table, as files and run.json have it.

    Args:
        name: its name.
        table: its keys; absent ones have their defaults.

    Raises:
        InputError: a key is unknown, or a value is not one that its key may have.
    """
    if "name" in table:
        raise InputError("name is unknown", "name the file so", subject=name, setting=SETTING)
    return convert({"name": name, **table}, Arrangement, name, SETTING)


def describe_arrangement(arrangement: Arrangement) -> str:
    """Return the name of an arrangement, and the rules that are not those of its name."""
    record = arrangement.to_record()
    if record.rules is None:
        return f"{record.name}, promoting" if record.promote else record.name
    name = arrangement.name
    base = load_arrangement(name) if name in shipped_names() else arrangement
    base = base.with_scheduler(serves=arrangement.scheduler is not None)
    own = list_changes(arrangement, base)
    changed = [f"{key}={_text(value)}" for key, value in own.items() if key not in _NO_RULES]
    tiers = {tier: list_changes(rules, base.tiers()[tier]) for tier, rules in arrangement.tiers().items()}
    for key in asdict(arrangement.gpu):
        values = {tier: _text(changes[key]) for tier, changes in tiers.items() if key in changes}
        if len(values) == len(TIERS) and len(set(values.values())) == 1:
            changed.append(f"{key}={values['gpu']}")
        else:
            changed += [f"{tier}.{key}={value}" for tier, value in values.items()]
    return ", ".join([name, *changed])


def _text(value: object) -> str:
    return str(value).removesuffix(".0")
