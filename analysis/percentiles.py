"""How many moves or requests a percentile rests on, and whether they are too few for it."""

import re
from collections.abc import Iterable
from typing import Any, Final

from analysis.doubts import BEYOND_PERCENTILE
from replayer.schema import TIERS
from tracegen.schema import ENUMS

_BEYOND: Final = {"p95": 20, "p99": 100, "p999": 1_000, "p9999": 10_000}
"""Of how many samples one lies beyond a percentile."""
_PERCENTILE: Final = re.compile(r"(.+)_(p95|p99|p999|p9999)_ms")
_OF_MOVES: Final = re.compile(rf"({'|'.join(TIERS)})_(read|write)(_device|_host|_queue)?")
_OF_REQUESTS: Final = ("io", "queue", "plan_wait", "lateness", "ttfb", "generation", "e2e")
NOTE: Final = "(…): a percentile of too few samples, fewer than 100 for P95, 500 for P99."


def samples(metric: str, summary: dict[str, Any]) -> int | None:
    """How many moves or requests a percentile is of; None of other metrics, and where that is not known."""
    if (found := _PERCENTILE.fullmatch(metric)) is None:
        return None
    what = found[1]
    if moves := _OF_MOVES.fullmatch(what):
        return summary.get(f"{moves[1]}_{moves[2]}s")
    if what in _OF_REQUESTS:
        return summary.get("requests")
    qos = what.removesuffix("_ttfb")
    return summary.get(f"{qos}_requests") if qos in ENUMS["qos"] else None


def is_thin(metric: str, summary: dict[str, Any]) -> bool:
    """Whether a percentile has fewer than BEYOND_PERCENTILE samples beyond it."""
    count = samples(metric, summary)
    beyond = _BEYOND[metric.split("_")[-2]] if count is not None else 0
    return count is not None and summary.get(metric) is not None and count < BEYOND_PERCENTILE * beyond


def bracketed(metric: str, summary: dict[str, Any], text: str) -> str:
    """A metric's value as text, in brackets where it is a percentile of too few samples."""
    return f"({text})" if is_thin(metric, summary) else text


def note(metrics: Iterable[str], summaries: Iterable[dict[str, Any]]) -> list[str]:
    """NOTE, where any of these is in brackets."""
    names = list(metrics)
    return [NOTE] if any(is_thin(name, summary) for summary in summaries for name in names) else []
