"""How a run executes its plan."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from replayer.engine.move_executor import Verify
from replayer.planning.pace import Demand, Pace, Span, Window
from replayer.record.columns import TIERS
from replayer.tiers import gpu
from replayer.tiers.nvme import BlockIO
from replayer.tiers.reserve import Reserve
from replayer.tiers.throttled import Throttle

GPU, CPU, NVME = range(len(TIERS))
_BUFFERS: Final = 256 << 20


def request_bytes(workers: int, depth: int) -> int:
    """The largest power of two, from 256 KiB to 1 MiB, at which all workers' buffers stay within 256 MiB.

    1 MiB: larger requests were slower, as their buffers leave the CPU's caches, smaller ones cost more calls (`make
    bench`, part requests).
    """
    share = _BUFFERS // workers // depth
    return min(1 << 20, max(1 << 18, 1 << share.bit_length() - 1))


@dataclass(frozen=True)
class Settings:
    """How a run executes its plan; what is recorded as its conditions.

    Attributes:
        allocs: stores in flight at most; None: any number.
        precondition_gib: written to the nvme tier, and removed, before the run.
        gpu_device: as torch names it.
        gpu_read: where what is read from the gpu tier goes.
        gds: hits and stores of the nvme tier go between its files and the gpu's memory (GPUDirect Storage).
        throttles: tiers to be slowed down.
        reserve: what new objects leave free on their file system.
        make_cache_dir: make cache_dir where it does not exist.
        clean: remove what killed runs left in cache_dir.
        notes: what was asked for and cannot be had here.
    """

    workers: int
    cache_dir: Path | None
    layout: Literal["files", "slab", "null"] = "files"
    io: BlockIO = field(default_factory=BlockIO)
    pace: Pace = field(default_factory=Pace)
    verify: Verify = "stamps"
    window: Window = field(default_factory=Window)
    span: Span = field(default_factory=Span)
    allocs: int | None = None
    precondition_gib: float = 0
    gpu_device: str = "cuda"
    gpu_read: gpu.GpuRead = "host"
    gds: bool = False
    throttles: dict[str, Throttle] = field(default_factory=dict)
    reserve: Reserve = field(default_factory=Reserve)
    make_cache_dir: bool = False
    keep_cache: bool = False
    clean: bool = False
    force: bool = False
    notes: tuple[str, ...] = ()

    @property
    def demand(self) -> Demand:
        """The load that it puts on the tiers."""
        return Demand(self.pace, self.workers, self.allocs)

    @property
    def chunk(self) -> int:
        """Bytes that a worker moves at a time: the requests of one object in flight."""
        return self.io.size * self.io.depth
