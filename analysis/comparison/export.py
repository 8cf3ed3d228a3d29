"""Comparisons and statistics of trials for programs: JSON, and tables for CSV."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import polars as pl

from analysis.comparison.compare import Comparison, Pair
from analysis.comparison.equal_work.measuring import EQUAL_WORK, Measured
from analysis.comparison.matching import Configuration
from analysis.comparison.ratios import Ratio
from analysis.comparison.sentences import describe_comparison, describe_pair
from analysis.metrics.catalogue import CATALOGUE


def convert_comparison(comparison: Comparison) -> dict[str, object]:
    """Return a comparison in plain JSON."""
    return {
        "baseline": comparison.baseline,
        "sentence": describe_comparison(comparison),
        "ranking": comparison.ranking,
        "warnings": comparison.warnings,
        "systems": [_convert_pair(pair) for pair in comparison.pairs],
    }


def _convert_pair(pair: Pair) -> dict[str, object]:
    return {
        "system": pair.name,
        "sentence": describe_pair(pair),
        "not_compared": pair.why or None,
        "varied": pair.varied,
        "unmatched": pair.unmatched,
        "disturbance": pair.disturbance.remark or None,
        "configurations": [_convert_measured(one, pair.metrics) for one in pair.measured],
        "ratios": _convert_ratios(pair.ratios),
        "by_configuration": {name: _convert_ratios(ratios) for name, ratios in pair.each.items()},
    }


def _convert_ratios(ratios: Mapping[str, Ratio]) -> dict[str, object]:
    return {metric: asdict(ratio) for metric, ratio in ratios.items()}


def _convert_measured(one: Measured, metrics: Sequence[str]) -> dict[str, Any]:
    (own,) = convert_statistics([one.configuration], metrics)
    equal = asdict(one.equal)
    del equal["ends_ns"]
    return own | {"equal_work": equal, "requests": one.requests}


def convert_statistics(configurations: Sequence[Configuration], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return configurations in plain JSON, with the statistics of metrics by system."""
    return [
        {
            "name": one.name,
            "trace_fingerprint": one.trace,
            "users": one.users,
            "cut": one.cut,
            "same_plan": one.same_plan,
            "own_windows": {
                metric: {system: asdict(one.statistics(system, metric)) for system in one.trials} for metric in metrics
            },
        }
        for one in configurations
    ]


def tabulate_statistics(configurations: Sequence[Configuration], metrics: Sequence[str]) -> pl.DataFrame:
    """Return a row for each configuration, metric and system, with its statistics over trials."""
    rows = [
        {
            "configuration": one.name,
            "system": system,
            "predicted": any(trial.summary.prediction for trial in trials),
            "metric": metric,
            "unit": CATALOGUE[metric].unit if metric in CATALOGUE else "",
            **asdict(one.statistics(system, metric)),
        }
        for one in configurations
        for metric in metrics
        for system, trials in one.trials.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None).unique(maintain_order=True)


_RATIO_COLUMNS: Final[dict[str, type[pl.DataType]]] = (
    dict.fromkeys(("configuration", "system", "baseline"), pl.String)
    | {"predicted": pl.Boolean, "metric": pl.String, "unit": pl.String}
    | dict.fromkeys(("mean", "baseline_mean", "ratio", "low", "high"), pl.Float64)
    | dict.fromkeys(("verdict", "winner", "why"), pl.String)
)


def tabulate_ratios(comparison: Comparison) -> pl.DataFrame:
    """Return a row for each ratio at equal work, and for each configuration that has none."""
    rows = [row for pair in comparison.pairs for row in _list_records(comparison, pair)]
    return pl.DataFrame(rows, _RATIO_COLUMNS)


def _list_records(comparison: Comparison, pair: Pair) -> Iterator[dict[str, object]]:
    trials = [*comparison.trials[pair.name], *comparison.trials[pair.baseline]]
    is_predicted = any(trial.summary.prediction for trial in trials)
    start = {"system": pair.name, "baseline": pair.baseline, "predicted": is_predicted}
    refused = {one.configuration.name: one.equal for one in pair.measured if one.equal.reason}
    for name, equal in refused.items():
        yield start | {"configuration": name, "why": f"{equal.reason}; {equal.remedy}"}
    if pair.why and not refused:
        yield start | {"configuration": "", "why": pair.why}
    whole = "all configurations" if pair.each else "".join(one.name for one in pair.configurations)
    for configuration, ratios in {whole: pair.ratios, **pair.each}.items():
        for ratio in ratios.values():
            unit = CATALOGUE[ratio.metric].unit if ratio.metric in CATALOGUE else ""
            if ratio.metric == EQUAL_WORK:
                unit = f"{pair.measured[0].equal.unit}/s"
            means = dict(zip(("mean", "baseline_mean"), ratio.means, strict=True))
            yield start | asdict(ratio) | means | {"configuration": configuration, "unit": unit}
