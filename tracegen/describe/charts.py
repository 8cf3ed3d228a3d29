"""Charts of a trace: arrivals, prompt lengths, reuse distances and working set."""

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracegen.arrays import IdTable
from tracegen.describe.info import Facts
from tracegen.describe.reuse import Reuse
from tracegen.trace.columns import PREFILL, Columns
from tracegen.trace.reading import Trace
from views.answer import Axis, Chart

BINS: Final = 200
_WINDOW_BINS: Final = BINS // 20
_POINTS: Final = 1000
"""Points of a curve at most: more than a chart has pixels."""


def list_charts(trace: Trace, facts: Facts, reuse: Reuse) -> list[Chart]:
    """Return the charts of a trace, which is read once.

    Args:
        trace: the trace.
        facts: its facts, as `describe` returns them.
        reuse: its reuse, as `measure_reuse` returns it.

    Raises:
        InputError: the trace cannot be read.
    """
    timeline = _Timeline(max(facts["duration_s"], 1e-9), facts["keys"])
    for batch in trace.batches():
        timeline.add(batch)
    prompts = np.sort(timeline.prompts[np.arange(timeline.prompts.end)])
    ranks = np.arange(1, len(prompts) + 1) / max(len(prompts), 1)
    recent = f"touched in the last {timeline.window_s:,.3g} s"
    sample = "" if reuse.share == 1 else f" A sample of {reuse.share:.1%} of the objects."
    time, share = Axis(title="time, s"), Axis(title="share", is_share=True)
    return [
        Chart(
            name="arrivals",
            title="Arrivals",
            caption="Requests that begin in each interval.",
            kind="steps",
            rows=_tabulate("", timeline.ends_s - timeline.width_s, timeline.requests / timeline.width_s),
            x=time,
            y=Axis(title="requests/s"),
        ),
        Chart(
            name="prompt_lengths",
            title="Prompt lengths",
            caption="Share of the requests whose prefill touches at most these tokens.",
            kind="lines",
            rows=_tabulate("", prompts, ranks),
            x=Axis(title="tokens, log scale", is_log=True),
            y=share,
        ),
        Chart(
            name="reuse",
            title="Reads that an LRU cache hits, by its size",
            caption=f"The reuse distance of a read is the size from which on a cache hits it.{sample}",
            kind="lines",
            rows=_tabulate("", *reuse.hit_curve()),
            x=Axis(title="tokens of the cache, log scale", is_log=True),
            y=share,
        ),
        Chart(
            name="working_set",
            title="Working set",
            caption="Tokens of distinct objects, of all so far and of those touched recently.",
            kind="lines",
            rows=pl.concat(
                [
                    _tabulate("ever touched", timeline.ends_s, np.cumsum(timeline.fresh)),
                    _tabulate(recent, timeline.ends_s, timeline.recent_tokens()),
                ]
            ),
            x=time,
            y=Axis(title="tokens"),
        ),
    ]


def _tabulate(series: str, x: NDArray[Any], y: NDArray[Any]) -> pl.DataFrame:
    """Return at most _POINTS points of a curve, its ends among them."""
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).round().astype(int))
    points = pl.DataFrame({"x": x[kept].astype(float), "y": y[kept].astype(float)})
    return points.with_columns(series=pl.lit(series), note=pl.lit(None, pl.String))


class _Timeline:
    """Sums in BINS equal bins of time; it takes 8 bytes per key and per request.

    Attributes:
        width_s: width of a bin, in seconds.
        ends_s: end of each bin, in seconds; shape (BINS,).
        window_s: width of the window in which an object counts as recently touched, in seconds.
        requests: requests that begin in each bin; shape (BINS,).
        fresh: tokens of objects that each bin touches first; shape (BINS,).
        prompts: tokens that the prefill of each request touches.
    """

    def __init__(self, duration_s: float, keys: int) -> None:
        self.width_s = duration_s / BINS
        self.ends_s = np.linspace(0, duration_s, BINS + 1)[1:]
        self.window_s = self.width_s * _WINDOW_BINS
        self.requests = np.zeros(BINS, np.int64)
        self.fresh = np.zeros(BINS, np.int64)
        self.prompts = IdTable(np.int64)
        self._enter = np.zeros(BINS + 1, np.int64)  # tokens that enter the window in each bin
        self._leave = np.zeros(BINS + 1, np.int64)  # tokens that leave it
        self._last_bin = np.full(keys, -1, np.int64)  # by key
        self._last_request = -1

    def add(self, batch: Columns) -> None:
        """Add the next ops."""
        bins = np.minimum((batch["time_ns"] / 1e9 / self.width_s).astype(np.int64), BINS - 1)
        self._add_requests(batch, bins)
        self._add_touches(batch, bins)

    def _add_requests(self, batch: Columns, bins: NDArray[np.int64]) -> None:
        request = batch["request_id"]
        before = np.maximum.accumulate(np.concatenate([[self._last_request], request[:-1]]))
        np.add.at(self.requests, bins[request > before], 1)
        self._last_request = max(self._last_request, int(request.max()))
        prefill = np.flatnonzero(batch["phase"] == PREFILL)
        self.prompts.add(request[prefill], batch["tokens"][prefill])

    def _add_touches(self, batch: Columns, bins: NDArray[np.int64]) -> None:
        # Each key counts once per bin. It stays in the window from its touch on, or from when it
        # would have left.
        rows = np.unique(batch["key"] * BINS + bins, return_index=True)[1]
        key = batch["key"][rows]
        touched = bins[rows]
        tokens = batch["tokens"][rows].astype(np.int64)
        previous = np.concatenate([[-1], touched[:-1]])
        is_same_key = np.concatenate([[False], key[1:] == key[:-1]])
        last = np.where(is_same_key, previous, self._last_bin[key])
        is_first = last < 0
        np.add.at(self.fresh, touched[is_first], tokens[is_first])
        would_leave = np.minimum(last + _WINDOW_BINS, BINS)
        enter = np.where(is_first, touched, np.maximum(touched, would_leave))
        leave = np.minimum(touched + _WINDOW_BINS, BINS)
        is_new_bin = last != touched
        np.add.at(self._enter, enter[is_new_bin], tokens[is_new_bin])
        np.add.at(self._leave, leave[is_new_bin], tokens[is_new_bin])
        self._last_bin[key] = touched  # rows are in order of key and time: the last one stays

    def recent_tokens(self) -> NDArray[np.int64]:
        """Return the tokens of distinct objects in the window at the end of each bin."""
        tokens: NDArray[np.int64] = np.cumsum(self._enter - self._leave)[:BINS]
        return tokens
