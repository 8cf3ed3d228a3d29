"""The cells of a grid as a table for a terminal."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from replayer.record.options import DECODE_WORDS
from replayer.record.simulation import (
    PREDICTED_COLUMNS,
    SIMULATION_COLUMNS,
    Cell,
    CellValue,
    SimulationInfo,
)
from tracegen.errors import InputError, format_count

_WIDTH: Final = 100
_GIB: Final = 2**30
_GREATEST_FIRST: Final = ("hit", "spared", "bound", "wall_clock_tok_s")
"""Beginnings of the names of columns that are better the more they are."""

_SHARED: Final = (
    *("model", "arrangement", "policy"),
    *("gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb"),
)
_HEADINGS: Final = {
    "gpu_mem_gb": "gpu GiB",
    "cpu_mem_gb": "cpu GiB",
    "storage_capacity_gb": "nvme GiB",
}


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _tokens(value: float) -> str:
    return f"{value / 1e6:,.1f} M" if value >= 1e6 else f"{value / 1e3:,.1f} k"


def _gib(value: float) -> str:
    return f"{value / _GIB:,.0f}"


@dataclass(frozen=True)
class _Measure:
    """A column of the terminal's table."""

    column: str
    heading: str
    format: Callable[[float], str]


_MEASURES: Final = (
    _Measure("hit_rate_tokens", "tokens", _percent),
    _Measure("hit_rate_ops", "reads", _percent),
    _Measure("hit_rate_requests", "requests", _percent),
    _Measure("elapsed_s", "pred. s", lambda value: f"{value:,.1f}"),
    _Measure("wall_clock_tok_s", "tok/s", lambda value: f"{value:,.0f}"),
    _Measure("nvme_read_p95_ms", "nvme P95", lambda value: f"{value:,.2f}"),
    _Measure("ttfb_p95_ms", "TTFB P95", lambda value: f"{value:,.1f}"),
    _Measure("recomputed_tokens", "recomputed", _tokens),
    _Measure("peak_read_gib_s_nvme", "read GiB/s", lambda value: f"{value:,.2f}"),
    _Measure("write_bytes_per_day_nvme", "written GiB", _gib),
    _Measure("drive_writes_per_day", "DWPD", lambda value: f"{value:,.2f}"),
)
"""What the table shows, the most important first: what does not fit is left out."""


_LEGEND: Final = (
    "  Hits as a share of prompt tokens, of reads (ops), and of requests (all of whose reads hit).",
    "  Recomputed: tokens. nvme: GiB/s in the busiest minute, GiB and drive writes per day.",
    "  *: the highest hit rate. docs/simulating.md defines all columns.",
)


_LEGEND_OF_TIMES: Final = (
    "  Predicted: seconds, tokens per second, P95 in ms to read from nvme and to the first byte.",
)


def find_column(column: str, *, has_times: bool) -> str:
    """Return the name of a column of the table; hit_rate is that of prompt tokens.

    Args:
        column: its name.
        has_times: whether the table has predicted times.

    Raises:
        InputError: there is no such column.
    """
    column = "hit_rate_tokens" if column == "hit_rate" else column
    if not has_times and column in {one.name for one in PREDICTED_COLUMNS}:
        problem = "is predicted from a profile, and there is none"
        raise InputError(problem, "pass `profile`, too", subject=column, setting="sort")
    if column not in {one.name for one in SIMULATION_COLUMNS + PREDICTED_COLUMNS}:
        raise InputError(
            "no column of the table has this name",
            "pass one such as hit_rate or drive_writes_per_day",
            subject=column,
            setting="sort",
        )
    return column


def sort_cells(cells: Sequence[Cell], column: str) -> list[Cell]:
    """Return the cells with the best first; those without a value come last.

    Args:
        cells: rows of the table.
        column: name of a column; more is better for hits and spared tokens, else less.
    """
    known = [cell for cell in cells if cell[column] is not None]
    known.sort(
        key=lambda cell: cell[column],  # type: ignore[arg-type, return-value]  # of one type
        reverse=column.startswith(_GREATEST_FIRST),
    )
    return known + [cell for cell in cells if cell[column] is None]


