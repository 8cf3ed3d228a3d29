"""Statistics of a comparison as a table for CSV."""

from dataclasses import asdict

import polars as pl

from analysis.comparison.compare import Comparison
from analysis.metrics.catalogue import CATALOGUE


def tabulate_comparison(comparison: Comparison) -> pl.DataFrame:
    """Return a row for each configuration, metric and system, with its statistics over trials."""
    rows = [
        {
            "configuration": one.name,
            "system": system,
            "predicted": system in comparison.predicted,
            "metric": metric,
            "unit": CATALOGUE[metric].unit if metric in CATALOGUE else "",
            **asdict(one.statistics(system, metric)),
        }
        for one in comparison.configurations
        for metric in comparison.metrics
        for system in one.summaries
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
