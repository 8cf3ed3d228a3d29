"""Output of the commands: text of logs and files reaches the terminal only through this module."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from tracegen.console import progress_bars
from tracegen.errors import escape_controls
from tracegen.progress import Progress
from views.answer import Answer
from views.formats import FORMATS, choose_format, write_file

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


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of the file that its answer is written to."""
    suffixes = ", ".join(FORMATS)
    file = click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help=f"Write this file, in the format of its suffix: {suffixes}.",
    )
    return file(click.option("--force", is_flag=True, help="Replace the file if it exists.")(command))


def choose_output(output: Path | None, runs: Sequence[Path], *, force: bool) -> Callable[[Answer], None]:
    """Return the function that prints an answer or writes it, once its file has been checked.

    Raises:
        InputError: the suffix names no format, or the file cannot be written.
    """
    form = choose_format(None, output, runs, force=force)
    return lambda answer: deliver(answer, form, output)


def deliver(answer: Answer, form: str, output: Path | None) -> None:
    """Print an answer in a format, or write it to its file and say so."""
    content = FORMATS[form](answer)
    if output is None:
        echo(content, nl=False)
    else:
        write_file(output, content)
        say(f"{output}: {len(content.encode()):,} bytes")
