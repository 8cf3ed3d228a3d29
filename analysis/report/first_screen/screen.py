"""The first screen of a report of runs."""

from typing import Final

from analysis.comparison.sentences import describe_comparison
from analysis.report.between_runs.load import find_load, is_one_curve
from analysis.report.between_runs.load_screen import make_load_title
from analysis.report.between_runs.load_words import describe_load_curve
from analysis.report.between_runs.predicted import describe_predicted, find_predicted
from analysis.report.data import Gathered, Subject
from analysis.report.first_screen.cards import compute_over_trials, make_cards, pick_valid
from analysis.report.first_screen.form import DoubtLine, FirstScreen
from analysis.report.first_screen.tested import list_tested
from analysis.report.text import format_state
from analysis.summary.across_runs import group_doubts, list_merged
from analysis.summary.numbers import format_alike
from analysis.summary.percentiles import is_thin
from replayer.schema import TIERS
from tracegen.errors import format_count


def make_first_screen(data: Gathered) -> FirstScreen:
    """Return the first screen: what was tested, the answer, the cards, the doubts."""
    is_valid = all(summary.is_valid for summary in data.summaries)
    # Valid runs are no verdict on which system is better, nor predictions outside their profile a measurement.
    is_plain = data.comparison is not None or any(summary.is_outside_profile for summary in data.summaries)
    return FirstScreen(
        f"kv-tier-bench report of {_count_runs(data)}",
        data.title or _make_load_title(data) or make_title(data),
        list_tested(data),
        format_state(data),
        describe_answer(data),
        "bad" if not is_valid else "plain" if is_plain else "good",
        make_cards(data),
        list_doubt_lines(data),
    )


def _make_load_title(data: Gathered) -> str | None:
    """Return the title of a load curve; None if two systems are compared under several loads."""
    has_configurations = data.comparison is not None and data.comparison.has_configurations
    return None if has_configurations else make_load_title(data)


def make_title(data: Gathered) -> str:
    """Make a title of what was compared, or of what was tested."""
    systems = data.systems
    if data.comparison and len(data.comparison.pairs) == 1:
        return f"{data.comparison.pairs[0].name} against {data.comparison.baseline}"
    if len(systems) == 2:
        return f"{systems[1]} against {systems[0]}"
    if len(systems) > 2:
        more = f" and {len(systems) - 3} more" if len(systems) > 3 else ""
        return ", ".join(systems[:3]) + more
    run = pick_valid(data.runs)[0]
    storage = run.summary.provenance.storage
    drive = storage.device_model if storage is not None else None
    name = systems[0] if len(data.runs) > 1 else run.name
    model = run.summary.provenance.conditions.model
    return f"{name}: KV cache on {drive}" if drive else f"{name}: KV cache of {model}"


def _count_runs(data: Gathered) -> str:
    runs, systems = len(data.runs), len(data.systems)
    if (found := find_load(data)) and is_one_curve(data):
        loads = format_count(len(found.curves[0].points), "load")
        return f"{format_count(runs, 'run')} at {loads}"
    if systems > 1:
        return f"{format_count(systems, 'system')}, {format_count(runs, 'run')}"
    return f"{runs} trials" if runs > 1 else "one run"


_LIMITS: Final = {
    "cpu": "the processor, whose cores were busy",
    "source": "the workload, which asked for nothing in more than a fifth of the time",
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


def list_doubt_lines(data: Gathered) -> list[DoubtLine]:
    """Return the doubts on the runs, those that invalidate first."""
    names = [run.name for run in data.runs]
    return [
        DoubtLine(
            kind[:1].upper() + kind[1:],
            "; ".join(list_merged(texts)),
            advice,
            _name_runs({name for runs in texts.values() for name in runs}, names),
            invalidates,
        )
        for invalidates, kind, advice, texts in group_doubts(names, data.summaries)
    ]


def _name_runs(runs: set[str], names: list[str]) -> str:
    """Return which runs have a doubt: empty for a report of one run, a name for one of several."""
    if len(names) == 1:
        return ""
    return next(iter(runs)) if len(runs) == 1 else f"{len(runs)} of {len(names)} runs"
