"""Output of the commands: text of logs and files reaches the terminal only through this module."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Final

import click

from tracegen.console import progress_bars
from tracegen.errors import escape_controls
from tracegen.progress import Progress

show_progress: Final[Progress] = partial(progress_bars.show_progress, delay_s=1)
"""Shows a bar on standard error once work has taken a second; most runs are read in less."""


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a text with its control characters escaped: names in files may contain any."""
    click.echo(escape_controls(text), nl=nl, err=err)


def say(line: str) -> None:
    """Print a line on standard error."""
    echo(line, err=True)


def echo_json(objects: Sequence[object]) -> None:
    """Print the objects of several runs as an array, and that of a single run alone."""
    echo(json.dumps(objects[0] if len(objects) == 1 else objects, indent=2))
