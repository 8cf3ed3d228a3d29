"""A comparison in plain words: the verdicts, and one sentence from the ratios alone."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from analysis.comparison.compare import Comparison, Pair
from analysis.comparison.equal_work.measuring import EQUAL_WORK, Measured
from analysis.comparison.ratios import ONLY_SHOWN, Ratio
from analysis.metrics.catalogue import CATALOGUE
from analysis.metrics.metric import Better
from analysis.summary.percentiles import is_thin

PHRASES: Final = {
    EQUAL_WORK: "equal work per second",
    "wall_clock_tok_s": "tokens/s",
    "nvme_read_p95_ms": "P95 of NVMe reads",
    "ttfb_p95_ms": "P95 of the storage part of TTFT",
}
"""The metrics that a sentence names if they are compared, in its order, and their words."""


def describe_verdict(ratio: Ratio) -> str:
    """Say in a few words what a ratio shows."""
    if ratio.verdict == "apart":
        return f"{ratio.winner} is better"
    if ratio.verdict == "not apart":
        # Holm's correction may refuse a difference that the interval alone would show.
        has_one = ratio.low is not None and ratio.low <= 1 <= (ratio.high or 1)
        return "no difference shown" if has_one else "no difference shown among these metrics"
    if ratio.why == ONLY_SHOWN:
        return ""
    if ratio.verdict == "not judged":
        return f"not judged: {ratio.why or 'it depends on the work'}"
    if ratio.low is not None:  # withheld: the sentence says why, once for all metrics
        return "no verdict"
    return f"{'no ratio' if ratio.ratio is None else 'no verdict'}: {ratio.why}"


def describe_comparison(comparison: Comparison) -> str:
    """Say in a sentence what a comparison shows; empty if there are no other systems."""
    compared = comparison.compared
    if len(comparison.pairs) == 1 or len(compared) == 1:
        return describe_pair((compared or comparison.pairs)[0])
    known = [pair for pair in compared if pair.speed is not None]
    if not known:
        reason = f"No other system can be compared with {comparison.baseline}."
        return reason if comparison.pairs else ""
    clauses = []
    for pair in known:
        ratio = pair.ratios[EQUAL_WORK]
        words = "" if ratio.verdict == "apart" else f", {describe_verdict(ratio)}"
        clauses.append(f"{pair.name} {_format_span(ratio)}{words}")
    remarks = dict.fromkeys(filter(None, (pair.disturbance.remark for pair in known)))
    listed = "; ".join((*clauses, *remarks))
    return _name_interval(f"Against {comparison.baseline}, {PHRASES[EQUAL_WORK]}: {listed}.")


def describe_pair(pair: Pair) -> str:
    """Say in a sentence how a system differs from the baseline, as far as intervals show it."""
    if pair.why:
        return f"{pair.name} is not compared with {pair.baseline}: {pair.why}."
    said = sorted(_choose_said(pair), key=lambda ratio: ratio.verdict != "apart")
    claims: dict[str, list[Ratio]] = {}
    for ratio in said:
        claims.setdefault(_claim(pair, ratio), []).append(ratio)
    clauses = [f"{claim}: {_list_ratios(own)}" for claim, own in claims.items()]
    if said[0].verdict != "apart":
        clauses[0] = f"{pair.name} against {pair.baseline}, {clauses[0]}"
    if len(pair.measured) > 1:
        count = max(ratio.configurations for ratio in said)
        clauses[-1] += f", over {count} of {len(pair.measured)} configurations"
    return _name_interval(f"{'; '.join((*clauses, *_list_remarks(pair)))}.")


def _claim(pair: Pair, ratio: Ratio) -> str:
    if ratio.verdict == "no verdict":
        return f"no verdict ({ratio.why})"
    if ratio.verdict != "apart":
        return describe_verdict(ratio)
    side = "better" if ratio.winner == pair.name else "worse"
    return f"{pair.name} is {side} than {pair.baseline}"


def _list_remarks(pair: Pair) -> Iterator[str]:
    """Yield what qualifies the ratios of a pair."""
    each = [ratios[EQUAL_WORK] for ratios in pair.each.values()]
    if {pair.name, pair.baseline} <= {one.winner for one in each}:
        least, *_, most = sorted(each, key=lambda one: one.ratio or 0.0)
        span = f"{format_times(least)} to {format_times(most)}"
        yield f"the configurations disagree: equal work per second {span}"
    if pair.disturbance.remark and not pair.disturbance.withholds:
        yield pair.disturbance.remark
    known = [one.equal.is_limited_by_load for one in pair.measured if one.metrics]
    if any(known):
        where = "" if all(known) else f"in {sum(known)} of {len(known)} configurations "
        yield f"{where}the load, not the drive, limits"


def _choose_said(pair: Pair) -> list[Ratio]:
    """Return the ratios of PHRASES and those judged, of enough samples; equal work if none has."""
    judged = (name for name, one in pair.ratios.items() if one.verdict in ("apart", "not apart"))
    wanted = [name for name in dict.fromkeys((*PHRASES, *judged)) if name in pair.ratios]
    ratios = [pair.ratios[name] for name in wanted if not _is_thin(name, pair.measured)]
    known = [one for one in ratios if one.better and one.ratio is not None]
    return known or [pair.ratios[EQUAL_WORK]]


def _is_thin(metric: str, measured: Iterable[Measured]) -> bool:
    """Return whether a metric is a percentile of too few samples in some trial."""
    trials = (trial for one in measured for own in one.metrics.values() for trial in own)
    return metric in CATALOGUE and any(is_thin(metric, trial) for trial in trials)


def count_better(value: float, better: Better | None) -> float:
    """Return how many times better a ratio is: its inverse if lower values are better."""
    return 1 / value if better == "lower" else value


def format_times(ratio: Ratio) -> str:
    """Format a ratio, as 1.50 ×."""
    return "–" if ratio.ratio is None else f"{ratio.ratio:.{_count_decimals(ratio)}f} ×"


def format_ends(ratio: Ratio) -> str:
    """Format the interval of a ratio, as 1.48 to 1.52."""
    if ratio.low is None or ratio.high is None:
        return "–"
    return " to ".join(f"{end:.{_count_decimals(ratio)}f}" for end in (ratio.low, ratio.high))


def _count_decimals(ratio: Ratio) -> int:
    """Return the decimals of a ratio: what its half-width supports and what tells it from 1.

    Without an interval a ratio has three digits.
    """
    if ratio.low is None or ratio.high is None:
        size = ratio.ratio or 1.0
        return min(max(2 - math.floor(math.log10(size)), 0), 4)
    half = max((ratio.high - ratio.low) / 2, 1e-4)
    least = 1 - math.floor(math.log10(ratio.ratio)) if ratio.ratio and ratio.ratio < 1 else 0
    decimals = min(max(-math.floor(math.log10(half)), least, 0), 3)
    ends = (ratio.low, ratio.high) if ratio.verdict == "apart" else ()
    return next((n for n in range(decimals, 5) if all(round(end, n) != 1 for end in ends)), 5)


def _format_span(ratio: Ratio) -> str:
    interval = f" ({format_ends(ratio)})" if ratio.low is not None else ""
    return f"{format_times(ratio)}{interval}"


def _name_interval(text: str) -> str:
    """Say at the first interval of a sentence what it is."""
    return text.replace("× (", "× (95% interval ", 1)


def _list_ratios(ratios: Iterable[Ratio]) -> str:
    """List ratios with their intervals; metrics that show the same share it, as work over one time."""
    groups: dict[str, list[str]] = {}
    for ratio in ratios:
        groups.setdefault(_format_span(ratio), []).append(_name_metric(ratio.metric))
    return ", ".join(f"{_join_words(names)} {span}" for span, names in groups.items())


def _join_words(words: Sequence[str]) -> str:
    """Join words by commas and an `and`."""
    *others, last = words
    return " and ".join(filter(None, (", ".join(others), last)))


def _name_metric(metric: str) -> str:
    label = CATALOGUE[metric].label if metric in CATALOGUE else metric
    return PHRASES.get(metric, label)
