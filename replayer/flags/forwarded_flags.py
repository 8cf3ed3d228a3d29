"""Flags of `replayer run` that other commands pass on to the replays that they start."""

from collections.abc import Sequence
from typing import Any, Final

import click

from replayer.flags.plan_flags import plan_options
from replayer.flags.run_flags import RunFlags, run_options
from tracegen.console.command_line import refuse_empty
from tracegen.errors import InputError

FORWARDED_WORDS: Final = "replayer.flags.forwarded_flags"
"""Key in a context's `meta`: the flags to pass on, as words of a command line."""
_SET_BY_THE_SERIES: Final = frozenset(
    ("trace", "cache_dir", "make_cache_dir", "as_json", "force", "clean", "keep_cache")
)


@click.command("run", add_help_option=False)
@plan_options
@run_options
def _parse_only(**_flags: Any) -> None:
    """Take the flags of `replayer run`; never invoked."""


def _forwardable_options() -> dict[str, click.Option]:
    """Return the flags that may be passed on, by parameter name, in the order of the help."""
    options = [param for param in _parse_only.params if isinstance(param, click.Option)]
    return {str(option.name): option for option in options if option.name not in _SET_BY_THE_SERIES}


def forwardable_flags() -> tuple[str, ...]:
    """Return the names of the flags that may be passed on, as parameters: cpu_mem_gb."""
    return tuple(_forwardable_options())


def setting_of_flag(word: str) -> str | None:
    """Return the parameter name of a flag that may be passed on; None: the word is none."""
    options = _forwardable_options().items()
    return next((name for name, option in options if word in option.opts), None)


def parse_flags(words: Sequence[str]) -> RunFlags:
    """Parse words as `replayer run` would.

    Raises:
        InputError: a flag is unknown, or its value is not valid.
    """
    refuse_empty(words)
    try:
        values = _parse_only.make_context("replayer run", ["trace", *words]).params
    except click.ClickException as error:
        raise InputError(error.format_message()) from None
    flags = {name: value for name, value in values.items() if name not in ("trace", "as_json")}
    return RunFlags.from_values(flags)


def flag_words(name: str, value: object) -> list[str]:
    """Return the words of a command line that set a flag to a value of a TOML file or a text.

    Args:
        name: one of `forwardable_flags`.
        value: of a switch a boolean or its name; of a flag that may be repeated, also a list.

    Raises:
        InputError: the value of a switch is not a boolean.
    """
    option = _forwardable_options()[name]
    if not option.is_flag:
        return _words(option, value)
    text = str(value).lower() if isinstance(value, bool) else value
    if text not in ("true", "false"):
        raise InputError(f"{name} = {value!r} must be true or false")
    return _words(option, text == "true")


def _words(option: click.Option, value: object) -> list[str]:
    """Return the words that set an option; a false switch has none."""
    flag = option.opts[0]
    if option.is_flag:
        return [flag] if value is True else []
    values = value if option.multiple and isinstance(value, list | tuple) else [value]
    return [word for item in values for word in (flag, str(item))]


class ForwardingCommand(click.Command):
    """A command that also takes the flags of `replayer run`, and passes them on as typed.

    Of two parameters with one name, its own counts. The command's function gets the flags to pass
    on as the argument `forwarded`, a tuple of words.

    Args:
        without: names of parameters that it does not take.
    """

    def __init__(self, *args: Any, without: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        excluded = {*without, *(param.name for param in self.params)}
        options = _forwardable_options()
        self._forwarded = {name: option for name, option in options.items() if name not in excluded}
        self.params += self._forwarded.values()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words of the flags to pass on, and check their values."""
        values, _, order = self.make_parser(ctx).parse_args(list(args))
        names = dict.fromkeys(str(param.name) for param in order if param.name in self._forwarded)
        ctx.meta[FORWARDED_WORDS] = tuple(
            word for name in names for word in _words(self._forwarded[name], values[name])
        )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command's function with its own parameters and `forwarded`."""
        for name in self._forwarded:
            ctx.params.pop(name, None)
        ctx.params["forwarded"] = ctx.meta[FORWARDED_WORDS]
        return super().invoke(ctx)
