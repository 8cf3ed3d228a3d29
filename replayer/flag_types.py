"""What the flags of replayer take: exact numbers, capacities, sizes, depths, warm-ups, throttles."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any

import click

from replayer.schema import TIERS
from replayer.tiers.throttled import Throttle

UNLIMITED = Decimal("inf")


class Number(click.ParamType[Decimal]):
    """An exact decimal number: capacities never pass through binary floats."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Parse the number."""
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            self.fail(f"{value!r} is not a number.", param, ctx)
        if not number.is_finite() or number.adjusted() > 15:
            self.fail(f"{value!r} is not a number below 1e16.", param, ctx)
        return number


class OrUnlimited(click.ParamType[Any]):
    """What another type takes, or the word unlimited."""

    name = "number"

    def __init__(self, limited: click.ParamType[Any]) -> None:
        self._limited = limited

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse it; unlimited is infinity."""
        return UNLIMITED if value in ("unlimited", UNLIMITED) else self._limited.convert(value, param, ctx)


class Count(click.ParamType[int]):
    """A whole number within limits."""

    name = "integer"

    def __init__(self, low: int, high: int = 2**31 - 1) -> None:
        self._low, self._high = low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number."""
        flag = param.opts[0] if param else "it"
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{flag} {value!r} is not a whole number.", param, ctx)
        if not self._low <= number <= self._high:
            self.fail(f"{flag} {number} must be from {self._low:,} to {self._high:,}.", param, ctx)
        return number


class Size(click.ParamType[int]):
    """Bytes, with K, M or G for their powers of 1,024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the size."""
        found = re.fullmatch(r"(\d{1,6})([KMG]?)(i?B)?", str(value), re.IGNORECASE)
        size = int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2].upper()] if found else 0
        if size % 4096 or not 0 < size <= 1 << 30:
            self.fail(f"{value!r} is not a multiple of 4K up to 1G, as 128K or 1M.", param, ctx)
        return size


class Warmup(click.ParamType[tuple[int, float]]):
    """A number of ops, or of seconds followed by s: (ops, seconds)."""

    name = "warmup"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, float]:
        """Parse the warm-up."""
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d{1,12})(?:(\.\d+)?(s))?", str(value))
        if not found:
            self.fail(f"{value!r} is neither seconds, as 30s, nor a number of ops.", param, ctx)
        return (0, float(found[1] + (found[2] or ""))) if found[3] else (int(found[1]), 0)


class Slower(click.ParamType[tuple[str, Throttle]]):
    """A tier and its speed: TIER=MIB_PER_S[,LATENCY_US]."""

    name = "throttle"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Throttle]:
        """Parse the throttle."""
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(rf"({'|'.join(TIERS)})=(\d+(?:\.\d+)?)(?:,(\d+(?:\.\d+)?))?", str(value))
        if not found or not 0 < float(found[2]) < 1e9 or float(found[3] or 0) > 1e9:
            self.fail(f"{value!r} is not TIER=MIB_PER_S[,LATENCY_US], as nvme=470,80.", param, ctx)
        return found[1], Throttle(float(found[2]), float(found[3] or 0))


class Depth(click.ParamType[int]):
    """A number of ops, or the word all (0)."""

    name = "depth"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the depth."""
        if value == "all":
            return 0
        depth: int = Count(1).convert(value, param, ctx)
        return depth
