"""Recipes from TOML files and flags; an unknown key is refused with the nearest known one."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tracegen.errors import InputError
from tracegen.recipes.recipe import Recipe
from tracegen.typed_files import Table, convert, load_toml, suggest

SHIPPED: Final = Path(__file__).parent
_PERSONAS: Final[Table] = msgspec.to_builtins(Recipe().personas)
"""The default personas as tables: a file may change some of their keys."""


def list_shipped() -> dict[str, str]:
    """Return the purpose of each shipped recipe, the comment in its first line, by name."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(SHIPPED.glob("*.toml"))}
    return {name: text.partition("\n")[0].removeprefix("# ") for name, text in texts.items()}


def find_recipe(recipe: str) -> Path:
    """Return the file of a recipe: a TOML file, or else a name of those that ship; refuse any other name."""
    path = Path(recipe)
    if path.suffix or path.exists():
        return path
    known = list_shipped()
    if recipe not in known:
        raise InputError("no file and no recipe has this name", suggest(recipe, known), subject=recipe)
    return SHIPPED / f"{recipe}.toml"


def load_recipe(path: Path | None, settings: Mapping[str, Any]) -> Recipe:
    """Read a recipe, a TOML file or None for the defaults, and apply settings to it, by their dotted keys.

    Raises:
        InputError: the file is missing or not TOML, or a key or value does not fit.
    """
    table = {} if path is None else load_toml(path, "name a TOML file that exists")
    table = _merge({"personas": _PERSONAS}, table)
    recipe = convert(table, Recipe, path)
    if recipe.sharegpt.path and path is not None:
        table["sharegpt"]["path"] = str(path.parent / recipe.sharegpt.path)
    for dotted, value in settings.items():
        *groups, name = dotted.split(".")
        nested: Table = {name: value}
        for group in reversed(groups):
            nested = {group: nested}
        table = _merge(table, nested)
    recipe = convert(table, Recipe)
    try:
        recipe.check()
    except InputError as error:
        raise InputError(error.problem, error.remedy, subject=path) from None
    return recipe


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Table:
    """Return a table with the keys of another one; tables in it are merged, too."""
    merged = dict(base)
    for key, value in changes.items():
        inner = merged.get(key)
        both_are_tables = isinstance(inner, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(inner or {}, value) if both_are_tables else value
    return merged


def parse_value(text: str) -> Any:
    """Return a setting's value: TOML if the text is TOML, else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or too many digits or brackets
        return text
