"""Options as flags, in `--set KEY=VALUE` and in TOML files, and as words for other processes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import click
from click.core import ParameterSource

from replayer.options.groups import GROUPS, PLAN_GROUPS, Values
from replayer.options.types import Declared, OptionTable, list_of, list_options, one_of
from replayer.record.conditions import Tier
from tracegen.console.command_line import refuse_empty
from tracegen.console.commands import Command, Decorator, OptionGroup, add_options
from tracegen.errors import InputError
from tracegen.typed_files import load_toml, suggest

# Key in a context's `meta`: texts of the options to pass on, by name.
_FORWARDED: Final = "replayer.options.forwarded"
# A series names these for each replay, or its replays would disturb each other's files.
_SET_BY_THE_SERIES: Final = frozenset(("cache_dir", "force", "clean", "keep_cache"))

ProgressKind = Literal["bar", "lines", "json", "off"]

# The key of the kind in the context of a command.
PROGRESS_KEY: Final = "replayer.progress"
# The flag of a process whose progress another one shows.
# A child must not draw bars over those of its parent.
PROGRESS_TO_PROGRAMS: Final = ("--progress", "json")


class Setting(click.Option):
    """An option of a group; a rare one is no flag: `--set` and TOML files set it.

    Args:
        rare: whether it is.
        group: heading and example of its group.
    """

    def __init__(self, *args: Any, rare: bool = False, group: OptionGroup, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.hidden = rare
        self.rare = rare
        self.group = group
        self.spelling = f"--set {self.name}" if rare else self.opts[0]

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Add the flag, if there is one."""
        if not self.rare:
            super().add_to_parser(parser, ctx)

    def get_error_hint(self, ctx: click.Context | None) -> str:  # noqa: ARG002 (click's signature)
        """Return what an error calls the option."""
        return f"'{self.spelling}'"

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Take the value; keep its text if it is to be passed on."""
        # Kept as typed: another process parses it again.
        value, source = super().consume_value(ctx, opts)
        is_given = source in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)
        if is_given and not (self.expose_value or self.is_eager):
            ctx.meta.setdefault(_FORWARDED, {})[self.name] = value
        return value, source


def _describe_default(default: object, declared: Declared) -> str:
    """Describe the default of an option; empty: there is nothing to say."""
    if declared.shown or default in (None, False, ()):
        return declared.shown
    return f"{default:g}" if isinstance(default, float) else str(default)


def group_options(
    *groups: type[OptionTable],
    without: Collection[str] = (),
    defaults: Mapping[str, str] | None = None,
    lists: Collection[str] = (),
    rare: Collection[str] = (),
    flags: Collection[str] = (),
    forward: bool = False,
) -> Decorator:
    """Return a decorator that adds options to a command; one that is not passed is None.

    Args:
        groups: in the order of the help.
        without: names of options that the command does not take.
        defaults: what the help says of defaults that are the command's own, by name.
        lists: names of options that take values separated by commas.
        rare: names of further options that are no flags of this command.
        flags: names of rare options that are flags of this command.
        forward: whether the command passes them on to replays (`forwarded_words`).
    """
    options = []  # their values are None unless passed, so that the trace's recipe comes before defaults
    for name, (group, default, declared) in list_options(*groups).items():
        shown = (defaults or {}).get(name) or _describe_default(default, declared)
        kind, metavar = _list_of(declared) if name in lists else (declared.kind, declared.metavar)
        option = click.option(
            *filter(None, (f"--{name.replace('_', '-')}", declared.alias)),
            cls=Setting,
            rare=name in rare or (declared.rare and name not in flags),
            group=OptionGroup(group.heading, group.example),
            type=kind,
            metavar=metavar,
            is_flag=kind is None,
            multiple=default == (),
            default=None,
            expose_value=not forward,
            help=f"{declared.help}  [default: {shown}]" if shown else declared.help,
        )
        if name not in without:
            options.append(option)
    return partial(add_options, options)


def _list_of(declared: Declared) -> tuple[click.ParamType[Any], str]:
    """Return the type and the metavar of several values; + is a comma inside a value."""
    assert declared.kind is not None, "switches make no grid"
    return list_of(declared.kind), f"{(declared.metavar or 'NAME').replace(',…', '+…')},…"


def plan_options(
    defaults: Mapping[str, str] | None = None, without: Collection[str] = (), lists: Collection[str] = ()
) -> Decorator:
    """Return a decorator that adds the options of a plan to a command; see `group_options`."""
    own = ("placement", *without)
    return group_options(*PLAN_GROUPS, without=own, defaults=defaults, lists=lists)


def _settable(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command that `--set` and its TOML file take."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {str(option.name): option for option in options if not option.is_eager}


def _take_set(ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> None:
    if "help" in texts:
        _explain_rare(ctx)
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and value):
            raise InputError("has no value", "write KEY=VALUE", subject=text, setting="set")
        # Keys may be spelled like flags.
        values[key.replace("-", "_")] = value
    known = _check_keys(ctx.command, values, "set")
    ctx.default_map = {**(ctx.default_map or {}), **known}


def _explain_rare(ctx: click.Context) -> None:
    """Print the options that are no flags of the command, and exit."""
    rare = [param for param in ctx.command.params if isinstance(param, Setting) and param.rare]
    formatter = ctx.make_formatter()
    formatter.write_dl([(f"{param.name}={param.make_metavar(ctx)}", param.help or "") for param in rare])
    click.echo(formatter.getvalue().rstrip())
    ctx.exit()


def _take_config(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    content = load_toml(path, "name a TOML file", "config")
    known = _check_keys(ctx.command, content, f"config: {path}")
    ctx.default_map = {**known, **(ctx.default_map or {})}  # --set comes before the file


def _check_keys(command: click.Command, values: Mapping[str, Any], setting: str) -> Values:
    """Return values as click takes them; refuse keys that are no option of the command."""
    options = _settable(command)
    for key in values:
        if key not in options:
            raise InputError(f"{key} is not an option of {command.name}", suggest(key, options), setting=setting)
    return {key: _write_value(options[key], value) for key, value in values.items()}


def _write_value(option: click.Option, value: Any) -> Any:
    """Write a value of a TOML file as the command line has it; a list is values between commas."""
    if option.multiple:
        return value if isinstance(value, list) else [value]
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


_SETTINGS: Final = OptionGroup("Settings", "--config run.toml --set headroom=90%")


def config_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --config and --set to a command."""
    config = click.option(
        "--config",
        cls=Setting,
        group=_SETTINGS,
        type=click.Path(path_type=Path),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_take_config,
        help="A TOML file with options by name, `cpu_mem_gb = 4`; flags and --set come first.",
    )
    one = click.option(
        "--set",
        cls=Setting,
        group=_SETTINGS,
        metavar="KEY=VALUE",
        multiple=True,
        is_eager=True,
        expose_value=False,
        callback=_take_set,
        help="Any option by name; `--set help` explains those that are no flags.",
    )
    return config(one(function))


