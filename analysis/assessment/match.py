"""Replays next to results of other tools, and whether the two are comparable."""

from dataclasses import dataclass
from typing import Final

from analysis.assessment.other_tools import Reference
from analysis.summary.run_summary import Summary
from replayer.schema import plain_model

MATCH: Final = 0.05
"""A replay matches a server's run if its output tokens per second are within ±5%."""
Value = int | float | str | None


@dataclass(frozen=True)
class Match:
    """A replay next to a server's result.

    Attributes:
        file: name of the result.
        tool: the benchmark that wrote it.
        comparable: whether both did the same work.
        reasons: why they are not comparable.
        difference: our output tokens per second / theirs − 1; None if not comparable.
        matches: whether the difference is within MATCH; None if not comparable.
        ours: our values by quantity, in the order of LINES.
        theirs: their values by quantity.
    """

    file: str
    tool: str
    comparable: bool
    reasons: list[str]
    difference: float | None
    matches: bool | None
    ours: dict[str, Value]
    theirs: dict[str, Value]


def is_same_model(ours: str, theirs: str) -> bool:
    """Return whether two names mean models with equal KV caches.

    Examples are llama3.1-8b and meta-llama/Llama-3.1-8B.
    """
    return plain_model(ours) == plain_model(theirs)


def find_differences(summary: Summary, reference: Reference) -> list[str]:
    """Find why a replay and a server's run are not comparable.

    Returns:
        Clauses; empty if both did the same work, as far as they say.
    """
    model = summary.provenance.conditions.plan.model
    reasons = [] if summary.is_valid else ["our run is not VALID"]
    if reference.model is not None and not is_same_model(model, reference.model):
        reasons.append(f"our model is {model}, theirs {reference.model}")
    if reference.failed:
        reasons.append(f"{reference.failed:,} of their requests failed")
    for noun, ours, theirs in (
        ("requests", summary.metrics.get("requests"), reference.requests),
        ("generated tokens", summary.metrics["tokens_generated"], reference.generated_tokens),
    ):
        if ours is None or theirs is None:
            reasons.append(f"{'our' if ours is None else 'their'} {noun} are not known")
        elif ours != theirs:
            reasons.append(f"our {noun} are {ours:,}, theirs {theirs:,}")
    if not reasons and not (reference.output_tok_s and summary.metrics["wall_clock_tok_s"]):
        reasons.append("one of them generated nothing, or took no time")
    return reasons


LINES: Final = {
    "model": "model",
    "requests": "requests",
    "input_tokens": "input tokens",  # a replay does not know them: objects may be shared by prompts
    "generated_tokens": "generated tokens",
    "total_tokens": "input + generated tokens",
    "duration_s": "duration s",
    "output_tok_s": "output tok/s",
    "total_tok_s": "input + output tok/s",
    "ttft_mean_ms": "TTFB | TTFT mean ms *",
    "ttft_p50_ms": "TTFB | TTFT P50 ms *",
    "ttft_p99_ms": "TTFB | TTFT P99 ms *",
}
"""Labels of the quantities that are compared."""
UNLIKE: Final = "* different quantities: ours is storage alone (TTFB), theirs includes queueing, prefill and network."


def compare_with(summary: Summary, reference: Reference) -> Match:
    """Compare a replay with a server's result, and tell whether they match within MATCH."""
    reasons = find_differences(summary, reference)
    theirs = reference.output_tok_s
    ours = summary.metrics["wall_clock_tok_s"]
    difference = ours / theirs - 1 if ours and theirs and not reasons else None
    return Match(
        file=reference.name,
        tool=reference.tool,
        comparable=not reasons,
        reasons=reasons,
        difference=difference,
        matches=None if difference is None else abs(difference) <= MATCH,
        ours=_collect_ours(summary),
        theirs={name: getattr(reference, name) for name in LINES},
    )


def _collect_ours(summary: Summary) -> dict[str, Value]:
    """Return our values of the quantities in LINES."""
    renamed = {
        "generated_tokens": "tokens_generated",
        "duration_s": "elapsed_s",
        "output_tok_s": "wall_clock_tok_s",
    }
    values: dict[str, Value] = {
        name: summary.metrics.get(renamed.get(name, name.replace("ttft", "ttfb"))) for name in LINES
    }
    return values | {"model": summary.provenance.conditions.plan.model}


def format_value(value: Value) -> str:
    """Format a value for a table; `-` for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else value


def render(run: str, match: Match) -> list[str]:
    """Return the lines of a replay next to a server's result.

    Args:
        run: the run directory.
        match: the comparison.
    """
    names = [name for name in LINES if not name.startswith("total_") or match.theirs[name] is not None]
    rows = [("", "ours", match.tool)]
    for name in names:
        ours = format_value(match.ours[name])
        rows.append((LINES[name], ours, format_value(match.theirs[name])))
    left, right = (max(len(row[column]) for row in rows) for column in (1, 2))
    table = [f"  {label:24}{ours:>{left}}  {theirs:>{right}}" for label, ours, theirs in rows]
    return [f"{run} next to {match.file}", *table, f"  {UNLIKE}", _describe_match(run, match)]


def _describe_match(run: str, match: Match) -> str:
    pair = f"{run} with {match.file}"
    if match.difference is None:
        return f"NOT COMPARABLE: {pair}: {'; '.join(match.reasons)}."
    share = f"{match.difference:+.1%}"
    if match.matches:
        verdict = f"matches: {share} (within ±{MATCH:.0%})"
    else:
        verdict = f"differs by {share} (±{MATCH:.0%} matches)"
    unnamed = "" if match.theirs["model"] else "; its file names no model"
    return f"COMPARABLE: {pair}: output tok/s {verdict}{unnamed}."
