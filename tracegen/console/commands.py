"""Commands of all packages: options in groups with headings and examples."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
# A shipped thing by its name, or a file; the command itself refuses what is neither
NAME_OR_FILE: Final = click.Path(readable=False)


class OptionGroup(NamedTuple):
    """A heading of `--help`, with an example of the options below it."""

    heading: str
    example: str = ""


_OTHERS: Final = OptionGroup("Options")


class Command(click.Command):
    """A command whose `--help` shows its options below the headings of their groups."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; name the options most like an unknown one."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            owners = {flag: param for param in self.params for flag in param.opts}
            found = get_close_matches(error.option_name, owners)
            near = [getattr(owners[flag], "spelling", flag) for flag in found]
            raise click.NoSuchOption(error.option_name, possibilities=near, ctx=ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options group by group, each with its example."""
        sections: dict[OptionGroup, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(getattr(param, "group", _OTHERS), []).append(record)
        for group, records in sections.items():
            with formatter.section(group.heading):
                formatter.write_dl(records)
                if group.example:
                    formatter.write_text(f"Example: {group.example}")


def command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a command of a function."""
    return click.command(name, cls=Command, **attributes)


def option_group(heading: str, example: str, *options: Decorator) -> Decorator:
    """Add options to a command, below a heading.

    Args:
        heading: of the group in `--help`.
        example: some of the options with values.
        options: made by `click.option`, in the order of the help.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        function = add_options(options, function)
        declared: list[Any] = function.__click_params__  # type: ignore[attr-defined]  # click's
        for param in declared[-len(options) :]:
            param.group = OptionGroup(heading, example)
        return function

    return add


def add_options(options: Sequence[Decorator], function: Callable[..., Any]) -> Callable[..., Any]:
    """Add options to a command, in their order."""
    for option in reversed(options):
        function = option(function)
    return function


class Word(click.Choice[str]):
    """One of a few words; an unknown one is refused with the word most like it.

    Args:
        words: the words, or a function that imports them; then `metavar` stands for them in `--help`.
    """

    def __init__(self, words: Sequence[str] | Callable[[], Sequence[str]]) -> None:
        self._words = words
        self.case_sensitive = True

    @property
    def choices(self) -> Sequence[str]:  # type: ignore[override]  # click's is an attribute
        """The words."""
        return self._words() if callable(self._words) else self._words

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the refusal."""
        near = get_close_matches(str(value), self.choices, n=1)
        refusal = super().get_invalid_choice_message(value, ctx)
        return f"{refusal} Did you mean {near[0]}?" if near else refusal
