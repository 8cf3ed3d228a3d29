"""Every number of analysis in plain Python, from the definitions alone: no Polars, no NumPy, nothing of `analysis`.

`python -m tests.analysis.metric_oracle` writes the golden answers for tests/data/run to tests/data/golden.
"""

from tests.analysis.metric_oracle.arithmetic import grouped, quantile
from tests.analysis.metric_oracle.facts import DATA, GOLDEN_TARGETS, MOVES, QOS, Facts, read
from tests.analysis.metric_oracle.metrics import summary
from tests.analysis.metric_oracle.tables import TABLES, in_ms, intervals

__all__ = [
    "DATA",
    "GOLDEN_TARGETS",
    "MOVES",
    "QOS",
    "TABLES",
    "Facts",
    "grouped",
    "in_ms",
    "intervals",
    "quantile",
    "read",
    "summary",
]
