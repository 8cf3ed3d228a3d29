"""What a metric's value says: which way is better, and how many samples it must rest on."""

import re
from typing import Final, Literal

from analysis.doubts.checks import BEYOND_PERCENTILE
from analysis.log.quantiles import QUANTILES, STATS
from replayer.schema import TIERS
from tracegen.schema import ENUMS

Better = Literal["higher", "lower"]

_BETTER: Final[tuple[tuple[str, Better | None], ...]] = (
    (r"generation_\w+_ms", None),  # the workload's own
    (r"\w+(_tok_s|_gib_s|_tokens_per_sec|_compliance|_kept|_efficiency)|requests_per_s|endurance_years", "higher"),
    (r"(\w+_)?hit_rate(_\w+)?", "higher"),
    (r"\w+(_ms|_wait_s|_wait_share)|(\w+_)?amplification", "lower"),
    (r"(elapsed|steady|drain|storage_io|queue|device|host|verify|nvme_device_(read|write))_s", "lower"),
)
"""Which values of a metric are better: the first pattern that matches its whole name holds, none: no value is."""
_WORK: Final = r"(\w+_)?(hit_rate(_\w+)?|amplification)|endurance_years"
"""What follows from the trace and the capacities: a target may be set for it, no system is better by it."""

_STAT: Final = f"({'|'.join(STATS)})"
_COUNTS: Final = (
    (rf"({'|'.join(TIERS)})_(read|write)(_device|_host|_queue)?_{_STAT}_ms", r"\1_\2s"),
    (rf"(io|queue|plan_wait|lateness|ttfb|generation|e2e)_{_STAT}_ms", "requests"),
    (rf"({'|'.join(ENUMS['qos'])})_(ttfb_p95_ms|compliance|kept)", r"\1_requests"),
)
"""The metric that counts what a metric was computed from."""


def better(metric: str) -> Better | None:
    """Which values of a metric are better; None where none are, as of counts and bytes."""
    return next((way for pattern, way in _BETTER if re.fullmatch(pattern, metric)), None)


def judged(metric: str) -> Better | None:
    """The same of metrics by which a system is better; None of those that belong to the work, hit rates included."""
    return None if re.fullmatch(_WORK, metric) else better(metric)


def counted_by(metric: str) -> str | None:
    """The metric that counts the samples of a quantile, mean or share; None where none does."""
    found = ((re.fullmatch(pattern, metric), count) for pattern, count in _COUNTS)
    return next((match.expand(count) for match, count in found if match), None)


def least_samples(metric: str) -> int:
    """How many samples a value must rest on, so that the next run's is not another: 100 for a P95, 500 for a P99."""
    if re.fullmatch(r"\w+_(compliance|kept)", metric):
        return least_samples("p95_ms")
    stat = metric.removesuffix("_ms").rpartition("_")[2]
    return round(BEYOND_PERCENTILE / (1 - QUANTILES[stat])) if metric.endswith("_ms") and stat in QUANTILES else 1
