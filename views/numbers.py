"""Numbers in words: units, rounding, and decimals that numbers shown together share."""

import math
from collections.abc import Iterable
from typing import Final

ABSENT: Final = "–"
_MOST_DECIMALS: Final = 4
_SIZES: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIMES: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_WORDLESS: Final = ("share", "ratio", "bytes", "s")
"""Units whose numbers carry their unit themselves."""


def format_number(value: object) -> str:
    """Format a number with four significant digits and separated thousands."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-4 or not value else f"{value:.2e}"


def format_value(value: float | None, unit: str = "") -> str:
    """Format a value with its unit; a share in percent, bytes in the unit that keeps it short."""
    if value is None:
        return "not measured"
    return f"{format_plain(value, unit)} {get_unit_word(unit)}".strip()


def format_plain(value: float, unit: str) -> str:
    """Format a value without the word of its unit; shares, ratios, bytes and times have theirs."""
    if unit == "share":
        return f"{value:.1%}"
    if unit == "ratio":
        return f"{value:.3g} ×"
    if unit == "bytes":
        return format_bytes(value)
    return format_time(value) if unit == "s" else format_number(value)


def format_bytes(size: float) -> str:
    """Format a number of bytes in the binary unit that suits it."""
    power = min(int(math.log2(abs(size)) // 10), len(_SIZES) - 1) if abs(size) >= 1024 else 0
    return f"{size / 1024**power:,.4g} {_SIZES[power]}"


def format_time(seconds: float) -> str:
    """Format a time in the unit that leaves a digit before the point."""
    if not seconds or abs(seconds) >= 1:
        return f"{format_number(seconds)} s"
    size, unit = next((pair for pair in _TIMES if abs(seconds) >= pair[0]), _TIMES[-1])
    return f"{seconds / size:,.3g} {unit}"


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


def format_alike(values: Iterable[float | None], unit: str = "") -> list[str]:
    """Format numbers of one unit with equal decimals, without the word of the unit."""
    listed = list(values)
    if unit in _WORDLESS:
        return [ABSENT if value is None else format_plain(value, unit) for value in listed]
    is_whole = all(value is None or float(value).is_integer() for value in listed)
    decimals = 0 if is_whole else choose_decimals(listed)
    return [ABSENT if value is None else f"{value:,.{decimals}f}" for value in listed]


def format_ratio(ratio: float, low: float | None = None, high: float | None = None) -> tuple[str, str]:
    """Format a ratio and its interval, as "1.50 ×" and "1.48 to 1.52", with equal decimals.

    They are those that half the interval supports; without one the ratio has three digits.
    """
    size = math.floor(math.log10(ratio))
    if low is None or high is None:
        return f"{ratio:.{choose_decimals([ratio])}f} ×", ABSENT
    digits = -math.floor(math.log10(max((high - low) / 2, 1e-4)))
    decimals = min(max(digits, 1 - size if size < 0 else 0), 3)
    # An interval that excludes 1 must not look as if it ended there.
    while not low <= 1 <= high and decimals <= _MOST_DECIMALS and 1 in (round(low, decimals), round(high, decimals)):
        decimals += 1
    return f"{ratio:.{decimals}f} ×", f"{low:.{decimals}f} to {high:.{decimals}f}"


def get_unit_word(unit: str) -> str:
    """Return the word of a unit that numbers leave out; some carry their unit themselves."""
    return "" if unit in _WORDLESS else unit