def render_cells(cells: Sequence[Cell], info: SimulationInfo, most: int) -> list[str]:
    """Return the table as lines of at most 100 columns.

    Args:
        cells: rows of the table, in the order shown.
        info: about the table.
        most: rows shown.
    """
    first = cells[0]
    lines = [
        f"{info.trace}: {format_count(len(cells), 'cell')} of {format_count(info.ops, 'op')} each",
        *_wrap(_describe_settings(first, info)),
        *_wrap(_describe_bound(first)),
        *_describe_prediction(info),
        "",
        *_render_table(cells, info.axes, most),
    ]
    if len(cells) > most:
        lines.append(f"  {format_count(len(cells) - most, 'more cell')}")
    times = () if info.prediction is None else _LEGEND_OF_TIMES
    return [*lines, "", *times, *_LEGEND]


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,  # words such as on-store are values
    )


def _describe_settings(first: Cell, info: SimulationInfo) -> str:
    """Describe the settings that all cells share."""
    shared = [f"{name} {_text_of(first[name])}" for name in _SHARED if name not in info.axes]
    headroom = f"headroom {_text_of(first['headroom'])}"
    order, decode = f"order {first['order']}", DECODE_WORDS[info.settings["decode"]]
    return ", ".join([*shared, order, f"lookup {first['lookup']}", headroom, decode])


def _describe_prediction(info: SimulationInfo) -> list[str]:
    """Describe the profile that times are predicted from, if there is one."""
    prediction = info.prediction
    if prediction is None:
        return []
    sheet = "a data sheet, not measured"
    kinds = {"measured": "measured", "data sheet": sheet, "estimated": "estimated, not measured"}
    speeds = (prediction.speeds or {}).items()
    faster = (f"{tier} {speed:g} times as fast" for tier, speed in speeds)
    facts = ", ".join([kinds[prediction.kind], *faster])
    return _wrap(f"times are predicted from the profile {prediction.profile} ({facts})")


def _describe_bound(first: Cell) -> str:
    """Describe what unlimited memory would bring."""
    names = {"bound_tokens": "prompt tokens", "bound_ops": "reads", "bound_requests": "requests"}
    known = {what: first[name] for name, what in names.items() if first[name] is not None}
    rates = [f"{_percent(float(rate or 0))} of {what}" for what, rate in known.items()]
    return f"unlimited memory would hit {', '.join(rates) or 'nothing: there are no prompts'}"


def _render_table(cells: Sequence[Cell], axes: Sequence[str], most: int) -> list[str]:
    """Return a heading and a line for each cell; the best value of a column has a star."""
    lines = [" "] * (1 + min(len(cells), most))
    for axis in axes:
        texts = [_HEADINGS.get(axis, axis), *(_text_of(cell[axis]) for cell in cells)]
        justify = str.ljust if isinstance(cells[0][axis], str) else str.rjust
        lines = _add_column(lines, texts, justify)
    for measure in _MEASURES:
        if any(cell.get(measure.column) for cell in cells):
            texts = [f"{measure.heading} ", *_mark_best(cells, measure)]
            lines = _add_column(lines, texts, str.rjust)
    return [line.rstrip() for line in lines]


def _add_column(
    lines: list[str],
    texts: Sequence[str],
    justify: Callable[[str, int], str],
) -> list[str]:
    """Return the lines with a column at their right, if it fits."""
    width = max(map(len, texts))
    if len(lines[0]) + width + 1 > _WIDTH:
        return lines
    return [f"{line} {justify(text, width)}" for line, text in zip(lines, texts, strict=False)]


def _mark_best(cells: Sequence[Cell], measure: _Measure) -> list[str]:
    """Return the values of a column as text, each with a star or a space behind it."""
    known = [float(cell[measure.column] or 0) for cell in cells]
    is_judged = measure.column.startswith("hit") and min(known) < max(known)
    best = max(known) if is_judged else None
    return [_format_cell(cell[measure.column], measure, best) for cell in cells]


def _format_cell(value: CellValue, measure: _Measure, best: CellValue) -> str:
    if value is None:
        return "- "
    return measure.format(float(value)) + ("*" if value == best else " ")


def _text_of(value: CellValue) -> str:
    """Return a setting as the table shows it."""
    if isinstance(value, float):
        return f"{value:,g}"
    return "unlimited" if value is None else str(value)
