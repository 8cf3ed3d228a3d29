"""Values of rows in other labs' files, parsed exactly and within limits."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec

from tracegen.errors import quote_value

TIME_MAX: Final = 1 << 62  # nanoseconds, 146 years: sums of two times stay within 64 bits
BlockIds = list[Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]]
TOKENS_MAX: Final = 1 << 28  # per request: over 100 times the longest context there is
# Exponents and digits are limited, so that no arithmetic on a number can overflow or take long.
_NUMBER: Final = re.compile(r"[+-]?\d{1,40}(\.\d{0,40})?([eE][+-]?\d{1,3})?", re.ASCII)


class BadRowError(ValueError):
    """A row that is not of its format; `kind` is the field or the fault, by which skipped rows are counted."""

    def __init__(self, kind: str, reason: str = "") -> None:
        super().__init__(f"{kind}: {reason}" if reason else kind)
        self.kind = kind


class TextFields(dict[str, str]):
    """A row of a table, whose numbers are text; in JSON a number in quotes is not a number."""


Row = Mapping[str, Any]
"""A row: a JSON object, or TextFields of a table."""


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRowError("not JSON", str(error).splitlines()[0]) from None
    if not isinstance(value, dict):
        raise BadRowError("no JSON object")
    return value


def parse_integer(row: Row, *names: str, least: int = 0, most: int = TOKENS_MAX) -> int:
    """Parse the whole number under the first of `names` that the row has.

    Raises:
        BadRowError: the row lacks all of the names, or the value is not a whole number from `least`
            to `most`.
    """
    name, value = _first_value(row, names)
    number = value if type(value) is int else _parse_decimal(row, name, value)
    if not least <= number <= most:
        raise BadRowError(name, f"{quote_value(value)} is not from {least} to {most}")
    if number != int(number):
        raise BadRowError(name, f"{quote_value(value)} is not a whole number")
    return int(number)


def parse_nanoseconds(row: Row, *names: str, unit: int) -> int:
    """Parse the time under the first of `names` that the row has; `unit` is in ns.

    Raises:
        BadRowError: the row lacks all of the names, or the value is not a number, is negative, or is
            146 years or more.
    """
    name, value = _first_value(row, names)
    number = _parse_decimal(row, name, value) * unit
    if not 0 <= number < TIME_MAX:
        raise BadRowError(name, f"{quote_value(value)} is negative or too large for a time")
    return int(number.to_integral_value())


def parse_block_ids(row: Row, name: str = "hash_ids", *, unique: bool = True) -> list[int]:
    """Return the list of block ids under `name`.

    Raises:
        BadRowError: it is not a list of whole numbers from 0 to 2^63 - 1, or an id occurs twice and
            `unique` is true.
    """
    ids = parse_list(row, name, BlockIds)
    if unique and len(set(ids)) != len(ids):
        raise BadRowError(name, "an id occurs twice in one request")
    return ids


def parse_list(row: Row, name: str, kind: type[list[int]]) -> list[int]:
    """Return the list of whole numbers under `name`; a BadRowError says how it differs from its type."""
    try:
        return msgspec.convert(row.get(name), kind)
    except msgspec.ValidationError as error:
        raise BadRowError(name, str(error)) from None


def check_block_count(blocks: int, tokens: int, size: int, *, tail: bool) -> None:
    """Refuse a wrong number of blocks of `size` for a prompt; a partial last one may, with `tail` must, have an id."""
    if blocks != -(-tokens // size) and (tail or blocks != tokens // size):
        raise BadRowError("hash_ids", f"{blocks} blocks of {size} for {tokens} tokens")


def _parse_decimal(row: Row, name: str, value: object) -> Decimal:
    is_text = isinstance(row, TextFields) and isinstance(value, str)
    text = str(value).strip() if type(value) in (int, float) or is_text else ""
    if not _NUMBER.fullmatch(text):
        raise BadRowError(name, f"{quote_value(value)} is not a number, or has too many digits")
    return Decimal(text)


def _first_value(row: Row, names: tuple[str, ...]) -> tuple[str, Any]:
    for name in names:
        if row.get(name) not in (None, ""):
            return name, row[name]
    raise BadRowError(names[0], "missing")
