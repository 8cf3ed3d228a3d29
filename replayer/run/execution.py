"""The execution of a prepared plan, and the run.json that tells how far it is and how it ended."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from replayer.bindings.compiled import State
from replayer.engine.engine import Engine, TooManyErrorsError
from replayer.machine.device_counters import Sampler
from replayer.planning.executing import Records, Rows
from replayer.planning.plan_hash import PlanHash
from replayer.prediction.virtual_engine import VirtualEngine
from replayer.record.run_directory import RunDirectory
from replayer.record.run_info import (
    Clock,
    PlanInfo,
    RanksInfo,
    RunInfo,
    Status,
    Warmup,
    Warning,  # noqa: A004 (run.json's word)
    Window,
)
from replayer.record.run_parts import Unfinished
from replayer.record.wording import commonest
from replayer.run.console import RunConsole
from replayer.run.gauge import Gauge
from replayer.run.log_writer import LogWriter
from replayer.run.mpi import Ranks
from replayer.run.prepared import Prepared
from tracegen.console.interrupts import INTERRUPTS
from tracegen.errors import InputError

_MOST_UNFINISHED: Final = 250_000
"""Requests that run.json lists: readers refuse more than 16 MiB."""
_DELIVERED_SHARE: Final = 0.9  # of the bytes read: a device that delivered less did not serve all


@dataclass
class Execution:
    """One execution of a plan.

    Attributes:
        prepared: the plan.
        engine: executes it, on the real clock or on a computed one.
        info: run.json as of now; replaced at each stage.
        ranks: this process among its ranks.
        console: shows progress and warnings.
        sampler: of the kernel's counters, which start with the engine; None if its clock is computed.
        stop_waiting: ends the artificial waits of its tiers.
    """

    prepared: Prepared
    engine: Engine | VirtualEngine
    info: RunInfo
    ranks: Ranks
    console: RunConsole
    sampler: Sampler | None = None
    stop_waiting: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._hash = PlanHash(self.prepared.plan.options.plan_version)

    def execute(self, directory: RunDirectory, log: LogWriter) -> KeyboardInterrupt | None:
        """Execute the plan, and write parts of the log as it goes.

        Returns:
            The signal that interrupted it, if any.
        """
        interrupt: KeyboardInterrupt | None = None
        status: Status = "failed"
        reason: str | None
        try:
            self.update(clock=self.ranks.start_clock())
            directory.save(self.info)
            self._replay_moves(directory, log)
            status, reason = self._judge()
        except KeyboardInterrupt as error:
            interrupt = error
            status = "incomplete"
            reason = str(error) or "interrupted"
        except TooManyErrorsError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 (run.json says what ended the run)
            reason = f"{type(error).__name__}: {error}"
        # The engine still has the counts; closing it frees them.
        self._record_end(status, reason)
        self._warn_of_stalls()
        self._record_counters(directory)
        self.engine.close()
        return interrupt

    def _replay_moves(self, directory: RunDirectory, log: LogWriter) -> None:
        """Run the engine to its end."""
        plan = self.prepared.plan
        sampler = self.sampler
        tiers = tuple(tier for tier, size in enumerate(plan.usable) if size != 0)
        gauge = Gauge(plan.workload.ops, self.prepared.settings.span, tiers, self.ranks.size)
        with sampler or nullcontext(), self.console.track_run(gauge) as watch:

            def flush(records: Records, errors: dict[int, str], rows: Rows) -> None:
                # At the first flush: before, the window was being filled and no time had begun.
                self._record_time_zero(directory)
                self._hash.add(rows)
                log.add(records, errors)
                if sampler is not None and sampler.due():
                    directory.write_device(sampler.rows)
                watch(records, self.engine.state)

            self.engine.run(flush, self._check_interrupts)

    def _check_interrupts(self) -> None:
        try:
            INTERRUPTS.check()
        except KeyboardInterrupt:
            self.stop_waiting()  # a worker in a throttled tier would sleep for as long as its limit says
            raise

    def _record_time_zero(self, directory: RunDirectory) -> None:
        """Record the log's time 0 on rank 0's clock, once it is known."""
        clock = self.info.clock or Clock()
        if not self.engine.began_ns or clock.zero_ns is not None:
            return
        # perf_counter has no epoch: the two clocks are read at one time, and their difference is kept.
        zero_ns = time.time_ns() - (time.perf_counter_ns() - self.engine.began_ns)
        zero_ns += clock.offset_ns or 0
        self.update(clock=msgspec.structs.replace(clock, zero_ns=zero_ns))
        directory.save(self.info)

    def _judge(self) -> tuple[Status, str | None]:
        """Return the status of an execution that came to its end, and the reason if it failed."""
        state = self.engine.state()
        span = self.prepared.settings.span
        summary = self.prepared.summary
        if state.failures:
            return "failed", f"{state.failures:,} moves failed: {commonest(self.engine.causes)}"
        if not state.retired:
            return "failed", "no op was executed within the duration"
        executes_all = span.ops is None or span.ops >= self.prepared.plan.workload.ops
        planned = summary.plan_fingerprint if summary is not None else self._hash.hexdigest()
        if executes_all and not state.cut and self._hash.hexdigest() != planned:
            problem = "the moves executed are not those planned"
            return "failed", f"{problem}: this is a defect of the replayer"
        return "complete", None

    def _record_end(self, status: Status, reason: str | None) -> None:
        """Record in run.json how the execution ended."""
        state = self.engine.state()
        plan = self.prepared.plan
        span = self.prepared.settings.span
        executed = self.engine.totals()
        fingerprint = self._hash.hexdigest()
        # A run of some ops counts them; of a whole plan every op counts, also those without a move.
        is_whole = state.over and not state.cut and span.ops is None
        if self.prepared.summary is None:  # placement was decided on the way: the plan is what was done
            self.update(plan=PlanInfo(**msgspec.structs.asdict(executed), plan_fingerprint=fingerprint))
        self.update(
            status=status,
            reason=reason,
            executed_ops=plan.ops if is_whole else state.executed,
            executed_fingerprint=fingerprint,
            executed=executed,
            warmup=Warmup(
                ops=min(state.warmup_position, plan.ops), end_ns=state.steady_ns if state.steady_ns > 0 else None
            ),
            window=self._window(state),
            unfinished=self._list_unfinished(),
        )

    def _warn_of_stalls(self) -> None:
        stalled_s = self.engine.state().log_stalled_ns / 1e9
        if stalled_s:
            self.warn(Warning(kind="slow log", text=f"workers waited {stalled_s:.1f} s for the log to be written."))

    def _window(self, state: State) -> Window:
        """Return the time limit and the times at which the execution was cut and ended."""
        span = self.prepared.settings.span
        drain_s = 0.0
        if span.duration_s is not None and state.cut:
            drain_s = max(0.0, state.ended_ns / 1e9 - span.duration_s)
        return Window(
            duration_s=span.duration_s,
            duration_by=None if span.duration_s is None else span.duration_by,
            cut_s=state.cut_ns / 1e9 if state.cut else None,
            issued_s=state.issued_ns / 1e9,
            drain_s=drain_s,
            drain_limit_s=span.drain_s,
            stopped_s=state.stopped_ns / 1e9 if state.stopped_ns >= 0 else None,
        )

    def _list_unfinished(self) -> Unfinished | None:
        """Return the requests that were due and are not done; None if untimed, or too many."""
        # Without times nothing is ever due.
        if self.prepared.plan.options.demand.pace.kind == "asap":
            return None
        found = self.engine.unfinished()
        if len(found) > _MOST_UNFINISHED:
            return None
        request_id, due_ns, qos, in_prefill = (tuple(found[name].tolist()) for name in found.dtype.names or ())
        return Unfinished(request_id=request_id, due_ns=due_ns, qos=qos, in_prefill=in_prefill)

    def _record_counters(self, directory: RunDirectory) -> None:
        """Write the last samples, and warn if the device did not serve all reads."""
        if self.sampler is None or not self.sampler.rows:
            return
        # A disk that is full must not hide how the run ended.
        try:
            directory.write_device(self.sampler.rows)
        except OSError as error:
            self.fail(f"device.parquet cannot be written: {error.strerror}")
        # A page cache, or a cache in the drive's host, would make the figures those of memory.
        delivered = self.sampler.read_bytes()
        read = self.engine.state().nvme_read_bytes
        if delivered is not None and delivered < _DELIVERED_SHARE * read:
            text = (
                f"a cache served reads: the nvme tier read {read / 2**30:.2f} GiB, the device"
                f" delivered {delivered / 2**30:.2f} GiB ({1 - delivered / read:.0%} less)."
            )
            self.warn(Warning(kind="page cache served reads", text=text))

    def write_end(self, directory: RunDirectory, log: LogWriter) -> str | None:
        """Write the rest of the log and the last run.json.

        Returns:
            Why run.json could not be written; None: it was.
        """
        try:
            log.write()
        except OSError as error:
            self.fail(f"the log's last rows cannot be written: {error.strerror}")
        try:
            directory.save(self.info)
        except OSError as error:
            reason = f"{directory.path}: cannot write how the run ended ({error.strerror})"
            self.fail(reason)
            return reason
        return None

    def warn(self, warning: Warning) -> None:
        """Record a warning in run.json, and show it."""
        self.update(warnings=(*self.info.warnings, warning))
        self.console.warn(warning.text)

    def fail(self, reason: str) -> None:
        """Record that the run failed."""
        self.update(status="failed", reason=reason)

    def update(self, **changes: Any) -> None:
        """Replace fields of run.json."""
        self.info = msgspec.structs.replace(self.info, **changes)


def save_first(directory: RunDirectory, info: RunInfo | RanksInfo, *above: RunDirectory) -> None:
    """Write the first run.json of a run directory; remove a directory in which that fails.

    Args:
        directory: of the run.
        info: its run.json.
        above: directories that were made for this one.

    Raises:
        InputError: it cannot be written.
    """
    try:
        directory.save(info)
    except OSError as error:
        for made in (directory, *above):
            made.abandon()
        raise InputError(
            str(error.strerror),
            "name another directory",
            subject=above[-1].path if above else directory.path,
            setting="output",
        ) from None
