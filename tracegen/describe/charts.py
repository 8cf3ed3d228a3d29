"""Charts of a trace: arrivals, prompt lengths, reuse distances and working set."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracegen.describe.info import Facts
from tracegen.describe.reuse import Reuse
from tracegen.trace.reading import Trace
from views.answer import Axis, Chart

BINS: Final = 200
_WINDOW_BINS: Final = BINS // 20
_POINTS: Final = 1000  # of a curve at most: more than a chart has pixels
_TIME: Final = Axis(title="time, s")
_SHARE: Final = Axis(title="share", is_share=True)


def list_charts(trace: Trace, facts: Facts, reuse: Reuse) -> list[Chart]:
    """Return the charts of a trace, with the facts and the reuse found in it."""
    width_s = max(facts["duration_s"], 1e-9) / BINS
    # The last op is at the end of the last bin, not at the beginning of another.
    place = (pl.col("time_ns") / 1e9 / width_s).cast(pl.Int64).clip(upper_bound=BINS - 1)
    rows = trace.frame().with_columns(pl.col("tokens").cast(pl.Int64), bin=place)
    prompt = pl.col("tokens").filter(pl.col("phase") == "prefill").sum()
    requests = rows.group_by("request_id").agg(pl.col("bin").min(), prompt=prompt)
    touches = rows.select("key", "bin", "tokens").unique(["key", "bin"]).sort("key", "bin")
    requests_found, touches_found = trace.collect(requests, touches)
    return [*_draw_requests(requests_found, width_s), _draw_reuse(reuse), _draw_working_set(touches_found, width_s)]


def _draw_requests(requests: pl.DataFrame, width_s: float) -> Iterator[Chart]:
    """Draw requests by the bin in which they begin, and their prompts."""
    begun = np.bincount(requests["bin"], minlength=BINS)
    yield Chart(
        name="arrivals",
        title="Arrivals",
        caption="Requests that begin in each interval.",
        kind="steps",
        rows=_tabulate("", np.arange(BINS) * width_s, begun / width_s),
        x=_TIME,
        y=Axis(title="requests/s"),
    )
    lengths = requests["prompt"].sort().to_numpy()
    yield Chart(
        name="prompt_lengths",
        title="Prompt lengths",
        caption="Share of the requests whose prefill touches at most these tokens.",
        kind="lines",
        rows=_tabulate("", lengths, np.arange(1, len(lengths) + 1) / len(lengths)),
        x=Axis(title="tokens, log scale", is_log=True),
        y=_SHARE,
    )


def _draw_reuse(reuse: Reuse) -> Chart:
    sample = "" if reuse.share == 1 else f" A sample of {reuse.share:.1%} of the objects."
    return Chart(
        name="reuse",
        title="Reads that an LRU cache hits, by its size",
        caption=f"The reuse distance of a read is the size from which on a cache hits it.{sample}",
        kind="lines",
        rows=_tabulate("", *reuse.hit_curve()),
        x=Axis(title="tokens of the cache, log scale", is_log=True),
        y=_SHARE,
    )


def _draw_working_set(touches: pl.DataFrame, width_s: float) -> Chart:
    """Draw the tokens of the objects that were touched, each once per bin, sorted by key and bin."""
    key, begin = pl.col("key"), pl.col("bin")
    # An object stays in the window until it leaves it, or until its next touch takes over.
    taken_over = pl.when(key == key.shift(-1)).then(begin.shift(-1))
    end = pl.min_horizontal(begin + _WINDOW_BINS, taken_over, BINS)
    is_first = (key != key.shift()).fill_null(True)
    found = touches.with_columns(end=end, fresh=pl.col("tokens") * is_first)
    enter, leave, fresh = (
        np.bincount(found[at], found[weight], BINS + 1)
        for at, weight in (("bin", "tokens"), ("end", "tokens"), ("bin", "fresh"))
    )
    ends_s = np.arange(1, BINS + 1) * width_s
    curves = {
        "ever touched": np.cumsum(fresh)[:BINS],
        f"touched in the last {_WINDOW_BINS * width_s:,.3g} s": np.cumsum(enter - leave)[:BINS],
    }
    return Chart(
        name="working_set",
        title="Working set",
        caption="Tokens of distinct objects, of all so far and of those touched recently.",
        kind="lines",
        rows=pl.concat([_tabulate(series, ends_s, tokens) for series, tokens in curves.items()]),
        x=_TIME,
        y=Axis(title="tokens"),
    )


def _tabulate(series: str, x: NDArray[Any], y: NDArray[Any]) -> pl.DataFrame:
    """Return at most _POINTS points of a curve, its ends among them."""
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).round().astype(int))
    points = pl.DataFrame({"x": x[kept].astype(float), "y": y[kept].astype(float)})
    return points.with_columns(series=pl.lit(series), note=pl.lit(None, pl.String))
