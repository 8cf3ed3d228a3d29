"""The form of a first screen, which the reports of runs, systems and sweeps share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Tone = Literal["good", "bad", "plain"]
"""The colour of the verdict: valid, not valid, or none, as on a plan without measurements."""


@dataclass(frozen=True)
class Card:
    """A large figure.

    Attributes:
        label: what it is, in words.
        value: the figure without its unit; None if it was not measured.
        unit: its unit; empty for shares and ratios.
        range: its interval or its samples, as "95% interval 98 to 104, 3 trials"; or why it was
            not measured.
        hint: how to read it, as "lower is better".
    """

    label: str
    value: str | None
    unit: str = ""
    range: str = ""
    hint: str = ""


@dataclass(frozen=True)
class DoubtLine:
    """A doubt as one line, which unfolds to its text and advice.

    Attributes:
        headline: the line, as "short run".
        text: the finding with its figures.
        advice: the remedy.
        runs: the runs that have it, as "2 of 3 runs"; empty if a report is of one run.
        invalidates: whether figures of these runs must not be published.
    """

    headline: str
    text: str
    advice: str
    runs: str = ""
    invalidates: bool = False


@dataclass(frozen=True)
class FirstScreen:
    """The first screen of a report.

    Attributes:
        kicker: what the page is, as "kv-tier-bench report of 3 trials".
        title: its heading.
        tested: what was tested: a line each of machine, workload and settings.
        state: the verdict in capitals, as "VALID".
        answer: what was found, a sentence in plain words.
        tone: the verdict's colour.
        cards: 4 to 6 large figures.
        doubts: those that invalidate first.
    """

    kicker: str
    title: str
    tested: Sequence[str]
    state: str
    answer: str
    tone: Tone = "plain"
    cards: Sequence[Card] = field(default_factory=tuple)
    doubts: Sequence[DoubtLine] = field(default_factory=tuple)
