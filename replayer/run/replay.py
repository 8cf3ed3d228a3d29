"""One replay from a trace to a run directory: plan, refuse what cannot work, execute, leave things as they were."""

import os
import secrets
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from replayer.bindings.compiled import State
from replayer.engine.engine import Engine, Records, Rows, TooManyErrorsError
from replayer.engine.move_executor import Elsewhere
from replayer.machine import description as machine
from replayer.machine.device_counters import Sampler
from replayer.planning.plan import Plan, PlanHash, PlanOptions
from replayer.record.run_directory import RunDirectory, check_free
from replayer.record.wording import commonest
from replayer.run.conditions import conditions
from replayer.run.log_writer import Log
from replayer.run.mpi import ALONE, Ranks, combined
from replayer.run.opening import GPU, NVME, OpenTiers, Settings, nvme_room, warnings
from replayer.run.preflight import check_room, needs, place, takes
from replayer.run.progress import RunBar, bar
from replayer.tiers import cache_dir, gpu
from replayer.tiers.payload import Payload
from tracegen.console.interrupts import INTERRUPTS
from tracegen.errors import InputError, ToolError
from tracegen.schema import Trace

CACHED: Final = 0.9  # a device that delivered less of what was read did not serve all reads


def replay(
    trace: Trace,
    model: str,
    options: PlanOptions,
    settings: Settings,
    output: Path,
    ranks: Ranks = ALONE,
    nonce: int | None = None,
) -> dict[str, Any]:
    """Replay a trace; returns what run.json says at the end.

    Args:
        trace: what is replayed.
        model: its name.
        options: of the plan.
        settings: how it is executed.
        output: the run directory to make.
        ranks: this process among its peers.
        nonce: of the payload, below 2^64; None: a new one, so that no two runs write the same bytes.

    Raises:
        InputError: before any I/O on a tier, where the trace, the tiers or the places for files will not do.
        KeyboardInterrupt: after the run has been closed as incomplete.
    """
    with ExitStack() as opened:
        try:
            check_free(output, force=settings.force)
            if settings.cache_dir is not None:
                cache_dir.check_parent(settings.cache_dir, make=settings.make_cache_dir)
            if options.usable()[NVME] != 0 and settings.layout != "null" and settings.cache_dir is not None:
                _say(place(settings), ranks)
            if ranks.rank == 0:
                _offer_to_clean(settings)
            ranks.agree(None)  # before anybody asks how much room there is
            payload_nonce = secrets.randbits(64) if nonce is None else nonce
            run = _prepare(trace, model, options, settings, ranks, opened, payload_nonce)
        except InputError as problem:
            ranks.agree(str(problem))
            raise
        ranks.agree(None)
        directory, top = _directories(output, settings, ranks, run.info)
        opened.callback(directory.close)
        for warning in run.info["warnings"]:
            _warn(warning, ranks)
        with INTERRUPTS.defer():
            log = Log(directory, ranks.rank)
            interrupt = run.execute(directory, log)
            opened.close()
            _end(run, directory, top, log, ranks)
            if interrupt is not None:
                raise interrupt
    return run.info


def _end(run: "_Run", directory: RunDirectory, top: RunDirectory | None, log: Log, ranks: Ranks) -> None:
    """Write what is left to be written. The tiers have given back their room: what a full disk refused may fit now."""
    try:
        log.write()
    except OSError as error:
        run.info |= {"status": "failed", "reason": f"the log's last rows cannot be written: {error.strerror}"}
    try:
        directory.save(run.info)
    except OSError as error:
        reason = f"{directory.path}: cannot write how the run ended ({error.strerror})"
        run.info |= {"status": "failed", "reason": reason}
        if ranks.comm is None:
            raise ToolError(reason) from None
    if ranks.comm is not None:
        # Where one rank is interrupted all are, and some may be gone: there is nobody to gather from.
        gone = run.info["status"] == "incomplete"
        result = _above(ranks, "incomplete") if gone else combined(ranks.gather(run.info))
        if top is not None:
            top.save(result)
        run.info |= result


def _directories(
    output: Path, settings: Settings, ranks: Ranks, info: dict[str, Any]
) -> tuple[RunDirectory, RunDirectory | None]:
    """This rank's run directory, and on rank 0 of several the one above all of theirs, with their first run.json."""
    top, mine = None, None
    try:
        if ranks.comm is None:
            mine = RunDirectory(output, force=settings.force)
        elif ranks.rank == 0:
            top = RunDirectory(output, force=settings.force, parts=False)
            top.save(_above(ranks, "running"))
        ranks.agree(None)
        mine = mine or RunDirectory(output / f"rank_{ranks.rank}")
        mine.save(info)
    except (InputError, OSError) as problem:
        if isinstance(problem, OSError):
            for made in (mine, top):
                if made is not None:
                    made.abandon()
        ranks.agree(str(problem) if isinstance(problem, InputError) else f"{output}: {problem.strerror}; name another.")
    ranks.agree(None)
    assert mine is not None, "all ranks agreed"
    return mine, top


