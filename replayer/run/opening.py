"""Open tiers: those that a run's settings ask for, and what makes their times doubtful."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

from replayer.engine.move_executor import Staging
from replayer.machine import description
from replayer.options.settings import Settings
from replayer.planning.moves import CPU, GPU, NVME
from replayer.record.options import TIERS
from replayer.record.run_info import Warning  # noqa: A004 (run.json's word)
from replayer.record.run_parts import Storage
from replayer.run.footprint import Footprint
from replayer.tiers import BACKENDS, cache_dir, gpu
from replayer.tiers.disk import DiskTier
from replayer.tiers.native import NativeTier
from replayer.tiers.request import TierRequest
from tracegen.errors import InputError


class OpenTiers:
    """The tiers of a run, open.

    Args:
        needed: by the plan.
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
        needed: Footprint,
        settings: Settings,
        run: str,
        opened: ExitStack,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._settings = settings
        self.all: list[NativeTier | None] = [None, None, None]
        # In this order: GPUDirect Storage needs the gpu tier.
        for place in (GPU, CPU, NVME):
            if needed.plan.usable[place] != 0:
                request = self._make_request(place, needed, run, say)
                tier = BACKENDS[self._choose_backend(place, request)](request)
                self.all[place] = tier
                opened.callback(tier.close)  # also if a later tier cannot be opened
        gpu_tier, nvme_tier = self.all[GPU], self.all[NVME]
        self._gpu = gpu_tier if isinstance(gpu_tier, gpu.GpuTier) else None
        self.nvme = nvme_tier if isinstance(nvme_tier, DiskTier) else None
        self._throttle()

    def _make_request(self, place: int, needed: Footprint, run: str, say: Callable[[str], None]) -> TierRequest:
        devices, control = self._settings.devices, self._settings.control
        return TierRequest(
            capacity=needed.plan.capacity[place] or 0,
            objects=needed.objects[place],
            disk_bytes=needed.nvme_bytes,
            cache_dir=devices.cache_dir,
            run=run,
            io=self._settings.io,
            keep_cache=control.keep_cache,
            reserve=control.reserve,
            gpu_device=devices.gpu_device,
            say=say,
        )

    def _choose_backend(self, place: int, request: TierRequest) -> str:
        """Return the key of BACKENDS for a place; make the cache directory if it needs one."""
        settings = self._settings
        if place != NVME:
            return TIERS[place]
        if not settings.is_on_drive:
            return settings.devices.layout
        parent = request.require_cache_dir()
        cache_dir.make_parent(parent)  # only now: a refused run leaves nothing behind
        if not settings.devices.gds:
            return settings.devices.layout
        if settings.devices.layout != "files" or self.all[GPU] is None:
            problem = "GPUDirect Storage reads files into the gpu's memory"
            raise InputError(problem, "pass `layout=files` and `gpu_mem_gb`", setting="gds")
        return "gds"

    def _throttle(self) -> None:
        for name, throttle in self._settings.throttles.items():
            tier = self.all[TIERS.index(name)]
            if tier is None:
                raise InputError("this run has no such tier", subject=name, setting="throttle")
            throttle.slow_down(tier)

    def staging(self, _worker: int) -> Staging:
        """Allocate a worker's buffers: pinned for a gpu tier, one on the device if moves end there."""
        chunk = self._settings.chunk
        # Pinned memory: the driver would otherwise copy each transfer once more.
        if self._gpu is None:
            return Staging(chunk)
        nvme = frozenset([NVME] if self._settings.devices.gds else [])
        reads = nvme | frozenset([GPU] if self._settings.devices.gpu_read == "device" else [])
        on_device = self._gpu.make_device_buffer(chunk) if reads else None
        return Staging(chunk, self._gpu.make_host_buffer, on_device, reads, nvme)

    def stop_waiting(self) -> None:
        """End the waits of throttled tiers: the run is being stopped."""
        for tier in self.all:
            if tier is not None:
                tier.stop_waiting()

    def storage(self) -> Storage | None:
        """Describe the file system under the cache for run.json."""
        return description.storage(self.nvme.folder) if self.nvme is not None else None

    def block_device(self) -> str | None:
        """Return the device under the cache as major:minor, if the kernel counts its I/O."""
        return description.block_device(self.nvme.folder) if self.nvme is not None else None

    def io_is_counted(self) -> bool:
        """Whether /proc/self/io counts the nvme tier's I/O; of cuFile's that is not known."""
        return self.nvme is not None and self.nvme.is_counted and not self._settings.devices.gds


def collect_warnings(settings: Settings, tiers: OpenTiers) -> list[Warning]:
    """Return the warnings that follow from the settings of a run and from its drive."""
    return [
        *(Warning(kind="note", text=note) for note in settings.notes),
        *_drive_warnings(settings, tiers),
        *_tier_warnings(settings, tiers),
    ]


def _tier_warnings(settings: Settings, tiers: OpenTiers) -> Iterator[Warning]:
    devices = settings.devices
    throttles = settings.throttles
    if not settings.is_on_drive and tiers.all[NVME] is not None:
        limit = throttles.pop("nvme", None)
        times = "no drive's" if limit is None else f"those of its throttle, {limit}"
        text = f"the nvme tier is the {devices.layout} layout: no drive stores its objects, its times are {times}."
        yield Warning(kind="emulated tier", text=text)
    if tiers.all[GPU] is not None and devices.gpu_device == "cpu":
        text = "the gpu tier is emulated in host memory (GPU device cpu); its times are no GPU's."
        yield Warning(kind="emulated tier", text=text)
    for name, throttle in throttles.items():
        text = f"the {name} tier is throttled to {throttle}; its times are of that limit."
        yield Warning(kind="throttled tier", text=text)
    if devices.verify == "off":
        text = "verification is off; wrong bytes will go unnoticed."
        yield Warning(kind="verification off", text=text)


def _drive_warnings(settings: Settings, tiers: OpenTiers) -> Iterator[Warning]:
    storage = tiers.storage()
    if tiers.nvme is None or storage is None:
        return
    place = f"{settings.devices.cache_dir} ({storage.filesystem})"
    if storage.mount_point == "/":
        system = f"root file system ({storage.filesystem})"
        text = f"{settings.devices.cache_dir} is on the {system}, which the whole machine uses."
        yield Warning(kind="root file system", text=text)
    if settings.io.direct == "off":
        text = f"direct I/O is off: the page cache of {place} may serve its reads."
        yield Warning(kind="page cache", text=text)
    elif not tiers.nvme.direct:
        text = f"{place} refuses O_DIRECT; the page cache may serve its reads."
        yield Warning(kind="page cache", text=text)
    if tiers.block_device() is None:
        text = f"no block device counts the I/O of {place}; nothing checks its reads."
        yield Warning(kind="unchecked reads", text=text)
