"""The execution of a prepared plan, and the run.json that tells how far it is and how it ended."""

import time
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from replayer.bindings.compiled import State
from replayer.engine.engine import Engine, TooManyErrorsError
from replayer.engine.move_executor import MoveExecutor
from replayer.machine.device_counters import Sampler
from replayer.planning.executing import Records, Rows
from replayer.planning.plan import Plan
from replayer.planning.plan_hash import PlanHash
from replayer.planning.plan_summary import PlanSummary
from replayer.record.options import WarningKind
from replayer.record.run_directory import RunDirectory
from replayer.record.run_info import (
    Clock,
    PlanInfo,
    RunInfo,
    Status,
    Totals,
    Warmup,
    Warning,  # noqa: A004 (run.json's word)
    Window,
)
from replayer.record.wording import commonest
from replayer.run.console import RunConsole
from replayer.run.log_writer import LogWriter
from replayer.run.mpi import Ranks
from replayer.run.opening import OpenTiers
from replayer.run.settings import Settings
from replayer.tiers.payload import Payload
from tracegen.console.interrupts import INTERRUPTS

"""Fields of run.json that are unknown until the execution begins or ends."""
_DELIVERED_SHARE: Final = 0.9  # of the bytes read: a device that delivered less did not serve all


@dataclass(frozen=True)
class Prepared:
    """A plan that is ready to be executed.

    Attributes:
        plan: the plan.
        summary: of the plan; None if placement is decided during the run.
        settings: of the run.
        tiers: open.
        payload: makes and verifies bytes.
    """

    plan: Plan
    summary: PlanSummary | None
    settings: Settings
    tiers: OpenTiers
    payload: Payload


