"""What a trace, at its own times, asks of the tiers: bandwidth on average and in its busiest minute, writes per day."""

from typing import Any, Final

import numpy as np

from replayer.bindings.compiled import address, call, reference
from replayer.planning.plan import PlanOptions, Stretch
from replayer.planning.workload import Workload
from replayer.record.columns import TIERS

_MINUTE_NS: Final = 60 * 10**9
_DAY_S: Final = 86_400
GIB: Final = 2**30
SIDES: Final = ("read", "write")
_FAR: Final = np.iinfo(np.int64).max

_offer = call("stretch_offer")


class OfferedLoad:
    """Bytes per minute, side and tier, of moves at the time at which their request arrives in the trace."""

    def __init__(self, workload: Workload) -> None:
        times = workload.arrivals()
        self._workload = workload
        self._span_s = float(np.ptp(times)) / 1e9 if len(times) else 0.0
        # Minutes without a request take no room: a trace may span years.
        minutes, minute = np.unique((times - times.min(initial=_FAR)) // _MINUTE_NS, return_inverse=True)
        self._minute = minute.astype(np.int32)
        self._bytes = np.zeros((len(minutes), len(SIDES), len(TIERS)), np.int64)

    def add(self, stretch: Stretch, *_: object) -> None:
        """Count a stretch of the plan."""
        _offer(
            reference(self._workload.struct), address(stretch.ops), len(stretch.ops), address(stretch.moves),
            address(self._minute), address(self._bytes),
        )  # fmt: skip

    def summary(self, options: PlanOptions) -> dict[str, Any]:
        """What `replayer plan --json` prints as `offered`; null where all requests arrive at once.

        GiB per second of each tier and side, in the mean over the time from the first to the last request and in the
        busiest minute; bytes written to nvme per day, and in its capacity per day (null where it is unlimited).
        """
        if not self._span_s:
            return {
                "span_s": 0.0,
                "mean_gib_s": None,
                "peak_gib_s": None,
                "nvme_write_bytes_per_day": None,
                "nvme_drive_writes_per_day": None,
            }
        busiest_s = min(60.0, self._span_s)
        rates: dict[str, dict[str, dict[str, float]]] = {"mean_gib_s": {}, "peak_gib_s": {}}
        for number, tier in enumerate(TIERS):
            sides = {side: self._bytes[:, column, number] / GIB for column, side in enumerate(SIDES)}
            rates["mean_gib_s"][tier] = {side: float(gib.sum()) / self._span_s for side, gib in sides.items()}
            rates["peak_gib_s"][tier] = {side: float(gib.max()) / busiest_s for side, gib in sides.items()}
        per_day = float(self._bytes[:, SIDES.index("write"), TIERS.index("nvme")].sum()) / self._span_s * _DAY_S
        room = options.usable()[TIERS.index("nvme")]
        return {
            "span_s": self._span_s,
            **rates,
            "nvme_write_bytes_per_day": per_day,
            "nvme_drive_writes_per_day": per_day / room if room else None,
        }


def lines(offered: dict[str, Any]) -> list[str]:
    """The same for people."""
    if not offered["span_s"]:
        return ["  all requests arrive at once: the trace has no pace to keep up with"]
    found = [
        f"  to keep up with the trace's own times ({offered['span_s']:,.0f} s from the first request to the last)",
        f"  {'tier':6}{'read GiB/s':>14}{'busiest minute':>16}{'write GiB/s':>14}{'busiest minute':>16}",
    ]
    for tier in TIERS:
        mean, peak = offered["mean_gib_s"][tier], offered["peak_gib_s"][tier]
        if any(mean.values()):
            cells = (f"{mean[side]:>14,.3f}{peak[side]:>16,.3f}" for side in SIDES)
            found.append(f"  {tier:6}{''.join(cells)}")
    dwpd = offered["nvme_drive_writes_per_day"]
    worn = f", {dwpd:,.2f} drive writes per day of this capacity" if dwpd is not None else ""
    return [*found, f"  written to nvme per day: {offered['nvme_write_bytes_per_day'] / GIB:,.1f} GiB{worn}"]


def rooms(options: PlanOptions) -> list[str]:
    """What of the memory tiers objects may take."""
    return [
        f"  {tier}: {usable / GIB:,.4g} of {float(asked):,g} GiB usable: --headroom {options.headroom}"
        for tier, asked, usable in zip(TIERS[:2], options.capacity_gib[:2], options.usable()[:2], strict=True)
        if asked and usable is not None and options.headroom != 1
    ]
