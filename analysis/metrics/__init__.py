"""One metric, one short lazy expression over the log. A new metric is one function and one line in this table.

Each takes the log and returns a frame of one row; its columns are the metric's flat names, the unit the last part. Its
docstring defines every name, and `analysis metrics` prints it. Quantiles interpolate linearly; 1 GiB = 2^30 bytes.
"""

from collections.abc import Callable
from typing import Final

import polars as pl

from analysis.log.log import Log
from analysis.metrics import (
    bandwidth,
    data,
    hit_rate,
    latency,
    machine,
    moves,
    ranks,
    throughput,
    time_spent,
    waits,
    wear,
)

METRICS: Final[dict[str, Callable[[Log], pl.LazyFrame]]] = {
    "throughput": throughput.throughput,
    "steady": throughput.steady,
    "data": data.data,
    "hit_rate": hit_rate.hit_rate,
    "moves": moves.moves,
    "contents": moves.contents,
    "latency": latency.latency,
    "bandwidth": bandwidth.bandwidth,
    "waits": waits.waits,
    "qos": waits.qos,
    "time_spent": time_spent.time_spent,
    "break_even": time_spent.break_even,
    "amplification": wear.amplification,
    "device": wear.device,
    "machine": machine.machine,
    "ranks": ranks.ranks,
}
