"""A picture of a trace: arrivals, prompt lengths, reuse distances and working set."""

import importlib.util
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import IdTable
from tracegen.describe.info import Facts, format_users
from tracegen.describe.reuse import Reuse
from tracegen.errors import InputError, missing_package
from tracegen.files.outputs import check_output, open_output
from tracegen.trace.columns import PREFILL, Columns
from tracegen.trace.reading import Trace

BINS: Final = 200
_WINDOW_BINS: Final = BINS // 20
_BLUE: Final = "#1f5fa8"
_ORANGE: Final = "#c8691c"
_GREY: Final = "#6b6b6b"
_STYLE: Final[Any] = {
    "svg.hashsalt": "kv",  # equal traces give equal bytes
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def check_picture(picture: Path, *, force: bool) -> None:
    """Refuse a picture that cannot be written, before anything is measured.

    Raises:
        InputError: the suffix is neither .svg nor .png, the file exists and `force` is false, or
            Matplotlib is missing.
    """
    if picture.suffix not in (".svg", ".png"):
        problem = "neither .svg nor .png"
        raise InputError(problem, "choose one of them", subject=picture, setting="picture")
    check_output(picture, force=force, setting="picture")
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_package("`picture`", "matplotlib", "plot")


def plot(
    trace: Trace,
    picture: Path,
    facts: Facts,
    reuse: Reuse,
    *,
    force: bool = False,
) -> None:
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
    import matplotlib as mpl  # noqa: PLC0415 (an extra; only plots need it)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11, 7.2), layout="constrained")
        _draw(figure, trace, facts, reuse)
        metadata = {"Date": None} if picture.suffix == ".svg" else {"Software": None}
        with open_output(picture, force=force, setting="picture") as file:
            figure.savefig(file, format=picture.suffix[1:], dpi=130, metadata=metadata)


def _draw(figure: Any, trace: Trace, facts: Facts, reuse: Reuse) -> None:
    figure.suptitle(
        f"{trace.path.name}: {facts['ops']:,} ops, {facts['requests']:,} requests of"
        f" {format_users(facts)}, fingerprint {trace.metadata.fingerprint[:12]}…",
        fontsize=11,
    )
    timeline = _Timeline(max(facts["duration_s"], 1e-9), facts["keys"])
    for batch in trace.batches():
        timeline.add(batch)
    charts = figure.subplots(2, 2)
    (arrivals, lengths), (distances, working_set) = charts
    _draw_arrivals(arrivals, timeline)
    _draw_lengths(lengths, timeline)
    _draw_distances(distances, reuse)
    _draw_working_set(working_set, timeline)
    for axes in charts.flat:
        axes.set_ylim(bottom=0)


def _draw_arrivals(axes: Any, timeline: "_Timeline") -> None:
    rate = timeline.requests / timeline.width_s
    axes.step(timeline.ends_s, rate, color=_BLUE, where="pre", lw=1)
    _label(axes, "Arrivals", "time (s)", "requests per second")


def _draw_lengths(axes: Any, timeline: "_Timeline") -> None:
    prompts = np.sort(timeline.prompts[np.arange(timeline.prompts.end)])
    axes.plot(prompts, np.arange(1, len(prompts) + 1) / len(prompts), color=_BLUE)
    axes.set_xscale("log")
    title = "Prompt lengths (all objects that prefill touches)"
    _label(axes, title, "tokens", "share of requests up to this length")


def _draw_distances(axes: Any, reuse: Reuse) -> None:
    sizes, hits = reuse.hit_curve()
    axes.plot(sizes, hits, color=_BLUE)
    axes.set_xscale("log")
    sample = "" if reuse.share == 1 else f", {reuse.share:.1%} of the objects sampled"
    title = f"Reuse distance: reads that an LRU cache hits{sample}"
    _label(axes, title, "cache size (tokens)", "share of reads")


def _draw_working_set(axes: Any, timeline: "_Timeline") -> None:
    from matplotlib.ticker import EngFormatter  # noqa: PLC0415 (an extra; only plots need it)

    recent = f"touched in the last {timeline.window_s:,.3g} s"
    axes.plot(timeline.ends_s, np.cumsum(timeline.fresh), color=_BLUE, label="ever touched")
    axes.plot(timeline.ends_s, timeline.recent_tokens(), color=_ORANGE, label=recent)
    axes.legend(frameon=False)
    _label(axes, "Working set", "time (s)", "tokens of distinct objects")
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))


def _label(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x, color=_GREY)
    axes.set_ylabel(y, color=_GREY)
    axes.grid(visible=True, color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)


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
