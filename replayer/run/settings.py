"""The settings of a run: how it executes its plan."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from replayer.machine.reserve import Reserve
from replayer.planning.pace import Demand, Pace, PlanWindow, Span
from replayer.record.options import DEVICE_LAYOUTS, GpuRead, Layout, Verify
from replayer.record.run_info import Tier as TierName
from replayer.tiers.disk import BlockIO
from replayer.tiers.throttled import Throttle

_BUFFER_BYTES: Final = 256 << 20  # of all workers together
_MIN_REQUEST: Final = 1 << 18
_MAX_REQUEST: Final = 1 << 20


def choose_request_bytes(workers: int, depth: int) -> int:
    """Return the largest power of two for which the buffers of all workers stay within 256 MiB.

    The result is from 256 KiB to 1 MiB: `make bench` showed that larger requests are slower, since
    their buffers leave the CPU's caches, and that smaller ones cost more calls.

    Args:
        workers: moves in flight.
        depth: requests of one object in flight.
    """
    share = _BUFFER_BYTES // workers // depth
    return min(_MAX_REQUEST, max(_MIN_REQUEST, 1 << share.bit_length() - 1))


@dataclass(frozen=True)
class Settings:
    """Settings by which a run executes its plan.

    Attributes:
        workers: moves in flight at most.
        cache_dir: directory in which the nvme tier makes its folder.
        layout: how the nvme tier stores objects: a file each, extents of large files, or
            not at all.
        io: requests to the file system.
        pace: when requests start.
        verify: what is checked of the bytes read: nothing, the stamp of each sector, or every byte.
        window: how far execution runs ahead.
        span: the part of the plan that is executed and measured.
        allocs: stores in flight at most; None: any number.
        precondition_gib: GiB written to the nvme tier, and removed, before the run.
        gpu_device: GPU as torch names it.
        gpu_read: where reads from the gpu tier go.
        gds: transfer between the nvme tier's files and GPU memory directly (GPUDirect Storage).
        throttles: limits of tiers that are slowed down, by tier.
        reserve: space that new objects leave free on their file system.
        make_cache_dir: make cache_dir if it does not exist.
        keep_cache: leave the run's cache files.
        clean: remove what killed runs left in cache_dir.
        force: replace a run directory.
        notes: settings that this machine cannot honour, in words.
    """

    workers: int
    cache_dir: Path | None
    layout: Layout = "files"
    io: BlockIO = field(default_factory=BlockIO)
    pace: Pace = field(default_factory=Pace)
    verify: Verify = "stamps"
    window: PlanWindow = field(default_factory=PlanWindow)
    span: Span = field(default_factory=Span)
    allocs: int | None = None
    precondition_gib: float = 0
    gpu_device: str = "cuda"
    gpu_read: GpuRead = "host"
    gds: bool = False
    throttles: dict[TierName, Throttle] = field(default_factory=dict)
    reserve: Reserve = field(default_factory=Reserve)
    make_cache_dir: bool = False
    keep_cache: bool = False
    clean: bool = False
    force: bool = False
    notes: tuple[str, ...] = ()

    @property
    def demand(self) -> Demand:
        """The load that the run puts on the tiers."""
        return Demand(self.pace, self.workers, self.allocs)

    @property
    def is_on_drive(self) -> bool:
        """Whether the nvme tier, if there is one, stores its objects on a drive."""
        return self.layout in DEVICE_LAYOUTS

    @property
    def chunk(self) -> int:
        """Bytes that a worker moves at once: all requests of one object in flight."""
        return self.io.size * self.io.depth
