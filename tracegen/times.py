"""Times as users write them, in decimal, as whole nanoseconds."""

from decimal import Decimal


def to_ns(seconds: float) -> int:
    """Return seconds, as written in decimal, in whole nanoseconds, rounded half to even."""
    return int((Decimal(str(seconds)) * 10**9).to_integral_value())


def milliseconds_to_ns(milliseconds: float) -> int:
    """Return milliseconds, as written in decimal, in whole nanoseconds, rounded down."""
    return to_ns(milliseconds) // 1000
