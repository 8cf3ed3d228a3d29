"""autoscale.svg: throughput and P95 latency against users, with intervals, target and knee."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from replayer.experiments.search_settings import READ_LATENCY, THROUGHPUT, SearchSettings
from replayer.experiments.steps import Result, Step, StepRow
from tracegen.errors import format_count, missing_package

_GREY: Final = "#6b6b6b"
_STYLE: Final[Any] = {
    "svg.hashsalt": "kv",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class _Panel(NamedTuple):
    """One of the plots above each other: a column of the steps, its label and colour."""

    column: Literal["throughput_gib_s", "p95_ms", "value"]
    label: str
    colour: str


def write_plot(path: Path, settings: SearchSettings, steps: Sequence[Step], result: Result) -> None:
    """Write the plot of a search; the same steps give the same bytes.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 (an extra; only plots need it)
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise missing_package(str(path), "matplotlib", "plot") from None

    rows = sorted((step.row() for step in steps), key=lambda row: row["users"])
    panels = _list_panels(settings)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8, 2.4 * len(panels) + 0.6), layout="constrained")
        _draw(figure, panels, rows, settings, result)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _draw(
    figure: Any,
    panels: Sequence[_Panel],
    rows: Sequence[StepRow],
    settings: SearchSettings,
    result: Result,
) -> None:
    """Draw the panels above each other, with the answer as their title."""
    answer = "not known how many users"
    if result.users is not None:
        answer = format_count(result.users, "user")
    origin: str = settings.mode
    if settings.predictor is not None:
        origin += f", {settings.predictor.describe()}"
    figure.suptitle(f"{settings.trace.name}: {answer} ({origin})", fontsize=11)
    axes = figure.subplots(len(panels), sharex=True)
    for axis, panel in zip(axes, panels, strict=True):
        _draw_curve(axis, panel, rows, result.knee, is_dashed=settings.predictor is not None)
    if result.knee is not None:
        axes[0].annotate(f" knee: {result.knee:,}", (result.knee, 0), color=_GREY, va="bottom")
    _draw_evidence(axes[0 if settings.metric == THROUGHPUT else -1], rows, settings)
    _label_users(axes[-1], max(row["users"] for row in rows))


def _list_panels(settings: SearchSettings) -> list[_Panel]:
    """Return throughput, read latency, and the metric of the search if it is neither of them."""
    panels = [
        _Panel("throughput_gib_s", "nvme, read and written, GiB/s", "#1f5fa8"),
        _Panel("p95_ms", "nvme reads, P95, ms", "#c8691c"),
    ]
    if settings.metric not in (READ_LATENCY, THROUGHPUT):
        panels.append(_Panel("value", settings.metric, "#3f7d3f"))
    return panels


def _draw_curve(
    axis: Any,
    panel: _Panel,
    rows: Sequence[StepRow],
    knee: int | None,
    *,
    is_dashed: bool,
) -> None:
    """Draw a column of the steps against users; predicted ones are dashed."""
    values = [math.nan if row[panel.column] is None else row[panel.column] for row in rows]
    line = {"marker": "o", "markersize": 4, "color": panel.colour}
    if is_dashed:
        line |= {"linestyle": "--", "markerfacecolor": "none"}
    axis.plot([row["users"] for row in rows], values, **line)
    axis.set(ylabel=panel.label, xscale="log", ylim=(0, None))
    axis.grid(alpha=0.2)
    if knee is not None:
        axis.axvline(knee, color=_GREY, linestyle=":")


def _draw_evidence(axis: Any, rows: Sequence[StepRow], settings: SearchSettings) -> None:
    """Draw the intervals, and the target if there is one, where the metric of the search is."""
    for row in rows:
        if row["interval"]:
            low, high = row["interval"]
            axis.vlines(row["users"], low, high, color=_GREY)
    if settings.mode == "qos":
        axis.axhline(settings.target, color=_GREY, linestyle="--")
        axis.annotate(f"target {settings.target:g}", (1, settings.target), color=_GREY, va="bottom")


def _label_users(axis: Any, most: int) -> None:
    """Label the axis of users at powers of two."""
    powers = [1 << exponent for exponent in range(most.bit_length())]
    axis.set_xticks(powers, [f"{power:,}" for power in powers])
    axis.minorticks_off()
    axis.set_xlabel("users")
