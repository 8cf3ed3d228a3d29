"""Metrics: one function computes one or a few of them as a short lazy expression over the log.

A function takes the log and returns a frame with one row, whose columns are the metrics' names. Its
docstring defines each of them with its formula. METRICS at the end of its module gives each one's
unit, kind, label and better direction. Quantiles interpolate linearly; 1 GiB = 2^30 bytes.
"""

from collections.abc import Callable
from typing import Final

import polars as pl

from analysis.log.log import Log
from analysis.metrics import hit_rate, latency, machine, moves, throughput, time_spent, waits, wear
from analysis.metrics.metric import Declared

# All functions with their metrics, in the order of the glossary; a new module is one more line.
DECLARED: Final[Declared] = (
    throughput.METRICS
    | hit_rate.METRICS
    | moves.METRICS
    | latency.METRICS
    | waits.METRICS
    | time_spent.METRICS
    | wear.METRICS
    | machine.METRICS
)
# All functions by their names.
METRICS: Final[dict[str, Callable[[Log], pl.LazyFrame]]] = {function.__name__: function for function in DECLARED}
