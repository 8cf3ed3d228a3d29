"""Numbers in words: units, rounding, and decimals that numbers shown together share."""

import math
from collections.abc import Iterable
from typing import Final

ABSENT: Final = "–"
_MOST_DECIMALS: Final = 4
_BYTES: Final = ("PiB", "TiB", "GiB", "MiB", "KiB")
_SCALES: Final = {
    "bytes": tuple((1024.0 ** (5 - place), name) for place, name in enumerate(_BYTES)),
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
}
# Units whose numbers carry their unit themselves
_WORDLESS: Final = ("share", "change", "ratio", *_SCALES)


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
    """Format a value with its unit; a share in percent, bytes and seconds in the unit that keeps them short."""
    if value is None:
        return "not measured"
    return f"{format_plain(value, unit)} {get_unit_word(unit)}".strip()


def format_plain(value: float, unit: str) -> str:
    """Format a value without the word of its unit; shares, changes, ratios, bytes and times have theirs."""
    if unit in ("share", "change"):
        return f"{value:+.1%}" if unit == "change" else f"{value:.1%}"
    if unit == "ratio":
        return f"{value:.3g} ×"
    if unit not in _SCALES:
        return format_number(value)
    size, name = next((pair for pair in _SCALES[unit] if abs(value) >= pair[0]), (1.0, unit))
    # A part of a second was measured, and its fourth digit is noise; bytes were counted.
    return f"{value / size:.3g} {name}" if size < 1 else f"{format_number(value / size)} {name}"


def format_alike(values: Iterable[float | None], unit: str = "") -> list[str]:
    """Format numbers of one unit with equal decimals, without the word of the unit."""
    listed = list(values)
    if unit in _WORDLESS:
        return [ABSENT if value is None else format_plain(value, unit) for value in listed]
    decimals = _choose_decimals([abs(value) for value in listed if value and math.isfinite(value)])
    return [ABSENT if value is None else f"{value:,.{decimals}f}" for value in listed]


def _choose_decimals(sizes: list[float]) -> int:
    """Return the decimals that give the largest number three significant digits and the smallest two."""
    if all(size.is_integer() for size in map(float, sizes)):
        return 0
    wanted = max(2 - math.floor(math.log10(max(sizes))), 1 - math.floor(math.log10(min(sizes))))
    return min(max(wanted, 0), _MOST_DECIMALS)


def format_ratio(ratio: float, low: float | None = None, high: float | None = None) -> tuple[str, str]:
    """Format a ratio and its interval, as "1.50 ×" and "1.48 to 1.52", with equal decimals.

    They are those that half the interval supports; without one the ratio has three digits.
    """
    place = -math.floor(math.log10(ratio))  # of its first digit, counted in decimals
    if low is None or high is None:
        return f"{ratio:.{min(max(place + 2, 0), _MOST_DECIMALS)}f} ×", ABSENT
    least = place + 1 if place > 0 else 0
    decimals = _support_decimals(low, high, least)
    return f"{ratio:.{decimals}f} ×", f"{low:.{decimals}f} to {high:.{decimals}f}"


def _support_decimals(low: float, high: float, least: int) -> int:
    """Return the decimals that half an interval supports."""
    wanted = -math.floor(math.log10(max((high - low) / 2, 1e-4)))
    decimals = min(max(wanted, least), 3)
    # An interval that excludes 1 must not look as if it ended there.
    while not low <= 1 <= high and decimals <= _MOST_DECIMALS and 1 in (round(low, decimals), round(high, decimals)):
        decimals += 1
    return decimals


def get_unit_word(unit: str) -> str:
    """Return the word of a unit that numbers leave out; some carry their unit themselves."""
    return "" if unit in _WORDLESS else unit
