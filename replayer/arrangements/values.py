"""The keys of an arrangement's table, and the values that each may have."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, get_args

from replayer.record.options import (
    POLICIES,
    Copies,
    Down,
    LookupRule,
    Recency,
    StorePlace,
    Tail,
    Touch,
    Up,
)
from tracegen.errors import quote_value
from tracegen.schema import ENUMS

SOURCES: Final = tuple(ENUMS["source"])


@dataclass(frozen=True)
class Words:
    """One of several words; if `many`, a list of them."""

    words: tuple[str, ...]
    many: bool = False


@dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`."""

    low: int
    high: int = (1 << 31) - 1


@dataclass(frozen=True)
class Share:
    """A decimal of at most six digits after the point, from 0 to `high`.

    0 itself is allowed only if `has_zero`.
    """

    high: float = 1.0
    has_zero: bool = True


_MAX_TTL_S: Final = 1e9
_MAX_TOUCHES: Final = 127
"""The compiled core counts the touches of an object in a tier up to here (`TOUCHES`)."""

RULES: Final[Mapping[str, Words | Whole | Share]] = {
    "copies": Words(get_args(Copies)),
    "place": Words(get_args(StorePlace)),
    "touch": Words(get_args(Touch)),
    "recency": Words(get_args(Recency)),
    "lookup": Words(get_args(LookupRule)),
    "ttl_s": Share(_MAX_TTL_S),
    "pin": Words(SOURCES, many=True),
    "chunk_tokens": Whole(0),
    "tail": Words(get_args(Tail)),
    "unsaved_tokens": Whole(0),
}
"""The keys above the tables of tiers."""

TIER_RULES: Final[Mapping[str, Words | Whole | Share]] = {
    "down": Words(get_args(Down)),
    "touches": Whole(1, _MAX_TOUCHES),
    "admit_touches": Whole(1),
    "admit_table": Whole(0),
    "up": Words(get_args(Up)),
    "policy": Words(POLICIES),
    "high": Share(has_zero=False),
    "low": Share(),
    "evict_share": Share(),
    "fetch_tokens": Whole(0),
    "fetch_in_flight": Whole(0),
    "fetch_share": Share(),
    "user_quota": Share(has_zero=False),
}
"""The keys of a tier's table."""


def describe_wrong_value(value: object, kind: object) -> tuple[str, str] | None:
    """Return what is wrong with a value, and what to write instead; None: it is right.

    Args:
        value: as TOML or JSON has it; lists may be tuples.
        kind: what the key takes, an instance of `Words`, `Whole` or `Share`.
    """
    if isinstance(kind, Words):
        return _describe_wrong_word(value, kind)
    if isinstance(kind, Whole):
        if type(value) is int and kind.low <= value <= kind.high:
            return None
        wanted = f"a whole number from {kind.low} to {kind.high:,}"
    else:
        assert isinstance(kind, Share)
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_in(value, kind):
            return None
        low = "from 0" if kind.has_zero else "above 0"
        wanted = f"a number {low} to {kind.high:,.0f} with at most six decimals"
    return quote_value(value), f"write {wanted}"


def _is_in(value: float, kind: Share) -> bool:
    is_in_range = 0 <= value <= kind.high and (value > 0 or kind.has_zero)
    return is_in_range and Decimal(str(value)) * 10**6 % 1 == 0


def _describe_wrong_word(value: object, kind: Words) -> tuple[str, str] | None:
    names = f"{', '.join(kind.words[:-1])} or {kind.words[-1]}"
    if not kind.many:
        if isinstance(value, str) and value in kind.words:
            return None
        return f"{quote_value(value)}, which is unknown", f"write {names}"
    if not isinstance(value, list | tuple):
        return f"{quote_value(value)}, not a list", f"list any of {names}"
    wrong = [one for one in value if one not in kind.words]
    if wrong:
        return f"a list with {quote_value(wrong[0])}, which is unknown", f"list any of {names}"
    return None


def normalize(value: object, kind: object) -> Any:
    """Return a valid value in the type that records have: floats for shares, a tuple for lists."""
    if isinstance(kind, Share) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, Words) and kind.many and isinstance(value, list | tuple):
        return (
            *(word for word in kind.words if word in value),
            *(word for word in value if word not in kind.words),
        )
    return value
