"""The options of commands that make a series."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from replayer.flags.plan_flags import add_options
from replayer.flags.progress_flags import add_progress_option
from replayer.flags.run_flags import CACHE_OPTIONS

_OUTPUT: Final = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The directory of the series: made, or continued if the same command began it.",
)


def json_option(content: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option --json, `as_json`, whose help names what is printed."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON: {content}.")


def series_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --cache-dir, --make-cache-dir, --output and --progress to a command."""
    return add_options((*CACHE_OPTIONS, _OUTPUT, add_progress_option), command)
