"""The cells of a grid: every combination of the values of its axes."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from replayer.planning.plan import PlanOptions
from replayer.planning.plan_settings import PlanSettings, resolve_plan
from tracegen.errors import InputError
from tracegen.schema import Trace

AXES: Final = ("model", "gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb", "arrangement")
"""Settings of a plan that may have several values, from the slowest axis to the fastest."""
MOST_CELLS: Final = 10_000
"""A larger grid is made only if the user asks for it twice."""


@dataclass(frozen=True)
class GridCell:
    """One combination of values.

    Attributes:
        number: of the cell; the last axis changes fastest.
        model: name of the model.
        options: everything that its plan depends on except the trace.
    """

    number: int
    model: str
    options: PlanOptions


def count_cells(axes: Mapping[str, Sequence[object]]) -> int:
    """Return the number of cells that a grid of these axes has."""
    count = 1
    for values in axes.values():
        count *= len(values)
    return count


def make_grid(
    trace: Trace,
    axes: Mapping[str, Sequence[object]],
    settings: PlanSettings,
) -> list[GridCell]:
    """Resolve each combination of the axes' values to the options of a plan.

    Args:
        trace: carries a recipe with values for settings that are absent.
        axes: values by setting.
        settings: the same in all cells.

    Raises:
        InputError: a setting is wrong, or a cell has no tier.
    """
    cells: list[GridCell] = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        cells.append(_resolve_cell(trace, chosen, settings, cells))
    return cells


def _resolve_cell(
    trace: Trace,
    chosen: Mapping[str, Any],
    settings: PlanSettings,
    earlier: Sequence[GridCell],
) -> GridCell:
    """Resolve one cell; the order of the first one serves all, as a run's order is long."""
    own = {"order": "trace"} if earlier else {}
    try:
        model, options = resolve_plan(trace, cast("PlanSettings", {**settings, **chosen, **own}))
    except InputError as error:
        if error.setting is not None or error.subject is not None:
            raise
        given = {name: value for name, value in chosen.items() if value is not None}
        values = ", ".join(f"`{name}` {value}" for name, value in given.items())
        problem = f"{error.problem} in the cell with {values}"
        raise InputError(problem, "leave a 0 out of one of the lists") from None
    if earlier:
        options = replace(options, order=earlier[0].options.order)
    return GridCell(len(earlier), model, options)
