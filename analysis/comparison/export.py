"""Statistics of trials over their own windows, as JSON and as a table for CSV."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from analysis.comparison.matching import Configuration
from analysis.metrics.catalogue import CATALOGUE


def convert_statistics(
    configurations: Sequence[Configuration],
    metrics: Sequence[str],
) -> list[dict[str, Any]]:
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


def tabulate_statistics(
    configurations: Sequence[Configuration],
    metrics: Sequence[str],
) -> pl.DataFrame:
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
