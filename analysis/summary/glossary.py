"""The glossary: every metric's name, unit, better direction and formula, from the catalogue."""

import difflib
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from analysis.metrics.catalogue import ABOUT, FAMILIES
from analysis.metrics.metric import PLACES, Metric, places_of
from analysis.summary.distributions import TABLES
from tracegen.errors import InputError, format_count
from views.answer import Answer, Column, Table

# The name here of what others call a metric, or of the nearest metric.
ALIASES: Final = {
    "ttft": "ttfb_{stat}_ms",
    "tpot": "generation_{stat}_ms",
    "iops": "{tier}_{direction}s",
    "slo": "{qos}_compliance",
    "dwpd": "drive_writes_per_day",
}


def find_families(names: Sequence[str]) -> list[Metric]:
    """Return the families of metrics that names mean: of groups, metrics, families, ALIASES; all without names.

    Raises:
        InputError: a name means nothing; the remedy has the nearest names, else those of
            definitions with the word.
    """
    known = {family.name: {family.group, family.name, *_list_members(family)} for family in FAMILIES}
    found = set[str]()
    for name in names:
        wanted = {name, ALIASES.get(name.lower(), name)}
        own = {family for family, keys in known.items() if keys & wanted}
        if not own:
            raise InputError(f"no metric is named {name!r}", _hint(name, set().union(*known.values())))
        found |= own
    return [family for family in FAMILIES if family.name in found or not names]


def _list_members(family: Metric) -> list[str]:
    return [metric.name for metric in family.expand()]


def _hint(word: str, keys: Iterable[str]) -> str:
    """Suggest the name most like a word, else the names whose definitions have the word."""
    likely = difflib.get_close_matches(word, sorted(keys), 1)
    if not likely:
        whole = re.compile(rf"(?<![^\W_]){re.escape(word)}", re.IGNORECASE)
        likely = [one.name for one in FAMILIES if whole.search(f"{one.name} {one.definition}")][:3]
    return f"did you mean {' or '.join(likely)}?" if likely else "`analysis metrics` lists all"


def as_json(families: Sequence[Metric]) -> list[dict[str, Any]]:
    """Return an object for each family of metrics, as `analysis metrics --json` prints it."""
    return [
        {
            "metric": family.group,
            "name": family.name,
            "names": _list_members(family),
            "unit": family.unit,
            "better": family.better,
            "kind": family.kind,
            "label": family.label,
            "definition": family.definition,
            "samples": {
                metric.name: {"counted_by": metric.counted_by, "least": metric.least_samples}
                for metric in family.expand()
            },
        }
        for family in families
    ]


def answer_families(families: Sequence[Metric], *, has_tables: bool) -> Answer:
    """Return families as an answer: a table for each group of metrics."""
    used = {place for family in families for place in places_of(family.name)}
    places = [f"{{{place}}}: {', '.join(words)}" for place, words in PLACES.items() if place in used]
    tables = [
        Table(
            name=group,
            title=f"{group}: {ABOUT.get(group, 'Facts of the run, from run.json.')}",
            columns=[Column("metric"), Column("better"), Column("definition")],
            rows=[[family.name, family.better, family.definition] for family in members],
        )
        for group, members in groupby(families, key=lambda family: family.group)
    ]
    if has_tables:
        rows = [[name, " ".join((table.__doc__ or "").split())] for name, table in TABLES.items()]
        tables.append(Table(name="tables", title="tables", columns=[Column("table"), Column("a row")], rows=rows))
    count = sum(len(_list_members(family)) for family in families)
    return Answer(title="Metrics", subject=places, tables=tables, sentence=f"{format_count(count, 'metric')} defined")
