"""Warnings of a run: what makes its times doubtful."""

from collections.abc import Iterator

from replayer.machine import description as machine
from replayer.run.opening import OpenTiers
from replayer.run.settings import GPU, NVME, Settings


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
