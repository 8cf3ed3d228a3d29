"""One prediction, from a trace to a run directory: the run's own plan on the clock of a profile."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from replayer.machine import description
from replayer.options.groups import Options
from replayer.options.resolving import resolve_span, resolve_window
from replayer.options.run_groups import ControlOptions, DeviceOptions
from replayer.options.settings import Settings
from replayer.planning.moves import NVME
from replayer.planning.pace import Demand
from replayer.planning.plan import PlanOptions
from replayer.prediction.profile import Profile
from replayer.prediction.profile_range import check_range
from replayer.prediction.virtual_engine import VirtualEngine
from replayer.record.columns import PREDICTED_RUN_VERSION
from replayer.record.conditions import Tier
from replayer.record.options import TIERS
from replayer.record.run_directory import RunDirectory, check_free
from replayer.record.run_info import PredictionInfo, RunInfo
from replayer.record.run_info import Warning as RunWarning
from replayer.run.console import RunConsole
from replayer.run.execution import Execution, save_first
from replayer.run.log_writer import LogWriter
from replayer.run.mpi import ALONE
from replayer.run.preflight import describe_time
from replayer.run.prepared import Prepared
from replayer.tiers.request import BlockIO
from replayer.tiers.throttled import Throttle
from tracegen.console.interrupts import INTERRUPTS
from tracegen.errors import ToolError
from tracegen.schema import Trace


@dataclass(frozen=True)
class AssumedSystem:
    """The system that a prediction is for.

    Attributes:
        profile: as it was loaded.
        speeds: how many times as fast, by tier.
    """

    profile: Profile
    speeds: Mapping[Tier, float]

    def times(self) -> Profile:
        """Return the profile with these speeds.

        Raises:
            InputError: the profile lacks a tier that has a speed.
        """
        return self.profile.with_speed(self.speeds)

    def describe(self) -> PredictionInfo:
        """Describe the system in run.json."""
        profile = self.profile
        return PredictionInfo(
            profile=profile.name,
            kind=profile.kind,
            source=profile.source or None,
            profile_sha256=profile.digest,
            speeds=dict(self.speeds) or None,
        )


def assume_settings(profile: Profile, options: Options, demand: Demand) -> Settings:
    """Return the settings of a replay under the conditions that a profile was measured in.

    Raises:
        InputError: an option is not valid.
    """
    conditions = profile.assumed_conditions
    return Settings(
        demand=demand,
        devices=DeviceOptions(
            layout=conditions.layout,
            verify=conditions.verify,
            gpu_read=conditions.gpu_read,
            throttle=tuple((tier, Throttle(**limits)) for tier, limits in conditions.throttle.items()),
        ),
        io=BlockIO(
            size=conditions.io_bytes,
            depth=conditions.io_depth,
            direct="on" if conditions.direct else "off",
            fsync=conditions.fsync,
            engine=conditions.io_engine,
        ),
        window=resolve_window(options.span, demand.pace),
        span=resolve_span(options),
        control=ControlOptions(force=options.control.force),
    )


@dataclass(frozen=True)
class PredictedReplay:
    """One prediction, before it starts.

    Attributes:
        trace: the trace to replay.
        model: name of the model.
        options: of the plan.
        settings: of the run, from `assume_settings`.
        system: whose times are used.
        output: run directory to make.
        console: tells the user.
    """

    trace: Trace
    model: str
    options: PlanOptions
    settings: Settings
    system: AssumedSystem
    output: Path
    console: RunConsole

    def run(self) -> RunInfo:
        """Plan, check, execute on the computed clock, and write the run directory.

        Returns:
            run.json as it is at the end.

        Raises:
            InputError: the trace, the profile or the directories will not do.
            ToolError: run.json could not be written at the end.
            KeyboardInterrupt: after the run has been closed as incomplete.
        """
        force = self.settings.control.force
        check_free(self.output, force=force)
        machine = self.system.times().struct()  # refuses bad speeds before any planning
        prepared = Prepared.make(self.trace, self.model, self.options, self._used_settings(), self.console)
        if prepared.settings.span.duration_s is not None:
            self.console.say(describe_time(prepared.settings.span))
        info = self._first_info(prepared)
        with closing(RunDirectory(self.output, force=force)) as directory:
            save_first(directory, info)
            for warning in info.warnings:
                self.console.warn(warning.text)
            engine = VirtualEngine(prepared.plan, prepared.engine_settings(), machine)
            execution = Execution(prepared, engine, info, ALONE, self.console)
            # Parts by age would differ from machine to machine; a prediction's bytes must not.
            log = LogWriter(directory, ALONE.rank, by_age=False)
            with INTERRUPTS.defer():
                interrupt = execution.execute(directory, log)
                if reason := execution.write_end(directory, log):
                    raise ToolError(reason)
                if interrupt is not None:
                    raise interrupt
        return execution.info

    def _used_settings(self) -> Settings:
        """Return the settings with the throttles of those tiers alone that the plan has."""
        # A profile may have been measured with a throttle on a tier that this plan leaves out.
        used = [tier for tier, size in zip(TIERS, self.options.usable(), strict=True) if size != 0]
        throttle = tuple(one for one in self.settings.devices.throttle if one[0] in used)
        return replace(self.settings, devices=replace(self.settings.devices, throttle=throttle))

    def _first_info(self, prepared: Prepared) -> RunInfo:
        """Return run.json as it is before the execution starts."""
        is_on_disk = prepared.plan.usable[NVME] != 0 and self.settings.is_on_drive
        direct = self.settings.io.direct == "on" if is_on_disk else None
        return msgspec.structs.replace(
            prepared.describe(direct, description.describe(), datetime.now(UTC)),
            run_version=PREDICTED_RUN_VERSION,
            prediction=self.system.describe(),
            warnings=(*self._list_warnings(), *check_range(prepared.plan, self.system.profile)),
        )

    def _list_warnings(self) -> Iterator[RunWarning]:
        """Yield the warnings that do not depend on the plan."""
        for note in self.settings.notes:
            yield RunWarning(kind="note", text=note)
        profile = self.system.profile
        if profile.kind != "measured":
            basis = "from its data sheet" if profile.kind == "data sheet" else "estimated from published figures"
            yield RunWarning(
                kind="data sheet",
                text=f"the profile {profile.name} is {basis}, not measured; assumed are"
                " files, direct I/O in requests of 1 MiB, no fsync, and that stamps are verified.",
            )
