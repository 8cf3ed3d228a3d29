"""Doubts about the machine: other processes, pauses, what devices counted, unsteady runs."""

from typing import Final

from analysis.doubts.evidence import Evidence, Found
from analysis.doubts.limits import BUSY_MACHINE
from analysis.runs.run import Doubt
from analysis.runs.samples import Moved

PAUSED_SHARE: Final = 0.01  # of the run: no rate is quoted more exactly
# Of the I/O time: 0.08 to 0.16 on cores of its own, 0.6 to 0.9 next to busy loops.
STARVED_SHARE: Final = 0.25
QUIET_MACHINE: Final = 0.05  # of the machine's cores, used by others: below it nothing else runs
THROTTLED_SHARE: Final = 0.05  # of the run: at least as many of its moves met the quota

CACHED_SHARE: Final = 0.90  # of the tier's bytes: counters, sampled each second, are never 10% off
COUNTER_SLACK: Final = 1.25  # padding to 4 KiB adds far less
MEMORY_FILESYSTEMS: Final = ("tmpfs", "ramfs")


def check_pauses(run: Evidence) -> Found:
    """Doubt times that include a stop of the process."""
    stopped_s = run.values["paused_s"]
    elapsed_s = run.values["elapsed_s"]
    if not stopped_s:
        return
    share = stopped_s / elapsed_s if elapsed_s else 1.0
    gap_s = run.values["longest_gap_s"]
    text = (
        f"the replayer stood still for at least {stopped_s:.1f} s, {share:.1%} of the run: up to {gap_s:.1f} s"
        " passed between two samples, which are taken every second"
    )
    advice = "find what stopped it (a signal, a suspended machine, a frozen cgroup, a debugger), and replay it"
    yield Doubt("paused", text, advice, invalidates=share > PAUSED_SHARE)


def check_cpu_waits(run: Evidence) -> Found:
    """Doubt device times that include waits of workers for a CPU."""
    if run.conditions.has_simulated_nvme and run.conditions.usable_bytes.nvme != 0:
        return  # its moves take no time to wait in
    values = run.values
    share = values["run_delay_share"]
    findings = []
    if _is_throttled(run):
        held = f"{values['throttled_s']:.1f} s of CPU time in {values['elapsed_s']:.1f} s"
        findings.append(f"a quota of its cgroup held the replayer up for {held}")
        advice = "raise the quota (cpu.max, cpu.cfs_quota_us)"
    elif share is not None and share > STARVED_SHARE:
        is_shared = (values["foreign_cpu_share"] or 0) > QUIET_MACHINE
        advice = "stop what else runs" if is_shared else "replay with more cores, or fewer --workers"
    else:
        return
    if share:
        io_s = values["run_delay_s"] / share
        findings.append(f"workers waited {values['run_delay_s']:.1f} s for a CPU, compared with {io_s:.1f} s of I/O")
    yield Doubt("starved", "; ".join(findings), advice)


def lacks_cpu(run: Evidence) -> bool:
    """Return whether others, or a quota, took CPUs that the run needed."""
    return _is_throttled(run) or (run.values["foreign_cpu_share"] or 0) > BUSY_MACHINE


def _is_throttled(run: Evidence) -> bool:
    throttled_s = run.values["throttled_s"]
    elapsed_s = run.values["elapsed_s"]
    return bool(throttled_s and elapsed_s) and throttled_s > THROTTLED_SHARE * elapsed_s


def check_page_cache(run: Evidence) -> Found:
    """Doubt reads that the device did not serve, or need not have served."""
    read = run.nvme.steady_read_bytes
    counted = run.process or run.device
    if run.stands_in or not read + run.nvme.written_bytes:
        return
    filesystems = [storage.filesystem for info in run.infos if (storage := info.machine.storage)]
    memory = [name for name in filesystems if name in MEMORY_FILESYSTEMS]
    share = counted.steady_read_bytes / read if counted is not None and read else None
    text, advice = "", "replay with --direct on, on a disk of its own"
    if memory:
        text, advice = f"the nvme tier was in memory, on {memory[0]}", "pass a --cache-dir on a disk"
    elif run.conditions.direct is False:
        delivered = f"; devices delivered {share:.0%} of its reads" if share is not None else ""
        text = f"the nvme tier was read and written through the page cache{delivered}: these are times of memory"
    elif share is not None and share < CACHED_SHARE:
        text = f"the device delivered {share:.0%} of what the nvme tier read: a cache served the rest"
    elif run.device is None and read:
        text = "no counters of a device confirm that it served the reads of the nvme tier"
        yield Doubt("unchecked reads", text, "replay on a local disk, and keep device.parquet")
        return
    if text:
        yield Doubt("page cache", text, advice, invalidates=True)


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
    advice = "the replayer itself moved them: small objects are padded to 4,096 bytes"
    if run.process is None:
        advice = "something else used the disk, or the file system adds much: look with iostat"
    for verb in ("read", "written"):
        *counts, logged = (getattr(moved, f"{verb}_bytes") for moved in (own, device, run.nvme))
        counted = min(counts)
        if logged and counted > COUNTER_SLACK * logged:
            text = f"the device counted {counted / logged:.2f} times the bytes that the nvme tier has {verb}"
            yield Doubt("counters disagree", text, advice)


def check_steadiness(run: Evidence) -> Found:
    """Doubt a run whose throughput or P95 still changed inside its window."""
    steadiness = run.steadiness
    if run.conditions.begins_steady:
        if run.opened.steady_ns is None:
            why = "is too short to tell" if steadiness is None else "never was steady"
            text = f"the run {why}: all of it is measured"
            advice = "replay longer, or name a warm-up in seconds"
            yield Doubt("not steady", text, advice, invalidates=True)
        return
    if steadiness is None or steadiness.is_from_start:
        return
    rounds = f"(rounds of {steadiness.round_s:.3g} s)"
    if steadiness.begin_s is None:
        text = f"throughput or the P95 of reads varied in every five rounds of the window {rounds}"
        yield Doubt("not steady", text, "replay longer, or with more users")
    else:
        since = f"only from {steadiness.begin_s:,.0f} s on {rounds}"
        text = f"throughput and the P95 of reads are steady {since}"
        yield Doubt("not steady", text, "leave out what came before as a warm-up")
