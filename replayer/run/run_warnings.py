"""Warnings of a run: whatever makes its times doubtful."""

from collections.abc import Iterator

from replayer.machine import description
from replayer.options.settings import Settings
from replayer.planning.moves import GPU, NVME
from replayer.record.run_info import Warning  # noqa: A004 (run.json's word)
from replayer.run.opening import OpenTiers


def collect_warnings(settings: Settings, tiers: OpenTiers) -> list[Warning]:
    """Return the warnings that follow from the settings of a run and from its drive."""
    return [
        *(Warning(kind="note", text=note) for note in settings.notes),
        *_drive_warnings(settings, tiers),
        *_tier_warnings(settings, tiers),
    ]


def _tier_warnings(settings: Settings, tiers: OpenTiers) -> Iterator[Warning]:
    is_simulated = not settings.is_on_drive and tiers.all[NVME] is not None
    if is_simulated:
        limit = settings.throttles.get("nvme")
        times = "the replayer's own" if limit is None else f"those of its throttle, {limit}"
        stored = "nothing is stored" if settings.devices.layout == "null" else "no drive stores its objects"
        text = f"the nvme tier is the {settings.devices.layout} layout: {stored}, its times are {times}."
        yield Warning(kind="emulated tier", text=text)
    if tiers.all[GPU] is not None and settings.devices.gpu_device == "cpu":
        text = "the gpu tier is emulated in host memory (GPU device cpu); its times are no GPU's."
        yield Warning(kind="emulated tier", text=text)
    for name, throttle in settings.throttles.items():
        if not (is_simulated and name == "nvme"):
            text = f"the {name} tier is throttled to {throttle}; its times are of that limit."
            yield Warning(kind="throttled tier", text=text)
    if settings.devices.verify == "off":
        text = "verification is off; wrong bytes will go unnoticed."
        yield Warning(kind="verification off", text=text)


def _drive_warnings(settings: Settings, tiers: OpenTiers) -> Iterator[Warning]:
    nvme = tiers.nvme
    if nvme is None:
        return
    storage = description.storage(nvme.folder)
    place = f"{settings.devices.cache_dir} ({storage['filesystem']})"
    root = f"{settings.devices.cache_dir} is on the root file system ({storage['filesystem']})"
    if storage["mount_point"] == "/":
        text = f"{root}, which the whole machine uses."
        yield Warning(kind="root file system", text=text)
    if settings.io.direct == "off":
        text = f"direct I/O is off: the page cache of {place} may serve its reads."
        yield Warning(kind="page cache", text=text)
    elif not nvme.direct:
        text = f"{place} refuses O_DIRECT; the page cache may serve its reads."
        yield Warning(kind="page cache", text=text)
    if tiers.block_device() is None:
        text = f"no block device counts the I/O of {place}; nothing checks its reads."
        yield Warning(kind="unchecked reads", text=text)
