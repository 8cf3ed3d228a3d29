"""Pre-flight checks: refuse a run that the machine cannot hold, before anything is written."""

import resource
from typing import Final

from replayer.machine import description
from replayer.machine.reserve import find_existing, free_bytes
from replayer.options.settings import Settings
from replayer.planning.moves import CPU, NVME
from replayer.planning.pace import Span
from replayer.record.run_info import Warning  # noqa: A004 (run.json's word)
from replayer.record.wording import describe_cut, drive
from replayer.run.footprint import Footprint
from replayer.tiers.base import arena_bytes
from replayer.tiers.disk import SLAB
from replayer.tiers.payload import MAX_OBJECT
from tracegen import memory
from tracegen.errors import InputError
from views.numbers import format_value

_GIB: Final = 2**30
_OTHER_FILES: Final = 256  # files that the process may have open besides those of the nvme tier


def check_footprint(needed: Footprint, settings: Settings, ranks: int = 1) -> Warning | None:
    """Refuse a plan whose peak does not fit the memory or the disk.

    Args:
        needed: by the plan.
        settings: of the run.
        ranks: number of ranks on this host, which share its memory and disk.

    Raises:
        InputError: the plan does not fit.
    """
    if needed.largest_object > MAX_OBJECT:
        raise InputError(
            f"an object of {needed.largest_object:,} bytes exceeds the {MAX_OBJECT:,} that a payload can number",
            "pass a smaller `model`, or a larger `tensor_parallel`",
        )
    _check_memory(needed, settings, ranks)
    _allow_files(needed, settings)
    return _check_disk(needed, settings, ranks)


def describe_place(settings: Settings) -> str:
    """Return a line with the directory, file system, mount point and device of the nvme tier."""
    assert settings.devices.cache_dir is not None, "the nvme tier is on a disk"
    storage = description.storage(find_existing(settings.devices.cache_dir))
    return f"nvme tier: {settings.devices.cache_dir} on {drive(storage)}"


def describe_disk_use(needed: Footprint) -> str:
    """Return a line with the bytes that the nvme tier keeps, writes and reads on its disk."""
    peak = f"up to {format_value(needed.nvme_bytes, 'bytes')} at a time"
    summary = needed.summary
    if summary is None:
        return f"disk: {peak}; the bytes written depend on the run"
    written, read = (format_value(size, "bytes") for size in (summary.write_bytes.nvme, summary.read_bytes.nvme))
    return f"disk: {peak}; {written} to write and {read} to read in the whole plan"


def describe_time(span: Span) -> str:
    """Return a line with the time that the run takes, as far as it is known in advance."""
    if span.duration_s is None:
        return "time: as long as the requests and the tiers take; a duration would limit it"
    drain = "until every op that was issued has ended (the drain has no limit)"
    if span.drain_s is not None:
        drain = f"at most {span.drain_s:,.4g} s of drain"
    return f"time: {describe_cut(span.duration_s, span.duration_by)}, then {drain}"


def _check_memory(needed: Footprint, settings: Settings, ranks: int) -> None:
    """Refuse a cpu tier and buffers that do not fit the memory."""
    # Of the machine, or of the control group that limits this process.
    available = memory.available()
    arena = 0
    if needed.plan.usable[CPU]:
        arena = arena_bytes(needed.plan.capacity[CPU] or 0, needed.objects[CPU])
    most = _round_down(available.bytes // ranks * 0.9)
    available.require(arena, "the tier takes", f"pass at most {most:.2f}", shares=ranks, setting="cpu_mem_gb")
    # What the arenas of all ranks leave.
    left = memory.Memory(max(0, available.bytes - arena * ranks), available.limit)
    left.require(
        settings.demand.workers * settings.chunk,
        "their buffers take",
        "pass fewer, or a smaller `io_size` or `io_depth`",
        shares=ranks,
        subject=settings.demand.workers,
        setting="workers",
    )


def _check_disk(needed: Footprint, settings: Settings, ranks: int) -> Warning | None:
    """Refuse a plan that does not fit the disk; only warn if a limit may end the run before."""
    limit = needed.plan.usable[NVME]
    if limit == 0 or not settings.is_on_drive or settings.devices.cache_dir is None:
        return None
    place = settings.devices.cache_dir
    reserve = settings.control.reserve.bytes_on(place)
    free = max(0, free_bytes(place) - reserve) // ranks
    if needed.nvme_bytes <= free:
        return None
    wanted, has, kept = (format_value(size, "bytes") for size in (needed.nvme_bytes, free, reserve))
    lack = f"the plan needs {wanted} at its peak, {has} are free"
    if reserve:
        lack += f" in addition to the reserve of {kept}"
    span = settings.span
    # How far a run with a limit gets is not known in advance; slabs are claimed at once.
    is_limited = span.duration_s is not None or span.ops is not None
    if limit is None and is_limited and settings.devices.layout == "files":
        end = f"{span.duration_s:g} s" if span.duration_s else f"{span.ops:,} ops"
        text = f"{lack}: this disk cannot hold the whole plan; if the run gets that far within {end}, its stores fail."
        return Warning(kind="little room", text=text)
    room = _round_down(free * 0.95)
    remedy = f"pass `storage_capacity_gb={room:.2f}` or a smaller `model`" if room else "name another directory"
    if reserve:
        remedy += ", or a smaller `reserve`"
    raise InputError(lack, remedy, subject=place, setting="cache_dir")


def _allow_files(needed: Footprint, settings: Settings) -> None:
    """Raise this process's limit of open files to the number that the run may need."""
    slabs = needed.nvme_bytes // SLAB if settings.devices.layout == "slab" else 0
    files = _OTHER_FILES + settings.demand.workers + slabs
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and files > hard:
        raise InputError(f"the run needs {files:,} files open at once, {hard:,} are allowed", "raise `ulimit -n`")
    # Slabs and workers' files together exceed the usual soft limit of 1,024.
    if soft != resource.RLIM_INFINITY and files > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def _round_down(size: float) -> float:
    """Return a size in GiB, rounded down to hundredths."""
    return int(size / _GIB * 100) / 100
