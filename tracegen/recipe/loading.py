"""Recipes from TOML files and flags; an unknown key is refused with the nearest known one."""

import difflib
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from tracegen.errors import InputError, check_is_file, quote_value
from tracegen.recipe.recipe import Recipe

SHIPPED: Final = Path(__file__).parents[1] / "recipes"
_KEY_LENGTH: Final = 60  # characters of an unknown key that a message shows
_REASON_LENGTH: Final = 200


def list_shipped() -> dict[str, str]:
    """Return the purpose of each shipped recipe, the comment in its first line, by name."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(SHIPPED.glob("*.toml"))}
    return {name: text.partition("\n")[0].removeprefix("# ") for name, text in texts.items()}


def find_recipe(recipe: str) -> Path:
    """Return the file of a recipe.

    Args:
        recipe: a TOML file, or the name of a recipe that comes with the package. A file wins over a
            name.

    Raises:
        InputError: no file and no recipe has this name.
    """
    path = Path(recipe)
    if path.suffix or path.exists():
        return path
    known = list_shipped()
    if recipe not in known:
        near = difflib.get_close_matches(recipe, known, n=1)
        remedy = f"name a TOML file or one of {', '.join(known)}"
        if near:
            remedy = f"did you mean {near[0]}?"
        raise InputError("no file and no recipe has this name", remedy, subject=recipe)
    return SHIPPED / f"{recipe}.toml"


def load_recipe(path: Path | None, settings: Mapping[str, Any]) -> Recipe:
    """Read a recipe and apply settings to it.

    Args:
        path: a TOML file, or None for the defaults; its relative paths start at its own folder.
        settings: values that override the file's, by dotted key.

    Raises:
        InputError: the file is missing or not TOML, or a key or value does not fit.
    """
    table = {} if path is None else _read_toml(path)
    recipe: Recipe = _Decoder(None if path is None else str(path)).decode_table(Recipe, table)
    if recipe.sharegpt.path and path is not None:
        conversations = str(path.parent / recipe.sharegpt.path)
        recipe = replace(recipe, sharegpt=replace(recipe.sharegpt, path=conversations))
    for dotted, value in settings.items():
        *groups, name = dotted.split(".")
        nested: dict[str, Any] = {name: value}
        for group in reversed(groups):
            nested = {group: nested}
        recipe = _Decoder(None).decode_table(Recipe, nested, base=recipe)
    try:
        recipe.check()
    except InputError as error:
        raise InputError(error.problem, error.remedy, subject=path) from None
    return recipe


def _read_toml(path: Path) -> dict[str, Any]:
    check_is_file(path, "a TOML file")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problem = f"cannot read the recipe ({error.strerror})"
        raise InputError(problem, "name a TOML file that exists", subject=path) from None
    except (ValueError, RecursionError) as error:
        # Not TOML, not UTF-8, or too many digits or brackets.
        problem = f"not TOML ({str(error)[:_REASON_LENGTH]})"
        raise InputError(problem, "correct that line", subject=path) from None


def parse_value(text: str) -> Any:
    """Return a setting's value: TOML if the text is TOML, else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or too many digits or brackets
        return text


@dataclass(frozen=True)
class _Decoder:
    """Turns tables of TOML into dataclasses.

    Attributes:
        file: the recipe's file, for messages; None for settings.
    """

    file: str | None

    def decode_table(
        self,
        kind: Any,
        table: Mapping[str, Any],
        *,
        base: Any = None,
        prefix: str = "",
    ) -> Any:
        """Return a dataclass with the values of a table.

        Args:
            kind: the dataclass.
            table: values by key.
            base: has the values of the other keys; None for the defaults.
            prefix: dotted key of the table, with a dot at its end.

        Raises:
            InputError: a key is unknown, or a value of the wrong type.
        """
        hints = typing.get_type_hints(kind)
        known = [item.name for item in fields(kind)]
        values = {}
        for name, value in table.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                remedy = f"known keys: {', '.join(known)}"
                if near:
                    remedy = f"did you mean {prefix}{near[0]}?"
                problem = f"unknown recipe key {prefix}{name[:_KEY_LENGTH]}"
                raise InputError(problem, remedy, subject=self.file)
            current = None if base is None else getattr(base, name)
            values[name] = self._decode_value(hints[name], value, prefix + name, current)
        return kind(**values) if base is None else replace(base, **values)

    def _decode_value(self, hint: Any, value: Any, name: str, current: Any) -> Any:
        """Return a value as the type that `hint` says; `current` is the base's value of the key."""
        if is_dataclass(hint):
            self._check_is_table(value, name)
            return self.decode_table(hint, value, base=current, prefix=f"{name}.")
        if typing.get_origin(hint) is Mapping:
            self._check_is_table(value, name)
            items = dict(Recipe().personas if current is None else current)
            item_hint = typing.get_args(hint)[1]
            for key, item in value.items():
                items[key] = self._decode_value(item_hint, item, f"{name}.{key}", items.get(key))
            return items
        if typing.get_origin(hint) is Literal:
            options = typing.get_args(hint)
            if value in options and not isinstance(value, bool):
                return options[options.index(value)]
            raise self._wrong_type(name, value, map(repr, options))
        kinds = typing.get_args(hint) if typing.get_origin(hint) is types.UnionType else (hint,)
        for kind in kinds:
            converted = _convert(kind, value)
            if converted is not None:
                return converted
        raise self._wrong_type(name, value, map(_name_kind, kinds))

    def _check_is_table(self, value: Any, name: str) -> None:
        if not isinstance(value, dict):
            raise InputError(f"recipe key {name} is a table", f"set {name}.KEY", subject=self.file)

    def _wrong_type(self, name: str, value: Any, expected: typing.Iterable[str]) -> InputError:
        problem = f"recipe key {name} = {quote_value(value)} must be {' or '.join(expected)}"
        return InputError(problem, subject=self.file)


def _convert(kind: Any, value: Any) -> Any:
    """Return a value as this kind of number, text or list; None if it is of another kind."""
    if typing.get_origin(kind) is tuple:
        return _convert_list(typing.get_args(kind), value)
    if type(value) is int and abs(value) >= 2**64:
        return None  # beyond every limit, and perhaps of more digits than Python prints
    if kind is float and type(value) in (int, float):
        return value if abs(value) < float("inf") else None
    return value if type(value) is kind else None


def _convert_list(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...] | None:
    """Return a list as a tuple of these kinds, or None if it does not fit.

    Before an ellipsis the first kind is repeated.
    """
    if not isinstance(value, list):
        return None
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        return None
    items = tuple(_convert(kind, item) for kind, item in zip(kinds, value, strict=True))
    return None if None in items else items


def _name_kind(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        first, *rest = typing.get_args(kind)
        size = "" if Ellipsis in rest else f"{len(rest) + 1} "
        return f"a list of {size}{first.__name__}s"
    return "none" if kind is type(None) else str(kind.__name__)
