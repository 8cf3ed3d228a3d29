"""`analysis sql`: queries on the log of a run."""

import sys
from pathlib import Path

import click

from analysis.sql.queries import FORMATS, execute


@click.command(epilog='Example: analysis sql run1 "select move, count(*) from moves group by move"')
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("statement", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="Format of the answer.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    help="Largest number of rows to print. Default: 50 in a table, else all.",
)
def sql(run: Path, statement: tuple[str, ...], form: str, rows: int | None) -> None:
    """Query a run's log in SQL.

    The dialect is that of Polars. The tables are moves and, if the device was sampled, device.
    A query reads no other file and changes nothing.
    """
    execute(run, " ".join(statement), form, rows, sys.stdout.buffer)
