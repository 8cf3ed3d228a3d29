"""Doubts: typed findings on a run, with advice; some invalidate it, the others say how far to trust it."""

from collections.abc import Callable
from typing import Final

from analysis.doubts.devices import check_counters, check_foreign_io, check_page_cache
from analysis.doubts.doubt import Doubt, Evidence, Found
from analysis.doubts.machine import check_busy_machine, check_cpu_waits, check_pauses, lacks_cpu
from analysis.log.columns import CAUSES, GIB
from replayer.schema import TIERS, Conditions, Storage, commonest, to_plain, typed_warnings
from tracegen.errors import format_count
from tracegen.schema import guessed_sessions

PLAN_WAIT_SHARE: Final = 0.05  # of the mean end to end time: more, and requests were timed against our plan
VERIFY_SHARE: Final = 0.10  # of the I/O's time: memory tiers looked 3 times slower where it took four times as long
DRAIN_SHARE: Final = 0.10  # of the window: MLPerf's runs drained for 64% of theirs
BUSY_CPU: Final = 0.90  # of all cores: above it threads wait for one another instead of the device
IDLE_DEVICE: Final = 0.50  # utilisation: a device that is the bottleneck is busy most of the time
LATE_QUEUE: Final = 0.20  # of the moves' time: so much waiting for a worker shows in every time per request
LATE_S: Final = 1.0  # a schedule that a system keeps up with is not left by seconds
SHORT_S: Final = 60.0  # caches, SLC buffers and thermals take a minute to settle
DEVICE_CACHE_BYTES: Final = 16 * GIB  # DRAM and SLC of a drive may hold so much
ONE_REQUEST_GIB_S: Final = 64.0  # one object from one device: what PCIe 5.0 x16 carries
DEVICE_SHARE: Final = 0.05  # of the time of large objects: opening and Python never take the other 95%
LARGE_BYTES: Final = 1 << 20  # below it opening a file may well take longer than its bytes
BEYOND_PERCENTILE: Final = 5  # samples: with fewer the next run's percentile is another
LOST_SHARE: Final = 0.08  # of the moves' time, neither reading nor writing: the compiled core loses 0.2%
LOST_US: Final = 5.0  # a move: what taking the clock and a lock may cost
STILL_RUNNING: Final = "still running: figures so far"


def find_doubts(run: Evidence) -> list[Doubt]:
    """All doubts on one run, what invalidates it first."""
    found = [doubt for check in CHECKS for doubt in check(run)]
    found += _replayer(run, {doubt.kind for doubt in found})
    return sort_doubts(found)


def sort_doubts(found: list[Doubt]) -> list[Doubt]:
    """Each once, what invalidates first."""
    return sorted(dict.fromkeys(found), key=lambda doubt: not doubt.invalidates)


def _status(run: Evidence) -> Found:
    if any(run.is_running):
        yield Doubt("still running", STILL_RUNNING, "judge it when it has ended", invalidates=True)
    for info, is_running in zip(run.infos, run.is_running, strict=True):
        if info.status != "complete" and not is_running:
            status = "incomplete" if info.status == "running" else info.status
            whose = f"rank {info.rank or 0}" if len(run.infos) > 1 else "the run"
            text = f"{whose} is {status}: {info.reason or 'it was killed, or goes on elsewhere'}"
            yield Doubt("incomplete", text, "replay it to its end", invalidates=True)
    if not run.values["logged_ops"]:
        text = "every op that was executed is warm-up: nothing is left to measure"
        yield Doubt("incomplete", text, "replay longer, or with a shorter --warmup", invalidates=True)
    elif run.values["elapsed_s"] is not None and run.values["elapsed_s"] < SHORT_S:
        text = f"{run.values['elapsed_s']:.1f} s are too short for caches, SLC buffers and thermals to settle"
        yield Doubt("short run", text, "replay minutes: a larger trace, or --cycles")


def _errors(run: Evidence) -> Found:
    if failed := run.values["failed_moves"]:
        after = "it" if failed == 1 else "them"
        more = f"{run.values['upstream_moves']:,} more could not be made after {after}"
        text = f"{format_count(failed, 'move')} failed and {more}"
        text += f": {commonest(run.causes)}" if run.causes else ""
        why = 'the column `error` says why: analysis sql RUN "select error, count(*) from moves group by error"'
        yield Doubt("errors", text, why, invalidates=True)


def _device_time(run: Evidence) -> Found:
    """kv-cache.py's device write timed only the fsync: 1.03 ms of 3,682 ms for objects of many MB."""
    if run.conditions.layout == "null":
        return
    for side in ("read", "write"):
        size, count = run.values[f"nvme_{side}_bytes"], run.values[f"nvme_{side}s"]
        device_s = run.values[f"nvme_device_{side}_s"]
        total_s = count * (run.values[f"nvme_{side}_mean_ms"] or 0) / 1e3
        if not size or not total_s:
            continue
        rate, share = size / GIB / device_s if device_s else None, device_s / total_s
        if rate is not None and rate > ONE_REQUEST_GIB_S:
            text = f"device times of nvme {side}s say {rate:,.0f} GiB/s for one request"
        elif size / count >= LARGE_BYTES and share < DEVICE_SHARE:
            text = f"device times of nvme {side}s are {share:.2%} of their whole times, {total_s / count * 1e3:,.0f} ms"
        else:
            continue
        advice = "do not quote them; find out what the replayer timed"
        yield Doubt("device times", f"{text}: they do not cover the data", advice, invalidates=True)


