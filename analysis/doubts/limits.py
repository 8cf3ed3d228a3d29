"""Doubts about one figure that is above its limit: a table of limits, with their reasons."""

from typing import Any, Final, NamedTuple

from analysis.doubts.evidence import Evidence, Found
from analysis.log.columns import GIB
from analysis.runs.run import Doubt
from analysis.runs.samples import Moved

# Of the I/O time: memory tiers looked 3 times slower when verification took 4 times as long.
VERIFY_SHARE: Final = 0.10
UNFINISHED_SHARE: Final = 0.01  # of the requests: P99 is theirs
DRAIN_SHARE: Final = 0.10  # of the window: MLPerf's runs drained for 64% of theirs
BUSY_CPU: Final = 0.90  # of all cores: above it threads wait for one another instead of the device
LATE_S: Final = 1.0  # a system that keeps its schedule is not late by seconds
# Of the machine's cores, used by others: a quiet one stays below a few per cent.
BUSY_MACHINE: Final = 0.25
# Of the device's bytes: ext4's journal takes 0.19 with a flush every 48 KiB.
FOREIGN_IO: Final = 0.20


class Limit(NamedTuple):
    """A figure that a run should not exceed; text and advice name figures as {drain_s:.1f}."""

    kind: str
    figure: str
    most: float
    text: str
    advice: str


LIMITS: Final = (
    Limit(
        "fell behind",
        "late_s",
        LATE_S,
        "the system fell behind its schedule: P99 of lateness is {late_s:,.1f} s",
        "its times are those of a growing queue: offer less load with --speedup below 1",
    ),
    Limit(
        "replayer-bound",
        "cpu_share",
        BUSY_CPU,
        "the replayer kept {cpu_share:.0%} of all cores busy: its own speed was measured",
        "use more cores, --verify off, larger objects, or fewer workers",
    ),
    Limit(
        "busy machine",
        "foreign_cpu_share",
        BUSY_MACHINE,
        "others kept {foreign_cpu:.2f} of {host_cores} cores busy: processes, or the kernel for this run's I/O{steal}",
        "replay it on a machine that runs nothing else: its times include waits for a CPU",
    ),
    Limit(
        "foreign I/O",
        "own_drive_foreign_share",
        FOREIGN_IO,
        "{foreign_io_share:.0%} of the bytes that the device moved, {foreign_gib:,.2f} GiB, were not the replayer's",
        "other processes, or the file system itself: look with pidstat -d, and replay on a disk of its own",
    ),
    Limit(
        "long drain",
        "drain_share",
        DRAIN_SHARE,
        "requests drained for {drain_s:.1f} s past the {duration_s:g} s asked for, {drained_gib:,.1f} GiB",
        "rates exclude it, times of moves and requests include it: quote rates, or limit it with --set drain=S",
    ),
    Limit(
        "unfinished requests",
        "unfinished_share",
        UNFINISHED_SHARE,
        "{unfinished_requests:,} of {requests:,} requests ({unfinished_share:.0%}) were not done at the end: times are"
        " of those due before them",
        "replay much longer than a request takes, or quote rates",
    ),
    Limit(
        "verification",
        "verify_share",
        VERIFY_SHARE,
        "making and checking bytes took {verify_share:.0%} of the time of the I/O itself",
        "latencies exclude it, throughput and times of requests include it: compare a run with --verify off",
    ),
)


def check_limits(run: Evidence) -> Found:
    """Doubt every figure that is above its limit."""
    figures = _list_figures(run)
    for limit in LIMITS:
        if (figures[limit.figure] or 0) > limit.most:
            yield Doubt(limit.kind, limit.text.format_map(figures), limit.advice)


def _list_figures(run: Evidence) -> dict[str, Any]:
    """Return the metrics and what LIMITS need beside them; None where a limit does not apply."""
    values = run.values
    asked_s, steal_cpu = run.conditions.duration_s, values["steal_cpu"] or 0
    io_s = values["device_s"] + values["host_s"]
    moved = Moved(0, 0, 0) if run.device is None else run.device
    foreign = values["foreign_io_share"]
    return {
        **values,
        "late_s": (values["lateness_p99_ms"] or 0) / 1e3 if run.conditions.pace == "open" else None,
        "host_cores": run.opened.host_cores,
        "steal": f", other machines took {steal_cpu:.2f} (steal)" if steal_cpu >= 0.005 else "",
        "own_drive_foreign_share": None if run.stands_in else foreign,
        "foreign_gib": (foreign or 0) * (moved.read_bytes + moved.written_bytes) / GIB,
        "duration_s": asked_s,
        "drain_share": values["drain_s"] / asked_s if asked_s else None,
        "drained_gib": values["drained_bytes"] / GIB,
        "unfinished_share": (values["unfinished_requests"] or 0) / (values["requests"] or 1),
        "verify_share": values["verify_s"] / io_s if io_s else None,
    }
