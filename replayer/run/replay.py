"""One replay, from a trace to a run directory: plan, refuse what cannot work, execute, clean up."""

import os
import secrets
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from replayer.engine.engine import Engine
from replayer.machine import description
from replayer.machine.device_counters import Sampler
from replayer.options.settings import Settings
from replayer.planning.moves import GPU, NVME
from replayer.planning.plan import PlanOptions
from replayer.record.columns import RUN_VERSION
from replayer.record.run_directory import RunDirectory, check_free
from replayer.record.run_info import RanksInfo, RunInfo, Status, to_json
from replayer.record.run_parts import Machine
from replayer.run.console import RunConsole
from replayer.run.execution import Execution, save_first
from replayer.run.log_writer import LogWriter
from replayer.run.mpi import ALONE, Ranks, combine_ranks
from replayer.run.opening import OpenTiers, collect_warnings
from replayer.run.precondition import precondition
from replayer.run.preflight import check_footprint, describe_disk_use, describe_place, describe_time
from replayer.run.prepared import Prepared
from replayer.tiers import cache_dir, gpu
from replayer.tiers.payload import Payload
from tracegen.console.interrupts import INTERRUPTS
from tracegen.errors import ToolError
from tracegen.schema import Trace


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay.

    Attributes:
        info: run.json of this process.
        ranks: run.json above those of the ranks; None for a single process.
    """

    info: RunInfo
    ranks: RanksInfo | None = None

    @property
    def whole(self) -> RunInfo | RanksInfo:
        """The run.json that judges all ranks together."""
        return self.ranks or self.info

    def to_json(self) -> dict[str, Any]:
        """Return run.json; of several ranks, rank 0's with the fields of the one above."""
        above = {} if self.ranks is None else to_json(self.ranks)
        return to_json(self.info) | above