def _root(run: Evidence) -> Found:
    """The disk of the machine itself, which --cache-dir names where nothing is mounted under it, too."""
    storages = [info.storage for info in run.infos if info.storage is not None]
    devices = {str(storage.device) for storage in storages if storage.mount_point == "/"}
    if devices and not run.stands_in:
        text = f"the nvme tier lay on the root file system ({', '.join(sorted(devices))}), which the whole machine uses"
        yield Doubt("root file system", text, "mount the drive that is meant, and pass a --cache-dir on it")


def _lost_time(run: Evidence) -> Found:
    """The core does next to nothing between the clock's stamps: what is missing was taken off."""
    if run.conditions.layout == "null":
        return
    for side, (moves, whole_ns, lost_ns) in run.lost.items():
        if lost_ns > LOST_SHARE * whole_ns and lost_ns > LOST_US * 1e3 * moves:
            text = f"{lost_ns / whole_ns:.0%} of the time of nvme {side}s is neither reading nor writing"
            yield Doubt("lost time", text, "times were altered, or cannot be quoted: replay it", invalidates=True)


def _percentiles(run: Evidence) -> Found:
    counts = {f"{tier} {side}s": run.values[f"{tier}_{side}s"] for tier in TIERS for side in ("read", "write")}
    counts["requests"] = run.values["requests"]
    for name, share in (("P95", 0.05), ("P99", 0.01)):
        few = {what: count for what, count in counts.items() if 0 < count * share < BEYOND_PERCENTILE}
        counts = {what: count for what, count in counts.items() if what not in few}
        if few:
            text = f"too few samples for a {name}: {', '.join(f'{what} ({count:,})' for what, count in few.items())}"
            advice = f"{BEYOND_PERCENTILE / share:,.0f} are the least: a longer trace, or pool trials"
            yield Doubt("few samples", text, advice)


def _plan_wait(run: Evidence) -> Found:
    """Of the time of requests, what a server would not have waited for; of logs of version 1 all that the plan took."""
    values = run.values
    total = values["e2e_mean_ms"]
    if not total:
        return
    known = {cause: values[f"{cause}_wait_mean_ms"] for cause in CAUSES}
    unknown = values["plan_wait_mean_ms"] - sum(known.values())
    parts = {"order": known["order"], "window": known["window"], "no known cause": unknown}
    if sum(parts.values()) <= PLAN_WAIT_SHARE * total:
        return
    told = ", ".join(f"{name} {wait / total:.1%}" for name, wait in parts.items() if wait >= 0.0005 * total)
    text = f"waiting for the plan's order is {sum(parts.values()) / total:.1%} of the mean end to end time ({told})"
    if known["window"] > sum(parts.values()) / 2:
        advice = "the replayer's window held ops back that a server would have begun: widen --window"
    else:
        advice = "this system is unlike the reference: pass --order with a reference nearer to it, or --placement live"
    yield Doubt("plan wait", text, advice)


def _verification(run: Evidence) -> Found:
    io_s, verify_s = run.values["device_s"] + run.values["host_s"], run.values["verify_s"]
    if io_s and verify_s > VERIFY_SHARE * io_s:
        text = f"making and checking bytes took {verify_s / io_s:.0%} of the time of the I/O itself"
        advice = (
            "latencies leave it out, throughput and times of requests do not: see what a run with --verify off does"
        )
        yield Doubt("verification", text, advice)


def _drain(run: Evidence) -> Found:
    asked = run.conditions.duration_s
    if asked and run.values["drain_s"] > DRAIN_SHARE * asked:
        moved = run.values["drained_bytes"] / GIB
        text = f"requests drained for {run.values['drain_s']:.1f} s past the {asked:g} s asked for, {moved:,.1f} GiB"
        advice = "rates leave it out, times of moves and requests do not: quote rates, or bound it with --drain"
        yield Doubt("long drain", text, advice)


def _replayer_bound(run: Evidence) -> Found:
    values = run.values
    cpu, idle = values["cpu_share"], values["device_utilisation"]
    if cpu is not None and cpu > BUSY_CPU:
        text = f"the replayer kept {cpu:.0%} of all cores busy: its own speed was measured"
        yield Doubt("replayer-bound", text, "more cores, --verify off, larger objects, or fewer workers")
    if lacks_cpu(run):  # more workers would wait for a CPU, too
        return
    queue, work = values["queue_s"], values["device_s"] + values["host_s"]
    on_nvme = sum(values[f"nvme_{side}s"] * (values[f"nvme_{side}_mean_ms"] or 0) for side in ("read", "write")) / 1e3
    if idle is None or idle >= IDLE_DEVICE or run.stands_in or on_nvme <= work / 2:  # the device was not the work
        return
    if queue > LATE_QUEUE * (queue + work):
        waited = queue / (queue + work)
        text = f"moves waited {waited:.0%} of their time for a worker, and the device idled {1 - idle:.0%} of its"
        held = run.conditions.max_concurrent_allocs
        yield Doubt("replayer-bound", text, "raise --max-concurrent-allocs or --workers" if held else "raise --workers")


