"""Numbers that are shown together, all with equally many decimals."""

import math
from collections.abc import Iterable
from typing import Final

from analysis.metrics.catalogue import describe

_LEAST_DECIMALS_OF_SHARES: Final = 1
_MOST_DECIMALS: Final = 4


def choose_decimals(values: Iterable[float | None], largest: int = 3, smallest: int = 2) -> int:
    """Return the decimals that numbers shown together share.

    Args:
        values: the numbers; None, 0 and what is not finite do not count.
        largest: significant digits that the largest number needs at least.
        smallest: significant digits that the smallest number needs at least.
    """
    known = [abs(value) for value in values if value is not None and math.isfinite(value) and value]
    if not known:
        return 0
    ends = ((max(known), largest), (min(known), smallest))
    wanted = max(digits - 1 - math.floor(math.log10(value)) for value, digits in ends)
    return min(max(wanted, 0), _MOST_DECIMALS)


def format_alike(name: str, values: Iterable[float | None]) -> list[str]:
    """Format values of one metric with equally many decimals; "–" for None, shares in percent."""
    listed = list(values)
    if describe(name).is_share:
        shares = [None if value is None else value * 100 for value in listed]
        return [_format(value, _LEAST_DECIMALS_OF_SHARES, "%") for value in shares]
    is_whole = all(value is None or float(value).is_integer() for value in listed)
    decimals = 0 if is_whole and describe(name).is_count else choose_decimals(listed)
    return [_format(value, decimals) for value in listed]


def _format(value: float | None, decimals: int, suffix: str = "") -> str:
    return "–" if value is None else f"{value:,.{decimals}f}{suffix}"
