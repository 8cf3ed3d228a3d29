"""`analysis metrics`: names and definitions of metrics."""

import json

import click

from analysis.commands.terminal import echo
from analysis.summary import glossary
from tracegen.console.commands import command


@command(epilog="Example: analysis metrics hit_rate")
@click.argument("names", nargs=-1)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: an array of names with their definitions.",
)
def metrics(names: tuple[str, ...], as_json: bool) -> None:
    """Print names and formulas of metrics.

    Prints all metrics and tables, or the metrics named.
    """
    terms = glossary.find_terms(names)
    if as_json:
        echo(json.dumps(glossary.as_json(terms), indent=2, ensure_ascii=False))
    else:
        echo(glossary.text(terms))
        if not names:
            echo(f"\n{glossary.list_tables()}")
