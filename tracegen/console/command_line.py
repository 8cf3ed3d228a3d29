"""Command line code of all packages: groups of commands, their errors, quantities with units."""

import errno
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


def _list_sizes() -> dict[str, Decimal]:
    """List the bytes of each suffix, as GNU tools count them.

    K and KiB are 1,024 bytes, KB is 1,000. All may be in lower case. Kb is unknown: it means bits.
    """
    sizes = {"B": Decimal(1)}
    for power, letter in enumerate("KMGTP", 1):
        sizes |= dict.fromkeys((letter, f"{letter}iB"), Decimal(1024**power))
        sizes[f"{letter}B"] = Decimal(1000**power)
    return sizes | {suffix.lower(): size for suffix, size in sizes.items()}


_SIZES: Final = _list_sizes()
_RATES: Final = _SIZES | {f"{suffix}/s": size for suffix, size in _SIZES.items()}
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?) ?(\D*)", re.ASCII)


@dataclass(frozen=True)
class Unit:
    """The unit of a quantity on the command line.

    Attributes:
        name: for messages; a number without a suffix is in this unit.
        size: size of the unit, in the base unit of `suffixes`.
        suffixes: the size of each suffix, in their base unit.
        examples: for messages.
    """

    name: str
    size: Decimal
    suffixes: Mapping[str, Decimal]
    examples: str

    def parse(self, text: str) -> Decimal:
        """Parse a number, with or without a suffix, and return it in this unit.

        Raises:
            ValueError: the text is not a number with a known suffix; the message gives examples.
        """
        match = _QUANTITY.fullmatch(text)
        if not match or (match[2] and match[2] not in self.suffixes):
            raise ValueError(
                f"{text[:40]!r} is not a number of {self.name}; write a number, or for example {self.examples}."
            )
        number = Decimal(match[1])
        if match[2]:
            number = number * self.suffixes[match[2]] / self.size
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
    """Parameter type of a number in a unit, or with a suffix.

    Args:
        unit: unit of a number without a suffix.
        kind: converts the parsed number into the parameter's value.
        low: the smallest number allowed, in `unit`.
        high: the largest number allowed, in `unit`.
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
        self._unit = unit
        self._kind = kind
        self._low = Decimal(str(low))  # as written: the float 1e-9 is more than 1e-9
        self._high = Decimal(str(high))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the quantity."""
        try:
            number = self._unit.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not self._low <= number <= self._high:
            limits = f"at least {self._low:g}" if self._high.is_infinite() else f"from {self._low:g} to {self._high:g}"
            self.fail(f"{value} must be {limits} {self._unit.name}; for example {self._unit.examples}.", param, ctx)
        return self._kind(number)


class Refused(click.ClickException):
    """An error as click shows it: one sentence, with flags for settings.

    Args:
        error: the error.
        flags: the flag of each setting, by its Python name.

    Attributes:
        exit_code: the error's.
    """

    def __init__(self, error: ToolError, flags: Mapping[str, str]) -> None:
        super().__init__(error.sentence(flags.get))
        self.exit_code: int = error.exit_code  # type: ignore[misc]  # click declares a class variable

    def format_message(self) -> str:
        """Return the sentence with its control characters escaped."""
        return escape_controls(self.message)


def flags_of(command: click.Command) -> dict[str, str]:
    """Map the settings of a command, or of all commands of a group, to their flags, by Python name.

    A parameter `table__key` is the flag of the setting `table.key`.
    """
    if isinstance(command, click.Group):
        members = map(flags_of, command.commands.values())
        return {name: flag for flags in members for name, flag in flags.items()}
    options = [param for param in command.params if isinstance(param, click.Option)]
    spelled = {str(option.name): getattr(option, "spelling", option.opts[0]) for option in options}
    return {name.replace("__", "."): flag for name, flag in spelled.items()}


class Commands(click.Group):
    """A group of commands that end cleanly.

    An error, also one of the operating system, becomes one sentence. A signal ends the process with
    exit code 128 + its number, after all files have been closed.

    Attributes:
        memory_remedy: what to do if memory runs out.
    """

    memory_remedy = "use a slice of the trace, smaller tiers or fewer workers, or a larger machine"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; refuse empty ones, which unset variables of a shell leave."""
        try:
            refuse_empty(args)
        except ToolError as error:
            raise Refused(error, {}) from None
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with INTERRUPTS.handle():
                return super().invoke(ctx)
        except ToolError as error:
            own = self.commands.get(str(ctx.invoked_subcommand), self)
            raise Refused(error, flags_of(self) | flags_of(own)) from None
        except BrokenPipeError:
            raise  # click handles it: the reader has gone
        except OSError as error:  # of a path or an output that no check has met
            raise Refused(explain_os_error(error), {}) from None
        except MemoryError as error:
            problem = f"memory ran out ({error})" if str(error) else "memory ran out"
            raise Refused(InputError(problem, self.memory_remedy), {}) from None
        except KeyboardInterrupt as interrupt:
            end(interrupt, *self.clean_up_after_signal(ctx))

    def clean_up_after_signal(self, ctx: click.Context) -> Sequence[str]:  # noqa: ARG002
        """Remove what is unfinished; return sentences on what the user can do next."""
        return ()


def explain_os_error(error: OSError) -> InputError:
    """Convert an error of the operating system into one for the user."""
    if error.errno == errno.ENOMEM:
        return InputError("memory ran out", Commands.memory_remedy)
    subject = error.filename or "the output"
    return InputError(error.strerror or str(error), "name another file", subject=subject)


def refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse an empty argument, which an unset variable of a shell leaves.

    Raises:
        InputError: names the flag, or the argument before the empty one.
    """
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if argument and not re.fullmatch(r"--[a-z][a-z-]*=", argument):
            continue
        name = argument[:-1] if argument else before
        subject = f"the argument after {name}" if name else "the first argument"
        if name.startswith("-"):
            subject = name
        raise InputError(f"{subject} is empty", "give it a value; is a shell variable not set?")
