"""Answers printed, or written to a file, by the commands of all packages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from views.answer import Answer
from views.exports import render_json
from views.formats import FORMATS, choose_format, write_file
from views.text import render_text

_OPTIONS: Final = (
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"Write the answer to a file, too: {', '.join(f'.{form}' for form in FORMATS)}.",
    ),
    click.option("--force", is_flag=True, help="Replace an output that exists."),
)


add_charts_flag: Final = click.option(
    "--charts",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Save each chart as SVG and PNG, too.",
)


def add_answer_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a command that answers: --json, --output and --force."""
    for flag in reversed(_OPTIONS):
        command = flag(command)
    return command


def check_answer_file(output: Path | None, *, force: bool) -> None:
    """Refuse an output that cannot be written, before work starts.

    Raises:
        InputError: says why.
    """
    if output is not None:
        choose_format(None, output, force=force)


def show_answer(answer: Answer, output: Path | None, charts: Path | None = None, *, as_json: bool) -> None:
    """Print an answer, and write it to a file whose suffix names the format.

    Raises:
        InputError: a file cannot be written.
    """
    click.echo(render_json(answer) if as_json else render_text(answer), nl=False)
    if output is not None:  # after the text, which is not lost if the disk is full
        write_file(output, FORMATS[choose_format(None, output, force=True)](answer))
    if charts is not None:
        from views.charts import save_charts  # noqa: PLC0415 (a renderer)

        save_charts(answer.charts, charts)
