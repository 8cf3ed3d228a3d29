"""The checks that find the doubts about one run, and their thresholds."""

from collections.abc import Callable
from typing import Final

from analysis.doubts.evidence import Evidence, Found
from analysis.doubts.limits import check_limits
from analysis.doubts.machine import (
    check_counters,
    check_cpu_waits,
    check_page_cache,
    check_pauses,
    check_steadiness,
    lacks_cpu,
)
from analysis.doubts.predictions import WIDER, check_profile
from analysis.log.columns import GIB
from analysis.log.quantiles import BEYOND_PERCENTILE
from analysis.runs.run import Doubt
from replayer.schema import TIERS, Conditions, Storage, commonest, to_plain
from tracegen.errors import format_count
from tracegen.schema import has_guessed_sessions

# Of the mean end-to-end time: above it the plan was timed, not the system.
PLAN_WAIT_SHARE: Final = 0.05
IDLE_DEVICE: Final = 0.50  # utilisation: a device that is the bottleneck is busy most of the time
# Of the moves' time: this much waiting for a worker shows in every time per request.
LATE_QUEUE: Final = 0.20
SHORT_S: Final = 60.0  # caches, SLC buffers and thermals take a minute to settle
DEVICE_CACHE_BYTES: Final = 16 * GIB  # DRAM and SLC cache of a drive may hold this much
ONE_REQUEST_GIB_S: Final = 64.0  # for one object from one device: the speed of PCIe 5.0 x16
# Of the time of large objects: opening and Python never take the other 95%.
DEVICE_SHARE: Final = 0.05
LARGE_BYTES: Final = 1 << 20  # a smaller file may take longer to open than to read
STILL_RUNNING: Final = "still running: figures so far"


def find_doubts(run: Evidence) -> list[Doubt]:
    """Find all doubts about one run."""
    checks = CHECKS if run.prediction is not None else (*CHECKS, *CHECKS_OF_MEASUREMENTS)
    doubts = [doubt for check in checks for doubt in check(run)]
    return [*doubts, *_check_warnings(run, {doubt.kind for doubt in doubts})]


def _check_status(run: Evidence) -> Found:
    if any(rank.is_running for rank in run.opened.ranks):
        yield Doubt("still running", STILL_RUNNING, "judge it when it has ended", invalidates=True)
    for info in (rank.info for rank in run.opened.ranks if not rank.is_running):
        if info.status != "complete":
            status = "incomplete" if info.status == "running" else info.status
            whose = f"rank {info.rank or 0}" if len(run.infos) > 1 else "the run"
            text = f"{whose} is {status}: {info.reason or 'it was killed, or goes on elsewhere'}"
            yield Doubt("incomplete", text, "replay it to its end", invalidates=True)
    if not run.values["logged_ops"]:
        text = "every op that was executed is warm-up: nothing is left to measure"
        yield Doubt("incomplete", text, "replay longer, or with a shorter --warmup", invalidates=True)


def _check_length(run: Evidence) -> Found:
    elapsed_s = run.values["elapsed_s"]
    if run.values["logged_ops"] and elapsed_s is not None and elapsed_s < SHORT_S:
        text = f"{elapsed_s:.1f} s are too short for caches, SLC buffers and thermals to settle"
        yield Doubt("short run", text, "replay for minutes: pass a larger trace, or --set cycles=N")


def _check_errors(run: Evidence) -> Found:
    if failed := run.values["failed_moves"]:
        after = "it" if failed == 1 else "them"
        dependent = f"{run.values['upstream_moves']:,} more could not be made after {after}"
        text = f"{format_count(failed, 'move')} failed and {dependent}"
        causes = run.opened.count_causes()
        text += f": {commonest(causes)}" if causes else ""
        advice = "the column `error` of the log says why (docs/reading-logs.md)"
        yield Doubt("errors", text, advice, invalidates=True)


def _check_device_times(run: Evidence) -> Found:
    """Doubt device times that do not cover the data.

    For example, kv-cache.py timed only the fsync of a write: 1.03 of 3,682 ms for objects of many MB.
    """
    if run.conditions.has_simulated_nvme:
        return
    for side in ("read", "write"):
        size, count = run.values[f"nvme_{side}_bytes"], run.values[f"nvme_{side}s"]
        device_s = run.values[f"nvme_device_{side}_s"]
        total_s = count * (run.values[f"nvme_{side}_mean_ms"] or 0) / 1e3
        gib_s = size / GIB / device_s if device_s else 0.0
        text = ""
        if gib_s > ONE_REQUEST_GIB_S:
            text = f"say {gib_s:,.0f} GiB/s for one request"
        elif total_s and size / count >= LARGE_BYTES and device_s < DEVICE_SHARE * total_s:
            text = f"are {device_s / total_s:.2%} of their whole times, {total_s / count * 1e3:,.0f} ms"
        if text:
            text = f"device times of nvme {side}s {text}: they do not cover the data"
            yield Doubt("device times", text, "do not quote them; find out what the replayer timed", invalidates=True)


