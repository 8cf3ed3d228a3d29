"""TOML files by types: each wrong value is refused with its place.

All packages may import it. Types are dataclasses or msgspec structs; `msgspec.Meta` limits values.
"""

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, NotRequired, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect

from tracegen.errors import InputError, quote_value

T = TypeVar("T")
Table = dict[str, Any]
"""A table of TOML, not checked yet."""
_MOST_BYTES: Final = 1 << 20
_LENGTH: Final = 60  # characters of a key or of a parser's reason that a message shows
_WORDS: Final[Mapping[type, str]] = {
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.StrType: "a text in quotes",
    inspect.TupleType: "a list",
    inspect.VarTupleType: "a list",
}
_LIMITS: Final = {"ge": "from", "gt": "above", "le": "to", "lt": "below", "min_length": "of", "max_length": "to"}


def load_toml(path: Path, remedy: str, setting: str | None = None) -> Table:
    """Return the content of a TOML file; `remedy` says what to do if it cannot be read.

    Raises:
        InputError: it is missing, no regular file, larger than 1 MiB, or not TOML.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a device might never end
            problem = "is a folder, pipe or device, not a file"
        elif path.stat().st_size > _MOST_BYTES:
            problem = "has more than 1 MiB"
        else:
            return parse_toml(path.read_text(encoding="utf-8"), path, setting)
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or 'it is not text'})"
    raise InputError(problem, remedy, subject=path, setting=setting)


def parse_toml(text: str, subject: object, setting: str | None = None) -> Table:
    """Return the content of a TOML text; an InputError says why it is not TOML."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of Python: too many digits, too many brackets
        problem = f"is not TOML ({str(error)[:_LENGTH]})"
        raise InputError(problem, "correct it", subject=subject, setting=setting) from None


def convert(content: object, kind: type[T], subject: object = None, setting: str | None = None, place: str = "") -> T:
    """Return the content of a file, or the part of it at `place`, as a type.

    Raises:
        InputError: a key is missing or unknown, or a value is not what its key takes.
    """
    problem, remedy = f"{place} is {quote_value(content)}".strip(), ""
    try:
        for part_kind, part, key in list(_list_parts(kind, content, place)):
            convert(part, part_kind, subject, setting, key)
    except KeyError as error:
        problem, remedy = error.args
    else:
        try:
            return msgspec.convert(content, kind)
        except (msgspec.ValidationError, ValueError):  # of Python: too many digits
            remedy = f"write {_describe(inspect.type_info(kind))}"
        except InputError as error:  # of a type's own check: its parts are right
            problem, remedy = f"{place}: {error.problem}".removeprefix(": "), error.remedy
    raise InputError(problem, remedy, subject=subject, setting=setting)


def _list_parts(kind: Any, value: object, place: str) -> Iterator[tuple[Any, object, str]]:
    """Yield the type, value and place of each part of a table or list."""
    while get_origin(kind) in (Annotated, UnionType):
        kind = get_args(kind)[0]
    arguments = get_args(kind)
    if get_origin(kind) is tuple and isinstance(value, list):
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        for at, (item_kind, item) in enumerate(zip(kinds, value, strict=False)):
            yield item_kind, item, f"{place}[{at}]"
    elif isinstance(value, Mapping) and kind is not Any:
        prefix = f"{place}." if place else ""
        keys = dict.fromkeys(value, arguments[-1]) if arguments else _list_keys(kind, value, prefix)
        for key, item in value.items():
            yield keys[key], item, prefix + key


def _list_keys(kind: Any, table: Mapping[str, object], prefix: str) -> dict[str, Any]:
    """Return the types of a table's keys; a KeyError has the problem and remedy of a wrong one."""
    fields = {one.encode_name: one for one in getattr(inspect.type_info(kind), "fields", ())}
    for key in table:
        if key not in fields:
            raise KeyError(f"{prefix}{key[:_LENGTH]} is unknown", suggest(key, fields, prefix))
    for key, field in fields.items():
        if field.required and key not in table:
            raise KeyError(f"{prefix}{key} is missing", f"write {_describe(field.type)}")
    hints = get_type_hints(kind, include_extras=True)
    # A key of a TypedDict that may be missing has its type inside NotRequired.
    types = {name: get_args(hint)[0] if get_origin(hint) is NotRequired else hint for name, hint in hints.items()}
    return {key: types[field.name] for key, field in fields.items()}


def suggest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return the remedy for an unknown name: the nearest known one, else all of them."""
    names = [f"{prefix}{one}" for one in known]
    near = difflib.get_close_matches(prefix + name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"write one of {', '.join(names)}"


def join_words(words: Iterable[str]) -> str:
    """Join words as alternatives: a, b or c."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def _describe(kind: inspect.Type) -> str:
    """Describe the values of a type in a few words."""
    if isinstance(kind, inspect.UnionType):
        return _describe(kind.types[0])
    if isinstance(kind, inspect.LiteralType):
        return join_words(map(str, kind.values))
    words = [_WORDS.get(type(kind), "a table")]
    if isinstance(kind, inspect.TupleType):
        words.append(f"of {len(kind.item_types)}")
    for attribute, word in _LIMITS.items():
        limit = getattr(kind, attribute, None)
        if limit is not None:
            words.append(f"{word} {limit:,}".removesuffix(".0"))
    return " ".join(words)
