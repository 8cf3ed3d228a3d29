"""The glossary: every metric's name, unit, better direction and formula, from the catalogue."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from analysis.metrics.catalogue import GROUPS
from analysis.metrics.metric import PLACES, Metric, places_of
from analysis.summary.distributions import TABLES
from tracegen.errors import InputError, format_count
from views.answer import Answer, Column, Table

ALIASES: Final = {
    "ttft": "ttfb_{stat}_ms",
    "tpot": "generation_{stat}_ms",
    "iops": "{tier}_{direction}s",
    "slo": "{qos}_compliance",
    "dwpd": "drive_writes_per_day",
}
"""The name here of what others call a metric, or of the nearest metric."""


@dataclass(frozen=True)
class Term:
    """One or more families of metrics with one definition.

    Attributes:
        metric: the function that computes them, by its name.
        families: the metrics as they are declared, with {places} in their names.
    """

    metric: str
    families: tuple[Metric, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the families, e.g. {tier}_{direction}_gib_s."""
        return tuple(family.name for family in self.families)

    @property
    def definition(self) -> str:
        """The formula, in a sentence."""
        return self.families[0].definition

    def expanded(self) -> list[str]:
        """Return the names of all metrics in a summary."""
        return [metric.name for family in self.families for metric in family.expand()]

    @property
    def keys(self) -> tuple[str, ...]:
        """The names by which it is found."""
        return (self.metric, *self.names, *self.expanded())


def terms() -> list[Term]:
    """Return every definition, in the order of the catalogue."""
    return [
        Term(group.name, tuple(families))
        for group in GROUPS
        for _, families in groupby(group.families, key=lambda family: family.definition)
    ]


def find_terms(names: Sequence[str]) -> list[Term]:
    """Return the terms that names mean: groups, metrics, families, ALIASES; all without names.

    Raises:
        InputError: a name means nothing; the remedy has the nearest names, else those of
            definitions with the word.
    """
    every = terms()
    wanted = {name: {name, ALIASES.get(name.lower(), name)} for name in names}
    found = [term for term in every if not names or set().union(*wanted.values()) & {*term.keys}]
    known = {key for term in found for key in term.keys}
    for name in names:
        if not wanted[name] & known:
            raise InputError(f"no metric is named {name!r}", _hint(name, every))
    return found


def _hint(word: str, every: Sequence[Term]) -> str:
    """Suggest the name most like a word, else the names whose definitions have the word."""
    likely = difflib.get_close_matches(word, [key for term in every for key in term.keys], 1)
    if not likely:
        whole = re.compile(rf"(?<![^\W_]){re.escape(word)}", re.IGNORECASE)
        texts = {term.names[0]: " ".join((*term.names, term.definition)) for term in every}
        likely = [name for name, text in texts.items() if whole.search(text)][:3]
    return f"did you mean {' or '.join(likely)}?" if likely else "`analysis metrics` lists all"


def as_json(found: Sequence[Term]) -> list[dict[str, Any]]:
    """Return an object for each family of metrics, as `analysis metrics --json` prints it."""
    return [_family(family) for term in found for family in term.families]


def _family(family: Metric) -> dict[str, Any]:
    metrics = list(family.expand())
    return {
        "metric": family.group,
        "name": family.name,
        "names": [metric.name for metric in metrics],
        "unit": family.unit,
        "better": family.better,
        "kind": family.kind,
        "label": family.label,
        "definition": family.definition,
        "samples": {
            metric.name: {"counted_by": metric.counted_by, "least": metric.least_samples} for metric in metrics
        },
    }


def answer_terms(found: Sequence[Term], *, has_tables: bool) -> Answer:
    """Return terms as an answer: a table for each group of metrics.

    Args:
        found: the terms.
        has_tables: whether the tables of a report are described, too.
    """
    about = {group.name: group.about for group in GROUPS}
    used = {place for term in found for name in term.names for place in places_of(name)}
    places = [f"{{{place}}}: {', '.join(words)}" for place, words in PLACES.items() if place in used]
    tables = [
        Table(
            name=group,
            title=f"{group}: {about[group]}",
            columns=[Column("metric"), Column("better"), Column("definition")],
            rows=[[", ".join(term.names), term.families[0].better, term.definition] for term in members],
        )
        for group, members in groupby(found, key=lambda term: term.metric)
    ]
    if has_tables:
        rows = [[name, " ".join((table.__doc__ or "").split())] for name, table in TABLES.items()]
        tables.append(Table(name="tables", title="tables", columns=[Column("table"), Column("a row")], rows=rows))
    count = sum(len(term.expanded()) for term in found)
    return Answer(title="Metrics", subject=places, tables=tables, sentence=f"{format_count(count, 'metric')} defined")