def _above(ranks: Ranks, status: str) -> dict[str, Any]:
    return {"ranks": ranks.size, "status": status, "reason": "a rank has not ended, was interrupted, or was killed"}


def _prepare(
    trace: Trace,
    model: str,
    options: PlanOptions,
    settings: Settings,
    ranks: Ranks,
    opened: ExitStack,
    nonce: int,
) -> "_Run":
    """Plan the trace, check that it can run, open the tiers."""
    plan, planned = Plan(trace, options), None
    if options.order.kind != "live":
        with bar("planning", plan.workload.ops, "op") as shown:
            planned = plan.simulate(shown.update)
    if not plan.workload.ops:
        raise InputError(f"{trace.path}: no op is left to replay; pass more --users or fewer ranks.")
    settings.span.check(plan.ops)
    doubt = check_room(plan, planned, settings, ranks.on_host())
    started = datetime.now(UTC)
    name = f"{started:%Y%m%dT%H%M%S%f}-{os.getpid()}" + (f"-{ranks.rank:04}" if ranks.comm is not None else "")
    tiers = OpenTiers(plan, planned, settings, name, opened)
    if tiers.nvme is not None:
        _say(needs(plan, planned, settings.window), ranks)
    _say(takes(plan, settings.span), ranks)
    info: dict[str, Any] = {
        "status": "running",
        "reason": "the run has not ended, or was killed",
        "started": started.isoformat(timespec="seconds"),
        "rank": ranks.rank,
        "trace": {"path": str(trace.path), "ops": trace.ops} | asdict(trace.metadata),
        "plan": planned,
        "payload_nonce": f"{nonce:016x}",
        "conditions": conditions(model, options, plan, settings, tiers) | {"ranks": ranks.size},
        "machine": machine.describe() | {"storage": tiers.storage()},
        "warnings": [*([doubt] if doubt else []), *warnings(settings, tiers)],
    }
    if tiers.all[GPU] is not None:
        info["machine"]["gpu"] = gpu.describe(settings.gpu_device)
    payload = Payload((trace.metadata.seed + ranks.rank) % 2**64, nonce)
    with bar("preconditioning", int(settings.precondition_gib * 2**30), "B") as shown:
        room = nvme_room(plan, planned, settings.window)
        info["precondition"] = tiers.precondition(room, payload, shown.update)
    return _Run(plan, planned, settings, tiers, ranks, info, payload)