def _check_root(run: Evidence) -> Found:
    """Doubt a cache directory on the machine's own disk, for example below an empty mount point."""
    storages = [info.machine.storage for info in run.infos if info.machine.storage is not None]
    devices = {str(storage.device) for storage in storages if storage.mount_point == "/"}
    if devices and not run.stands_in:
        names = ", ".join(sorted(devices))
        text = f"the nvme tier was on the root file system ({names}), which the whole machine uses"
        yield Doubt("root file system", text, "mount the drive to be measured, and pass a --cache-dir on it")


def _check_percentiles(run: Evidence) -> Found:
    counts = {f"{tier} {side}s": run.values[f"{tier}_{side}s"] for tier in TIERS for side in ("read", "write")}
    counts["requests"] = run.values["requests"]
    for name, share in (("P95", 0.05), ("P99", 0.01)):
        few = {noun: count for noun, count in counts.items() if 0 < count * share < BEYOND_PERCENTILE}
        counts = {noun: count for noun, count in counts.items() if noun not in few}
        if few:
            samples = ", ".join(f"{noun} ({count:,})" for noun, count in few.items())
            advice = f"{BEYOND_PERCENTILE / share:,.0f} are the least: replay a longer trace, or pool trials"
            yield Doubt("few samples", f"too few samples for a {name}: {samples}", advice)


def _check_plan_wait(run: Evidence) -> Found:
    """Doubt times of requests that include waits which a live server would not have had."""
    values = run.values
    if values["plan_wait_share"] is None:
        return
    parts = {cause: values[f"{cause}_wait_share"] for cause in ("order", "window")}
    waited = sum(parts.values())
    if waited <= PLAN_WAIT_SHARE:
        return
    shares = ", ".join(f"{name} {wait:.1%}" for name, wait in parts.items() if wait >= 0.0005)
    text = f"waiting for the plan's order is {waited:.1%} of the mean end to end time ({shares})"
    if parts["window"] > waited / 2:
        advice = "the replayer's window held back ops that a server would have begun: widen it by --set window=OPS"
    else:
        advice = "this system differs from the reference: pass --order with one nearer to it, or --placement live"
    yield Doubt("plan wait", text, advice)


def _check_unfinished(run: Evidence) -> Found:
    """Doubt times of requests if many were not done, or nobody knows how many."""
    is_timed = run.conditions.pace != "asap" and run.values["requests"]
    if is_timed and run.values["unfinished_requests"] is None:
        text = "the run does not say which requests its cut left unfinished: they count as done"
        yield Doubt("unfinished requests", text, "quote rates")


def _check_workers(run: Evidence) -> Found:
    """Doubt a run whose moves waited for workers while its device idled."""
    if lacks_cpu(run):  # more workers would wait for a CPU, too
        return
    values = run.values
    busy = values["device_utilisation"]
    queue_s = values["queue_s"]
    work_s = values["device_s"] + values["host_s"]
    nvme_s = sum(values[f"nvme_{way}s"] * (values[f"nvme_{way}_mean_ms"] or 0) for way in ("read", "write")) / 1e3
    if busy is None or busy >= IDLE_DEVICE or run.stands_in or nvme_s <= work_s / 2:
        return  # the device was busy, or most of the work was elsewhere
    if queue_s > LATE_QUEUE * (queue_s + work_s):
        share = queue_s / (queue_s + work_s)
        text = f"moves waited {share:.0%} of their time for a worker, and the device idled {1 - busy:.0%} of its time"
        is_limited = run.conditions.max_concurrent_allocs
        advice = "raise max_concurrent_allocs by --set, or --workers" if is_limited else "raise --workers"
        yield Doubt("replayer-bound", text, advice)


