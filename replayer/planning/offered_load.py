"""The load that a trace, at its own times, puts on each tier: bandwidth and writes per day."""

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import address, call, reference
from replayer.planning.moves import NVME, Stretch
from replayer.planning.plan import PlanOptions
from replayer.planning.workload import Workload
from replayer.record.columns import TIERS
from replayer.record.conditions import Tier

_MINUTE_NS: Final = 60 * 10**9
DAY_S: Final = 86_400
GIB: Final = 2**30
_FAR_FUTURE: Final = np.iinfo(np.int64).max
_READ, _WRITE = 0, 1

_add_load = call("stretch_offer")


class Rates(msgspec.Struct, frozen=True):
    """GiB per second of one tier."""

    read: float
    write: float


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a trace on its tiers, at its own times; None if all requests arrive at once.

    Attributes:
        span_s: seconds from the first request to the last.
        mean_gib_s: mean bandwidth of each tier over that time.
        peak_gib_s: bandwidth of each tier in its busiest minute.
        nvme_write_bytes_per_day: bytes written to nvme per day.
        nvme_drive_writes_per_day: the same as a multiple of the usable bytes of nvme; None if
            unlimited.
    """

    span_s: float
    mean_gib_s: dict[Tier, Rates] | None = None
    peak_gib_s: dict[Tier, Rates] | None = None
    nvme_write_bytes_per_day: float | None = None
    nvme_drive_writes_per_day: float | None = None


class Minutes:
    """The minutes of a trace's own time in which requests arrive.

    Only minutes with a request are numbered: a trace may span years.

    Attributes:
        span_s: seconds from the first request to the last.
        count: number of minutes.
        of_request: number of each request's minute, shape (requests,).
    """

    def __init__(self, workload: Workload) -> None:
        times = workload.arrivals()
        since_first = times - times.min(initial=_FAR_FUTURE)
        minutes, minute = np.unique(since_first // _MINUTE_NS, return_inverse=True)
        self.span_s = float(np.ptp(times)) / 1e9 if len(times) else 0.0
        self.count = len(minutes)
        self.of_request = minute.astype(np.int32)


class OfferedLoad:
    """Bytes per minute, tier and direction; a move counts when its request arrives in the trace.

    Attributes:
        bytes: of each minute by direction (read, write) and tier; shape (minutes, 2, tiers).
    """

    def __init__(self, workload: Workload, minutes: Minutes | None = None) -> None:
        minutes = minutes or Minutes(workload)
        self._workload = workload
        self._span_s = minutes.span_s
        self._minute = minutes.of_request
        self.bytes = np.zeros((minutes.count, 2, len(TIERS)), np.int64)

    def add(self, stretch: Stretch, *_: object) -> None:
        """Add a stretch of the plan."""
        _add_load(
            reference(self._workload.struct),
            address(stretch.ops),
            len(stretch.ops),
            address(stretch.moves),
            address(self._minute),
            address(self.bytes),
        )

    def summarise(self, options: PlanOptions) -> Offered:
        """Return the load of all stretches together.

        Args:
            options: of the plan; their nvme capacity is that of drive writes per day.
        """
        if not self._span_s:
            return Offered(span_s=0.0)
        gib = self.bytes / GIB
        per_day = float(self.bytes[:, _WRITE, NVME].sum()) / self._span_s * DAY_S
        usable = options.usable()[NVME]
        return Offered(
            span_s=self._span_s,
            mean_gib_s=_rates(gib.sum(0), self._span_s),
            peak_gib_s=_rates(gib.max(0), min(60.0, self._span_s)),
            nvme_write_bytes_per_day=per_day,
            nvme_drive_writes_per_day=per_day / usable if usable else None,
        )


def _rates(gib: NDArray[np.float64], seconds: float) -> dict[Tier, Rates]:
    """Return the rates of GiB by direction and tier, shape (2, tiers), over some seconds."""
    gpu, cpu, nvme = (
        Rates(read=float(read) / seconds, write=float(write) / seconds)
        for read, write in zip(gib[_READ], gib[_WRITE], strict=True)
    )
    return {"gpu": gpu, "cpu": cpu, "nvme": nvme}


def format_offered(offered: Offered) -> list[str]:
    """Return the load as lines of text."""
    if offered.mean_gib_s is None or offered.peak_gib_s is None:
        return ["  all requests arrive at once: the trace has no pace to keep up with"]
    span = f"{offered.span_s:,.0f} s from the first request to the last"
    peak_heading = f"{'busiest minute':>16}"
    lines = [
        f"  to keep up with the trace's own times ({span})",
        f"  {'tier':6}{'read GiB/s':>14}{peak_heading}{'write GiB/s':>14}{peak_heading}",
    ]
    for tier, mean in offered.mean_gib_s.items():
        peak = offered.peak_gib_s[tier]
        if mean.read or mean.write:
            reads = f"{mean.read:>14,.3f}{peak.read:>16,.3f}"
            lines.append(f"  {tier:6}{reads}{mean.write:>14,.3f}{peak.write:>16,.3f}")
    wear = ""
    if offered.nvme_drive_writes_per_day is not None:
        wear = f", {offered.nvme_drive_writes_per_day:,.2f} drive writes per day of this capacity"
    written_gib = (offered.nvme_write_bytes_per_day or 0) / GIB
    return [*lines, f"  written to nvme per day: {written_gib:,.1f} GiB{wear}"]


def format_usable(options: PlanOptions) -> list[str]:
    """Return a line of text for each memory tier that keeps a headroom free."""
    headroom = f" (headroom {options.headroom})"
    tiers = zip(TIERS[:NVME], options.capacity_gib[:NVME], options.usable()[:NVME], strict=True)
    return [
        f"  {tier}: {usable / GIB:,.4g} of {float(capacity):,g} GiB usable{headroom}"
        for tier, capacity, usable in tiers
        if capacity and usable is not None and options.headroom != 1
    ]
