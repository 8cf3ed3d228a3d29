"""Doubts on whether devices did what the log says: the page cache, counters beside the log, and others on the disk."""

from typing import Final

from analysis.doubts.doubt import Doubt, Evidence, Found
from analysis.log.columns import GIB

CACHED_SHARE: Final = 0.90  # of what the tier read or wrote: counters, sampled each second, are never 10% off
COUNTER_SLACK: Final = 1.25  # padding to 4 KiB stays far below
FOREIGN_IO: Final = 0.20  # of the device's bytes: ext4's journal takes 0.19 where every 48 KiB are flushed
MEMORY_FILESYSTEMS: Final = ("tmpfs", "ramfs")


def check_page_cache(run: Evidence) -> Found:
    """Reads that the device did not serve, or need not have served."""
    read, counted = run.nvme.steady_read_bytes, run.process or run.device
    if run.stands_in or not read + run.nvme.written_bytes:
        return
    storages = [info.storage for info in run.infos if info.storage is not None]
    memory = [storage.filesystem for storage in storages if storage.filesystem in MEMORY_FILESYSTEMS]
    share = counted.steady_read_bytes / read if counted is not None and read else None
    if memory:
        text = f"the nvme tier lay in memory, on {memory[0]}"
        yield Doubt("page cache", text, "pass a --cache-dir on a disk", invalidates=True)
    elif run.conditions.direct is False:
        told = f"; devices delivered {share:.0%} of its reads" if share is not None else ""
        text = f"the nvme tier was read and written through the page cache{told}"
        yield Doubt("page cache", text, "replay with --direct on; these are times of memory", invalidates=True)
    elif share is not None and share < CACHED_SHARE:
        text = f"the device delivered {share:.0%} of what the nvme tier read: a cache served the rest"
        yield Doubt("page cache", text, "replay with --direct on, on a disk of its own", invalidates=True)
    elif run.device is None and read:
        text = "no counters of a device say that it served the reads of the nvme tier"
        yield Doubt("unchecked reads", text, "replay on a local disk, and keep device.parquet")


def check_counters(run: Evidence) -> Found:
    """The device did other work than the log says; where the kernel counts by process, for the replayer alone."""
    nvme, device = run.nvme, run.device
    if run.stands_in or device is None:
        return
    own = run.process or device
    read, written = min(own.read_bytes, device.read_bytes), min(own.written_bytes, device.written_bytes)
    pairs = {"read": (read, nvme.read_bytes), "written": (written, nvme.written_bytes)}
    whole = all(info.status in ("complete", "incomplete") for info in run.infos)  # else the log lacks its last rows
    for verb, (moved, logged) in pairs.items():
        if whole and logged and moved > COUNTER_SLACK * logged:
            text = f"the device counted {moved / logged:.2f} times the bytes that the nvme tier has {verb}"
            if run.process is None:
                advice = "something else used the disk, or the file system adds much: look with iostat"
            else:
                advice = "the replayer itself moved them: small objects are padded to 4,096 bytes"
            yield Doubt("counters disagree", text, advice)
    if nvme.written_bytes and device.written_bytes < CACHED_SHARE * nvme.written_bytes:
        text = f"the device took {device.written_bytes / nvme.written_bytes:.0%} of what the nvme tier wrote"
        if run.conditions.direct:
            advice = "O_DIRECT was claimed: look with iostat at what lies under the cache directory"
        else:
            advice = "a cache still holds the rest: --direct on, --fsync data, or a longer run"
        yield Doubt("counters disagree", f"{text} before the run ended", advice)


def check_foreign_io(run: Evidence) -> Found:
    """The device moved bytes for others while it was measured."""
    share, moved = run.values["foreign_io_share"], run.device
    if run.stands_in or share is None or share <= FOREIGN_IO or moved is None:
        return
    size = share * (moved.read_bytes + moved.written_bytes) / GIB
    text = f"{share:.0%} of the bytes that the device moved, {size:,.2f} GiB, were not the replayer's"
    advice = "other processes, or the file system itself: look with pidstat -d, and replay on a disk of its own"
    yield Doubt("foreign I/O", text, advice)