def _schedule(run: Evidence) -> Found:
    late = run.values["lateness_p99_ms"]
    if run.conditions.pace == "open" and late is not None and late > LATE_S * 1e3:
        text = f"the system fell behind its schedule: P99 of lateness is {late / 1e3:,.1f} s"
        yield Doubt("fell behind", text, "its times are those of a queue that grows: offer less with --speedup below 1")


def _stand_ins(run: Evidence) -> Found:
    conditions = run.conditions
    sizes = conditions.usable_bytes
    if conditions.layout == "null" and sizes.nvme != 0:
        yield Doubt(
            "emulated tier", "the nvme tier is the null layout, which stores nothing", "no figure here is a device's"
        )
    if throttle := conditions.throttle:
        text = f"{', '.join(throttle)} was slowed down on purpose"
        yield Doubt("throttled tier", text, "a what-if, not a measurement")
    if conditions.gpu_device == "cpu" and sizes.gpu != 0:
        yield Doubt("emulated tier", "the gpu tier lay in host memory (--gpu-device cpu)", "no figure here is a GPU's")
    if conditions.verify == "off":
        text = "what was read was not compared with what was written"
        yield Doubt("verification off", text, "replay with --verify stamps")


def _ranks(run: Evidence) -> Found:
    first = run.infos[0].conditions
    unlike = sorted({name for info in run.infos for name in _unlike(info.conditions, first)})
    if unlike:
        text = f"its ranks ran under unlike conditions: {', '.join(unlike)}"
        yield Doubt("ranks", text, "replay all ranks with one command", invalidates=True)
    storages = [(info.machine, info.storage or Storage()) for info in run.infos]
    kinds = {
        (machine.cpu, machine.cores, storage.filesystem, storage.device_model)
        for machine, storage in storages
        if machine is not None
    }
    if len(kinds) > 1:
        text = f"its ranks ran on {len(kinds)} kinds of machines, merged here"
        yield Doubt("unlike machines", text, "say so beside every figure, or replay per kind")


def _unlike(conditions: Conditions, others: Conditions) -> list[str]:
    """Return the names of the conditions that two ranks do not share; which part each has is not one."""
    one, other = (to_plain(each) | {"part": (each.part or (0, 1))[1]} for each in (conditions, others))
    return [name for name in one | other if one.get(name) != other.get(name)]


def _small(run: Evidence) -> Found:
    written = run.nvme.written_bytes
    if run.stands_in or not written + run.values["nvme_read_bytes"]:
        return
    preconditioned = [info.precondition.gib or 0 for info in run.infos if info.precondition is not None]
    before = sum(preconditioned) * GIB
    each = (written + before) / len(run.devices)
    if each < DEVICE_CACHE_BYTES:
        text = f"{each / GIB:.2f} GiB written to a device: less than a drive's own cache may hold"
        yield Doubt("demo-sized", text, "replay more data than the drive's DRAM and SLC caches hold, or --precondition")


def _guessed(run: Evidence) -> Found:
    if guessed_sessions(run.infos[0].trace.recipe or {}):
        text = "the trace's sessions are guessed: its source names none, so reuse across turns is an assumption"
        yield Doubt("guessed sessions", text, "quote no hit rate as the source's; import with --sessions none")


def _replayer(run: Evidence, kinds: set[str]) -> Found:
    """Yield the replayer's own warnings, except those whose kind a check has found, with more figures.

    Args:
        run: the evidence.
        kinds: the kinds of doubt that the checks have found.
    """
    for warning in dict.fromkeys(warning for info in run.infos for warning in typed_warnings(info)):
        text = warning.text.rstrip(".")
        is_cache = warning.kind == "page cache served reads"
        if ("page cache" if is_cache else warning.kind) in kinds:
            continue
        if is_cache and not run.stands_in:  # and its counters are gone
            yield Doubt("page cache", text, "replay with --direct on, on a disk of its own", invalidates=True)
        else:
            yield Doubt("replayer", text, "the replayer noticed this itself")


CHECKS: Final[tuple[Callable[[Evidence], Found], ...]] = (
    _status,
    _errors,
    _ranks,
    _root,
    check_pauses,
    check_page_cache,
    check_counters,
    check_foreign_io,
    _device_time,
    _lost_time,
    _stand_ins,
    check_busy_machine,
    check_cpu_waits,
    _schedule,
    _replayer_bound,
    _drain,
    _plan_wait,
    _verification,
    _percentiles,
    _small,
    _guessed,
)
