"""The counts of a plan: its moves, hits, tokens and entries, and the bytes of each minute.

Compiled code adds them up as the plan is made (`core/counting.c`).
"""

import ctypes
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import (
    AccountStruct,
    CounterStruct,
    CountsStruct,
    TotalsStruct,
    address,
    call,
    reference,
)
from replayer.planning.moves import BYPASS, COPY, DEMOTE, DROP, HIT, MISS, PROMOTE, STORE, Stretch
from replayer.planning.plan_hash import PlanHash
from replayer.planning.workload import Workload
from replayer.record.options import TIERS, By
from replayer.record.run_info import PairCounts, PlanInfo, TierCounts, Totals

DAY_S: Final = 86_400
GIB: Final = 2**30
_MINUTE_NS: Final = 60 * 10**9
_FAR_FUTURE: Final = np.iinfo(np.int64).max
_PARTS: Final = 2

Numbers = NDArray[np.int64]

_count_stretch = call("stretch_count")


def describe_totals(totals: TotalsStruct) -> Totals:
    """Return sums over moves, by move, source tier and target tier, as run.json records them."""
    counts, size = np.array(totals.counts), np.array(totals.bytes)
    moved = counts.sum(axis=(1, 2))
    return Totals(
        ops=totals.ops,
        reads=totals.reads,
        # A promotion serves its read as a hit does.
        hits=_by_tier((counts[HIT] + counts[PROMOTE]).sum(1)),
        misses=int(moved[MISS]),
        stores=_by_tier(counts[STORE].sum(0)),
        demotions=_by_pair(counts[DEMOTE]),
        copies=_by_pair(counts[COPY]) if counts[COPY].any() else msgspec.UNSET,
        promotions=int(moved[PROMOTE]),
        drops=int(moved[DROP]),
        bypasses=int(moved[BYPASS]),
        # Hits on the ends of chunks alone spare more than was asked for.
        recomputed_tokens=max(0, totals.recomputed_tokens),
        read_bytes=_by_tier(size[[HIT, PROMOTE, DEMOTE, COPY]].sum(axis=(0, 2))),
        write_bytes=_by_tier(size[[STORE, DEMOTE, COPY]].sum(axis=(0, 1))),
    )


