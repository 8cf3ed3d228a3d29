"""The options of commands that make a series."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from replayer.options.command_line import add_progress_option, group_options
from replayer.options.run_groups import DeviceOptions
from replayer.options.types import list_options
from tracegen.console.answers import json_option
from tracegen.console.commands import Decorator, option_group


def output_option(text: str, metavar: str | None = None) -> Decorator:
    """Return a required option --output with this help."""
    return click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar=metavar, help=text)


def device_option(name: str) -> Decorator:
    """Return one of the options that say how tiers are reached."""
    return group_options(DeviceOptions, without=list_options(DeviceOptions).keys() - {name})


def series_options(*own: Callable[..., Any], content: str) -> Decorator:
    """Return a decorator that adds --cache-dir, --output, --progress and --json to a command.

    Args:
        own: further options of the command.
        content: what --json prints.
    """
    output = output_option("The directory of the series: made, or continued if the same command began it.")
    progress = option_group(
        "Series and output", "-o results --progress lines", output, *own, add_progress_option, json_option(content)
    )
    return lambda command: device_option("cache_dir")(progress(command))