@dataclass(frozen=True)
class Replay:
    """One replay, before it starts.

    Attributes:
        trace: the trace to replay.
        model: name of the model.
        options: of the plan.
        settings: of the run.
        output: run directory to make.
        ranks: this process among its ranks.
        nonce: of the payload, below 2^64; a new one by default, so that no two runs write equal bytes.
        console: tells the user; silent by default.
    """

    trace: Trace
    model: str
    options: PlanOptions
    settings: Settings
    output: Path
    ranks: Ranks = ALONE
    nonce: int = field(default_factory=partial(secrets.randbits, 64))
    console: RunConsole = field(default_factory=RunConsole)

    @property
    def _first_console(self) -> RunConsole:
        """The console of the first rank; those of all others are silent, but for warnings of their own tiers."""
        return self.console if self.ranks.rank == 0 else RunConsole()

    def run(self) -> ReplayResult:
        """Plan, check, execute, and write the run directory.

        Returns:
            run.json as it is at the end.

        Raises:
            InputError: the trace, the tiers or the directories will not do; raised before any I/O on
                a tier except preconditioning.
            ToolError: run.json could not be written at the end.
            KeyboardInterrupt: after the run has been closed as incomplete.
        """
        with ExitStack() as resources:
            # Two steps: all ranks have cleaned up before any of them asks for free space.
            with self.ranks.in_step():
                self._check_places()
            with self.ranks.in_step():
                execution = self._prepare(resources)
            directory, top = self._make_directories(execution.info)
            resources.callback(directory.close)
            for warning in execution.info.warnings:
                self._first_console.warn(warning.text)
            with INTERRUPTS.defer():
                log = LogWriter(directory, self.ranks.rank)
                interrupt = execution.execute(directory, log)
                resources.close()  # gives the cache's room back, which the log may need
                result = self._end(execution, directory, top, log)
                if interrupt is not None:
                    raise interrupt
        return result

    def _check_places(self) -> None:
        """Refuse an output or cache directory that cannot be used; clean the latter if that is wanted.

        All ranks end this step before any of them asks how much room there is.
        """
        settings = self.settings
        check_free(self.output, force=settings.control.force)
        if settings.devices.cache_dir is None:
            return
        cache_dir.check_parent(settings.devices.cache_dir)
        if self.options.usable()[NVME] != 0 and settings.is_on_drive:
            self._first_console.say(describe_place(settings))
        if self.ranks.rank == 0:
            self._clean(settings.devices.cache_dir)

    def _clean(self, parent: Path) -> None:
        """Remove what killed runs left in the cache directory, or warn of it."""
        for folder in cache_dir.leftovers(parent):
            size = f"{cache_dir.size_of(folder) / 2**30:.2f} GiB"
            leftover = f"{folder} ({size}) was left by a killed run"
            if self.settings.control.clean:
                cache_dir.clean(folder)
            else:
                self._first_console.warn(f"{leftover}; pass `clean=true` to remove it.")

    def _prepare(self, resources: ExitStack) -> Execution:
        """Plan the trace, check that it can run, open the tiers, and precondition the drive."""
        settings = self.settings
        console = self._first_console
        prepared = Prepared.make(self.trace, self.model, self.options, settings, console)
        needed = prepared.footprint
        little_room = check_footprint(needed, settings, self.ranks.count_on_host())
        started = datetime.now(UTC)
        tiers = OpenTiers(needed, settings, self._run_name(started), resources, self.console.warn)
        if tiers.nvme is not None:
            console.say(describe_disk_use(needed))
        console.say(describe_time(settings.span))
        direct = None if tiers.nvme is None else tiers.nvme.direct
        info = prepared.describe(direct, _describe_machine(settings, tiers), started, self.ranks.size)
        warnings = [*([little_room] if little_room else []), *collect_warnings(settings, tiers)]
        # Ranks with equal seeds would write equal bytes, which a drive could store once.
        payload = Payload((self.trace.metadata.seed + self.ranks.rank) % 2**64, self.nonce)
        with console.track("preconditioning", "B", int(settings.control.precondition * 2**30)) as advance:
            written = precondition(tiers.nvme, settings, needed.nvme_bytes, payload, advance)
        info = msgspec.structs.replace(
            info,
            rank=self.ranks.rank,
            payload_nonce=f"{self.nonce:016x}",
            warnings=tuple(warnings),
            precondition=written,
        )
        engine = Engine(needed.plan, prepared.engine_settings(), tiers.all, payload, tiers.staging)
        io_is_counted = tiers.io_is_counted()
        sampler = Sampler(tiers.block_device(), own_io=io_is_counted, run_delay_ns=engine.run_delay_ns)
        engine.begun = sampler.start  # the intervals of the counters begin at the log's time 0
        return Execution(prepared, engine, info, self.ranks, console, sampler, tiers.stop_waiting)

    def _run_name(self, started: datetime) -> str:
        """Return the name of the run, which names its cache folder."""
        # Names of folders of killed runs are told from users' by this form (tiers/cache_dir.py).
        name = f"{started:%Y%m%dT%H%M%S%f}-{os.getpid()}"
        return name if self.ranks.comm is None else f"{name}-{self.ranks.rank:04}"

    def _make_directories(self, info: RunInfo) -> tuple[RunDirectory, RunDirectory | None]:
        """Make this rank's run directory; rank 0 of several makes the one above all first.

        Each gets its first run.json. A directory in which that cannot be written is removed.
        """
        top: RunDirectory | None = None
        is_alone = self.ranks.comm is None
        force = self.settings.control.force
        # Rank 0 first: the others make theirs inside.
        with self.ranks.in_step():
            if not is_alone and self.ranks.rank == 0:
                top = RunDirectory(self.output, force=force, parts=False)
                save_first(top, self._unfinished("running"))
        with self.ranks.in_step():  # the directory above exists on all hosts once rank 0 has made it
            if is_alone:
                directory = RunDirectory(self.output, force=force)
            else:
                directory = RunDirectory(self.output / f"rank_{self.ranks.rank}")
            save_first(directory, info, *([top] if top is not None else []))
        return directory, top

    def _unfinished(self, status: Status) -> RanksInfo:
        reason = "a rank has not ended, was interrupted, or was killed"
        size = self.ranks.size
        return RanksInfo(run_version=RUN_VERSION, ranks=size, status=status, reason=reason)

    def _end(
        self, execution: Execution, directory: RunDirectory, top: RunDirectory | None, log: LogWriter
    ) -> ReplayResult:
        """Write the rest of the log and the last run.json.

        The tiers are closed by now: a log that a full disk refused may fit into their room.
        """
        reason = execution.write_end(directory, log)
        if self.ranks.comm is None:
            if reason is not None:
                raise ToolError(reason)
            return ReplayResult(execution.info)
        if execution.info.status == "incomplete":  # interrupted, as all ranks are; some may be gone
            above = self._unfinished("incomplete")
        else:
            above = combine_ranks(self.ranks.gather(execution.info))
        if top is not None:
            top.save(above)
        return ReplayResult(execution.info, above)


def _describe_machine(settings: Settings, tiers: OpenTiers) -> Machine:
    device = gpu.describe_gpu(settings.devices.gpu_device) if tiers.all[GPU] is not None else None
    return msgspec.structs.replace(description.describe(), storage=tiers.storage(), gpu=device)
