"""A trace in one picture: arrivals, prompt lengths, reuse, working set."""

import importlib.util
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import IdTable
from tracegen.describe.info import users
from tracegen.describe.reuse import Reuse
from tracegen.errors import InputError, missing_package
from tracegen.files.outputs import check_free, opened
from tracegen.schema import PREFILL, Trace

BINS: Final = 200
_BLUE, _ORANGE, _GREY = "#1f5fa8", "#c8691c", "#6b6b6b"


def check_picture(output: Path, *, force: bool) -> None:
    """Refuse a picture that cannot be written, before anything is measured.

    Raises:
        InputError: the suffix is neither .svg nor .png, it exists and `force` is false, or Matplotlib is missing.
    """
    if output.suffix not in (".svg", ".png"):
        raise InputError(f"--plot {output}: name it .svg or .png.")
    check_free(output, force=force, flag="--plot")
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_package("--plot", "matplotlib", "plot")


def plot(trace: Trace, output: Path, facts: dict[str, Any], reuse: Reuse, *, force: bool = False) -> None:
    """Draw a trace as one file that needs no other, .svg or .png; the same trace gives the same bytes.

    Args:
        trace: read once.
        output: as `check_picture` wants it.
        facts: of the trace, as `describe` gives them.
        reuse: of the trace, as `measure` gives it.
        force: replace the output.

    Raises:
        InputError: as `check_picture`, or it cannot be written.
    """
    check_picture(output, force=force)
    import matplotlib as mpl  # noqa: PLC0415 (an extra; only plots need it)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context({"svg.hashsalt": "kv", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(11, 7.2), layout="constrained")
        _draw(figure, trace, facts, reuse)
        metadata = {"Date": None} if output.suffix == ".svg" else {"Software": None}
        with opened(output, force=force, flag="--plot") as file:
            figure.savefig(file, format=output.suffix[1:], dpi=130, metadata=metadata)


def _draw(figure: Any, trace: Trace, facts: dict[str, Any], measured: Reuse) -> None:
    from matplotlib.ticker import EngFormatter  # noqa: PLC0415

    figure.suptitle(
        f"{trace.path.name}: {facts['ops']:,} ops, {facts['requests']:,} requests of {users(facts)},"
        f" fingerprint {trace.metadata.fingerprint[:12]}…",
        fontsize=11,
    )
    (arrivals, lengths), (reuse, working) = figure.subplots(2, 2)
    timeline = _Timeline(max(facts["duration_s"], 1e-9), facts["keys"])
    for batch in trace.batches():
        timeline.add(batch)
    times = timeline.edges[1:]
    arrivals.step(times, timeline.requests / timeline.width, color=_BLUE, where="pre", lw=1)
    _label(arrivals, "Arrivals", "time (s)", "requests per second")
    prompts = np.sort(timeline.prompts[np.arange(timeline.prompts.end)])
    lengths.plot(prompts, np.arange(1, len(prompts) + 1) / len(prompts), color=_BLUE)
    lengths.set_xscale("log")
    _label(lengths, "Prompt lengths (all that prefill touches)", "tokens", "share of requests at most so long")
    sizes, hits = measured.curve()
    reuse.plot(sizes, hits, color=_BLUE)
    reuse.set_xscale("log")
    sample = "" if measured.share == 1 else f", {measured.share:.1%} of the objects sampled"
    _label(reuse, f"Reuse distance: reads that an LRU cache hits{sample}", "cache size (tokens)", "share of reads")
    working.plot(times, np.cumsum(timeline.fresh), color=_BLUE, label="ever touched")
    working.plot(times, timeline.window(), color=_ORANGE, label=f"touched in the last {timeline.span:,.3g} s")
    working.legend(frameon=False)
    _label(working, "Working set", "time (s)", "tokens of distinct objects")
    working.yaxis.set_major_formatter(EngFormatter(sep=""))
    for axes in (arrivals, lengths, reuse, working):
        axes.set_ylim(bottom=0)


def _label(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x, color=_GREY)
    axes.set_ylabel(y, color=_GREY)
    axes.grid(visible=True, color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)


class _Timeline:
    """Sums in equal steps of time; 8 bytes per key and per request."""

    def __init__(self, duration_s: float, keys: int) -> None:
        self.edges = np.linspace(0, duration_s, BINS + 1)
        self.width, self._steps = duration_s / BINS, BINS // 20
        self.span = self.width * self._steps
        self.requests, self.fresh = np.zeros(BINS, np.int64), np.zeros(BINS, np.int64)
        self._enter, self._leave = np.zeros(BINS + 1, np.int64), np.zeros(BINS + 1, np.int64)
        self._last_bin, self._last_request = np.full(keys, -1, np.int64), -1
        self.prompts = IdTable(np.int64)

    def add(self, batch: dict[str, NDArray[Any]]) -> None:
        at = np.minimum((batch["time_ns"] / 1e9 / self.width).astype(np.int64), BINS - 1)
        request = batch["request_id"]
        before = np.maximum.accumulate(np.concatenate([[self._last_request], request[:-1]]))
        np.add.at(self.requests, at[request > before], 1)
        self._last_request = max(self._last_request, int(request.max()))
        prefill = np.flatnonzero(batch["phase"] == PREFILL)
        self.prompts.add(request[prefill], batch["tokens"][prefill])
        # Each key counts once per step; within the window it stays from its touch on, or from when it would have left.
        rows = np.unique(batch["key"] * BINS + at, return_index=True)[1]
        key, at, tokens = batch["key"][rows], at[rows], batch["tokens"][rows].astype(np.int64)
        previous = np.concatenate([[-1], at[:-1]])
        same = np.concatenate([[False], key[1:] == key[:-1]])
        last = np.where(same, previous, self._last_bin[key])
        np.add.at(self.fresh, at[last < 0], tokens[last < 0])
        changed = last != at
        begin = np.where(last < 0, at, np.maximum(at, np.minimum(last + self._steps, BINS)))
        np.add.at(self._enter, begin[changed], tokens[changed])
        np.add.at(self._leave, np.minimum(at + self._steps, BINS)[changed], tokens[changed])
        self._last_bin[key] = at  # rows are in order of key and time: the last one stays

    def window(self) -> NDArray[np.int64]:
        """Tokens of distinct objects touched within `span` seconds, at the end of each step."""
        found: NDArray[np.int64] = np.cumsum(self._enter - self._leave)[:BINS]
        return found