class _Run:
    """One execution of a plan that has been prepared.

    Attributes:
        info: what run.json says, at every time.
    """

    def __init__(
        self,
        plan: Plan,
        planned: dict[str, Any] | None,
        settings: Settings,
        tiers: OpenTiers,
        ranks: Ranks,
        info: dict[str, Any],
        payload: Payload,
    ) -> None:
        self._plan, self._planned, self._settings, self._tiers, self._ranks = plan, planned, settings, tiers, ranks
        self.info, self._hash = info, PlanHash(plan.options.order.plan_version)
        elsewhere = Elsewhere(tiers.all, payload, settings.verify)
        self._engine = Engine(
            plan, tiers.all, payload, tiers.staging, elsewhere, settings.verify, settings.chunk, settings.window,
            settings.span,
        )  # fmt: skip

    def execute(self, directory: RunDirectory, log: Log) -> KeyboardInterrupt | None:
        """Run it, writing parts as it goes; what interrupted it, if anything did."""
        device, counted, stopped = self._tiers.block_device(), self._tiers.io_is_counted(), None
        sampler = Sampler(device, own_io=counted, run_delay_ns=self._engine.run_delay_ns)
        try:
            self.info["clock"] = self._ranks.start()
            directory.save(self.info)
            with sampler, RunBar(self._plan.workload.ops, self._settings.span) as shown:

                def flush(records: Records, errors: dict[int, str], rows: Rows) -> None:
                    if self._engine.began_ns and "zero_ns" not in self.info["clock"]:
                        self._date(directory)
                    self._hash.add(rows)
                    log.add(records, errors)
                    if sampler.due():
                        directory.write_device(sampler.rows)
                    shown.show(self._engine)

                def poll() -> None:
                    try:
                        INTERRUPTS.check()
                    except KeyboardInterrupt:
                        self._tiers.hurry()
                        raise

                self._engine.run(flush, poll, begun=sampler.start)
            status, reason = self._verdict()
        except KeyboardInterrupt as interrupt:
            status, reason, stopped = "incomplete", str(interrupt) or "interrupted", interrupt
        except TooManyErrorsError as error:
            status, reason = "failed", str(error)
        except Exception as error:  # noqa: BLE001 (the run directory says what ended it; the log up to here stays)
            status, reason = "failed", f"{type(error).__name__}: {error}"
        self._conclude(status, reason, sampler, directory)
        return stopped

    def _date(self, directory: RunDirectory) -> None:
        """Say where the log's time 0 lies on rank 0's clock."""
        zero_ns = time.time_ns() - (time.perf_counter_ns() - self._engine.began_ns)
        self.info["clock"]["zero_ns"] = zero_ns + self.info["clock"]["offset_ns"]
        directory.save(self.info)

    def _verdict(self) -> tuple[str, str | None]:
        state, span = self._engine.state(), self._settings.span
        if state.failures:
            return "failed", f"{state.failures:,} moves failed: {commonest(self._engine.causes)}"
        if not state.retired:
            return "failed", "no op was executed before --duration was over"
        whole = not state.cut and (span.ops is None or span.ops >= self._plan.workload.ops)
        if whole and self._planned is not None and self._hash.hexdigest() != self._planned["plan_fingerprint"]:
            return "failed", "what was executed is not what was planned: this is a defect of the replayer"
        return "complete", None

    def _conclude(self, status: str, reason: str | None, sampler: Sampler, directory: RunDirectory) -> None:
        """Say in run.json how it ended."""
        state, span = self._engine.state(), self._settings.span
        executed = self._engine.totals().summary()
        del executed["left_bytes"]
        whole = state.over and not state.cut and span.ops is None
        executed_ops = self._plan.ops if whole else state.executed
        self.info |= {
            "status": status,
            "reason": reason,
            "executed_ops": executed_ops,
            "executed_fingerprint": self._hash.hexdigest(),
            "executed": executed,
            "warmup": {
                "ops": min(state.warmup_position, self._plan.ops),
                "end_ns": state.steady_ns if state.steady_ns > 0 else None,
            },
            "window": self._window(state),
        }
        if self._planned is None:
            self.info["plan"] = executed | {"plan_fingerprint": self._hash.hexdigest(), "plan_checkpoints": None}
        if state.log_stalled_ns:
            self._warn(f"workers waited {state.log_stalled_ns / 1e9:.1f} s for the log to be written.")
        if sampler.rows:
            try:
                directory.write_device(sampler.rows)
            except OSError as error:
                self.info |= {"status": "failed", "reason": f"device.parquet cannot be written: {error.strerror}"}
            self._doubt_reads(sampler.read_bytes(), state.nvme_read_bytes)
        self._engine.close()

    def _window(self, state: State) -> dict[str, Any]:
        """The window asked for, when it was over, when the last move started, and how long what was issued took."""
        span = self._settings.span
        drain_s = max(0.0, state.ended_ns / 1e9 - span.duration_s) if span.duration_s is not None and state.cut else 0.0
        return {
            "duration_s": span.duration_s,
            "cut_s": state.cut_ns / 1e9 if state.cut else None,
            "issued_s": state.issued_ns / 1e9,
            "drain_s": drain_s,
            "drain_limit_s": span.drain_s,
            "stopped_s": state.stopped_ns / 1e9 if state.stopped_ns >= 0 else None,
        }

    def _warn(self, warning: str) -> None:
        self.info["warnings"].append(warning)
        _warn(warning, self._ranks)

    def _doubt_reads(self, delivered: int | None, read: int) -> None:
        """Reads that the device under the cache did not serve came out of a cache."""
        if delivered is not None and delivered < CACHED * read:
            share = 1 - delivered / read
            self._warn(
                f"a cache served reads: the nvme tier read {read / 2**30:.2f} GiB, the device delivered"
                f" {delivered / 2**30:.2f} GiB ({share:.0%} less)."
            )


def _offer_to_clean(settings: Settings) -> None:
    """Say what killed runs left in the cache directory; remove it where asked to."""
    left = cache_dir.leftovers(settings.cache_dir) if settings.cache_dir is not None else []
    for folder in left:
        size = f"{cache_dir.size_of(folder) / 2**30:.2f} GiB"
        question = f"{folder} ({size}) was left by a killed run; remove it?"
        if settings.clean or (_asks() and _confirmed(question)):
            cache_dir.clean(folder)
        else:
            _warn(f"{folder} ({size}) was left by a killed run; --clean removes it.", ALONE)


def _confirmed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort:  # Ctrl-D; Ctrl-C, too, looks like this
        INTERRUPTS.check()
        return False


def _asks() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _say(line: str, ranks: Ranks) -> None:
    """A line about the run before it starts, once where there are ranks."""
    if ranks.rank == 0:
        click.echo(line, err=True)


def _warn(message: str, ranks: Ranks) -> None:
    """Say it, once where there are ranks; each rank's run.json says it for itself."""
    if ranks.rank == 0:
        click.secho(f"Warning: {message}", err=True, bold=True)
