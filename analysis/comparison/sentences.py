"""A comparison in plain words: one sentence, from the ratios alone."""

import math
from collections.abc import Iterable, Iterator
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
_EQUAL: Final = 1e-9  # tolerance for one ratio that several metrics share


def describe_comparison(comparison: Comparison) -> str:
    """Say in a sentence what a comparison shows; empty if there are no other systems."""
    if not comparison.pairs:
        return ""
    if len(comparison.pairs) == 1 or len(comparison.compared) == 1:
        return describe_pair((comparison.compared or comparison.pairs)[0])
    known = [pair for pair in comparison.compared if pair.speed is not None]
    if not known:
        return f"No other system can be compared with {comparison.baseline}."
    remarks = {pair.disturbance.remark for pair in known}
    shared = next(iter(remarks)) if len(remarks) == 1 else ""
    clauses = [_describe_entry(pair, "" if shared else pair.disturbance.remark) for pair in known]
    listed = "; ".join(filter(None, (*clauses, shared)))
    return _name_interval(f"Against {comparison.baseline}, {PHRASES[EQUAL_WORK]}: {listed}.")


def _describe_entry(pair: Pair, remark: str) -> str:
    """Say in a list of systems how one differs from the baseline."""
    ratio = pair.ratios[EQUAL_WORK]
    words = "" if ratio.verdict == "apart" else f", {describe_verdict(ratio)}"
    return f"{pair.name} {_format_span(ratio)}{words}{f' ({remark})' if remark else ''}"


def describe_pair(pair: Pair) -> str:
    """Say in a sentence how a system differs from the baseline, as far as intervals show it."""
    a, b = pair.name, pair.baseline
    if pair.why:
        return f"{a} is not compared with {b}: {pair.why}."
    said = _choose_said(pair)
    better, worse, equal = (
        [ratio for ratio in said if (ratio.verdict, ratio.winner) == found]
        for found in (("apart", a), ("apart", b), ("not apart", None))
    )
    clauses = []
    if not better and not worse and not equal:
        clauses.append(f"{a} against {b}, no verdict ({said[0].why}): {_list_ratios(said)}")
    elif better and worse:
        clauses.append(f"{a} is better than {b} in {_list_ratios(better)}")
        clauses.append(f"worse in {_list_ratios(worse)}")
    elif better or worse:
        word = "better" if better else "worse"
        clauses.append(f"{a} is {word} than {b}: {_list_ratios(better or worse)}")
    for words in dict.fromkeys(map(describe_verdict, equal)):
        start = words if clauses else f"{words[:1].upper()}{words[1:]} between {a} and {b}"
        alike = (one for one in equal if describe_verdict(one) == words)
        clauses.append(f"{start}: {_list_ratios(alike)}")
    if len(pair.measured) > 1:
        count = max(ratio.configurations for ratio in said)
        clauses[-1] += f", over {count} of {len(pair.measured)} configurations"
    return _name_interval(f"{'; '.join((*clauses, *_list_remarks(pair)))}.")


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
    wanted = dict.fromkeys((*PHRASES, *judged))
    names = [name for name in wanted if name in pair.ratios and not _is_thin(name, pair.measured)]
    ratios = [pair.ratios[name] for name in names]
    return [one for one in ratios if one.better and one.ratio is not None] or [pair.ratios[EQUAL_WORK]]


def _is_thin(metric: str, measured: Iterable[Measured]) -> bool:
    """Return whether a metric is a percentile of too few samples in some trial."""
    trials = (trial for one in measured for own in one.metrics.values() for trial in own)
    return metric in CATALOGUE and any(is_thin(metric, trial) for trial in trials)


def name_metric(metric: str) -> str:
    """Return the words for a metric: its phrase, or its label."""
    return PHRASES.get(metric) or (CATALOGUE[metric].label if metric in CATALOGUE else metric)


def describe_verdict(ratio: Ratio) -> str:
    """Say in a few words what a ratio shows."""
    if ratio.verdict == "apart":
        return f"{ratio.winner} is better"
    if ratio.verdict == "not apart":
        has_one = ratio.low is not None and ratio.low <= 1 <= (ratio.high or 1)
        return "no difference shown" if has_one else "no difference shown among these metrics"
    if ratio.why == ONLY_SHOWN:
        return ""
    if ratio.verdict == "not judged":
        return f"not judged: {ratio.why or 'it depends on the work'}"
    if ratio.low is not None:  # withheld: the sentence says why, once for all metrics
        return "no verdict"
    return f"{'no ratio' if ratio.ratio is None else 'no verdict'}: {ratio.why}"


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
    """List ratios with their intervals; metrics with one ratio by construction share it."""
    groups: list[list[Ratio]] = []
    for one in ratios:
        group = next((group for group in groups if _is_same(group[0], one)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    texts = []
    for group in groups:
        *others, last = (name_metric(one.metric) for one in group)
        names = " and ".join(filter(None, (", ".join(others), last)))
        texts.append(f"{names} {_format_span(group[0])}")
    return ", ".join(texts)


def _is_same(one: Ratio, other: Ratio) -> bool:
    """Return whether two metrics have one ratio and interval, as work over one time has."""
    ends = ((one.ratio, other.ratio), (one.low, other.low), (one.high, other.high))
    return all(abs((a or 1.0) / (b or 1.0) - 1) <= _EQUAL for a, b in ends)
