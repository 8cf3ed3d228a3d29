"""A comparison in plain words: one sentence on two systems, from their ratios alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from analysis.comparison.compare import Comparison
from analysis.comparison.interval_text import find_intervals
from analysis.comparison.matching import Configuration
from analysis.comparison.ratios import Ratio
from analysis.metrics.catalogue import CATALOGUE
from analysis.metrics.headlines import heading
from analysis.metrics.metric import Better
from analysis.summary.percentiles import is_thin

PHRASES: Final = {
    "nvme_read_gib_s": "NVMe read rate",
    "wall_clock_tok_s": "tokens/s",
    "nvme_read_p95_ms": "P95 of NVMe reads",
    "ttfb_p95_ms": "P95 of the storage part of TTFT",
}
"""The metrics that a sentence names if they are compared, in its order, and their words."""
_EQUAL: Final = 1e-9  # tolerance for one ratio that several metrics share


def describe_comparison(comparison: Comparison) -> str:
    """Say in a sentence what a comparison shows; empty if there are no ratios."""
    if not comparison.pairs or find_intervals(comparison):
        return ""
    if len(comparison.pairs) > 1 and comparison.advice:
        primary = comparison.advice.metrics[0]
        ratios = (pair.ratios[primary] for pair in comparison.pairs)
        return describe_many(comparison.ranking[0], ratios)
    (pair,) = comparison.pairs
    shown = {metric: pair.ratios[metric] for metric in comparison.metrics}
    first = comparison.configurations[0].summaries
    counts = {system: len(first[system]) for system in (pair.a, pair.b)}
    no_interval = explain_no_interval(counts, comparison.predicted)
    ratios_said = drop_thin(shown, comparison.configurations) or shown
    return describe_ratios(pair.a, pair.b, ratios_said, no_interval)


def choose_said(ratios: Mapping[str, Ratio]) -> list[Ratio]:
    """Return the ratios that a sentence names: those of PHRASES, else of the first metrics."""
    said = [ratios[metric] for metric in PHRASES if metric in ratios]
    found = said or ratios.values()
    judged = [ratio for ratio in found if ratio.better and ratio.ratio is not None]
    return judged[: len(PHRASES)]


def drop_thin(
    ratios: Mapping[str, Ratio],
    configurations: Sequence[Configuration],
) -> dict[str, Ratio]:
    """Return the ratios without percentiles that rest on too few samples in some trial."""
    found = {}
    for metric, ratio in ratios.items():
        trials = (one.summaries[system] for one in configurations for system in (ratio.a, ratio.b))
        if not any(is_thin(metric, summary.metrics) for own in trials for summary in own):
            found[metric] = ratio
    return found


def describe_ratios(a: str, b: str, ratios: Mapping[str, Ratio], no_interval: str) -> str:
    """Say in a sentence how `a` differs from `b`; it claims only what an interval shows.

    Args:
        a: the system above the line.
        b: the system below the line.
        ratios: by metric, of `a` over `b`.
        no_interval: why there is no interval, as "one trial each".
    """
    said = choose_said(ratios)
    if not said:
        return f"{a} against {b}: no metric of speed that both have."
    better, worse, equal = (
        [ratio for ratio in said if (ratio.verdict, ratio.winner) == found]
        for found in (("apart", a), ("apart", b), ("not apart", None))
    )
    if not better and not worse and not equal:
        why = f"no verdict as there is no interval ({no_interval})"
        return f"{a} against {b}, {why}: {_list_ratios(said)}."
    clauses = []
    if better and worse:
        clauses.append(f"{a} is better than {b} in {_list_ratios(better)}")
        clauses.append(f"worse in {_list_ratios(worse)}")
    elif better or worse:
        word = "better" if better else "worse"
        clauses.append(f"{a} is {word} than {b}: {_list_ratios(better or worse)}")
    if equal:
        start = "no difference shown" if clauses else f"No difference shown between {a} and {b}"
        clauses.append(f"{start}: {_list_ratios(equal)}")
    count = max(ratio.configurations for ratio in said)
    scope = f", over {count} configurations" if count > 1 else ""
    return _name_interval(f"{'; '.join(clauses)}{scope}.")


def describe_many(base: str, ratios: Iterable[Ratio]) -> str:
    """Say in a sentence how several systems differ from one of them in a metric, the best first.

    Args:
        base: the system to which all are compared.
        ratios: of each other system over `base`, all of one metric.
    """
    known = [ratio for ratio in ratios if ratio.ratio is not None]
    if not known:
        return f"No other system can be compared with {base}."
    ordered = sorted(known, key=lambda ratio: -count_better(ratio.ratio or 1.0, ratio.better))
    clauses = [f"{ratio.a} {_format_span(ratio)}{_REMARKS[ratio.verdict]}" for ratio in ordered]
    return _name_interval(f"Against {base}, {name_metric(known[0].metric)}: {'; '.join(clauses)}.")


_REMARKS: Final = {
    "apart": "",
    "not apart": ", no difference shown",
    "no verdict": ", no verdict",
    "not judged": ", not judged",
}


def name_metric(metric: str) -> str:
    """Return the words for a metric: its phrase, or its label with the unit."""
    return PHRASES.get(metric) or (heading(metric) if metric in CATALOGUE else metric)


def explain_no_interval(trials: Mapping[str, int], predicted: Iterable[str] = ()) -> str:
    """Explain why two systems have no interval.

    Args:
        trials: the number of trials by system.
        predicted: the systems that were predicted, not measured.
    """
    if found := [system for system in trials if system in {*predicted}]:
        return f"{' and '.join(found)} {'is a prediction' if len(found) == 1 else 'are predictions'}"
    single = [system for system, count in trials.items() if count == 1]
    if len(single) == len(trials):
        return "one trial each"
    return f"one trial of {single[0]}" if single else "missing or 0 in a trial"


def describe_verdict(ratio: Ratio, no_interval: str) -> str:
    """Say in a few words what a ratio shows."""
    if ratio.verdict == "apart":
        return f"{ratio.winner} is better"
    if ratio.verdict == "not apart":
        return "no difference shown"
    if ratio.verdict == "not judged":
        return "not judged: it depends on the work"
    if ratio.ratio is None:
        return "no ratio: missing or 0 in a trial"
    return f"no interval: {no_interval}"


def count_better(value: float, better: Better | None) -> float:
    """Return how many times better a ratio is: its inverse if lower values are better."""
    return 1 / value if better == "lower" else value


def format_times(ratio: Ratio) -> str:
    """Format a ratio, as 1.50 ×."""
    if ratio.ratio is None:
        return "–"
    if ratio.ratio < _SMALL:
        return f"{ratio.ratio:.2g} ×"
    return f"{ratio.ratio:.{_count_decimals(ratio)}f} ×"


def format_ends(ratio: Ratio) -> str:
    """Format the interval of a ratio, as 1.48 to 1.52."""
    if ratio.low is None or ratio.high is None:
        return "–"
    if ratio.high < _SMALL:
        return f"{ratio.low:.2g} to {ratio.high:.2g}"
    return " to ".join(f"{end:.{_count_decimals(ratio)}f}" for end in (ratio.low, ratio.high))


_SMALL: Final = 0.1


def _count_decimals(ratio: Ratio) -> int:
    """Return how many decimals show a ratio: two, or as many as tell its interval from 1."""
    ends = (ratio.low or 0.0, ratio.high or 0.0) if ratio.verdict == "apart" else ()
    return next((n for n in (2, 3, 4) if all(round(end, n) != 1 for end in ends)), 5)


def _format_span(ratio: Ratio) -> str:
    interval = f" ({format_ends(ratio)})" if ratio.low is not None else ""
    return f"{format_times(ratio)}{interval}"


def _name_interval(text: str) -> str:
    """Say at the first interval of a sentence what it is."""
    return text.replace("× (", "× (95% interval ", 1)


def _list_ratios(ratios: Iterable[Ratio]) -> str:
    """List ratios with their intervals; metrics with one ratio by construction share it."""
    groups: list[list[Ratio]] = []
    for one in ratios:
        group = next((group for group in groups if _is_same(group[0], one)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    texts = [(" and ".join(name_metric(one.metric) for one in group), group[0]) for group in groups]
    return ", ".join(f"{names} {_format_span(ratio)}" for names, ratio in texts)


def _is_same(one: Ratio, other: Ratio) -> bool:
    """Return whether two metrics have one ratio and interval, as work over one time has."""
    ends = ((one.ratio, other.ratio), (one.low, other.low), (one.high, other.high))
    return all(abs((a or 1.0) / (b or 1.0) - 1) <= _EQUAL for a, b in ends)