def _check_emulation(run: Evidence) -> Found:
    """Doubt figures of what stands in for a device, and of bytes that nobody compared."""
    conditions, sizes = run.conditions, run.conditions.usable_bytes
    if conditions.has_simulated_nvme and sizes.nvme != 0:
        stored = "stores nothing" if conditions.layout == "null" else "is not on a drive"
        text = f"the nvme tier is the {conditions.layout} layout, which {stored}"
        yield Doubt("emulated tier", text, "quote no figure of it as a device's")
    if conditions.throttle:
        text = f"{', '.join(conditions.throttle)} was slowed down on purpose"
        yield Doubt("throttled tier", text, "quote it as a what-if, not as a measurement")
    if conditions.gpu_device == "cpu" and sizes.gpu != 0:
        text = "the gpu tier was in host memory (--gpu-device cpu)"
        yield Doubt("emulated tier", text, "quote no figure of it as a GPU's")
    if conditions.verify == "off" and run.prediction is None:
        text = "the bytes read were not compared with the bytes written"
        yield Doubt("verification off", text, "replay with --verify stamps")


def _check_ranks(run: Evidence) -> Found:
    first = run.infos[0].conditions
    unlike = sorted({name for info in run.infos for name in _unlike(info.conditions, first)})
    if unlike:
        text = f"its ranks ran under unlike conditions: {', '.join(unlike)}"
        yield Doubt("ranks", text, "replay all ranks with one command", invalidates=True)
    storages = [(info.machine, info.machine.storage or Storage()) for info in run.infos]
    kinds = {(machine.cpu, machine.cores, drive.filesystem, drive.device_model) for machine, drive in storages}
    if len(kinds) > 1:
        text = f"its ranks ran on {len(kinds)} kinds of machines, merged here"
        yield Doubt("unlike machines", text, "say so next to every figure, or replay on each kind")


def _unlike(conditions: Conditions, others: Conditions) -> list[str]:
    """Return the names of the conditions that two ranks do not share, except the number of their part."""
    first, second = (to_plain(each) | {"part": (each.part or (0, 1))[1]} for each in (conditions, others))
    return [name for name in first | second if first.get(name) != second.get(name)]


def _check_size(run: Evidence) -> Found:
    written = run.nvme.written_bytes
    if run.stands_in or not written + run.values["nvme_read_bytes"]:
        return
    preconditioned = [info.precondition.gib or 0 for info in run.infos if info.precondition is not None]
    before = sum(preconditioned) * GIB
    each = (written + before) / len({(info.machine.host, info.device) for info in run.infos})
    if each < DEVICE_CACHE_BYTES:
        text = f"{each / GIB:.2f} GiB written to a device: less than a drive's own cache may hold"
        advice = "replay more data than the drive's DRAM and SLC caches hold, or pass --precondition"
        yield Doubt("demo-sized", text, advice)


def _check_sessions(run: Evidence) -> Found:
    if has_guessed_sessions(run.infos[0].trace.recipe or {}):
        text = "the trace's sessions are guessed: its source names no sessions, so reuse across turns is an assumption"
        yield Doubt("guessed sessions", text, "quote no hit rate as the source's; import with --sessions none")


def _check_warnings(run: Evidence, kinds: set[str]) -> Found:
    """Yield the replayer's own warnings, except kinds that a check has found with more figures."""
    for warning in dict.fromkeys(warning for info in run.infos for warning in info.warnings):
        text = warning.text.rstrip(".")
        is_cache = warning.kind == "page cache served reads"
        if ("page cache" if is_cache else warning.kind) in kinds:
            continue
        if is_cache and not run.stands_in:  # and its counters are gone
            advice = "replay with --direct on, on a disk of its own"
            yield Doubt("page cache", text, advice, invalidates=True)
        elif warning.kind == "outside the profile":
            yield Doubt("outside the profile", text, WIDER)
        else:
            yield Doubt("replayer", text, "read it as a warning of the replayer itself")


_Checks = tuple[Callable[[Evidence], Found], ...]
CHECKS: Final[_Checks] = (
    _check_status,
    _check_errors,
    _check_ranks,
    _check_emulation,
    check_limits,
    _check_workers,
    check_steadiness,
    _check_plan_wait,
    _check_unfinished,
    _check_percentiles,
    _check_sessions,
    check_profile,
)
# Checks for faults that only a measurement can have: a predicted run used no device.
CHECKS_OF_MEASUREMENTS: Final[_Checks] = (
    _check_length,
    _check_root,
    check_pauses,
    check_page_cache,
    check_counters,
    _check_device_times,
    check_cpu_waits,
    _check_size,
)