@click.command("run", cls=Command, add_help_option=False)
@group_options(*GROUPS.values())
@config_options
def _parse_only(**_options: Any) -> None:
    """Take the options of a replay; never invoked."""


def forwardable_options() -> dict[str, click.Option]:
    """Return the options that a series may pass on to its replays, by name."""
    options = _settable(_parse_only).items()
    return {name: option for name, option in options if name not in _SET_BY_THE_SERIES}


def forward_options(without: Collection[str], rare: Collection[str]) -> Decorator:
    """Return a decorator that adds options that a command passes on to its replays as typed."""
    others = (*_SET_BY_THE_SERIES, *without)
    return group_options(*GROUPS.values(), without=others, rare=rare, forward=True)


def forwarded_words() -> tuple[str, ...]:
    """Return the options that the running command got to pass on, as words of a command line."""
    texts: dict[str, object] = click.get_current_context().meta.get(_FORWARDED, {})
    return tuple(word for name, text in texts.items() for word in option_words(name, text))


def parse_words(words: Sequence[str]) -> Values:
    """Parse words as `replayer run` would; return the options that are passed, by name.

    Raises:
        InputError: an option is unknown, or its value is not valid.
    """
    # click would take an empty word for a value.
    refuse_empty(words)
    try:
        values = _parse_only.make_context("replayer run", list(words)).params
    except click.ClickException as error:
        raise InputError(error.format_message()) from None
    return {name: value for name, value in values.items() if value not in (None, ())}


def option_words(name: str, value: object) -> list[str]:
    """Return the words of a command line that set an option to a value of a TOML file or a text.

    Args:
        name: of an option of a replay.
        value: of a switch a boolean or its name; of an option that may be repeated, also a list.

    Raises:
        InputError: the value of a switch is not a boolean.
    """
    option = _settable(_parse_only)[name]
    assert isinstance(option, Setting)
    text = str(value).lower() if isinstance(value, bool) else value
    if option.is_flag and text not in ("true", "false"):
        raise InputError(f"{name} = {value!r} must be true or false")
    # Only `--set` takes them, switches too.
    if option.rare:
        return ["--set", f"{name}={text}"]
    if option.is_flag:
        return option.opts[:1] if text == "true" else []
    values = value if option.multiple and isinstance(value, list | tuple) else [value]
    return [word for item in values for word in (option.opts[0], str(item))]


def profile_words(name: str, speeds: Mapping[Tier, float]) -> list[str]:
    """Return the words of a command line that name a profile and the speeds of tiers."""
    texts = ",".join(f"{tier}={speed:g}" for tier, speed in speeds.items())
    return ["--profile", name, *(["--speed", texts] if texts else [])]


def _keep(context: click.Context, _option: click.Parameter, kind: ProgressKind) -> None:
    context.meta[PROGRESS_KEY] = kind


# Adds --progress to a command.
add_progress_option: Final = click.option(
    "--progress",
    type=one_of(ProgressKind),
    default="bar",
    show_default=True,
    callback=_keep,
    expose_value=False,  # only the choice of a screen asks for it
    help="How progress is shown on stderr: a bar that is redrawn (on a pipe: lines), a line every"
    " 30 s, a line of JSON twice a second, or nothing.",
)
