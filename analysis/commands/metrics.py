"""`analysis metrics`: names and definitions of metrics."""

import click

from tracegen.console.answers import AnswerOutput, answer_options
from tracegen.console.commands import command


@command(epilog="Example: analysis metrics hit_rate")
@click.argument("names", nargs=-1)
@answer_options(example="-o metrics.html", content="an array of names with their definitions")
def metrics(names: tuple[str, ...], output: AnswerOutput) -> None:
    """Print names and formulas of metrics.

    Prints all metrics and tables, or the metrics named.
    """
    from analysis.summary import glossary

    families = glossary.find_families(names)
    output.show(glossary.answer_families(families, has_tables=not names), content=glossary.as_json(families))
