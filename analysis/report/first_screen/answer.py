"""The answer of a report in plain words, made of metrics alone."""

from typing import Final

from analysis.comparison.sentences import describe_comparison
from analysis.report.between_runs.load_words import describe_load_curve
from analysis.report.between_runs.predicted import describe_predicted, find_predicted
from analysis.report.data import Gathered, Subject
from analysis.report.first_screen.cards import compute_over_trials, pick_valid
from analysis.summary.numbers import format_alike
from analysis.summary.percentiles import is_thin
from replayer.schema import TIERS

_LIMITS: Final = {
    "cpu": "the processor, whose cores were busy",
    "source": "the workload, which paused for more than half of the time",
    "data": "moves that waited for earlier moves of the same objects",
    "eviction": "moves that waited for the evictions that their own op caused",
    "room": "moves that waited for room which other ops free",
    "window": "the planning window, which did not contain the ops that were due",
    "plan": "the plan, for whose order moves waited",
    "order": "the plan's order, in which moves wait for their turn",
    "queue": "the queue for a worker, a buffer or a permit",
    "host": "the host: opening, closing and the interpreter",
    "device": "the device",
    "verify": "making and checking bytes",
}
"""What held a run back, by the word of `bottleneck`."""


def describe_answer(data: Gathered) -> str:
    """Answer in plain words what the runs showed, and say so if figures are not valid."""
    findings = list(dict.fromkeys(text for summary in data.summaries for text in summary.findings))
    told = describe_predicted(data) or _describe_all(data)
    if data.comparison is None or not data.comparison.has_configurations:
        told = describe_load_curve(data) or told
    if not any(find_predicted(data)):
        errors = dict.fromkeys(summary.describe_errors() for summary in data.summaries)
        told = " ".join([told, *filter(None, errors)])
    if not findings:
        return told
    more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
    return f"Do not publish these figures: {findings[0]}{more}. {told}"


def _describe_all(data: Gathered) -> str:
    if data.comparison:
        return describe_comparison(data.comparison).replace(" ×", "\u00a0×")
    return _describe_system(data)


def _describe_system(data: Gathered) -> str:
    trials = pick_valid(data.runs)
    is_predicted = trials[0].summary.prediction is not None
    who = "By the profile this machine would serve" if is_predicted else "This machine served"
    rate = _format_mean("wall_clock_tok_s", trials)
    clauses = [
        f"{who} {rate} tokens/s" if rate else "",
        _format_wait(trials),
        _describe_worth(trials),
    ]
    said = "; ".join(clause for clause in clauses if clause)
    if not said:
        return "Nothing was measured."
    return " ".join(filter(None, (f"{said[:1].upper()}{said[1:]}.", _describe_limit(trials))))


def _format_mean(name: str, trials: list[Subject]) -> str:
    mean = compute_over_trials(name, trials).mean
    return "" if not mean else format_alike(name, [mean])[0]


def _format_wait(trials: list[Subject]) -> str:
    """Say how long requests waited for storage, if enough were timed for a P95."""
    name = "ttfb_p95_ms"
    if any(is_thin(name, run.summary.metrics) for run in trials):
        return ""
    wait = _format_mean(name, trials)
    verb = "would wait" if trials[0].summary.prediction is not None else "waited"
    return wait and f"95% of requests {verb} {wait} ms or less for storage before their first token"


def _describe_worth(trials: list[Subject]) -> str:
    """Say up to which prefill speed the lowest tier that served reads beats recomputing."""
    for tier in reversed(TIERS):
        if speed := _format_mean(f"{tier}_break_even_tok_s", trials):
            worth = f"reading from {tier} beats recomputing"
            return f"{worth} where prefill computes less than {speed} tokens/s"
    return ""


def _describe_limit(trials: list[Subject]) -> str:
    limits = {str(run.summary.bottleneck) for run in trials}
    limit = _LIMITS.get(limits.pop()) if len(limits) == 1 else None
    return "" if limit is None else f"The limit was {limit}."
