"""Declarations of options as fields of tables, and the types of their values, apart from quantities."""

import re
from collections.abc import Callable
from dataclasses import field, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeVar, get_args

import click

from replayer.machine.reserve import Reserve
from replayer.record.options import split_tier
from tracegen.console.command_line import BYTES, GIB, MIB_S, MICROSECONDS, SECONDS, Quantity, Unit
from tracegen.console.commands import Word

if TYPE_CHECKING:  # replayer.tiers loads every backend
    from replayer.tiers.throttled import Throttle

# Value of options that may be unlimited.
UNLIMITED: Final = Decimal("inf")
EXACT_GIB: Final = Quantity(GIB, Decimal)
# A number without a unit.
PLAIN: Final = Unit("this kind", Decimal(1), {}, "0.8 or 12")
# Beyond it, times leave the range of a profile's.
_SPEED: Final = Quantity(Unit("times", Decimal(1), {}, "2 or 1.5"), low=1e-6, high=10**6)
SHARE: Final = Unit("shares", Decimal(1), {"%": Decimal("0.01")}, "0.9 or 90%")

_IO_ALIGNMENT: Final = 4096  # bytes: O_DIRECT wants multiples of the device's blocks
_MAX_IO_SIZE: Final = 1 << 30
_Value = TypeVar("_Value")


class Declared(NamedTuple):
    """An option, apart from its type and its default.

    Attributes:
        help: what it does.
        kind: parses its text, in its unit and range; None: a switch.
        metavar: how the help calls a value.
        shown: what the help says of the default; empty: the default itself, if it says anything.
        rare: only `--set` and TOML files take it.
        alias: another spelling of its flag.
    """

    help: str
    kind: click.ParamType[Any] | None = None
    metavar: str | None = None
    shown: str = ""
    rare: bool = False
    alias: str = ""


class OptionTable:
    """Options below one heading of `--help`: a dataclass.

    A field whose default is None follows from the trace, the arrangement or other options.
    """

    heading: ClassVar[str]
    example: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]


def option(default: object, *attributes: Any, **more: Any) -> Any:
    """Declare an option by its default and the attributes of `Declared`."""
    return field(default=default, metadata={"option": Declared(*attributes, **more)})


def list_options(*groups: type[OptionTable]) -> dict[str, tuple[type[OptionTable], Any, Declared]]:
    """Return the group, the default and the declaration of each option, by name."""
    return {one.name: (group, one.default, one.metadata["option"]) for group in groups for one in fields(group)}


def one_of(literal: Any) -> Word:
    """Return the type of an option that has one of a literal's words."""
    return Word(get_args(literal))


class Parsed(click.ParamType[_Value], Generic[_Value]):
    """A value that a function parses; the text of its ValueError is the refusal."""

    def __init__(self, name: str, parse: Callable[[str], _Value]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a text or a number; any other value is a default."""
        if not isinstance(value, str | int | float):
            return value
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def whole_number(low: int, high: int = 2**31 - 1) -> Parsed[int]:
    """Return the type of a whole number in a range."""

    def parse(text: str) -> int:
        # int() alone would take underscores and digits of other scripts.
        if not re.fullmatch(r"[+-]?\d{1,40}", text, re.ASCII):
            raise ValueError(f"{text!r} is not a whole number.")
        if not low <= int(text) <= high:
            raise ValueError(f"{text} must be from {low:,} to {high:,}.")
        return int(text)

    return Parsed("integer", parse)


def unlimited_or(limited: click.ParamType[Any]) -> Parsed[Any]:
    """Return the type of a value of another type, or the word unlimited: UNLIMITED."""

    def parse(text: str) -> Any:
        return UNLIMITED if text == "unlimited" else limited.convert(text, None, None)

    return Parsed("number", parse)


def list_of(item: click.ParamType[Any]) -> Parsed[tuple[Any, ...]]:
    """Return the type of values of another type, separated by commas."""

    def parse(text: str) -> tuple[Any, ...]:
        items = (item.convert(part.strip(), None, None) for part in text.split(","))
        return tuple(dict.fromkeys(items))

    return Parsed(f"{item.name} list", parse)


def parse_io_size(text: str) -> int:
    """Parse the bytes of an I/O request: a multiple of 4 KiB, at most 1 GiB."""
    size = BYTES.parse(text)
    # Refused here, as O_DIRECT would fail only at the first request.
    if size % _IO_ALIGNMENT or not 0 < size <= _MAX_IO_SIZE:
        raise ValueError(f"{text!r} is {size:,.0f} bytes, not a multiple of 4K up to 1G; write 128K or 1M.")
    return int(size)


def parse_warmup(text: str) -> tuple[int, float, bool]:
    """Parse ops or a time, each with its unit, or `steady`: (ops, seconds, is_steady)."""
    if text == "steady":
        return 0, 0, True
    if re.fullmatch(r"\d{1,12} ?ops", text, re.ASCII):
        return int(text.removesuffix("ops")), 0, False
    try:
        seconds = SECONDS.parse(text)
    except ValueError:
        seconds = -UNLIMITED  # refused below, with one remedy for times and ops
    # A bare number may mean either, so neither is guessed.
    if not 0 <= seconds < 10**9 or (text[-1].isdigit() and seconds):
        problem = f"{text!r} is no time or ops with their unit"
        raise ValueError(f"{problem}; write 30s, 5000ops or steady.")
    return 0, float(seconds), False


def parse_throttle(text: str) -> "tuple[str, Throttle]":
    """Parse TIER=MIB_PER_S[,LATENCY], or TIER=rMIB_PER_S/wMIB_PER_S[,LATENCY]."""
    tier, limits = split_tier(text, f"nvme={text}")
    try:
        return tier, _parse_limits(limits)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None


def _parse_limits(text: str) -> "Throttle":
    from replayer.tiers.throttled import Throttle  # noqa: PLC0415

    rates, comma, latency = text.partition(",")
    by_direction = re.fullmatch("r(.+)/w(.+)", rates)
    # fio writes the limits of reads and writes after one another; here a latency follows.
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


def parse_depth(text: str) -> int:
    """Parse a number of ops, or the word all, which becomes 0."""
    depth: int = 0 if text == "all" else whole_number(1).convert(text, None, None)
    return depth


def parse_reserve(text: str) -> Reserve:
    """Parse space to leave free: a share of the file system with its %, or GiB."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)(%?)", text)
    if not match or (match[2] and float(match[1]) >= 100):
        problem = f"{text!r} is neither a share below 100% nor a number of GiB"
        raise ValueError(f"{problem}; write 5% or 10.")
    number = float(match[1])
    return Reserve(number / 100) if match[2] else Reserve(bytes=int(number * 2**30))


def parse_speeds(text: str) -> dict[str, float]:
    """Parse how many times as fast tiers are: TIER=FACTOR[,TIER=FACTOR]."""
    speeds = dict[str, float]()
    for part in text.split(","):
        tier, factor = split_tier(part, "nvme=2 for twice as fast, or nvme=2,cpu=1.5")
        speeds[tier] = _SPEED.convert(factor, None, None)
    return speeds
