"""Recipes from TOML files and flags: values are converted and named where they do not fit, unknown keys refused."""

import difflib
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from tracegen.errors import InputError, check_is_file, quote_value
from tracegen.recipe.recipe import Recipe

SHIPPED: Final = Path(__file__).parents[1] / "recipes"


def shipped() -> dict[str, str]:
    """What each recipe that comes with the package is for, by name: the comment in its first line."""
    first_lines = {path.stem: path.read_text(encoding="utf-8").partition("\n")[0] for path in SHIPPED.glob("*.toml")}
    return {name: line.removeprefix("# ") for name, line in sorted(first_lines.items())}


def find(recipe: str) -> Path:
    """The file of a recipe.

    Args:
        recipe: a TOML file, or the name of a recipe that comes with the package. A file wins over a name.

    Raises:
        InputError: there is neither.
    """
    path = Path(recipe)
    if path.suffix or path.exists():
        return path
    known = shipped()
    if recipe not in known:
        near = difflib.get_close_matches(recipe, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"name a TOML file or one of {', '.join(known)}."
        raise InputError(f"{recipe}: no file and no recipe has this name; {hint}")
    return SHIPPED / f"{recipe}.toml"


def load(path: Path | None, settings: Mapping[str, Any]) -> Recipe:
    """Read a recipe and put flags over it.

    Args:
        path: a TOML file, or None for the defaults; its relative paths are taken from its own folder.
        settings: dotted keys and values that override the file.

    Raises:
        InputError: the file is missing or not TOML, or a key or value does not fit.
    """
    table: dict[str, Any] = {}
    if path is not None:
        check_is_file(path, "a TOML file")
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{path}: cannot read the recipe ({error.strerror}); name an existing TOML file."
            ) from None
        except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, too many digits, too many brackets
            raise InputError(f"{path} is not TOML ({str(error)[:200]}); mend that line.") from None
    recipe: Recipe = _build(Recipe, table, str(path))
    if recipe.sharegpt.path and path is not None:
        recipe = replace(recipe, sharegpt=replace(recipe.sharegpt, path=str(path.parent / recipe.sharegpt.path)))
    for dotted, value in settings.items():
        *groups, name = dotted.split(".")
        nested: Any = {name: value}
        for group in reversed(groups):
            nested = {group: nested}
        recipe = _build(Recipe, nested, "--set", base=recipe)
    try:
        recipe.check()
    except InputError as error:
        raise InputError(f"{path}: {error!s}" if path else str(error)) from None
    return recipe


def parse_value(text: str) -> Any:
    """The value of `--set key=value`: TOML where it parses, else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or too many digits or brackets
        return text


def _build(kind: Any, table: Mapping[str, Any], where: str, base: Any = None, prefix: str = "") -> Any:
    """A dataclass from a TOML table; unknown keys are refused with the nearest known one."""
    hints, values = typing.get_type_hints(kind), {}
    known = {item.name: item for item in fields(kind)}
    for name, value in table.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"known keys: {', '.join(known)}."
            raise InputError(f"{where}: unknown recipe key {prefix}{name[:60]}; {hint}")
        current = getattr(base, name) if base is not None else None
        values[name] = _convert(hints[name], value, where, prefix + name, current)
    return replace(base, **values) if base is not None else kind(**values)


def _convert(hint: Any, value: Any, where: str, name: str, current: Any) -> Any:
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if is_dataclass(hint) or origin is Mapping:
        if not isinstance(value, dict):
            raise InputError(f"{where}: recipe key {name} is a table; set {name}.KEY.")
        if is_dataclass(hint):
            return _build(hint, value, where, current, f"{name}.")
        known = dict(current if current is not None else Recipe().personas)
        return known | {
            key: _convert(options[1], one, where, f"{name}.{key}", known.get(key)) for key, one in value.items()
        }
    if origin is Literal and value in options and not isinstance(value, bool):
        return options[options.index(value)]
    for kind in options if origin is types.UnionType else (hint,):
        found = _scalar(kind, value)
        if found is not None:
            return found
    kinds = map(_kind_name, options if origin is types.UnionType else (hint,))
    expected = " or ".join(map(repr, options)) if origin is Literal else " or ".join(kinds)
    raise InputError(f"{where}: recipe key {name} = {quote_value(value)} must be {expected}.")


def _scalar(kind: Any, value: Any) -> Any:
    """The value as this kind of number, text or list of numbers; None where it is none."""
    if typing.get_origin(kind) is tuple:
        options = typing.get_args(kind)
        kinds = options[:1] * len(value) if isinstance(value, list) and options[-1] is Ellipsis else options
        if not isinstance(value, list) or len(kinds) != len(value):
            return None
        items = tuple(_scalar(one, item) for one, item in zip(kinds, value, strict=True))
        return None if None in items else items
    if type(value) is int and abs(value) >= 2**64:
        return None  # beyond every limit, and perhaps beyond what Python prints
    if kind is float and type(value) in (int, float):
        return value if abs(value) < float("inf") else None
    return value if type(value) is kind else None


def _kind_name(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        first, *rest = typing.get_args(kind)
        return f"a list of {'' if Ellipsis in rest else f'{len(rest) + 1} '}{first.__name__}s"
    return "none" if kind is type(None) else str(kind.__name__)
