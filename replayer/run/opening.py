"""What a run needs of the machine: refused where it is not to be had, before anything is written; then opened."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal

from replayer.engine.move_executor import Staging, Verify
from replayer.machine import description as machine
from replayer.planning.pace import Demand, Pace, Span, Window
from replayer.planning.plan import Plan
from replayer.record.columns import TIERS
from replayer.tiers import BACKENDS, cache_dir, gpu
from replayer.tiers.base import ALIGNMENT, HostBuffer, Tier, choose_unit
from replayer.tiers.disk import BlockIO, DiskTier
from replayer.tiers.payload import Payload
from replayer.tiers.request import TierRequest
from replayer.tiers.reserve import Reserve
from replayer.tiers.throttled import Throttle, ThrottledTier
from tracegen.errors import InputError

GPU, CPU, NVME = range(len(TIERS))
_BUFFERS: Final = 256 << 20
_OBJECT: Final = 64 << 20  # of preconditioning
_KEYS: Final = 1 << 34  # of preconditioning: past every trace's


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


class OpenTiers:
    """The tiers of a run, open.

    Args:
        plan: the plan, planned to its end.
        planned: its summary.
        settings: of the run.
        run: name of the run, which names its folder.
        opened: closes the tiers.
        say: takes warnings, as sentences.

    Attributes:
        all: the tiers by number; None for a tier that the run does not have.
        nvme: the nvme tier, if it is on a disk.

    Raises:
        InputError: a tier cannot be opened, or a throttle names a tier that the run does not have.
    """

    def __init__(
        self,
        plan: Plan,
        planned: dict[str, Any] | None,
        settings: Settings,
        run: str,
        opened: ExitStack,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._settings = settings
        self.all: list[Tier | None] = [None, None, None]
        objects = most_objects(plan, plan.peak_objects, settings.window)
        for place in (GPU, CPU, NVME):
            if plan.usable[place] == 0:
                continue
            request = TierRequest(
                capacity=plan.capacity[place] or 0,
                objects=objects[place],
                disk_bytes=nvme_room(plan, planned, settings.window) if place == NVME else 0,
                cache_dir=settings.cache_dir,
                run=run,
                io=settings.io,
                keep_cache=settings.keep_cache,
                reserve=settings.reserve,
                gpu_device=settings.gpu_device,
                say=say,
            )
            tier = BACKENDS[self._choose_backend(place, request)](request)
            self.all[place] = tier
            opened.callback(tier.close)
        gpu_tier, nvme_tier = self.all[GPU], self.all[NVME]
        self._gpu = gpu_tier if isinstance(gpu_tier, gpu.GpuTier) else None
        self.nvme = nvme_tier if isinstance(nvme_tier, DiskTier) else None
        self._throttle()

    def _choose_backend(self, place: int, request: TierRequest) -> str:
        """Return the key of BACKENDS for a place; make the cache directory if it needs one."""
        settings = self._settings
        if place != NVME:
            return TIERS[place]
        if settings.layout == "null":
            return "null"
        parent = request.require_cache_dir()
        if settings.make_cache_dir:
            cache_dir.make_parent(parent)
        if not settings.gds:
            return settings.layout
        if settings.layout != "files" or self.all[GPU] is None:
            problem = "GPUDirect Storage reads files into the gpu's memory"
            raise InputError(problem, "pass `layout=files` and `gpu_mem_gb`", setting="gds")
        return "gds"

    def _throttle(self) -> None:
        for name, throttle in self._settings.throttles.items():
            place = TIERS.index(name)
            tier = self.all[place]
            if tier is None:
                raise InputError("this run has no such tier", subject=name, setting="throttle")
            self.all[place] = ThrottledTier(tier, throttle)

    def staging(self, _worker: int) -> Staging:
        """Allocate a worker's buffers: pinned for a gpu tier, one on the device if moves end there."""
        chunk = self._settings.chunk
        if self._gpu is None:
            return Staging(chunk)
        nvme = frozenset([NVME] if self._settings.gds else [])
        reads = nvme | frozenset([GPU] if self._settings.gpu_read == "device" else [])
        on_device = self._gpu.make_device_buffer(chunk) if reads else None
        return Staging(chunk, self._gpu.make_host_buffer, on_device, reads, nvme)

    def stop_waiting(self) -> None:
        """End the waits of throttled tiers: the run is being stopped."""
        for tier in self.all:
            if tier is not None:
                tier.stop_waiting()

    def storage(self) -> dict[str, Any] | None:
        """What run.json says of the file system under the cache."""
        return machine.storage(self.nvme.folder) if self.nvme is not None else None

    def block_device(self) -> str | None:
        """The device under the cache as major:minor, where the kernel counts what it does."""
        return machine.block_device(self.nvme.folder) if self.nvme is not None else None

    def io_is_counted(self) -> bool:
        """Whether /proc/self/io counts the nvme tier's I/O; of cuFile's that is not known."""
        return self.nvme is not None and self.nvme.is_counted and not self._settings.gds

    def precondition(self, room: int, payload: Payload, progress: Callable[[int], object]) -> dict[str, Any] | None:
        """Write so much to the nvme tier as was asked for, filling its room again and again; None for nothing.

        Every object has a key of its own, so that no bytes are written twice.

        Raises:
            InputError: there is no nvme tier on a disk, or it cannot be written.
        """
        left = int(self._settings.precondition_gib * 2**30)
        if not left:
            return None
        nvme = self.all[NVME]
        if self.nvme is None or nvme is None:
            raise InputError("--precondition writes to the nvme tier, and this run has none on a disk.")
        buffer, began, keys, unused = HostBuffer(self._settings.chunk), monotonic(), list[int](), itertools.count(_KEYS)
        try:
            while left > 0:
                if (len(keys) + 1) * _OBJECT > room:
                    self._discard(keys)
                size = min(_OBJECT, left, max(room, ALIGNMENT))
                keys.append(next(unused))
                with nvme.create(keys[-1], size) as target:
                    for offset in range(0, size, self._settings.chunk):
                        length = min(self._settings.chunk, size - offset)
                        payload.fill(buffer.words, keys[-1], offset, -(-length // ALIGNMENT) * ALIGNMENT)
                        target.write(offset, length, buffer)
                left -= size
                progress(size)
            self._discard(keys)
        except OSError as error:
            raise InputError(f"--precondition: {self._settings.cache_dir}: {error.strerror}; ask for less.") from None
        return {"gib": self._settings.precondition_gib, "s": monotonic() - began}

    def _discard(self, keys: list[int]) -> None:
        nvme = self.all[NVME]
        assert nvme is not None
        while keys:
            nvme.discard(keys.pop())


def most_objects(plan: Plan, peaks: list[int], window: Window) -> list[int]:
    """Of each tier, what an execution may have in it at a time: more than the plan's peak.

    Beside what the plan has there at some op, others of the window may be on their way in before any has left: what its
    ops store, and what they push out of faster tiers.
    """
    return [min(plan.workload.keys, sum(peaks[: tier + 1]) + window.ops) for tier in range(len(TIERS))]


def nvme_room(plan: Plan, planned: dict[str, Any] | None, window: Window) -> int:
    """Bytes that the nvme tier takes at most, padding included: what is written, and no more than it may hold.

    An unlimited tier has no ledger: what the plan stores may come before what it takes away has left.
    """
    limit, objects = plan.usable[NVME], most_objects(plan, plan.peak_objects, window)[NVME]
    if planned is None:  # placement is decided on the way: every object there is, once
        whole = int(plan.workload.sizes().sum())
        most = whole if limit is None else min(limit, whole)
    elif limit is None:
        most = planned["write_bytes"]["nvme"]
        if window.bytes is not None:
            most = min(most, planned["peak_bytes"]["nvme"] + window.bytes)
    else:
        most = min(planned["write_bytes"]["nvme"], limit)
    if planned is not None:
        objects = min(objects, sum(planned["stores"].values()) + sum(planned["demotions"].values()))
    return int(most + objects * choose_unit(most))


def warnings(settings: Settings, tiers: OpenTiers) -> list[str]:
    """What makes the run's times doubtful."""
    found = [*settings.notes, *_drive_warnings(settings, tiers)]
    limit, simulated = settings.throttles.get("nvme"), settings.layout == "null" and tiers.all[NVME] is not None
    if simulated:
        times = "the replayer's own" if limit is None else f"those of --throttle, {limit}"
        found.append(f"the nvme tier is the null layout: nothing is stored, its times are {times}.")
    if tiers.all[GPU] is not None and settings.gpu_device == "cpu":
        found.append("the gpu tier is emulated in host memory (--gpu-device cpu); its times are no GPU's.")
    for name, throttle in settings.throttles.items():
        if not (simulated and name == "nvme"):
            found.append(f"the {name} tier is throttled to {throttle}; its times are of that limit.")
    if settings.verify == "off":
        found.append("verification is off; wrong bytes will go unnoticed.")
    return found


def _drive_warnings(settings: Settings, tiers: OpenTiers) -> Iterator[str]:
    nvme = tiers.nvme
    if nvme is None:
        return
    facts = machine.storage(nvme.folder)
    kind = facts["filesystem"]
    if facts["mount_point"] == "/":
        yield f"{settings.cache_dir} is on the root file system ({kind}), which the whole machine uses."
    if settings.io.direct == "off":
        yield f"--direct off: the page cache of {settings.cache_dir} ({kind}) may serve its reads."
    elif not nvme.direct:
        yield f"{settings.cache_dir} ({kind}) refuses O_DIRECT; the page cache may serve its reads."
    if tiers.block_device() is None:
        yield f"no block device counts what {settings.cache_dir} ({kind}) does; nothing checks its reads."
