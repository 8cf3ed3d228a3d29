"""Types of option values, apart from quantities: whole numbers, warm-up, throttles, and more."""

import re
from decimal import Decimal
from typing import Any, Final

import click

from replayer.machine.reserve import Reserve
from replayer.record.columns import TIERS
from replayer.tiers.throttled import Throttle
from tracegen.console.command_line import BYTES, GIB, MIB_S, MICROSECONDS, SECONDS, Quantity, Unit

UNLIMITED: Final = Decimal("inf")
"""Value of options that may be unlimited."""
EXACT_GIB: Final = Quantity(GIB, Decimal)
PLAIN: Final = Unit("this kind", Decimal(1), {}, "0.8 or 12")
"""A number without a unit."""
SHARE: Final = Unit("shares", Decimal(1), {"%": Decimal("0.01")}, "0.9 or 90%")

_IO_ALIGNMENT: Final = 4096
_MAX_IO_SIZE: Final = 1 << 30


class UnlimitedOr(click.ParamType[Any]):
    """A value of another type, or the word unlimited, which becomes UNLIMITED."""

    name = "number"

    def __init__(self, limited: click.ParamType[Any]) -> None:
        self._limited = limited

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the value."""
        if value in ("unlimited", UNLIMITED):
            return UNLIMITED
        return self._limited.convert(value, param, ctx)


class ListOf(click.ParamType[tuple[Any, ...]]):
    """Values of another type, separated by commas, none of them twice."""

    def __init__(self, item: click.ParamType[Any]) -> None:
        self._item = item
        self.name = f"{item.name} list"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[Any, ...]:
        """Parse the values."""
        if isinstance(value, tuple):
            return value
        texts = [text.strip() for text in str(value).split(",")]
        items = tuple(self._item.convert(text, param, ctx) for text in texts)
        for text, item in zip(texts, items, strict=True):
            if items.count(item) > 1:
                self.fail(f"{value!r} names {text} twice.", param, ctx)
        return items


class WholeNumber(click.ParamType[int]):
    """A whole number in a range."""

    name = "integer"

    def __init__(self, low: int, high: int = 2**31 - 1) -> None:
        self._low = low
        self._high = high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        if not self._low <= number <= self._high:
            self.fail(f"{number} must be from {self._low:,} to {self._high:,}.", param, ctx)
        return number


class IoSize(click.ParamType[int]):
    """The bytes of an I/O request: a multiple of 4 KiB, at most 1 GiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the size."""
        try:
            size = BYTES.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if size % _IO_ALIGNMENT or not 0 < size <= _MAX_IO_SIZE:
            self.fail(
                f"{value!r} is {size:,.0f} bytes, not a multiple of 4K up to 1G; write 128K or 1M.",
                param,
                ctx,
            )
        return int(size)


class WarmUp(click.ParamType[tuple[int, float, bool]]):
    """Ops or a time, each with its unit, or `steady`: (ops, seconds, is_steady)."""

    name = "warmup"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, float, bool]:
        """Parse the warm-up."""
        if isinstance(value, tuple):
            return value
        text = str(value)
        if text == "steady":
            return 0, 0, True
        if re.fullmatch(r"\d{1,12} ?ops", text, re.ASCII):
            return int(text.removesuffix("ops")), 0, False
        if re.fullmatch(r"\d{1,12}", text, re.ASCII) and int(text):
            self.fail(f"{text} may be ops or seconds; write {text}ops or {text}s.", param, ctx)
        try:
            seconds = SECONDS.parse(text)
        except ValueError:
            seconds = -UNLIMITED
        if not 0 <= seconds < 10**9 or (text[-1].isdigit() and seconds):
            self.fail(
                f"{value!r} is no time or ops with their unit; write 30s, 5000ops or steady.",
                param,
                ctx,
            )
        return 0, float(seconds), False


class TierThrottle(click.ParamType[tuple[str, Throttle]]):
    """A tier and its limits: TIER=MIB_PER_S[,LATENCY], or TIER=rMIB_PER_S/wMIB_PER_S[,…]."""

    name = "throttle"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Throttle]:
        """Parse the tier and its limits."""
        if isinstance(value, tuple):
            return value
        tier, equals, limits = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} names no tier; write for example nvme={value}.", param, ctx)
        if tier not in TIERS:
            names = f"{', '.join(TIERS[:-1])} or {TIERS[-1]}"
            self.fail(f"{value!r}: {tier!r} is not a tier; name {names}.", param, ctx)
        try:
            throttle = _parse_limits(limits)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        return tier, throttle


def _parse_limits(text: str) -> Throttle:
    """Parse MIB_PER_S[,LATENCY] or rMIB_PER_S/wMIB_PER_S[,LATENCY].

    Raises:
        ValueError: with a sentence that says what is wrong.
    """
    rates, comma, latency = text.partition(",")
    by_direction = re.fullmatch("r(.+)/w(.+)", rates)
    if latency[-1:].isdigit():
        raise ValueError(
            f"{latency!r} may be a latency or the limit of writes;"
            f" write {rates},{latency}us for microseconds,"
            f" r{rates}/w{latency} for MiB/s of reads and of writes."
        )
    try:
        each = by_direction.groups() if by_direction else (rates,)
        speeds = [float(MIB_S.parse(rate)) for rate in each]
        latency_us = float(MICROSECONDS.parse(latency)) if comma else 0.0
    except ValueError as error:
        remedy = "Write TIER=MIB_PER_S[,LATENCY], for example nvme=470,80us."
        raise ValueError(f"{error} {remedy}") from None
    if not all(0.1 <= speed < 1e9 for speed in speeds) or not 0 <= latency_us <= 1e9:
        raise ValueError("MiB/s must be at least 0.1 and below 1e9, the latency from 0 to 1e9us.")
    return Throttle(speeds[0], latency_us, speeds[1] if by_direction else None)


class RequestDepth(click.ParamType[int]):
    """A number of ops, or the word all, which becomes 0."""

    name = "depth"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the depth."""
        if value == "all":
            return 0
        return int(WholeNumber(1).convert(value, param, ctx))


class ReservedSpace(click.ParamType[Reserve]):
    """Space to leave free: a share of the file system with its %, or GiB."""

    name = "reserve"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Reserve:
        """Parse the reserve."""
        if isinstance(value, Reserve):
            return value
        match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)(%?)", str(value))
        if not match or (match[2] and float(match[1]) >= 100):
            self.fail(
                f"{value!r} is neither a share below 100% nor a number of GiB; write 5% or 10.",
                param,
                ctx,
            )
        if match[2]:
            return Reserve(float(match[1]) / 100)
        return Reserve(bytes=int(float(match[1]) * 2**30))


_SPEED_HINT: Final = "write nvme=2 for twice as fast, or several: nvme=2,cpu=1.5"


class TierSpeeds(click.ParamType[dict[str, float]]):
    """Tiers and how many times as fast they are: TIER=FACTOR[,TIER=FACTOR]."""

    name = "speeds"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> dict[str, float]:
        """Parse the tiers and factors."""
        if isinstance(value, dict):
            return value
        speeds = dict[str, float]()
        for text in str(value).split(","):
            tier, _, factor = text.strip().partition("=")
            try:
                number = float(factor)
            except ValueError:
                self.fail(f"{value!r}: {text!r} is no speed; {_SPEED_HINT}.", param, ctx)
            if tier not in TIERS:
                self.fail(f"{value!r}: {tier!r} is not a tier; {_SPEED_HINT}.", param, ctx)
            if tier in speeds:
                self.fail(f"{value!r} names {tier} twice.", param, ctx)
            speeds[tier] = number
        return speeds