class Execution:
    """One execution of a plan.

    Attributes:
        info: run.json as of now; replaced at each stage.
    """

    def __init__(
        self,
        prepared: Prepared,
        info: RunInfo,
        ranks: Ranks,
        console: RunConsole,
    ) -> None:
        settings = prepared.settings
        tiers = prepared.tiers
        payload = prepared.payload
        self.info = info
        self._prepared = prepared
        self._ranks = ranks
        self._console = console
        self._hash = PlanHash(prepared.plan.options.plan_version)
        self._engine = Engine(
            prepared.plan,
            tiers.all,
            payload,
            tiers.staging,
            MoveExecutor(tiers.all, payload, settings.verify),
            settings.verify,
            settings.chunk,
            settings.window,
            settings.span,
        )

    def execute(self, directory: RunDirectory, log: LogWriter) -> KeyboardInterrupt | None:
        """Execute the plan, and write parts of the log as it goes.

        Returns:
            The signal that interrupted it, if any.
        """
        interrupt: KeyboardInterrupt | None = None
        tiers = self._prepared.tiers
        sampler = Sampler(
            tiers.block_device(),
            own_io=tiers.io_is_counted(),
            run_delay_ns=self._engine.run_delay_ns,
        )
        status: Status = "failed"
        reason: str | None
        try:
            self._start(directory)
            self._replay_moves(directory, log, sampler)
            status, reason = self._judge()
        except KeyboardInterrupt as error:
            interrupt = error
            status = "incomplete"
            reason = str(error) or "interrupted"
        except TooManyErrorsError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 (run.json says what ended the run)
            reason = f"{type(error).__name__}: {error}"
        self._record_end(status, reason)
        self._record_counters(sampler, directory)
        self._engine.close()
        return interrupt

    def _start(self, directory: RunDirectory) -> None:
        self.update(clock=self._ranks.start_clock())
        directory.save(self.info)

    def _replay_moves(self, directory: RunDirectory, log: LogWriter, sampler: Sampler) -> None:
        """Run the engine to its end."""
        plan = self._prepared.plan
        span = self._prepared.settings.span
        with sampler, self._console.track_run(plan.workload.ops, span) as show:

            def flush(records: Records, errors: dict[int, str], rows: Rows) -> None:
                self._record_time_zero(directory)
                self._hash.add(rows)
                log.add(records, errors)
                if sampler.due():
                    directory.write_device(sampler.rows)
                show(self._engine.state())

            self._engine.run(flush, self._check_interrupts, begun=sampler.start)

    def _check_interrupts(self) -> None:
        try:
            INTERRUPTS.check()
        except KeyboardInterrupt:
            self._prepared.tiers.stop_waiting()
            raise

    def _record_time_zero(self, directory: RunDirectory) -> None:
        """Record the log's time 0 on rank 0's clock, once it is known."""
        clock = self.info.clock or Clock()
        if not self._engine.began_ns or clock.zero_ns is not None:
            return
        zero_ns = time.time_ns() - (time.perf_counter_ns() - self._engine.began_ns)
        zero_ns += clock.offset_ns or 0
        self.update(clock=msgspec.structs.replace(clock, zero_ns=zero_ns))
        directory.save(self.info)

    def _judge(self) -> tuple[Status, str | None]:
        """Return the status of an execution that came to its end, and the reason if it failed."""
        state = self._engine.state()
        span = self._prepared.settings.span
        summary = self._prepared.summary
        if state.failures:
            return "failed", f"{state.failures:,} moves failed: {commonest(self._engine.causes)}"
        if not state.retired:
            return "failed", "no op was executed within the duration"
        executes_all = span.ops is None or span.ops >= self._prepared.plan.workload.ops
        planned = summary.plan_fingerprint if summary is not None else self._hash.hexdigest()
        if executes_all and not state.cut and self._hash.hexdigest() != planned:
            problem = "the moves executed are not those planned"
            return "failed", f"{problem}: this is a defect of the replayer"
        return "complete", None

    def _record_end(self, status: Status, reason: str | None) -> None:
        """Record in run.json how the execution ended."""
        state = self._engine.state()
        plan = self._prepared.plan
        span = self._prepared.settings.span
        executed = self._engine.totals().to_info()
        fingerprint = self._hash.hexdigest()
        is_whole = state.over and not state.cut and span.ops is None
        if self._prepared.summary is None:
            self.update(plan=_plan_executed(executed, fingerprint))
        self.update(
            status=status,
            reason=reason,
            executed_ops=plan.ops if is_whole else state.executed,
            executed_fingerprint=fingerprint,
            executed=executed,
            warmup=Warmup(
                ops=min(state.warmup_position, plan.ops),
                end_ns=state.steady_ns if state.steady_ns > 0 else None,
            ),
            window=self._window(state),
        )
        if state.log_stalled_ns:
            stalled_s = state.log_stalled_ns / 1e9
            text = f"workers waited {stalled_s:.1f} s for the log to be written."
            self._warn("slow log", text)

    def _window(self, state: State) -> Window:
        """Return the time limit and the times at which the execution was cut and ended."""
        span = self._prepared.settings.span
        drain_s = 0.0
        if span.duration_s is not None and state.cut:
            drain_s = max(0.0, state.ended_ns / 1e9 - span.duration_s)
        return Window(
            duration_s=span.duration_s,
            cut_s=state.cut_ns / 1e9 if state.cut else None,
            issued_s=state.issued_ns / 1e9,
            drain_s=drain_s,
            drain_limit_s=span.drain_s,
            stopped_s=state.stopped_ns / 1e9 if state.stopped_ns >= 0 else None,
        )

    def _record_counters(self, sampler: Sampler, directory: RunDirectory) -> None:
        """Write the last samples, and warn if the device did not serve all reads."""
        if not sampler.rows:
            return
        try:
            directory.write_device(sampler.rows)
        except OSError as error:
            self.fail(f"device.parquet cannot be written: {error.strerror}")
        delivered = sampler.read_bytes()
        read = self._engine.state().nvme_read_bytes
        if delivered is not None and delivered < _DELIVERED_SHARE * read:
            self._warn(
                "page cache served reads",
                f"a cache served reads: the nvme tier read {read / 2**30:.2f} GiB, the device"
                f" delivered {delivered / 2**30:.2f} GiB ({1 - delivered / read:.0%} less).",
            )

    def _warn(self, kind: WarningKind, text: str) -> None:
        self.update(warnings=(*self.info.warnings, Warning(kind=kind, text=text)))
        self._console.warn(text)

    def fail(self, reason: str) -> None:
        """Record that the run failed."""
        self.update(status="failed", reason=reason)

    def update(self, **changes: Any) -> None:
        """Replace fields of run.json."""
        self.info = msgspec.structs.replace(self.info, **changes)


def _plan_executed(executed: Totals, fingerprint: str) -> PlanInfo:
    """Return the plan of a run whose placement was decided on the way: the moves it executed."""
    totals = {name: getattr(executed, name) for name in executed.__struct_fields__}
    return PlanInfo(**totals, plan_fingerprint=fingerprint)
