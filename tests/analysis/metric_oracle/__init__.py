"""Every number of analysis a second time, from the definitions alone, on frames in memory: nothing of `analysis`.

`python -m tests.analysis.metric_oracle` writes the golden answers for tests/data/run to tests/data/golden.
"""

from tests.analysis.metric_oracle.arithmetic import in_ms
from tests.analysis.metric_oracle.facts import DATA, GOLDEN_TARGETS, Facts, Numbers, frame, read
from tests.analysis.metric_oracle.machine import amplification, break_even, device, machine, time_spent
from tests.analysis.metric_oracle.tables import TABLES
from tests.analysis.metric_oracle.work import contents, data, hit_rate, moves, qos, steady, throughput, tiers, waits

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


__all__ = ["DATA", "GOLDEN_TARGETS", "TABLES", "Facts", "frame", "in_ms", "read", "summary"]
