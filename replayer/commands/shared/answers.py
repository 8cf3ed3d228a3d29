"""The options of commands that print an answer: text or JSON, and a file in any format of views."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from replayer.commands.shared.series_options import json_option
from tracegen.console.commands import Decorator, option_group
from views.formats import FORMATS

_SUFFIXES: Final = ", ".join(f".{form}" for form in FORMATS)


def answer_options(
    *own: Callable[..., Any],
    content: str,
    heading: str = "Output",
    example: str = "-o answer.html",
    text: str = f"Also write the answer to this file: {_SUFFIXES}.",
) -> Decorator:
    """Return a decorator that adds --output, --force and --json to a command.

    Args:
        own: further options of the group.
        content: what --json prints.
        heading: of the group.
        example: of its options.
        text: help of --output.
    """
    return option_group(
        heading,
        example,
        *own,
        click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help=text),
        click.option("--force", is_flag=True, help="Replace an output that exists."),
        json_option(content),
    )
