"""What a run needs of the machine: refused where it is not to be had, before anything is written; then opened."""

from contextlib import ExitStack
from typing import Any

from replayer.engine.move_executor import Staging
from replayer.machine import description as machine
from replayer.planning.moves import CPU, GPU, NVME
from replayer.planning.plan import Plan
from replayer.planning.plan_summary import PlanSummary
from replayer.record.columns import TIERS
from replayer.run.footprint import most_objects, nvme_room
from replayer.run.settings import Settings
from replayer.tiers import cache_dir, gpu
from replayer.tiers.base import Tier
from replayer.tiers.gds import GdsTier
from replayer.tiers.memory import CpuTier, NullTier
from replayer.tiers.nvme import FileTier, SlabTier
from tracegen.errors import InputError


class OpenTiers:
    """The tiers of a run, open.

    Args:
        plan: planned to its end.
        planned: its summary.
        run: names the run's folder.
        opened: closes the tiers.

    Raises:
        InputError: a tier is not to be had.
    """

    def __init__(
        self, plan: Plan, planned: PlanSummary | None, settings: Settings, run: str, opened: ExitStack
    ) -> None:
        self._settings, usable = settings, plan.usable
        self.all: list[Tier | None] = [None, None, None]
        self.nvme: FileTier | SlabTier | None = None
        self._gpu: gpu.GpuTier | None = None
        if usable[GPU]:
            self._gpu = self.all[GPU] = gpu.GpuTier(plan.capacity[GPU] or 0, settings.gpu_device)
        if usable[CPU]:
            objects = most_objects(plan, planned, settings.window)[CPU]
            self.all[CPU] = CpuTier(plan.capacity[CPU] or 0, objects)
        if usable[NVME] != 0:
            self.all[NVME] = self._open_nvme(nvme_room(plan, planned, settings.window), run)
        for tier in self.all:
            if tier is not None:
                opened.callback(tier.close)
        for name, throttle in settings.throttles.items():
            if (tier := self.all[TIERS.index(name)]) is None:
                raise InputError(f"--throttle {name}: this run has no such tier.")
            tier.throttle(throttle.mib_s, throttle.latency_us, throttle.write_mib_s)

    def _open_nvme(self, room: int, run: str) -> Tier:
        settings = self._settings
        if settings.layout == "null":
            return NullTier()
        if settings.cache_dir is None:
            raise InputError("the nvme tier needs a place: pass --cache-dir DIR, or --storage-capacity-gb 0.")
        if settings.make_cache_dir:
            cache_dir.make_parent(settings.cache_dir)
        keep = settings.keep_cache
        if settings.gds:
            if settings.layout != "files" or self._gpu is None:
                raise InputError("--gds reads files into the gpu's memory; pass --layout files and --gpu-mem-gb.")
            self.nvme = GdsTier(settings.cache_dir, run, settings.io, keep=keep)
        elif settings.layout == "slab":
            self.nvme = SlabTier(settings.cache_dir, run, room, settings.io, keep=keep)
            return self.nvme
        else:
            self.nvme = FileTier(settings.cache_dir, run, settings.io, keep=keep)
        self.nvme.reserve(settings.reserve.of(settings.cache_dir))
        return self.nvme

    def staging(self, _worker: int) -> Staging:
        """A worker's buffers; pinned where there is a gpu tier, with one on the device where moves end there."""
        chunk = self._settings.chunk
        if self._gpu is None:
            return Staging(chunk)
        staging = Staging(chunk, self._gpu.buffer)
        staging.landing_reads = frozenset([GPU] * (self._settings.gpu_read == "device") + [NVME] * self._settings.gds)
        staging.landing_writes = frozenset([NVME] * self._settings.gds)
        if staging.landing_reads:
            staging.landing = self._gpu.landing(chunk)
        return staging

    def hurry(self) -> None:
        """The run is being stopped: what is slowed down need not be any more."""
        for tier in self.all:
            if tier is not None:
                tier.hurry()

    def storage(self) -> dict[str, Any] | None:
        """What run.json says of the file system under the cache."""
        return machine.storage(self.nvme.folder) if self.nvme is not None else None

    def block_device(self) -> str | None:
        """The device under the cache as major:minor, where the kernel counts what it does."""
        return machine.block_device(self.nvme.folder) if self.nvme is not None else None

    def io_is_counted(self) -> bool:
        """Whether /proc/self/io counts the nvme tier's I/O; of cuFile's that is not known."""
        return self.nvme is not None and self.nvme.counted and not self._settings.gds
