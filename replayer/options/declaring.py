"""Declarations of options: fields of tables, with default, type and help."""

from dataclasses import field, fields
from typing import Any, ClassVar, NamedTuple, get_args

import click

from tracegen.console.commands import Word


class Declared(NamedTuple):
    """An option, apart from its type and its default.

    Attributes:
        help: what it does.
        kind: parses its text, in its unit and range; None: a switch.
        metavar: how the help calls a value.
        shown: what the help says of the default; empty: the default itself, if it says anything.
        rare: only `--set` and TOML files take it.
        alias: another spelling of its flag.
    """

    help: str
    kind: click.ParamType[Any] | None = None
    metavar: str | None = None
    shown: str = ""
    rare: bool = False
    alias: str = ""


class OptionTable:
    """Options below one heading of `--help`: a dataclass.

    A field whose default is None follows from the trace, the arrangement or other options.
    """

    heading: ClassVar[str]
    example: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]


def option(default: object, *attributes: Any, **more: Any) -> Any:
    """Declare an option by its default and the attributes of `Declared`."""
    return field(default=default, metadata={"option": Declared(*attributes, **more)})


def list_options(*groups: type[OptionTable]) -> dict[str, tuple[type[OptionTable], Any, Declared]]:
    """Return the group, the default and the declaration of each option, by name."""
    return {one.name: (group, one.default, one.metadata["option"]) for group in groups for one in fields(group)}


def one_of(literal: Any) -> Word:
    """Return the type of an option that has one of a literal's words."""
    return Word(get_args(literal))
