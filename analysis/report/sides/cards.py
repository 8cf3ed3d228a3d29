"""Large figures of a comparison of two systems: ratios, with the values of both."""

from typing import Final

from analysis.comparison.ratios import Ratio
from analysis.comparison.sentences import describe_verdict, format_ends, format_times
from analysis.metrics.catalogue import describe
from analysis.report.first_screen.form import Card
from analysis.report.sides.sides import Side, Sides
from analysis.report.sides.tables import format_values
from tracegen.errors import format_count

_LABELS: Final = {
    "wall_clock_tok_s": "Throughput",
    "nvme_read_gib_s": "Reads from NVMe",
    "nvme_read_p95_ms": "NVMe reads, P95",
    "ttfb_p95_ms": "Storage part of TTFT, P95",
    "ttfb_p99_ms": "Storage part of TTFT, P99",
    "hit_rate_prompt_tokens": "Hit rate of prompt tokens",
}
"""The metrics that have a card, and what they are in words."""


def make_side_cards(sides: Sides) -> list[Card]:
    """Return the cards of two systems; none if there are more, or if they cannot be compared."""
    if len(sides.sides) != 1 or not sides.compared:
        return []
    (side,) = sides.compared
    return [_make_card(sides, side, metric) for metric in _LABELS]


def _make_card(sides: Sides, side: Side, metric: str) -> Card:
    ratio = side.ratios.get(metric)
    if ratio is None or ratio.ratio is None:
        return _make_equal_card(sides, side, metric)
    trials = " + ".join(str(len(sides.trials[name])) for name in (sides.baseline, side.name))
    span = f"95% interval {format_ends(ratio)}, {trials} trials"
    values = _format_both(side, ratio)
    return Card(
        _LABELS[metric],
        format_times(ratio),
        range=f"no interval: {side.no_interval}" if ratio.low is None else span,
        hint="; ".join(filter(None, (values, describe_verdict(ratio, "no verdict")))),
    )


def _make_equal_card(sides: Sides, side: Side, metric: str) -> Card:
    """Return the card of a metric without a ratio: the same value on both, or none."""
    systems = (sides.baseline, side.name)
    values = {one.statistics(name, metric).mean for one in side.configurations for name in systems}
    if len(values) != 1 or None in values:
        return Card(_LABELS[metric], None, range=f"not above 0 on both {' and '.join(systems)}")
    one = side.configurations[0]
    text, _ = format_values(one, Ratio(metric, side.name, sides.baseline, None, 0))
    return Card(_LABELS[metric], text, _unit(metric), "the same on both", "it depends on the work")


def _format_both(side: Side, ratio: Ratio) -> str:
    """Format the values of both systems, the baseline's first."""
    if len(side.configurations) > 1:
        return f"mean of {format_count(len(side.configurations), 'configuration')}"
    old, new = format_values(side.configurations[0], ratio)
    return f"{old} → {new} {_unit(ratio.metric)}".strip()


def _unit(metric: str) -> str:
    unit = describe(metric).unit
    return "" if unit in ("share", "ratio") else unit
