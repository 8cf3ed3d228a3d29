"""The glossary: what every number is called and how it is computed, read from the metrics' own docstrings."""

import difflib
import inspect
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from analysis.log.columns import CAUSES
from analysis.log.quantiles import STATS
from analysis.metrics import METRICS
from analysis.metrics.catalogue import Better, better, counted_by, least_samples
from analysis.metrics.moves import NAMES
from replayer.schema import TIERS
from tracegen.errors import InputError
from tracegen.schema import ENUMS

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


ALIASES: Final = {
    "ttft": "ttfb_{stat}_ms",
    "tpot": "generation_{stat}_ms",
    "iops": "{tier}_{side}s",
    "slo": "{qos}_compliance",
    "dwpd": "drive_writes_per_day",
}
"""What others call a metric, or the nearest there is: its name here."""


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

    @property
    def better(self) -> Better | None:
        """Which of their values are better, the same of all its names."""
        return better(self.expanded()[0])

    def described(self) -> dict[str, Any]:
        """All of it as a machine reads it; of each name, what counts its samples and how many it must rest on."""
        names = self.expanded()
        samples = {name: {"counted_by": counted_by(name), "least": least_samples(name)} for name in names}
        about = {"metric": self.metric, "names": names, "definition": self.definition}
        return about | {"better": self.better, "samples": samples}


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
    """Terms that the names mean: a metric of METRICS, a flat name, or one of ALIASES; all where none is given.

    Raises:
        InputError: a name means nothing; the nearest names, else those whose definitions have the word, are named.
    """
    every = terms()
    flat = {name: term for term in every for name in term.expanded()}
    wanted = {ALIASES.get(name.lower(), name) for name in names}
    unknown = [name for name in names if not {name, ALIASES.get(name.lower())} & {*METRICS, *flat, *_patterns(every)}]
    if unknown:
        raise InputError(f"no metric is named {unknown[0]!r}; {_hint(unknown[0], every)}")
    return [term for term in every if not names or wanted & {term.metric, *term.names, *term.expanded()}]


def _patterns(every: Sequence[Term]) -> set[str]:
    return {name for term in every for name in term.names}


def _hint(word: str, every: Sequence[Term]) -> str:
    """The name that is spelled most like a word; else names of definitions that hold the word."""
    flat = [name for term in every for name in term.expanded()]
    found = difflib.get_close_matches(word, [*METRICS, *flat], 1)
    if not found:
        whole = re.compile(rf"(?<![^\W_]){re.escape(word)}", re.IGNORECASE)
        found = [term.names[0] for term in every if whole.search(" ".join((*term.names, term.definition)))][:3]
    return f"did you mean {' or '.join(found)}?" if found else "`analysis metrics` lists all."


def text(found: Sequence[Term]) -> str:
    """Terms for a terminal: a metric's title, then a line or two per definition."""
    lines = []
    for metric in dict.fromkeys(term.metric for term in found):
        lines += ["", f"{metric}: {about(metric)}"]
        for term in found:
            if term.metric == metric:
                way = f" ({term.better} is better)" if term.better else ""
                shown = f"{', '.join(term.names)}{way}: {term.definition}"
                lines += textwrap.wrap(shown, 118, initial_indent="  ", subsequent_indent="      ")
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
