"""A picture of a trace: arrivals, prompt lengths, reuse distances and working set."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import altair as alt
import numpy as np
import vl_convert
from numpy.typing import NDArray

from tracegen.arrays import IdTable
from tracegen.describe.info import Facts, format_users
from tracegen.describe.reuse import Reuse
from tracegen.errors import InputError
from tracegen.files.outputs import check_output, open_output
from tracegen.trace.columns import PREFILL, Columns
from tracegen.trace.reading import Trace

BINS: Final = 200
_WINDOW_BINS: Final = BINS // 20
_POINTS: Final = 1000
"""Points of a curve at most: more than the picture has pixels."""
_COLOURS: Final = ("#1f5fa8", "#c8691c")
_GREY: Final = "#6b6b6b"
_CONFIG: Final[dict[str, object]] = {
    "view": {"stroke": None},
    "axis": {"labelColor": _GREY, "titleColor": _GREY, "gridColor": "#e6e6e6", "titleFontWeight": 400},
    "title": {"anchor": "start", "fontWeight": "normal", "offset": 10},
    "legend": {"orient": "top-left", "title": None, "labelLimit": 300},
    "range": {"category": _COLOURS},
}

_Curves = dict[str, tuple[NDArray[Any], NDArray[Any]]]
"""x and y of each curve, by the name that a legend shows."""


def check_picture(picture: Path, *, force: bool) -> None:
    """Refuse a picture that cannot be written, before anything is measured.

    Raises:
        InputError: the suffix is neither .svg nor .png, or the file exists and `force` is false.
    """
    if picture.suffix not in (".svg", ".png"):
        problem = "neither .svg nor .png"
        raise InputError(problem, "choose one of them", subject=picture, setting="picture")
    check_output(picture, force=force, setting="picture")


def plot(trace: Trace, picture: Path, facts: Facts, reuse: Reuse, *, force: bool = False) -> None:
    """Draw a trace as one .svg or .png file that needs no other; equal traces give equal bytes.

    Args:
        trace: the trace, which is read once.
        picture: the file.
        facts: the trace's facts, as `describe` returns them.
        reuse: the trace's reuse, as `measure_reuse` returns it.
        force: replace the file.

    Raises:
        InputError: as `check_picture`, or the file cannot be written.
    """
    check_picture(picture, force=force)
    spec = _draw(trace, facts, reuse).to_dict() | {"config": _CONFIG}
    svg = vl_convert.vegalite_to_svg(spec, vl_version="v6.4")
    drawn = svg.encode() if picture.suffix == ".svg" else vl_convert.svg_to_png(svg, scale=1.5)
    with open_output(picture, force=force, setting="picture") as file:
        file.write(drawn)


def _draw(trace: Trace, facts: Facts, reuse: Reuse) -> alt.ConcatChart:
    timeline = _Timeline(max(facts["duration_s"], 1e-9), facts["keys"])
    for batch in trace.batches():
        timeline.add(batch)
    prompts = np.sort(timeline.prompts[np.arange(timeline.prompts.end)])
    ranks = np.arange(1, len(prompts) + 1) / max(len(prompts), 1)
    sample = "" if reuse.share == 1 else f", {reuse.share:.1%} of the objects sampled"
    recent = f"touched in the last {timeline.window_s:,.3g} s"
    rate = {"": (timeline.ends_s, timeline.requests / timeline.width_s)}
    working_set = {
        "ever touched": (timeline.ends_s, np.cumsum(timeline.fresh)),
        recent: (timeline.ends_s, timeline.recent_tokens()),
    }
    lengths = "Prompt lengths (all objects that prefill touches)"
    lengths_y = "share of requests up to this length"
    distances = f"Reuse distance: reads that an LRU cache hits{sample}"
    size = "cache size (tokens)"
    charts = (
        _draw_lines(rate, "Arrivals", "time (s)", "requests per second", is_step=True),
        _draw_lines({"": (prompts, ranks)}, lengths, "tokens", lengths_y, is_log=True),
        _draw_lines({"": reuse.hit_curve()}, distances, size, "share of reads", is_log=True),
        _draw_lines(working_set, "Working set", "time (s)", "tokens of distinct objects"),
    )
    title = (
        f"{trace.path.name}: {facts['ops']:,} ops, {facts['requests']:,} requests of"
        f" {format_users(facts)}, fingerprint {trace.metadata.fingerprint[:12]}…"
    )
    picture = alt.concat(*charts, columns=2, title=title, background="white", padding=12)
    picture.resolve = alt.Resolve(scale=alt.ScaleResolveMap(color="independent"))
    return picture


def _draw_lines(
    curves: _Curves, title: str, x: str, y: str, *, is_log: bool = False, is_step: bool = False
) -> alt.Chart:
    """Draw curves by their names; a legend names them if there are several."""
    values = [point for name, (xs, ys) in curves.items() for point in _thin(name, xs, ys)]
    scale = alt.Scale(type="log") if is_log else alt.Scale(zero=True)
    scale.nice = False
    lines = alt.Chart(alt.InlineData(values=values), title=title, width=480, height=260).mark_line(
        interpolate="step-before" if is_step else "linear", strokeWidth=1.5
    )
    chart: alt.Chart = lines.encode(
        alt.X("x:Q", title=x, scale=scale, axis=alt.Axis(format="~s", tickCount=6, grid=False)),
        alt.Y("y:Q", title=y, axis=alt.Axis(format="~s", titlePadding=8)),
        alt.Color("name:N", sort=None, legend=alt.Legend() if len(curves) > 1 else None),
    )
    return chart


def _thin(name: str, x: NDArray[Any], y: NDArray[Any]) -> Iterator[dict[str, object]]:
    """Yield at most _POINTS points of a curve, its ends among them."""
    for at in np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).round().astype(int)):
        yield {"x": float(x[at]), "y": float(y[at]), "name": name}


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
