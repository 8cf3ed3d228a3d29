"""A trace with its plan, made in one call."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from replayer.options.resolving import overlay_recipe, resolve_plan
from replayer.planning.counts import PlanSummary
from replayer.planning.plan import Plan
from replayer.planning.plan_table import tabulate
from tracegen.progress import Advance
from tracegen.schema import Trace

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class PlannedTrace:
    """A trace with its plan.

    Attributes:
        model: name of the model.
        plan: the plan, with its options.
        summary: counts, bytes and peaks by tier, and the fingerprint.
    """

    model: str
    plan: Plan
    summary: PlanSummary

    def moves(self) -> "pl.DataFrame":
        """Return the plan's moves in plan order, a row each.

        The columns are those of the log that planning decides: `replayer.schema.PLANNED_COLUMNS`.
        """
        import polars as pl  # noqa: PLC0415 (takes time, and only this needs it)

        tables: list[pa.Table] = []
        self.plan.simulate(looks=[lambda *stretch: tables.append(tabulate(self.plan.workload, *stretch))])
        return pl.DataFrame(pa.concat_tables(tables)) if tables else pl.DataFrame()


def plan_trace(trace: Path | str | Trace, *, advance: Advance = lambda _ops: None, **settings: Any) -> PlannedTrace:
    """Plan a trace without any I/O on a tier.

    Args:
        trace: the trace, or its path.
        advance: takes the number of ops planned since its last call.
        settings: options of a plan by name; GiB for capacities. One that is absent has the value in
            the trace's recipe, else its default.

    Raises:
        InputError: the trace cannot be read or breaks an invariant, or a setting is wrong; with
            `problem`, `remedy` and the `setting`.
    """
    opened = trace if isinstance(trace, Trace) else Trace(Path(trace))
    model, options = resolve_plan(opened, overlay_recipe(opened, settings))
    plan = Plan(opened, options)
    return PlannedTrace(model, plan, plan.simulate(advance))
