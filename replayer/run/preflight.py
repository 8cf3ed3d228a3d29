"""What a run needs of memory, disk and time: said before it starts, and refused where the machine lacks it."""

import resource
from typing import Any, Final

from replayer.machine import description as machine
from replayer.machine import free_memory as memory
from replayer.planning.pace import Span, Window
from replayer.planning.plan import Plan
from replayer.record.wording import drive
from replayer.run.opening import CPU, NVME, Settings, most_objects, nvme_room
from replayer.tiers.cpu import arena_bytes
from replayer.tiers.payload import MAX_OBJECT
from replayer.tiers.reserve import find_existing, free_bytes
from replayer.tiers.slab import SLAB
from tracegen.errors import InputError

_GIB: Final = 2**30


def check_room(plan: Plan, planned: dict[str, Any] | None, settings: Settings, ranks: int = 1) -> str | None:
    """Refuse a plan whose peak does not fit the memory or the disk, before anything is written.

    How far a run gets that is cut at a time is not known before: where its disk could fill, that is a warning.

    Args:
        plan: planned to its end, but where placement is decided on the way.
        planned: its summary.
        settings: of the run.
        ranks: how many do the same on this host, and on this disk.

    Raises:
        InputError: it does not fit.
    """
    largest = int(plan.largest_object)
    if largest > MAX_OBJECT:
        raise InputError(f"an object of {largest:,} bytes exceeds the {MAX_OBJECT:,} that a payload can number.")
    _check_memory(plan, settings, ranks)
    _allow_files(plan, planned, settings)
    if not _uses_disk(plan, settings) or settings.cache_dir is None:
        return None
    peak, reserve = nvme_room(plan, planned, settings.window), settings.reserve.bytes_on(settings.cache_dir)
    free = max(0, free_bytes(settings.cache_dir) - reserve) // ranks
    if peak <= free:
        return None
    kept = f" beside the {reserve / _GIB:,.2f} GiB that --reserve {settings.reserve.format()} keeps" if reserve else ""
    lack = f"the plan needs {peak / _GIB:,.2f} GiB at its peak, {free / _GIB:,.2f} GiB are free{kept}"
    cut = f"--duration {settings.span.duration_s:g}" if settings.span.duration_s else f"--ops {settings.span.ops}"
    limited = settings.span.duration_s is not None or settings.span.ops is not None
    if plan.usable[NVME] is None and limited and settings.layout == "files":
        return f"{lack}: this disk cannot hold the whole plan; where the run gets so far within {cut}, its stores fail."
    room = _gib_below(free * 0.95)
    remedy = f"pass --storage-capacity-gb {room} or a smaller --model" if float(room) else "name another directory"
    smaller = ", or a smaller --reserve" if reserve else ""
    raise InputError(f"--cache-dir {settings.cache_dir}: {lack}; {remedy}{smaller}.")


def place(settings: Settings) -> str:
    """Directory, file system, mount point and device of the nvme tier."""
    assert settings.cache_dir is not None, "the nvme tier is on a disk"
    return f"nvme tier: {settings.cache_dir} on {drive(machine.storage(find_existing(settings.cache_dir)))}"


def needs(plan: Plan, planned: dict[str, Any] | None, window: Window) -> str:
    """What the nvme tier takes of its disk."""
    peak = f"up to {_size(nvme_room(plan, planned, window))} at a time"
    if planned is None:
        return f"disk: {peak}; how much is written is decided on the way"
    written, read = (_size(planned[f"{side}_bytes"]["nvme"]) for side in ("write", "read"))
    return f"disk: {peak}; {written} to write and {read} to read in the whole plan"


def takes(plan: Plan, span: Span) -> str:
    """How long the run takes, as far as that is known before it starts."""
    pace = plan.options.demand.pace
    if span.duration_s is not None:
        if span.drain_s is None:
            return f"time: {span.duration_s:,.4g} s, and until what was issued by then has ended (no --drain limits it)"
        return f"time: at most {span.duration_s + span.drain_s:,.4g} s (--duration and --drain)"
    least = plan.workload.least_s(pace.kind, pace.speedup)
    known = f"at least {least:,.0f} s (times and pauses of the trace at pace {pace.kind}), " if least >= 1 else ""
    return f"time: {known}as long as the tiers take; --duration limits it"


def _check_memory(plan: Plan, settings: Settings, ranks: int) -> None:
    """Refuse an arena and buffers that do not fit the memory."""
    found, need = memory.available(), 0
    free = found.bytes // ranks
    if plan.usable[CPU]:
        need = arena_bytes(plan.capacity[CPU] or 0, most_objects(plan, plan.peak_objects, settings.window)[CPU])
    if found.bytes and need > free:
        raise InputError(
            f"--cpu-mem-gb: {need / _GIB:.1f} GiB, but {found.format(ranks)}; pass at most {_gib_below(free * 0.9)}."
        )
    buffers = settings.workers * settings.chunk
    if found.bytes and need + buffers > free:
        raise InputError(
            f"--workers {settings.workers}: their buffers take {buffers / _GIB:.1f} GiB, {found.format(ranks)};"
            " pass fewer, or a smaller --io-size or --io-depth."
        )


def _uses_disk(plan: Plan, settings: Settings) -> bool:
    return plan.usable[NVME] != 0 and settings.layout != "null"


def _allow_files(plan: Plan, planned: dict[str, Any] | None, settings: Settings) -> None:
    """Have as many files open at once as the run may need."""
    slabs = nvme_room(plan, planned, settings.window) // SLAB if settings.layout == "slab" else 0
    need, (soft, hard) = 256 + settings.workers + slabs, resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and need > hard:
        raise InputError(f"the run needs {need:,} files open at once, {hard:,} are allowed; raise `ulimit -n`.")
    if soft != resource.RLIM_INFINITY and need > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))


def _size(count: float) -> str:
    if not count:
        return "nothing"
    return f"{count / _GIB:,.2f} GiB" if count >= _GIB / 10 else f"{count / 2**20:,.1f} MiB"


def _gib_below(size: float) -> str:
    return f"{int(size / _GIB * 100) / 100:.2f}"
