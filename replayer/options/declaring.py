"""Declarations of options: fields of tables, with default, type, help and conditions."""

from typing import Any, ClassVar, NamedTuple, get_args

import click
import msgspec

from tracegen.console.commands import Word


class Declared(NamedTuple):
    """The attributes of an option that its `Meta` holds besides its help.

    Attributes:
        kind: parses its text, in its unit and range; None: a switch.
        metavar: how the help calls a value.
        default: what the help says of the default; empty: the default itself, if it says anything.
        rare: only `--set` and TOML files take it.
        conditions: the conditions in run.json that it decides.
    """

    kind: click.ParamType[Any] | None
    metavar: str | None
    default: str
    rare: bool
    conditions: str


class OptionTable(msgspec.Struct, frozen=True, kw_only=True):
    """Options below one heading of `--help`.

    A field whose default is None follows from the trace, the arrangement or other options.
    """

    heading: ClassVar[str]
    example: ClassVar[str]


def declare(
    text: str,
    kind: click.ParamType[Any] | None = None,
    metavar: str | None = None,
    *,
    default: str = "",
    rare: bool = False,
    conditions: str = "",
) -> msgspec.Meta:
    """Declare an option: its help, and the attributes of `Declared`."""
    declared = Declared(kind, metavar, default, rare, conditions)
    return msgspec.Meta(description=text, extra={"option": declared})


def one_of(literal: Any) -> Word:
    """Return the type of an option that has one of a literal's words."""
    return Word(get_args(literal))
