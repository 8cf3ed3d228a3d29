"""Measured beside predicted: each prediction as its distance from the median of the trials."""

from typing import Any, Final

import altair as alt
import polars as pl

from analysis.metrics.headlines import heading
from analysis.report.bar_charts import stack_panels
from analysis.report.between_runs.predicted import PredictedSystem, find_predicted
from analysis.report.chart_kinds import ROWS, Axis, Plot
from analysis.report.data import Gathered
from analysis.report.svg import INK, MUTED, TEXT_SIZE, get_colour
from analysis.report.text import format_number

_SIDES: Final = {"measured": "blue", "predicted": "red"}
_ROW: Final = 48
_SHIFT: Final = 10
"""Pixels between a mark and the middle of its row."""
_LABEL: Final = 380
"""Most pixels for the names of rows."""
_VALUES: Final = 260
"""Pixels for the values at the right."""


def list_errors(data: Gathered) -> pl.DataFrame:
    """List measured and predicted values: two rows for each metric of each prediction.

    `low_share`, `value_share` and `high_share` are distances from the measured median.
    """
    rows = [row for system in find_predicted(data) for row in _list_rows(system)]
    return pl.DataFrame(rows, infer_schema_length=None)


def _list_rows(system: PredictedSystem) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for metric, one in system.errors.items():
        base = one.measured or 1.0
        ends = {"measured": (one.low, one.high), "predicted": (None, None)}
        values = {"measured": one.measured, "predicted": one.predicted}
        for side, value in values.items():
            low, high = ends[side]
            shares = {"value_share": value, "low_share": low, "high_share": high}
            interval = "" if low is None else f" [{format_number(low)} to {format_number(high)}]"
            rows.append(
                {
                    "prediction": system.name,
                    "metric": metric,
                    "panel": system.name,
                    "label": heading(metric),
                    "side": side,
                    "value": value,
                    "low": low,
                    "high": high,
                    **{name: end and end / base - 1 for name, end in shares.items()},
                    "error": one.error if side == "predicted" else None,
                    "few": one.is_thin,
                    "note": f"{heading(metric)}, {side}: {format_number(value)}{interval}",
                }
            )
    return rows


def tabulate_errors(data: Gathered) -> dict[str, pl.DataFrame]:
    """Return a table with a row for each metric of each prediction."""
    rows = list_errors(data)
    if rows.is_empty():
        return {}
    keys = ("prediction", "metric")
    measured, predicted = (rows.filter(pl.col("side") == side) for side in _SIDES)
    ends = (pl.col(name).alias(f"measured {name}") for name in ("value", "low", "high"))
    table = measured.select(*keys, *ends).join(
        predicted.select(*keys, pl.col("value").alias("predicted value"), "error", "few"),
        on=keys,
        maintain_order="left",
    )
    return {"median and ends of the measured trials; the prediction": table}


def draw_predicted(data: Gathered, width: int) -> Plot | None:
    """Draw measured medians with the range of the trials, and predictions."""
    rows = list_errors(data)
    if rows.is_empty():
        return None
    words = [_describe_error(row) for row in rows.to_dicts()]
    rows = rows.with_columns(pl.Series("words", words, pl.String))
    labels = rows["label"].unique(maintain_order=True).to_list()
    inner = width - min(_LABEL, 8 * max(map(len, labels))) - _VALUES
    height = _ROW * len(labels)
    left = alt.Axis(labelLimit=_LABEL, domain=False, ticks=False)
    base = alt.Chart(ROWS).encode(y=alt.Y("label:N", sort=labels, title=None, axis=left))
    middle = base.mark_rule(strokeWidth=1, color=INK, aria=False)
    chart = alt.layer(
        middle.encode(x=alt.datum(0), y=alt.value(0), y2=alt.value(height)),
        *(layer for side in _SIDES for layer in _mark_side(base, side, inner)),
    ).properties(width=inner, height=height)
    return Plot(stack_panels(chart, rows["panel"].unique(maintain_order=True).to_list()), rows)


def _mark_side(base: alt.Chart, side: str, width: int) -> list[alt.Chart]:
    """Mark one side above or below the middle of its row: range of trials, value, words."""
    is_measured = side == "measured"
    shift = -_SHIFT if is_measured else _SHIFT
    scale = alt.Scale(domain=list(_SIDES), range=[get_colour(name) for name in _SIDES.values()])
    colour = alt.Color("side:N", scale=scale, legend=alt.Legend(columns=2, symbolType="circle"))
    own = base.transform_filter(f"datum.side == '{side}'").encode(color=colour)
    x = Axis("distance from the measured median", format="+~%")
    axis = x.axis(6, pl.Series([0.0]))
    axis["labelExpr"] = "datum.value == 0 ? 'measured' : datum.label"
    place: Any = {"title": x.title, "scale": x.scale(), "axis": axis}
    span = own.transform_filter("datum.low_share != null")
    rule = span.mark_rule(strokeWidth=2.5, yOffset=shift, aria=False)
    point = own.mark_point(size=80, filled=True, opacity=1, yOffset=shift)
    text = own.mark_text(align="left", dx=10, dy=shift, fontSize=TEXT_SIZE, aria=False)
    return [
        rule.encode(x=alt.X("low_share:Q", **place), x2="high_share:Q"),
        point.encode(
            x=alt.X("value_share:Q", **place),
            description="note:N",
        ),
        text.encode(x=alt.value(width), text="words:N", color=alt.value(MUTED)),
    ]


def _describe_error(row: dict[str, float | str | bool | None]) -> str:
    """Describe a value at the right of its row."""
    value = format_number(row["value"])
    if row["side"] == "measured":
        return f"{value} measured"
    error = f"{row['error']:+.1%}".replace("-", "−")
    return f"{value} predicted, {error}"