class Minutes:
    """The minutes of a trace's own time in which requests arrive.

    Only minutes with a request are numbered: a trace may span years.

    Attributes:
        span_s: seconds from the first request to the last.
        count: number of minutes.
        of_request: number of each request's minute, shape (requests,).
    """

    def __init__(self, workload: Workload) -> None:
        # Only minutes with a request have a number: a trace may span years.
        times = workload.arrivals()
        since_first = times - times.min(initial=_FAR_FUTURE)
        minutes, minute = np.unique(since_first // _MINUTE_NS, return_inverse=True)
        self.span_s = float(np.ptp(times)) / 1e9 if len(times) else 0.0
        self.count = len(minutes)
        self.of_request = minute.astype(np.int32)


class PlanCounts:
    """The counts of a plan, stretch by stretch, of all its requests or of two parts of them.

    Args:
        workload: the ops of the plan.
        minutes: when requests arrive; None: bytes per minute are not counted.
        part_of: 0 or 1 for each request, shape (requests,); None: all are of part 0.

    Attributes:
        minutes: when requests arrive.
        bytes: by part, minute, direction (read, write) and tier.
        account: the placement's own account, once the plan is complete.
    """

    def __init__(
        self, workload: Workload, minutes: Minutes | None = None, part_of: NDArray[np.uint8] | None = None
    ) -> None:
        self.minutes = minutes
        self.bytes = np.zeros((_PARTS, minutes.count if minutes else 0, 2, len(TIERS)), np.int64)
        self.account = AccountStruct()
        self._workload = workload
        # Compiled code keeps pointers to these.
        self._flags = (np.zeros(workload.requests + 1, np.uint8), np.zeros(workload.keys + 1, np.uint8))
        self._part_of = part_of
        request, key = map(address, self._flags)
        self._struct = CounterStruct(
            part_of=None if part_of is None else address(part_of),
            minute=None if minutes is None else address(minutes.of_request),
            minutes=self.bytes.shape[1],
            bytes=address(self.bytes),
            request=request,
            key=key,
        )

    def add(self, stretch: Stretch, rows: Numbers | None = None) -> None:
        """Add a stretch of the plan, the next in order.

        Args:
            stretch: ops and moves.
            rows: gets the columns of each move that the fingerprint covers, shape (moves, 7).
        """
        _count_stretch(
            reference(self._workload.struct),
            address(stretch.ops),
            len(stretch.ops),
            address(stretch.moves),
            reference(self._struct),
            None if rows is None else address(rows),
        )

    def list_moves(self, stretch: Stretch) -> Numbers:
        """Add a stretch of the plan; return the columns of its moves that the fingerprint covers.

        Returns:
            op_id, seq, move, key, from tier, to tier, and size in bytes; shape (moves, 7).
        """
        rows = np.empty((len(stretch.moves), 7), np.int64)
        self.add(stretch, rows)
        return rows

    @property
    def totals(self) -> Totals:
        """Sums over the moves of part 0, which is all of them without parts."""
        return describe_totals(self._struct.parts[0].totals)

    def table(self, name: str, part: int = 0) -> Any:
        """Return a number, or a table by source or tier, by its name in `Counts` of core.h."""
        value = getattr(self._struct.parts[part], name)
        return np.array(value) if isinstance(value, ctypes.Array) else value

    def hits_of(self, by: By, part: int = 0) -> tuple[int, int]:
        """Return how much hit and how much was asked in a part, by a definition."""
        counts: CountsStruct = self._struct.parts[part]
        if by == "requests":
            return counts.reading_requests - counts.missing_requests, counts.reading_requests
        names = ("hits", "reads") if by == "ops" else ("spared_tokens", "prompt_tokens")
        hits, asked = (int(self.table(name, part).sum()) for name in names)
        return hits, asked

    def spared_tokens(self, tier: str) -> int:
        """Return the tokens of prompts that hits in a tier spare."""
        return int(self.table("spared_tokens")[:, TIERS.index(tier)].sum())


class PlanSummary(PlanInfo, frozen=True, kw_only=True):
    """Totals of a plan: counts of moves, bytes and peaks by tier, and its fingerprint.

    Counts and bytes by tier have the fields `gpu`, `cpu` and `nvme`, as in `summary.hits.cpu`.

    Attributes:
        peak_bytes: the most bytes at a time in each tier.
        plan_fingerprint: digest of all moves.
        plan_checkpoints: digests of the moves up to every 65,536th position.
        peak_objects: the most objects at a time in gpu, cpu and nvme.
        largest_object: bytes of the largest object that the plan stores.
    """

    peak_bytes: TierCounts
    plan_fingerprint: str
    plan_checkpoints: tuple[str, ...]
    peak_objects: tuple[int, int, int]
    largest_object: int

    @classmethod
    def of(cls, counts: PlanCounts, fingerprint: PlanHash) -> "PlanSummary":
        """Return the summary of a plan that was counted to its end."""
        account, sums = counts.account, counts.totals
        gpu, cpu, nvme = account.peak_objects
        return cls(
            **msgspec.structs.asdict(sums),
            peak_bytes=TierCounts(**dict(zip(TIERS, account.peak, strict=True))),
            plan_fingerprint=fingerprint.hexdigest(),
            plan_checkpoints=tuple(fingerprint.checkpoints),
            peak_objects=(gpu, cpu, nvme),
            largest_object=account.largest,
        )

    def to_info(self) -> PlanInfo:
        """Return the part of the summary that run.json records."""
        return PlanInfo(**{name: getattr(self, name) for name in PlanInfo.__struct_fields__})


def _by_pair(counts: Numbers) -> PairCounts:
    return PairCounts(
        gpu_cpu=int(counts[0, 1]),
        gpu_nvme=int(counts[0, 2]),
        cpu_nvme=int(counts[1, 2]),
        cpu_gpu=int(counts[1, 0]) or msgspec.UNSET,
        nvme_cpu=int(counts[2, 1]) or msgspec.UNSET,
    )


def _by_tier(values: Numbers) -> TierCounts:
    # The fourth number counts moves that have no tier on this side.
    gpu, cpu, nvme = values[: len(TIERS)].tolist()
    return TierCounts(gpu=gpu, cpu=cpu, nvme=nvme)
