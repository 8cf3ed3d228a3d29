"""A plan that is ready to be executed, and the first run.json of its run."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import msgspec

from replayer.bindings.compiled import EngineSettings
from replayer.options.recorded import record_conditions
from replayer.options.settings import Settings
from replayer.planning.counts import PlanSummary
from replayer.planning.executing import make_settings
from replayer.planning.plan import Plan, PlanOptions
from replayer.record.columns import RUN_VERSION
from replayer.record.run_info import RunInfo, TraceInfo
from replayer.record.run_parts import Machine
from replayer.run.console import RunConsole
from replayer.run.footprint import Footprint
from tracegen.errors import InputError
from tracegen.schema import Trace


@dataclass(frozen=True)
class Prepared:
    """A plan that is ready to be executed.

    Attributes:
        trace: that is replayed.
        model: name of the model.
        plan: the plan.
        summary: of the plan; None if placement is decided during the run.
        settings: by which it is executed.
    """

    trace: Trace
    model: str
    plan: Plan
    summary: PlanSummary | None
    settings: Settings

    @classmethod
    def make(
        cls, trace: Trace, model: str, options: PlanOptions, settings: Settings, console: RunConsole
    ) -> "Prepared":
        """Plan a trace.

        Raises:
            InputError: no op is left, or all of them are warm-up.
        """
        plan = Plan(trace, options)
        if not plan.workload.ops:
            raise InputError("no op is left to replay", "pass more `users`, or fewer ranks", subject=trace.path)
        settings.span.check_warmup(plan.ops)
        # Nothing to plan: the state of the tiers decides as the run goes.
        if options.order.kind == "live":
            return cls(trace, model, plan, None, settings)
        with console.track("planning", "op", plan.workload.ops) as advance:
            return cls(trace, model, plan, plan.simulate(advance), settings)

    @property
    def footprint(self) -> Footprint:
        """The room that the execution needs."""
        return Footprint(self.plan, self.summary, self.settings.window)

    def engine_settings(self) -> EngineSettings:
        """Return the settings as compiled code reads them."""
        settings = self.settings
        return make_settings(self.plan, settings.devices.verify, settings.chunk, settings.window, settings.span)

    def describe(self, direct: bool | None, machine: Machine, started: datetime, ranks: int = 1) -> RunInfo:
        """Return the run.json of one of `ranks` processes before the execution starts.

        `direct`: whether the nvme tier bypasses the page cache; None if it is not on a disk.
        """
        facts: dict[str, Any] = {"path": str(self.trace.path), "ops": self.trace.ops}
        return RunInfo(
            run_version=RUN_VERSION,
            status="running",
            reason="the run has not ended, or was killed",
            started=started.isoformat(timespec="seconds"),
            rank=0,
            trace=msgspec.convert(facts | asdict(self.trace.metadata), TraceInfo),
            plan=None if self.summary is None else self.summary.to_info(),
            conditions=record_conditions(self.model, self.plan, self.settings, direct, ranks),
            machine=machine,
            warnings=(),
        )
