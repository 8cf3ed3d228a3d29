"""The cells of a grid: every combination of the values of its axes."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from replayer.arrangements.arrangement import WATERFALL, Arrangement
from replayer.arrangements.loading import load_arrangement
from replayer.options.resolving import overlay_recipe, resolve_plan
from replayer.planning.plan import PlanOptions
from tracegen.errors import InputError
from tracegen.schema import Trace

AXES: Final = (
    *("model", "gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb"),
    *("arrangement", "policy", "ttl", "chunk_tokens"),
)
"""Settings of a plan that may have several values, from the slowest axis to the fastest."""
_CAPACITIES: Final = ("gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb")
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


def find_arrangements(names: Sequence[str]) -> tuple[Arrangement, ...]:
    """Return the values of the axis `arrangement`.

    Raises:
        InputError: a name is unknown, or two arrangements have the same name.
    """
    if not names:
        return (WATERFALL,)
    found = [*map(load_arrangement, names)]
    named: set[str] = set()
    for one in found:
        if one.name in named:
            raise InputError("is named twice", "leave one out", subject=one.name, setting="arrangement")
        named.add(one.name)
    return tuple(found)


def count_cells(axes: Mapping[str, Sequence[object]]) -> int:
    """Return the number of cells that a grid of these axes has."""
    count = 1
    for values in axes.values():
        count *= len(values)
    return count


def make_grid(
    trace: Trace,
    axes: Mapping[str, Sequence[object]],
    settings: Mapping[str, Any],
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
    settings: Mapping[str, Any],
    earlier: Sequence[GridCell],
) -> GridCell:
    """Resolve one cell; the order of the first one serves all, as a run's order is long."""
    own = {"order": "trace"} if earlier else {}
    try:
        model, options = resolve_plan(trace, overlay_recipe(trace, {**settings, **chosen, **own}))
    except InputError as error:
        if error.setting is not None or error.subject is not None:
            raise
        capacities = {name: chosen.get(name) for name in _CAPACITIES}
        values = ", ".join(f"`{name}` {gib}" for name, gib in capacities.items() if gib is not None)
        problem = f"{error.problem} in the cell with {values}"
        raise InputError(problem, "leave a 0 out of one of the lists") from None
    if earlier:
        options = replace(options, order=earlier[0].options.order)
    return GridCell(len(earlier), model, options)
