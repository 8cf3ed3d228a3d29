"""All metrics of a run, in the order of `analysis metrics`."""

from typing import Any

from tests.analysis.metric_oracle.facts import Facts
from tests.analysis.metric_oracle.machine import amplification, break_even, device, machine, time_spent
from tests.analysis.metric_oracle.work import (
    bandwidth,
    contents,
    data,
    hit_rate,
    latency,
    moves,
    qos,
    steady,
    throughput,
    waits,
)

METRICS = (
    throughput, steady, data, hit_rate, moves, contents, latency, bandwidth, waits, qos, time_spent, break_even, amplification,
    device, machine,
)  # fmt: skip


def summary(facts: Facts) -> dict[str, Any]:
    """Every flat name of a run's summary."""
    found: dict[str, Any] = {"drain_s": facts.drain_s}
    for metric in METRICS:
        found |= metric(facts)
    return found
