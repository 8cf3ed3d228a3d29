"""What is shown to a person: the one place where text of logs and files reaches the terminal."""

import click

from tracegen.errors import escape_controls


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print; control characters of file names, models and warnings are shown, not obeyed."""
    click.echo(escape_controls(text), nl=nl, err=err)
