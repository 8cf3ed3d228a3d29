"""The steps of a search as a table."""

import polars as pl

from analysis.searches.search import SearchReading


def tabulate_steps(search: SearchReading) -> pl.DataFrame:
    """Return the steps as a table, by users."""
    rows = [
        {
            "users": f"{step.users:,}",
            "trials": step.trials,
            f"{search.label}, {search.unit or 'value'}": step.value,
            "from": None if step.interval is None else step.interval[0],
            "to": None if step.interval is None else step.interval[1],
            "samples": step.n,
            "NVMe GiB/s": step.throughput_gib_s,
            "NVMe read P95, ms": step.p95_ms,
            "next": step.decision if step.evidence else f"{step.decision}: too few samples",
        }
        for step in search.steps
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
