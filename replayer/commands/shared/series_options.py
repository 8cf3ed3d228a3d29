"""The options and the display that commands which make a series share."""

import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from replayer.experiments.display import Display
from replayer.flags.plan_flags import add_options
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
    """Add --cache-dir, --make-cache-dir and --output to a command."""
    return add_options((*CACHE_OPTIONS, _OUTPUT), command)


def terminal_display() -> Display:
    """Return a display on stderr."""
    return Display(
        say=lambda line: click.echo(line, err=True),
        warn=lambda line: click.secho(f"Warning: {line}", err=True, bold=True),
        relay=_relay,
        window=termios.tcgetwinsize(sys.stderr.fileno()) if sys.stderr.isatty() else None,
    )


def _relay(text: str) -> None:
    """Write to stderr what a child process printed, with its control characters."""
    sys.stderr.write(text)
    sys.stderr.flush()
