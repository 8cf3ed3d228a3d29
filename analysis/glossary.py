"""The glossary: what every number is called and how it is computed, read from the metrics' own docstrings."""

import difflib
import inspect
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from analysis.metrics import METRICS
from analysis.metrics.moves import NAMES
from analysis.spreads import STATS
from analysis.terms import CAUSES
from replayer.schema import TIERS
from tracegen.schema import ENUMS, InputError

PLACES: Final[dict[str, tuple[str, ...]]] = {
    "tier": TIERS,
    "side": ("read", "write"),
    "stat": STATS,
    "wait": CAUSES,
    "source": ENUMS["source"],
    "qos": ENUMS["qos"],
    "moves": tuple(NAMES.values()),
}
"""What stands for `{…}` in a name."""


@dataclass(frozen=True)
class Term:
    """One or more metrics with one definition.

    Attributes:
        metric: the function that computes it, by its name in METRICS.
        names: with {places}, e.g. {tier}_{side}_gib_s.
        definition: one line.
    """

    metric: str
    names: tuple[str, ...]
    definition: str

    def expanded(self) -> list[str]:
        """All flat names."""
        found = []
        for name in self.names:
            places = _places(name)
            words = product(*(PLACES[place] for place in places))
            found += [name.format(**dict(zip(places, chosen, strict=True))) for chosen in words]
        return found


def _places(name: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", name)


def terms() -> list[Term]:
    """Every definition, in the order of METRICS."""
    found = []
    for metric, function in METRICS.items():
        _, _, body = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        for entry in re.split(r"\n(?=\S)", body):
            names, _, definition = entry.partition(": ")
            found.append(Term(metric, tuple(names.split(", ")), " ".join(definition.split())))
    return found


def about(metric: str) -> str:
    """What a metric's function says of all its names."""
    return inspect.cleandoc(METRICS[metric].__doc__ or "").partition("\n\n")[0]


def chosen(names: Sequence[str]) -> list[Term]:
    """Terms that the names mean: a metric of METRICS, or a flat name; all where none is given.

    Raises:
        InputError: a name means nothing.
    """
    every = terms()
    flat = {name: term for term in every for name in term.expanded()}
    unknown = [name for name in names if name not in METRICS and name not in flat]
    if unknown:
        near = difflib.get_close_matches(unknown[0], [*METRICS, *flat], 1)
        hint = f"did you mean {near[0]}?" if near else "`analysis metrics` lists all."
        raise InputError(f"no metric is named {unknown[0]!r}; {hint}")
    return [term for term in every if not names or term.metric in names or set(names) & set(term.expanded())]


def text(found: Sequence[Term]) -> str:
    """Terms for a terminal: a metric's title, then a line or two per definition."""
    lines = []
    for metric in dict.fromkeys(term.metric for term in found):
        lines += ["", f"{metric}: {about(metric)}"]
        for term in found:
            if term.metric == metric:
                lines += textwrap.wrap(
                    f"{', '.join(term.names)}: {term.definition}", 118, initial_indent="  ", subsequent_indent="      "
                )
    used = {place for term in found for name in term.names for place in _places(name)}
    places = [f"{{{place}}}: {', '.join(words)}" for place, words in PLACES.items() if place in used]
    return "\n".join([*lines, "", *places]).strip()


def markdown(found: Sequence[Term]) -> str:
    """Terms as docs/metrics.md shows them."""
    lines = []
    for metric in dict.fromkeys(term.metric for term in found):
        lines += ["", f"### {metric}", about(metric), "", "| name | definition |", "|---|---|"]
        for term in found:
            if term.metric == metric:
                names = ", ".join(f"`{name}`" for name in term.names)
                lines.append(f"| {names} | {term.definition} |")
    places = [f"| `{{{place}}}` | {', '.join(words)} |" for place, words in PLACES.items()]
    return "\n".join([*lines, "", "### In names", "", "| | |", "|---|---|", *places]).strip()
