"""Words and numbers of a report: units, headlines, the headline table, claims."""

from typing import Any, Final

from analysis.log.columns import GIB
from analysis.metrics.catalogue import CATALOGUE, describe
from analysis.report.data import Gathered

CLAIMS: Final = (
    "Placement was decided by the plan, not by the speed of this system, unless the settings say placement live. A live"
    " server on a slower device could have more or fewer hits.",
    "Hits and bytes depend on the workload and the capacities, times on the system.",
    "Waiting that the plan itself causes is logged separately, as plan wait. All bytes read were checked against the"
    " bytes written, unless the settings say verify off. A failed move is a row of the log and makes the run fail.",
    "Latencies are those of whole objects, with evictions and without waiting. Quantiles are exact and interpolated"
    " linearly. 1 GiB = 2^30 bytes.",
)


_OF_PREDICTIONS: Final = (
    "Runs marked as predicted were not measured: their times were computed from a profile, which"
    " says how long a tier takes at a given load. Their lines are dashed."
)


def list_claims(data: Gathered) -> list[str]:
    """Return what a page claims about its numbers."""
    is_predicted = any(summary.prediction is not None for summary in data.summaries)
    return [_OF_PREDICTIONS, *CLAIMS] if is_predicted else [*CLAIMS]


def unit(name: str) -> str:
    """Return the unit of an entry of a summary; empty for shares, ratios, words and entries that are no metric."""
    metric = CATALOGUE.get(name)
    return "" if metric is None or metric.unit in ("share", "ratio") else metric.unit


def format_number(value: Any) -> str:
    """Format a number with four significant digits and separated thousands; – for None."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-4 or not value else f"{value:.2e}"


def shown(name: str, value: Any) -> str:
    """A metric's value without its unit."""
    return format_number(value) if value is None or not describe(name).is_share else f"{value:.1%}"


def format_state(data: Gathered) -> str:
    """Format the verdict on all runs."""
    valid = sum(summary.is_valid for summary in data.summaries)
    predicted = sum(summary.prediction is not None for summary in data.summaries)
    if valid == predicted == len(data.runs):
        if outside := sum(summary.is_outside_profile for summary in data.summaries):
            share = f": {outside} of {valid} runs" if valid > 1 else ""
            return f"PREDICTED OUTSIDE THE PROFILE{share}"
        return "VALID PREDICTION" if valid == 1 else "VALID PREDICTIONS"
    if valid == len(data.runs):
        state = f"{len(data.runs)} VALID RUNS" if data.comparison else "VALID"
        return f"{state}, {predicted} predicted" if predicted else state
    return "NOT VALID" if not valid else f"NOT VALID: {len(data.runs) - valid} of {len(data.runs)} runs"


def format_setting(name: str, value: Any) -> str:
    """Format a setting's value; sizes in bytes and in GiB."""
    if value is None:
        return "unlimited" if name.startswith("usable_bytes") else "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes") or name.startswith("usable_bytes") or name == "window_bytes":
        return f"{value:,} ({value / GIB:.3g} GiB)" if value else "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return format_number(value) if isinstance(value, int | float) else str(value)


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables; names are joined by dots, and empty tables left out."""
    flattened: dict[str, Any] = {}
    for name, value in values.items():
        flattened |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flattened
