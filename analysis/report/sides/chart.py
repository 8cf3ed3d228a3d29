"""The comparison of systems as a chart for slides: a forest plot with its figures."""

import math
from typing import Final

import altair as alt
import polars as pl

from analysis.comparison.compare import Comparison
from analysis.comparison.rows import Row, tabulate_comparison
from analysis.report.chart_kinds import ROWS, Chart, Plot
from analysis.report.sides.forest import ForestAxis, fit_axis, turn
from analysis.report.svg import INK, MUTED, WIDTH, get_colour

_COLUMNS: Final = {"old": 70, "new": 70, "ratio": 75, "interval": 110, "words": 130}
"""The columns of figures, and their widths in pixels."""
_GAP: Final = 12
_STEP: Final = 30
"""Pixels of a row."""
_LETTER: Final = 7.2
"""Pixels of a letter of a label."""
_TIMES: Final = "(datum.value < 0.999 ? 1 / datum.value : datum.value)"
_LABEL: Final = f"abs(datum.value - 1) < 0.001 ? '1' : format({_TIMES}, '.3~g') + '×'"


def draw_forest(sides: Comparison) -> Plot | None:
    """Draw each ratio with its interval beside the values of both systems; None without ratios."""
    groups = tabulate_comparison(sides)
    listed = [(_join(one.title, row.head), row) for one in groups for row in one.rows]
    if not listed:
        return None
    marks = [_make_mark(label, row) for label, row in listed]
    order = [label for label, _ in listed]
    name = sides.compared[0].name if len(sides.compared) == 1 else "system"
    heads = {"old": sides.baseline, "new": name, "ratio": "ratio", "interval": "95% interval"}
    taken = sum(_COLUMNS.values()) + _GAP * len(_COLUMNS)
    width = WIDTH - taken - _LETTER * max(map(len, order)) - 20
    title = f"← {sides.baseline} better    |    {name} better →"
    axis = fit_axis(row.ratio for _, row in listed)
    forest = _draw_marks(order, axis, max(width, 240), title)
    figures = [_write_column(column, heads.get(column, ""), order) for column in _COLUMNS]
    rows = pl.DataFrame(marks, infer_schema_length=None)
    return Plot(alt.hconcat(forest, *figures, spacing=_GAP), rows)


def _join(title: str, head: str) -> str:
    return ": ".join(filter(None, (title, head)))


def _make_mark(label: str, row: Row) -> dict[str, str | float | None]:
    at, low, high = turn(row.ratio) or (None, None, None)
    return {
        "label": label,
        "at": at,
        "low": low,
        "high": high,
        "tone": row.tone,
        "old": row.old,
        "new": row.new,
        "ratio": row.times,
        "interval": row.interval,
        "words": _WORDS.get(row.tone, row.words),
        "note": f"{label}: {row.times}, 95% interval {row.interval}: {row.words}",
    }


_WORDS: Final = {"equal": "no difference", "open": "no verdict"}


def _draw_marks(order: list[str], axis: ForestAxis, width: float, title: str) -> Chart:
    ends = [math.exp(axis.low), math.exp(axis.high)]
    span = axis.high - axis.low
    ticks = [math.exp(axis.low + place / 100 * span) for place, _ in axis.ticks()]
    x = alt.X(
        "at:Q",
        scale=alt.Scale(type="log", domain=ends, nice=False),
        title=title,
        axis=alt.Axis(values=ticks, labelExpr=_LABEL, orient="top", domain=False),
    )
    y = alt.Y(
        "label:N",
        scale=alt.Scale(domain=order),
        title=None,
        axis=alt.Axis(labelLimit=600, labelColor=INK, domain=False, ticks=False),
    )
    tones = {"better": "cpu", "worse": "nvme", "equal": "muted", "open": "muted"}
    colours = alt.Scale(domain=list(tones), range=[get_colour(name) for name in tones.values()])
    colour = alt.Color("tone:N", scale=colours, legend=None)
    base = alt.Chart(ROWS).encode(y=y, description="note:N")
    known = base.transform_filter("isValid(datum.at)")
    one = alt.Chart(ROWS).mark_rule(color=INK, strokeWidth=1.5, aria=False).encode(x=alt.datum(1))
    return alt.layer(
        one,
        known.mark_rule(strokeWidth=7, opacity=0.45, aria=False).encode(
            x="low:Q",
            x2="high:Q",
            color=colour,
        ),
        known.mark_point(filled=True, size=130, opacity=1).encode(x=x, color=colour),
    ).properties(width=width, height=alt.Step(_STEP))


def _write_column(name: str, head: str, order: list[str]) -> Chart:
    """Write a column of figures, aligned to the right; words to the left."""
    is_text = name == "words"
    title = alt.Title(head, anchor="end", fontSize=15, fontWeight="normal", color=MUTED)
    place = 0 if is_text else _COLUMNS[name]
    base = alt.Chart(ROWS, title=title, width=_COLUMNS[name], height=alt.Step(_STEP))
    text = base.mark_text(align="left" if is_text else "right", fontSize=15, x=place, color=INK)
    y = alt.Y("label:N", scale=alt.Scale(domain=order), axis=None)
    column: alt.Chart = text.encode(y=y, text=f"{name}:N")
    return column
