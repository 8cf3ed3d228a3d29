"""Flags of `replayer run` that other commands pass on to the replays that they make."""

from collections.abc import Sequence
from typing import Any, Final, cast

import click

from replayer.flags.flags import plan_options, run_options
from tracegen.console.command_line import refuse_empty

TYPED: Final = "replayer.flags.forwarded_flags.typed"
_NEVER: Final = (  # the commands' own business
    *("trace", "cache_dir", "make_cache_dir", "as_json", "force", "clean", "keep_cache"),
)


def _run_command() -> click.Command:
    command: Any = click.Command("run", add_help_option=False)  # to which decorators add as they do to functions
    plan_options(run_options(command))
    return cast("click.Command", command)


def known() -> dict[str, click.Option]:
    """The flags that may be passed on, by name."""
    flags = [one for one in _run_command().params[::-1] if isinstance(one, click.Option)]
    return {str(one.name): one for one in flags if one.name not in _NEVER}


def check(flags: Sequence[str]) -> None:
    """Refuse flags as `replayer run` would.

    Raises:
        click.ClickException: says why.
    """
    refuse_empty(flags)
    _run_command().make_context("replayer run", ["trace", *flags])


def typed(flag: click.Option, value: Any) -> list[str]:
    """A flag as one types it; a false one is left out."""
    if flag.is_flag:
        return [flag.opts[0]] if value is True else []
    values = value if flag.multiple and isinstance(value, list | tuple) else [value]
    return [word for one in values for word in (flag.opts[0], str(one))]


class Passing(click.Command):
    """A command that takes the flags of `replayer run`, too, and passes them on as they were typed.

    Its own parameters stand before theirs of the same name.

    Args:
        without: flags that it does not take.
    """

    def __init__(self, *args: Any, without: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = {*without, *(one.name for one in self.params)}
        self._passed = {name: flag for name, flag in known().items() if name not in own}
        self.params += self._passed.values()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what was typed of what is passed on, and check it."""
        raw, _, order = self.make_parser(ctx).parse_args(list(args))
        names = dict.fromkeys(str(one.name) for one in order if one.name in self._passed)
        ctx.meta[TYPED] = tuple(word for name in names for word in typed(self._passed[name], raw[name]))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run with its own parameters, and `flags` to be passed on."""
        for name in self._passed:
            ctx.params.pop(name, None)
        ctx.params["flags"] = ctx.meta[TYPED]
        return super().invoke(ctx)
