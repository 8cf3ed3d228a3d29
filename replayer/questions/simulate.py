"""The answer of a grid of plans: its cells as a table, and which of them hits most."""

from collections.abc import Sequence
from typing import Final

import msgspec

from replayer.record.options import DECODE_WORDS, FUTURE
from replayer.record.simulation import PREDICTED_COLUMNS, SIMULATION_COLUMNS, Cell, CellValue, SimulationInfo
from tracegen.errors import InputError, format_count
from views.answer import Answer, Column, Table

# Beginnings of the names of columns that are better the more they are
_GREATEST_FIRST: Final = ("hit", "spared", "bound", "wall_clock_tok_s")
_SETTINGS: Final = {
    "model": "model",
    "arrangement": "arrangement",
    "policy": "policy",
    "gpu_mem_gb": "gpu GiB",
    "cpu_mem_gb": "cpu GiB",
    "storage_capacity_gb": "nvme GiB",
    "order": "order",
    "lookup": "lookup",
    "headroom": "headroom",
}
# What the table shows, of the columns that are not zero in all cells
_MEASURES: Final = {
    "hit_rate_tokens": Column("tokens", "share"),
    "hit_rate_ops": Column("reads", "share"),
    "hit_rate_requests": Column("requests", "share"),
    "elapsed_s": Column("pred. s"),
    "wall_clock_tok_s": Column("tok/s"),
    "nvme_read_p95_ms": Column("nvme P95"),
    "ttfb_p95_ms": Column("TTFB P95"),
    "recomputed_tokens": Column("recomputed"),
    "peak_read_gib_s_nvme": Column("read GiB/s"),
    "write_bytes_per_day_nvme": Column("written GiB"),
    "drive_writes_per_day": Column("DWPD"),
}
_LEGEND: Final = {
    "hit_rate_tokens": "Hits as a share of prompt tokens, of reads, and of requests (all of whose reads hit).",
    "recomputed_tokens": "Recomputed: tokens.",
    "write_bytes_per_day_nvme": "nvme: GiB/s in the busiest minute, GiB and drive writes per day.",
    "elapsed_s": "Predicted times: seconds, tokens per second, P95 in ms.",
}


def find_column(column: str, *, has_times: bool) -> str:
    """Return the name of a column of the table; hit_rate is that of prompt tokens.

    Args:
        column: its name.
        has_times: whether the table has predicted times.

    Raises:
        InputError: there is no such column.
    """
    column = "hit_rate_tokens" if column == "hit_rate" else column
    columns = SIMULATION_COLUMNS + (PREDICTED_COLUMNS if has_times else ())
    if column not in {known.name for known in columns}:
        remedy = "pass one such as hit_rate or drive_writes_per_day; times are predicted with `profile`"
        raise InputError("no column of the table has this name", remedy, subject=column, setting="sort")
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


def answer_simulation(cells: Sequence[Cell], info: SimulationInfo, most: int) -> Answer:
    """Return the cells of a grid as an answer.

    Args:
        cells: rows of the table, in the order shown.
        info: about the table.
        most: rows shown; the data has all.
    """
    most_hits = _find_most_hits(cells)
    best = most_hits[0]
    least = min(map(_rate, cells))
    where = ", ".join(_name_setting(best, axis) for axis in info.axes)
    # The order may follow from an axis, as an engine's scheduler does from the rules.
    others = {
        name: dict.fromkeys(_name_value(cell[name]) for cell in cells) for name in _SETTINGS if name not in info.axes
    }
    settings = [f"{_SETTINGS[name]} {' or '.join(values)}" for name, values in others.items()]
    subject = [", ".join([*settings, DECODE_WORDS[info.settings["decode"]]])]
    if info.prediction is not None:
        kind, profile = info.prediction.kind, info.prediction.profile
        subject.append(f"times are predicted from the profile {profile} ({kind})")
    bound = float(best["bound_tokens"] or 0)
    cell_count, op_count = format_count(len(cells), "cell"), format_count(info.ops, "op")
    return Answer(
        title=f"{info.trace}: {cell_count} of {op_count} each",
        sentence=f"{least:.1%} to {_rate(best):.1%} of prompt tokens hit, the most with"
        f" {where or 'these settings'}. Unlimited memory would hit {bound:.1%}.",
        subject=subject,
        tables=[_tabulate(cells[:most], most_hits, info, len(cells) - most)],
        source="plans, without I/O",
        data={**msgspec.to_builtins(info), "cells": cells},
    )


def _tabulate(shown: Sequence[Cell], most_hits: Sequence[Cell], info: SimulationInfo, hidden: int) -> Table:
    """Return the cells shown; a star marks those that hit the most."""
    measures = [name for name in _MEASURES if any(cell.get(name) for cell in shown)]
    rows = [
        [*(_name_value(cell[axis]) for axis in info.axes), *(_convert(cell[name], name) for name in measures)]
        for cell in shown
    ]
    heads = [Column(_SETTINGS.get(axis, axis)) for axis in info.axes]
    return Table(
        title="Plans",
        name="cells",
        columns=[*heads, *(_MEASURES[name] for name in measures)],
        rows=rows,
        notes=[
            *([format_count(hidden, "more cell")] if hidden > 0 else []),
            *(text for name, text in _LEGEND.items() if name in measures),
            f"*: the highest hit rate, {FUTURE} left out. Each column of the file carries its definition.",
        ],
        marked=frozenset(at for at, cell in enumerate(shown) if len(most_hits) < len(shown) and cell in most_hits),
    )


def _find_most_hits(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that hit the most, of those whose policy an engine could have."""
    # The optimum is a bound, not a choice; alone it is still worth a look.
    possible = [cell for cell in cells if FUTURE not in str(cell["policy"])] or cells
    most = max(map(_rate, possible))
    return [cell for cell in possible if _rate(cell) == most]


def _rate(cell: Cell) -> float:
    return float(cell["hit_rate_tokens"] or 0)


def _convert(value: CellValue, name: str) -> CellValue:
    is_size = name == "write_bytes_per_day_nvme" and isinstance(value, float)
    return value / 2**30 if is_size else value  # type: ignore[operator]


def _name_setting(cell: Cell, name: str) -> str:
    return f"{_SETTINGS.get(name, name)} {_name_value(cell[name])}"


def _name_value(value: CellValue) -> str:
    if isinstance(value, float):
        return f"{value:,g}"
    return "unlimited" if value is None else str(value)
