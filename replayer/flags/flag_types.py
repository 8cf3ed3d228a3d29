"""What the flags of replayer take beside quantities: exact numbers, sizes of I/O, depths, warm-ups, throttles."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any

import click

from replayer.record.columns import TIERS
from replayer.tiers.reserve import Reserve
from replayer.tiers.throttled import Throttle
from tracegen.console.command_line import BYTES, MIB_S, MICROSECONDS, SECONDS

UNLIMITED = Decimal("inf")


class Number(click.ParamType[Decimal]):
    """An exact decimal number, which never passes through binary floats."""

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
    """Bytes of a request: a multiple of 4 KiB up to 1 GiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the size."""
        try:
            size = BYTES.parse(str(value))
        except ValueError as problem:
            self.fail(str(problem), param, ctx)
        if size % 4096 or not 0 < size <= 1 << 30:
            self.fail(f"{value!r}, {size:,.0f} bytes, is not a multiple of 4K up to 1G, as 128K or 1M.", param, ctx)
        return int(size)


class Warmup(click.ParamType[tuple[int, float]]):
    """A number of ops, or a time with its unit: (ops, seconds)."""

    name = "warmup"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, float]:
        """Parse the warm-up."""
        if isinstance(value, tuple):
            return value
        if re.fullmatch(r"\d{1,12}", str(value), re.ASCII):
            return int(value), 0
        try:
            seconds = SECONDS.parse(str(value))
        except ValueError:
            seconds = -UNLIMITED
        if not 0 <= seconds < 10**9 or str(value)[-1].isdigit():
            self.fail(f"{value!r} is neither a time with its unit, as 30s or 5m, nor a number of ops.", param, ctx)
        return 0, float(seconds)


class Slower(click.ParamType[tuple[str, Throttle]]):
    """A tier and its speed: TIER=MIB_PER_S[,LATENCY_US], or TIER=rMIB_PER_S/wMIB_PER_S[,LATENCY_US]."""

    name = "throttle"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Throttle]:
        """Parse the throttle."""
        if isinstance(value, tuple):
            return value
        tier, equals, limits = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} names no tier; write for example nvme={value}.", param, ctx)
        if tier not in TIERS:
            self.fail(f"{value!r}: {tier!r} is not a tier; name {', '.join(TIERS[:-1])} or {TIERS[-1]}.", param, ctx)
        rates, comma, latency = limits.partition(",")
        sides = re.fullmatch("r(.+)/w(.+)", rates)
        try:
            speeds = [float(MIB_S.parse(rate)) for rate in (sides.groups() if sides else (rates,))]
            latency_us = float(MICROSECONDS.parse(latency)) if comma else 0.0
        except ValueError as problem:
            self.fail(f"{value!r}: {problem} The form is TIER=MIB_PER_S[,LATENCY_US], as nvme=470,80.", param, ctx)
        if not all(0 < speed < 1e9 for speed in speeds) or not 0 <= latency_us <= 1e9:
            self.fail(f"{value!r}: MiB/s must be above 0 and below 1e9, microseconds from 0 to 1e9.", param, ctx)
        return tier, Throttle(speeds[0], latency_us, speeds[1] if sides else None)


class Depth(click.ParamType[int]):
    """A number of ops, or the word all (0)."""

    name = "depth"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the depth."""
        if value == "all":
            return 0
        depth: int = Count(1).convert(value, param, ctx)
        return depth


class Left(click.ParamType[Reserve]):
    """Room to leave free: a share of the file system, as 5%, or GiB."""

    name = "reserve"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Reserve:
        """Parse the reserve."""
        if isinstance(value, Reserve):
            return value
        found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)(%?)", str(value))
        if not found or (found[2] and float(found[1]) >= 100):
            self.fail(f"{value!r} is neither a share below 100%, as 5%, nor GiB, as 10.", param, ctx)
        return Reserve(float(found[1]) / 100) if found[2] else Reserve(bytes=int(float(found[1]) * 2**30))
