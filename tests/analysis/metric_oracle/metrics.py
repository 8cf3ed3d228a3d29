"""All metrics of a run, in the order of `analysis metrics`."""

from tests.analysis.metric_oracle.facts import Facts, Numbers
from tests.analysis.metric_oracle.machine import amplification, break_even, device, machine, time_spent
from tests.analysis.metric_oracle.work import (
    contents,
    data,
    hit_rate,
    moves,
    qos,
    steady,
    throughput,
    tiers,
    waits,
)

METRICS = (
    throughput, steady, data, hit_rate, moves, contents, tiers, waits, qos, time_spent, break_even, amplification,
    device, machine,
)  # fmt: skip


def summary(facts: Facts) -> Numbers:
    """Every flat name of a run's summary."""
    found: Numbers = {"drain_s": facts.drain_s}
    for metric in METRICS:
        found |= metric(facts)
    return found
