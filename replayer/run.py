"""One replay from a trace to a run directory: plan, refuse what cannot work, execute, leave things as they were."""

import os
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal

import click
from tqdm import tqdm

from replayer import machine
from replayer.engine import Engine, Progress, Window
from replayer.execution import Executor, Staging, Verify, chunk_bytes
from replayer.payload import MAX_OBJECT
from replayer.plan import Plan, PlanOptions, simulate
from replayer.schema import TIERS, Row, RunDirectory
from replayer.tiers import ALIGNMENT, CpuTier, FileTier, NullTier, Tier
from tracegen.schema import InputError, Trace

PART_ROWS: Final = 1 << 17
PART_SECONDS: Final = 2.0
CPU, NVME = TIERS.index("cpu"), TIERS.index("nvme")


@dataclass(frozen=True)
class Settings:
    """How a run executes its plan; what is recorded as its conditions."""

    workers: int
    cache_dir: Path | None
    layout: Literal["files", "null"] = "files"
    pace: Literal["asap"] = "asap"
    verify: Verify = "stamps"
    window: Window = field(default_factory=Window)
    keep_cache: bool = False


def replay(trace: Trace, model: str, options: PlanOptions, settings: Settings, output: Path) -> dict[str, Any]:
    """Replay a trace; returns what run.json says at the end.

    Raises:
        InputError: before any I/O on a tier, where the trace, the tiers or the places for files will not do.
        KeyboardInterrupt: after the run has been closed as incomplete.
    """
    usable = options.usable()
    if usable[0] != 0:
        raise InputError("this release does not execute a gpu tier; pass --gpu-mem-gb 0, or use `replayer plan`.")
    trace.check()
    plan = Plan(trace, options)
    with _bar("planning", trace.ops, "op") as bar:
        planned = simulate(plan, bar.update)
    _check_room(plan, planned, settings)
    started = datetime.now(UTC)
    with ExitStack() as opened:
        tiers = _open_tiers(plan, settings, f"{started:%Y%m%dT%H%M%S}-{os.getpid()}", opened)
        directory = RunDirectory(output)
        info = {
            "status": "running",
            "reason": "the run has not ended, or was killed",
            "started": started.isoformat(timespec="seconds"),
            "trace": {"path": str(trace.path), "ops": trace.ops} | asdict(trace.metadata),
            "plan": planned,
            "conditions": _conditions(model, options, plan, settings, tiers),
            "machine": machine.describe() | {"storage": _storage(tiers)},
            "warnings": _warnings(settings, tiers),
        }
        for warning in info["warnings"]:
            click.secho(f"Warning: {warning}", err=True, bold=True)
        directory.save(info)
        chunk = chunk_bytes(settings.workers, settings.verify)
        engine = Engine(
            Plan(trace, options).stream(1024),
            usable,
            Executor(tiers, _payload_seed(trace), settings.verify),
            lambda: Staging(chunk, settings.verify),
            settings.window,
        )
        log = _Log(directory)
        info |= _execute(engine, settings.workers, log, trace.ops, planned)
    # The tiers have given back their room: what a full disk kept out of the log may fit now.
    try:
        log.write()
    except OSError as error:
        info |= {"status": "failed", "reason": f"the log's last rows cannot be written: {error.strerror}"}
    try:
        directory.save(info)
    except OSError as error:
        raise click.ClickException(f"{output}: cannot write how the run ended ({error.strerror}).") from None
    if info["status"] == "incomplete":
        raise KeyboardInterrupt
    return info


def _payload_seed(trace: Trace) -> int:
    return trace.metadata.seed % 2**64


def _execute(engine: Engine, workers: int, log: "_Log", ops: int, planned: dict[str, Any]) -> dict[str, Any]:
    """Run the engine, writing parts as it goes; what became of it, for run.json."""
    status, reason = "complete", None
    with _bar("replaying", ops, "op") as bar:

        def flush(rows: list[Row]) -> None:
            log.add(rows)
            bar.update(engine.executed_ops - bar.n)
            bar.set_postfix_str(_progress(engine.progress, bar.format_dict["elapsed"]))

        try:
            engine.run(workers, flush)
        except KeyboardInterrupt:
            status, reason = "incomplete", "interrupted"
        except Exception as error:  # noqa: BLE001 (the run directory says what ended it; the log up to here stays)
            status, reason = "failed", f"{type(error).__name__}: {error}"
    if engine.finished and reason is None:
        if engine.progress.failures:
            status, reason = "failed", f"{engine.progress.failures:,} moves failed; their rows say why"
        elif engine.hash.hexdigest() != planned["plan_fingerprint"]:
            status, reason = "failed", "what was executed is not what was planned: this is a defect of the replayer"
    return {
        "status": status,
        "reason": reason,
        "executed_ops": ops if engine.finished else engine.executed_ops,
        "executed_fingerprint": engine.hash.hexdigest(),
    }


