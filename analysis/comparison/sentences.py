"""A comparison in plain words: the verdicts, and one sentence from the ratios alone."""

from collections.abc import Iterator, Sequence
from typing import Final

from analysis.comparison.compare import Comparison, Pair
from analysis.comparison.ratios import EQUAL_WORK, ONLY_SHOWN, Ratio
from analysis.metrics.catalogue import describe
from analysis.summary.run_summary import is_thin
from views.numbers import ABSENT, format_ratio
from views.sentences import say_ratios

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


def format_interval(ratio: Ratio) -> tuple[str, str]:
    """Format a ratio, as 1.50 ×, and its interval, as 1.48 to 1.52."""
    return (ABSENT, ABSENT) if ratio.ratio is None else format_ratio(ratio.ratio, ratio.low, ratio.high)


def format_span(ratio: Ratio) -> str:
    """Format a ratio with its interval behind it, as 1.50 × (1.48 to 1.52)."""
    times, ends = format_interval(ratio)
    return times if ends == ABSENT else f"{times} ({ends})"


def describe_comparison(comparison: Comparison) -> str:
    """Say in a sentence what a comparison shows."""
    compared = comparison.compared
    if len(comparison.pairs) == 1 or len(compared) == 1:
        return describe_pair((compared or comparison.pairs)[0], comparison.asked)
    known = [pair for pair in compared if pair.speed is not None]
    if not known:
        return f"No other system can be compared with {comparison.baseline}."
    clauses = []
    for pair in known:
        ratio = pair.ratios[EQUAL_WORK]
        words = "" if ratio.verdict == "apart" else f", {describe_verdict(ratio)}"
        clauses.append(f"{pair.name} {format_span(ratio)}{words}")
    remarks = dict.fromkeys(filter(None, (pair.disturbance.remark for pair in known)))
    start = f"Against {comparison.baseline}, {PHRASES[EQUAL_WORK]}"
    return say_ratios({}, (f"{start}: {'; '.join(clauses)}", *remarks))


def describe_pair(pair: Pair, asked: Sequence[str] = ()) -> str:
    """Say in a sentence how a system differs from the baseline, as far as intervals show it."""
    if pair.why:
        return f"{pair.name} is not compared with {pair.baseline}: {pair.why}."
    said = sorted(_choose_said(pair, asked), key=lambda ratio: ratio.verdict != "apart")
    claims: dict[str, list[tuple[str, str]]] = {}
    for ratio in said:
        phrase = PHRASES.get(ratio.metric) or describe(ratio.metric).label
        claims.setdefault(_claim(pair, ratio), []).append((phrase, format_span(ratio)))
    start = "" if said[0].verdict == "apart" else f"{pair.name} against {pair.baseline}, "
    return start + say_ratios(claims, _list_remarks(pair, max(ratio.configurations for ratio in said)))


def _claim(pair: Pair, ratio: Ratio) -> str:
    if ratio.verdict == "no verdict":
        return f"no verdict ({ratio.why})"
    if ratio.verdict != "apart":
        return describe_verdict(ratio)
    side = "better" if ratio.winner == pair.name else "worse"
    return f"{pair.name} is {side} than {pair.baseline}"


def _list_remarks(pair: Pair, count: int) -> Iterator[str]:
    """Yield what qualifies the ratios of a pair, which are over `count` configurations."""
    if len(pair.measured) > 1:
        yield f"over {count} of {len(pair.measured)} configurations"
    # A mean of opposite results would hide both.
    each = [ratios[EQUAL_WORK] for ratios in pair.each.values()]
    if {pair.name, pair.baseline} <= {one.winner for one in each}:
        least, *_, most = sorted(each, key=lambda one: one.ratio or 0.0)
        span = f"{format_interval(least)[0]} to {format_interval(most)[0]}"
        yield f"the configurations disagree: equal work per second {span}"
    if pair.disturbance.remark and not pair.disturbance.withholds:
        yield pair.disturbance.remark
    known = [one.equal.is_limited_by_load for one in pair.measured if one.metrics]
    if any(known):
        where = "" if all(known) else f"in {sum(known)} of {len(known)} configurations "
        yield f"{where}the load, not the drive, limits"


def _choose_said(pair: Pair, asked: Sequence[str]) -> list[Ratio]:
    """Return the ratios of PHRASES, judged, or asked for, of enough samples; equal work if none has."""
    # What was not judged is in the table; a sentence would make a claim of it.
    judged = (name for name, one in pair.ratios.items() if one.verdict in ("apart", "not apart"))
    trials = [trial for one in pair.measured for own in one.metrics.values() for trial in own]
    known = [
        ratio
        for name in dict.fromkeys((*PHRASES, *asked, *judged))
        if (ratio := pair.ratios.get(name)) and ratio.better and ratio.ratio is not None
        if name == EQUAL_WORK or not any(is_thin(name, trial) for trial in trials)
    ]
    return known or [pair.ratios[EQUAL_WORK]]
