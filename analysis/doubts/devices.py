"""Doubts about devices: page caches, counters that contradict the log, and I/O of other processes."""

from typing import Final

from analysis.doubts.doubt import Doubt, Evidence, Found, Moved
from analysis.log.columns import GIB

CACHED_SHARE: Final = 0.90  # of the tier's bytes: counters, sampled each second, are never 10% off
COUNTER_SLACK: Final = 1.25  # padding to 4 KiB adds far less
FOREIGN_IO: Final = 0.20  # of the device's bytes: ext4's journal takes 0.19 with a flush every 48 KiB
MEMORY_FILESYSTEMS: Final = ("tmpfs", "ramfs")


def check_page_cache(run: Evidence) -> Found:
    """Doubt reads that the device did not serve, or need not have served."""
    read = run.nvme.steady_read_bytes
    counted = run.process or run.device
    if run.stands_in or not read + run.nvme.written_bytes:
        return
    storages = [info.storage for info in run.infos if info.storage is not None]
    memory = [storage.filesystem for storage in storages if storage.filesystem in MEMORY_FILESYSTEMS]
    share = counted.steady_read_bytes / read if counted is not None and read else None
    if memory:
        text = f"the nvme tier was in memory, on {memory[0]}"
        yield Doubt("page cache", text, "pass a --cache-dir on a disk", invalidates=True)
    elif run.conditions.direct is False:
        delivered = f"; devices delivered {share:.0%} of its reads" if share is not None else ""
        text = f"the nvme tier was read and written through the page cache{delivered}"
        advice = "replay with --direct on; these are times of memory"
        yield Doubt("page cache", text, advice, invalidates=True)
    elif share is not None and share < CACHED_SHARE:
        text = f"the device delivered {share:.0%} of what the nvme tier read: a cache served the rest"
        advice = "replay with --direct on, on a disk of its own"
        yield Doubt("page cache", text, advice, invalidates=True)
    elif run.device is None and read:
        text = "no counters of a device confirm that it served the reads of the nvme tier"
        yield Doubt("unchecked reads", text, "replay on a local disk, and keep device.parquet")


def check_counters(run: Evidence) -> Found:
    """Doubt devices whose counters contradict the log.

    Where the kernel counts by process, only the replayer's own bytes count.
    """
    device = run.device
    if run.stands_in or device is None:
        return
    yield from _check_surplus(run, device)
    written = run.nvme.written_bytes
    if written and device.written_bytes < CACHED_SHARE * written:
        text = f"the device took {device.written_bytes / written:.0%} of what the nvme tier wrote before the run ended"
        if run.conditions.direct:
            advice = "the run claims O_DIRECT: look with iostat at the device under the cache directory"
        else:
            advice = "a cache still holds the rest: pass --direct on or --fsync data, or replay longer"
        yield Doubt("counters disagree", text, advice)


def _check_surplus(run: Evidence, device: Moved) -> Found:
    """Doubt a device that counted more bytes than the log."""
    if any(info.status not in ("complete", "incomplete") for info in run.infos):
        return  # the log lacks its last rows
    own = run.process or device
    pairs = {
        "read": (min(own.read_bytes, device.read_bytes), run.nvme.read_bytes),
        "written": (min(own.written_bytes, device.written_bytes), run.nvme.written_bytes),
    }
    for verb, (counted, logged) in pairs.items():
        if logged and counted > COUNTER_SLACK * logged:
            text = f"the device counted {counted / logged:.2f} times the bytes that the nvme tier has {verb}"
            if run.process is None:
                advice = "something else used the disk, or the file system adds much: look with iostat"
            else:
                advice = "the replayer itself moved them: small objects are padded to 4,096 bytes"
            yield Doubt("counters disagree", text, advice)


def check_foreign_io(run: Evidence) -> Found:
    """Doubt a device that moved bytes for others during the run."""
    share = run.values["foreign_io_share"]
    device = run.device
    if run.stands_in or share is None or share <= FOREIGN_IO or device is None:
        return
    size = share * (device.read_bytes + device.written_bytes) / GIB
    text = f"{share:.0%} of the bytes that the device moved, {size:,.2f} GiB, were not the replayer's"
    advice = "other processes, or the file system itself: look with pidstat -d, and replay on a disk of its own"
    yield Doubt("foreign I/O", text, advice)
