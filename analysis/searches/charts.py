"""Charts of a search: what its steps measured, against their users."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import altair as alt
import polars as pl

from analysis.report.chart_kinds import ROWS, Plot
from analysis.report.svg import INK, MUTED, TEXT_SIZE, WIDTH, get_colour
from analysis.searches.search import SearchReading, SearchStep, tabulate_steps
from analysis.sweeps.figures import PlainFigure
from tracegen.errors import format_count

_PREDICTED: Final = [7, 4]
_INNER: Final = WIDTH - 110
_HEIGHT: Final = 320
_Read = Callable[[SearchStep], float | None]


def list_search_figures(search: SearchReading) -> Iterator[PlainFigure]:
    """Yield the metric of the search, then throughput and latency of the nvme tier."""
    content = search.content
    reading = "Each point is the mean of a step's trials, with its interval."
    if content.target is not None:
        reading += " The line across is the target; the answer is the last point on its side."
    reading += " Hollow points have too few samples and decide nothing."
    if search.is_predicted:
        reading += " Dashed: predicted, not measured."
    unit = f", {search.unit}" if search.unit else ""
    yield _make_figure(search, "metric", f"{search.label}{unit}", reading, _read_value)
    kept = "Means of the steps' trials; the dotted line marks the answer."
    if "nvme" not in content.metric:
        title = "NVMe throughput, read and written, GiB/s"
        yield _make_figure(search, "throughput", title, kept, _read_throughput)
    if content.metric != "nvme_read_p95_ms":
        yield _make_figure(search, "latency", "NVMe reads, P95, ms", kept, _read_latency)


def _read_value(step: SearchStep) -> float | None:
    return step.value


def _read_throughput(step: SearchStep) -> float | None:
    return step.throughput_gib_s


def _read_latency(step: SearchStep) -> float | None:
    return step.p95_ms


def _make_figure(
    search: SearchReading,
    name: str,
    title: str,
    reading: str,
    read: _Read,
) -> PlainFigure:
    draw, table = partial(draw_steps, search, title, read), partial(tabulate_steps, search)
    return PlainFigure(name, f"{title}, against users", reading, draw, table)


def draw_steps(search: SearchReading, title: str, read: _Read) -> Plot | None:
    """Draw a value of the steps over their users; None if fewer than two measured it."""
    is_metric = read is _read_value
    rows = [_row(search, step, read, is_metric=is_metric) for step in search.steps]
    rows = [row for row in rows if row["y"] is not None]
    if len(rows) < 2:
        return None
    table = pl.DataFrame(rows, infer_schema_length=None)
    tops = [value for name in ("y", "high") for value in table[name].drop_nulls()]
    target = search.content.target if is_metric else None
    top = 1.08 * max([*tops, target or 0.0]) or 1.0
    users = [step.users for step in search.steps]
    x = alt.X(
        "x:Q",
        title="users, log scale",
        scale=alt.Scale(type="log", domain=[users[0] / 1.05, users[-1] * 1.15], nice=False),
        axis=alt.Axis(values=users, format=",d", labelOverlap="greedy"),
    )
    share = ".0%" if is_metric and not search.unit and top <= 2 else ",.6~g"
    scale = alt.Scale(domain=[0, top], nice=False)
    y = alt.Y("y:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6, format=share))
    base = alt.Chart(ROWS).encode(x=x, y=y)
    layers = [*_mark_steps(base, search), *_mark_answer(search, base)]
    if target is not None:
        layers += _mark_target(search, base, target)
    return Plot(alt.layer(*layers).properties(width=_INNER, height=_HEIGHT), table)


def _row(
    search: SearchReading,
    step: SearchStep,
    read: _Read,
    *,
    is_metric: bool,
) -> dict[str, object]:
    low, high = step.interval if is_metric and step.interval else (None, None)
    is_evidence = step.evidence or not is_metric
    shown = search.format_value(step.value) if is_metric else f"{read(step) or 0:.4g}"
    few = "" if is_evidence else ", too few samples"
    users, trials = format_count(step.users, "user"), format_count(step.trials, "trial")
    note = f"{users}: {shown}, {trials}{few}"
    row = {"x": step.users, "y": read(step), "low": low, "high": high}
    return row | {"evidence": is_evidence, "note": note}


def _mark_steps(base: alt.Chart, search: SearchReading) -> Iterator[alt.Chart]:
    """Yield the line through the steps, their intervals and their points."""
    blue = get_colour("blue")
    dash = _PREDICTED if search.is_predicted else [1, 0]
    yield base.mark_line(aria=False, color=blue, strokeDash=dash, strokeWidth=2)
    ranged = base.transform_filter("datum.low != null")
    yield ranged.mark_rule(aria=False, color=INK, strokeWidth=2).encode(y="low:Q", y2="high:Q")
    for condition, is_filled in (("datum.evidence", True), ("!datum.evidence", False)):
        points = base.transform_filter(condition)
        marks = points.mark_point(size=80, filled=is_filled, opacity=1, color=blue)
        yield marks.encode(description="note:N")


def _mark_target(search: SearchReading, base: alt.Chart, target: float) -> Iterator[alt.Chart]:
    """Yield a line at the target, and its name."""
    y, right, name = alt.datum(target), alt.value(_INNER), f"target {search.format_value(target)}"
    first = base.transform_filter(f"datum.x == {search.steps[0].users}")
    yield first.mark_rule(aria=False, color=INK).encode(y=y, x=alt.value(0), x2=right)
    text = first.mark_text(aria=False, align="left", dx=4, dy=-8, fontSize=TEXT_SIZE, color=INK)
    yield text.encode(x=alt.value(0), y=y, text=alt.value(name))


def _mark_answer(search: SearchReading, base: alt.Chart) -> Iterator[alt.Chart]:
    """Yield a line at the answer, and its name."""
    users = search.content.result.users
    if not users:
        return
    at = base.transform_filter(f"datum.x == {users}")
    rule = at.mark_rule(aria=False, color=MUTED, strokeDash=[2, 3])
    yield rule.encode(y=alt.value(0), y2=alt.value(_HEIGHT))
    text = at.mark_text(aria=False, align="left", dx=5, dy=12, fontSize=TEXT_SIZE, color=INK)
    yield text.encode(y=alt.value(0), text=alt.value(f"answer: {users:,}"))
