"""What the command lines of all packages share: how they end, quantities with units, words of messages."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import click

from tracegen.console.interrupts import INTERRUPTS, end
from tracegen.errors import InputError, ToolError, escape_controls

_TIMES: Final = {
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "min": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}


def _spelled() -> dict[str, Decimal]:
    """Bytes by suffix, as GNU tools count them: K and KiB are 1,024, KB is 1,000; kb, too, but Kb means bits."""
    found = {"B": Decimal(1)}
    for power, letter in enumerate("KMGTP", 1):
        found |= dict.fromkeys((letter, f"{letter}iB"), Decimal(1024**power)) | {f"{letter}B": Decimal(1000**power)}
    return found | {suffix.lower(): size for suffix, size in found.items()}


_SIZES: Final = _spelled()
_RATES: Final = _SIZES | {f"{suffix}/s": size for suffix, size in _SIZES.items()}


@dataclass(frozen=True)
class Unit:
    """What a number without a suffix counts, and which suffixes it may have instead.

    Attributes:
        name: for messages.
        one: the unit, in what `suffixes` are counted in.
        suffixes: how much each stands for.
        examples: for messages.
    """

    name: str
    one: Decimal
    suffixes: Mapping[str, Decimal]
    examples: str

    def parse(self, text: str) -> Decimal:
        """A number with or without a suffix, in this unit.

        Raises:
            ValueError: it is neither; a sentence that says what is expected.
        """
        found = re.fullmatch(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?) ?(\D*)", text, re.ASCII)
        if not found or (found[2] and found[2] not in self.suffixes):
            raise ValueError(
                f"{text[:40]!r} is not a number of {self.name}; write a number, or for example {self.examples}."
            )
        number = Decimal(found[1])
        if found[2]:
            number = number * self.suffixes[found[2]] / self.one
        if number.adjusted() > 15:
            raise ValueError(f"{text[:40]!r} is not below 1e16 {self.name}.")
        return number


SECONDS: Final = Unit("seconds", Decimal(1), _TIMES, "90s, 5m or 1h")
MILLISECONDS: Final = Unit("milliseconds", Decimal("1e-3"), _TIMES, "500us, 200ms or 1.5s")
MICROSECONDS: Final = Unit("microseconds", Decimal("1e-6"), _TIMES, "100us or 2ms")
BYTES: Final = Unit("bytes", Decimal(1), _SIZES, "128K or 1M")
GIB: Final = Unit("GiB", Decimal(2**30), _SIZES, "4G, 512M or 1T")
TERABYTES: Final = Unit("TB (10^12 bytes)", Decimal(10**12), _SIZES, "600TB or 1.2PB")
MIB_S: Final = Unit("MiB/s", Decimal(2**20), _RATES, "500M, 2G or 7GB/s")
GIB_S: Final = Unit("GiB/s", Decimal(2**30), _RATES, "6.5, 800M or 7GB/s")


class Quantity(click.ParamType[Any]):
    """A number in a unit, or with a suffix.

    Args:
        unit: of a number without a suffix.
        kind: what it becomes.
        low: the least.
        high: the most.
    """

    name = "number"

    def __init__(
        self,
        unit: Unit,
        kind: Callable[[Decimal], Any] = float,
        *,
        low: float = -float("inf"),
        high: float = float("inf"),
    ) -> None:
        self._unit, self._kind, self._low, self._high = unit, kind, low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the quantity."""
        try:
            number = self._unit.parse(str(value))
        except ValueError as problem:
            self.fail(str(problem), param, ctx)
        if not self._low <= number <= self._high:
            self.fail(f"{value} must be from {self._low:g} to {self._high:g} {self._unit.name}.", param, ctx)
        return self._kind(number)


class Refused(click.ClickException):
    """An error as click shows it: one sentence, with flags for settings, and the error's exit code."""

    def __init__(self, error: ToolError, flags: Mapping[str, str]) -> None:
        super().__init__(error.sentence(flags.get))
        self.exit_code: int = error.exit_code  # type: ignore[misc]  # click declares a class variable

    def format_message(self) -> str:
        """Return the sentence as a terminal may show it."""
        return escape_controls(self.message)


def flags_of(group: click.Group) -> dict[str, str]:
    """Map the settings of a group's commands, by their Python names, to their flags."""
    flags: dict[str, str] = {}
    for command in group.commands.values():
        if isinstance(command, click.Group):
            flags |= flags_of(command)
        else:
            options = [param for param in command.params if isinstance(param, click.Option)]
            flags |= {str(option.name): option.opts[0] for option in options}
    return flags


class Commands(click.Group):
    """A command group: errors become one sentence, signals end it with 128 + their number after closing files."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an empty argument, which an unset variable of a shell leaves."""
        try:
            refuse_empty(args)
        except ToolError as error:
            raise Refused(error, {}) from None
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with INTERRUPTS.handled():
                return super().invoke(ctx)
        except ToolError as error:
            raise Refused(error, flags_of(self)) from None
        except KeyboardInterrupt as stopped:
            end(stopped, *self.ended(ctx))

    def ended(self, ctx: click.Context) -> Sequence[str]:  # noqa: ARG002 (for those that override it)
        """Do what is left to do after a signal; sentences on what the user can do next."""
        return ()


def refuse_empty(words: Sequence[str]) -> None:
    """Refuse an empty word, which an unset variable of a shell leaves.

    Raises:
        InputError: it names the flag, or the word before it.
    """
    for before, word in zip(["", *words], words, strict=False):
        if not word or re.fullmatch(r"--[a-z][a-z-]*=", word):
            name = word[:-1] if word else before
            what = name if name.startswith("-") else f"the argument after {name}" if name else "the first argument"
            raise InputError(f"{what} is empty; give it a value. Is a variable of the shell not set?")
