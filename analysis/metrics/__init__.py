"""One metric, one short lazy expression over the log. A new metric is one file and one line in this table.

Each function takes the log (one row per move) and returns a frame of one row; its columns are the metric's flat names,
the unit the last part of each. Quantiles interpolate linearly; 1 GiB = 2^30 bytes.
"""

from collections.abc import Callable
from typing import Final

import polars as pl

from analysis.metrics import bandwidth, data, hit_rate, latency, moves, nvme_tokens, throughput, waits

METRICS: Final[dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]]] = {
    "throughput": throughput.throughput,
    "data": data.data,
    "nvme_tokens": nvme_tokens.nvme_tokens,
    "hit_rate": hit_rate.hit_rate,
    "moves": moves.moves,
    "latency": latency.latency,
    "bandwidth": bandwidth.bandwidth,
    "waits": waits.waits,
}
