"""A finding: one reason why tiers bring little, with its counts and a remedy."""

from dataclasses import dataclass
from typing import Final

from tracegen.errors import ToolError

_GIB: Final = 2**30
_MIB: Final = 2**20


@dataclass(frozen=True)
class Finding:
    """One reason why tiers bring little.

    Attributes:
        cause: its name, as docs/why.md lists it.
        tiers: the tiers that it is about; none: all of them.
        problem: a clause with the counts; it names settings in backquotes.
        remedy: an imperative clause, with settings as in `problem`.
        counts: the counts of the clause, and others, by name.
    """

    cause: str
    tiers: tuple[str, ...]
    problem: str
    remedy: str
    counts: dict[str, int]

    def phrase(self) -> ToolError:
        """Return the finding as an error would be phrased; `sentence` of it names flags."""
        return ToolError(f"{self.cause}: {self.problem}", self.remedy)


def describe_gain(counts: dict[str, int], within: str = "") -> str:
    """Return the clause that says what a remedy gains, from the counts of `measure_gain`."""
    where = f" in {within}" if within else ""
    spared, prompt = counts["spared_tokens"], counts["prompt_tokens"]
    after = (spared + counts["more_spared_tokens"]) / prompt
    return f"{after:.1%} of prompt tokens hit{where} instead of {spared / prompt:.1%}"


def format_size(size: float) -> str:
    """Return bytes in GiB; or in MiB, or as a number, where they are few."""
    if size >= _GIB / 10:
        return f"{size / _GIB:,.1f} GiB"
    if size >= _MIB / 10:
        return f"{size / _MIB:,.1f} MiB"
    return f"{size:,.0f} bytes"


def format_gib(size: float) -> str:
    """Return bytes as a number of GiB that a flag takes: 3 digits, rounded up."""
    if size <= 0:
        return "0"
    text = f"{size / _GIB:.3g}"
    return text if float(text) * _GIB >= size else f"{size / _GIB * 1.005:.3g}"