class _Log:
    """Collects rows into parts of some size or age."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory, self._waiting, self._written = directory, list[Row](), monotonic()

    def add(self, rows: list[Row]) -> None:
        self._waiting.extend(rows)
        if len(self._waiting) >= PART_ROWS or monotonic() - self._written > PART_SECONDS:
            self.write()

    def write(self) -> None:
        """Close a part; its rows stay waiting where it cannot be written."""
        if self._waiting:
            self._directory.write_part(self._waiting)
            self._waiting.clear()
        self._written = monotonic()


def _progress(progress: Progress, elapsed: float) -> str:
    rate = progress.moved_bytes / 2**30 / elapsed if elapsed else 0
    hit_rate = f", hit rate {progress.hits / progress.reads:.1%}" if progress.reads else ""
    return f"{rate:.2f} GiB/s{hit_rate}" + (f", {progress.failures:,} FAILED" if progress.failures else "")


def _bar(what: str, total: int, unit: str) -> "tqdm[Any]":
    return tqdm(desc=what, total=total, unit=unit, unit_scale=True, disable=None, leave=False)


def _open_tiers(plan: Plan, settings: Settings, run: str, opened: ExitStack) -> list[Tier | None]:
    usable = plan.waterfall.usable
    tiers: list[Tier | None] = [None, None, None]
    if cpu := usable[CPU]:
        tiers[CPU] = CpuTier(cpu)
    if usable[NVME] != 0:
        if settings.layout == "null":
            tiers[NVME] = NullTier()
        elif settings.cache_dir is not None:
            tiers[NVME] = FileTier(settings.cache_dir, run, keep=settings.keep_cache)
        else:
            raise InputError("the nvme tier needs a place: pass --cache-dir DIR, or --storage-capacity-gb 0.")
    for tier in tiers:
        if tier is not None:
            opened.callback(tier.close)
    return tiers


def _check_room(plan: Plan, planned: dict[str, Any], settings: Settings) -> None:
    """Refuse a plan whose peak does not fit the memory or the disk, before anything is written."""
    largest = int(plan.largest_object)
    if largest > MAX_OBJECT:
        raise InputError(f"an object of {largest:,} bytes exceeds the {MAX_OBJECT:,} that a payload can number.")
    memory, need = machine.meminfo("MemAvailable"), plan.waterfall.usable[CPU] or 0
    if memory and need > memory:
        raise InputError(
            f"--cpu-mem-gb: {need / 2**30:.1f} GiB usable, but {memory / 2**30:.1f} GiB of memory are available;"
            f" pass at most {_gib_below(memory * 0.9 / float(plan.options.headroom))}."
        )
    if plan.waterfall.usable[NVME] == 0 or settings.layout == "null" or settings.cache_dir is None:
        return
    slack = plan.waterfall.peak_objects[NVME] * ALIGNMENT  # of padding
    peak = planned["peak_bytes"]["nvme"] + slack
    if plan.waterfall.usable[NVME] is None:
        # An unlimited tier has no ledger: what the plan stores may come before what it takes away has left.
        peak = min(peak + settings.window.bytes, planned["write_bytes"]["nvme"] + slack)
    place = next(path for path in (settings.cache_dir, *settings.cache_dir.absolute().parents) if path.exists())
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    if peak > free:
        lack = f"the plan needs {peak / 2**30:.2f} GiB at its peak, {free / 2**30:.2f} GiB are free"
        room = _gib_below(free * 0.95)
        remedy = f"pass --storage-capacity-gb {room} or a smaller --model" if float(room) else "name another directory"
        raise InputError(f"--cache-dir {settings.cache_dir}: {lack}; {remedy}.")


def _gib_below(size: float) -> str:
    return f"{int(size / 2**30 * 100) / 100:.2f}"


def _conditions(
    model: str, options: PlanOptions, plan: Plan, settings: Settings, tiers: list[Tier | None]
) -> dict[str, Any]:
    """Everything that two runs must share to be compared, in plain JSON."""
    nvme = tiers[NVME]
    return {
        "model": model,
        "bytes_per_token": options.bytes_per_token.per_token,
        "usable_bytes": dict(zip(TIERS, plan.waterfall.usable, strict=True)),
        "headroom": str(options.headroom),
        "promote": options.promote,
        "lookup": plan.lookup,
        "decode": options.decode,
        "workers": settings.workers,
        "pace": settings.pace,
        "token_ms": 0,
        "request_depth": 1,
        "layout": settings.layout,
        "direct": nvme.direct if isinstance(nvme, FileTier) else None,
        "io_bytes": chunk_bytes(settings.workers, settings.verify),
        "fsync": "none",
        "verify": settings.verify,
        "window_ops": settings.window.ops,
        "window_bytes": settings.window.bytes,
        "warmup": None,
    }


def _storage(tiers: list[Tier | None]) -> dict[str, Any] | None:
    nvme = tiers[NVME]
    return machine.storage(nvme.folder) if isinstance(nvme, FileTier) else None


def _warnings(settings: Settings, tiers: list[Tier | None]) -> list[str]:
    nvme = tiers[NVME]
    warnings = []
    if isinstance(nvme, FileTier) and not nvme.direct:
        kind = machine.storage(nvme.folder)["filesystem"]
        warnings.append(f"{settings.cache_dir} ({kind}) refuses O_DIRECT; the page cache may serve its reads.")
    if isinstance(nvme, NullTier):
        warnings.append("the nvme tier is the null layout: nothing is stored, its times are the replayer's own.")
    if settings.verify == "off":
        warnings.append("verification is off; wrong bytes will go unnoticed.")
    return warnings
