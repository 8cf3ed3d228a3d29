"""The summary of a plan: its totals, its peaks, and its fingerprint."""

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from replayer.bindings import compiled
from replayer.bindings.compiled import AccountStruct, TotalsStruct, address, call
from replayer.planning.moves import (
    BYPASS,
    COPY,
    DELETE,
    DEMOTE,
    DROP,
    HIT,
    MISS,
    PROMOTE,
    STORE,
    Stretch,
)
from replayer.planning.workload import Workload
from replayer.record.columns import MOVES, TIERS
from replayer.record.run_info import PairCounts, PeakBytes, PlanInfo, TierCounts, Totals

_describe_moves = call("stretch_tell")


class PlanSummary(PlanInfo, frozen=True, kw_only=True):
    """Totals of a plan: counts of moves, bytes and peaks by tier, and its fingerprint.

    Counts and bytes by tier have the fields `gpu`, `cpu` and `nvme`, as in `summary.hits.cpu`.

    Attributes:
        peak_bytes: the most bytes at a time in each tier.
        plan_fingerprint: digest of all moves.
        plan_checkpoints: digests of the moves up to every 65,536th position.
        peak_objects: the most objects at a time in gpu, cpu and nvme.
        largest_object: bytes of the largest object that the plan stores.
        offers: what rules of admission and of asking decided.
    """

    peak_bytes: PeakBytes
    plan_fingerprint: str
    plan_checkpoints: tuple[str, ...]
    peak_objects: tuple[int, int, int]
    largest_object: int
    offers: "Offers"

    def to_info(self) -> PlanInfo:
        """Return the part of the summary that run.json records."""
        return PlanInfo(**{name: getattr(self, name) for name in PlanInfo.__struct_fields__})


@dataclass(frozen=True)
class Offers:
    """Decisions by rules of admission and of asking; tuples are in the order gpu, cpu, nvme.

    Attributes:
        admitted: offers that a tier took, if it takes only what was touched several times.
        refused: offers that it did not take.
        fetches: requests that asked a tier, if a limit says which ones may.
        fetches_refused: requests that the limit kept from asking.
    """

    admitted: tuple[int, int, int] = (0, 0, 0)
    refused: tuple[int, int, int] = (0, 0, 0)
    fetches: tuple[int, int, int] = (0, 0, 0)
    fetches_refused: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Account:
    """The placement's own account of its tiers; tuples are in the order gpu, cpu, nvme.

    Attributes:
        used_bytes: bytes in each tier now.
        peak_bytes: the most bytes at a time.
        peak_objects: the most objects at a time.
        largest_object: bytes of the largest object so far.
        offers: what rules of admission and of asking decided.
    """

    used_bytes: tuple[int, int, int]
    peak_bytes: tuple[int, int, int]
    peak_objects: tuple[int, int, int]
    largest_object: int
    offers: Offers

    @classmethod
    def of(cls, account: AccountStruct) -> "Account":
        """Return an account as compiled code keeps it."""
        return cls(
            tuple(account.used),
            tuple(account.peak),
            tuple(account.peak_objects),
            account.largest,
            Offers(
                tuple(account.admitted),
                tuple(account.refused),
                tuple(account.fetches),
                tuple(account.fetches_refused),
            ),
        )


class MoveTotals:
    """Sums over moves: counts and bytes by move, source tier and target tier.

    Attributes:
        struct: the sums as compiled code keeps them.
    """

    def __init__(self) -> None:
        self.struct = TotalsStruct()

    def add(self, workload: Workload, stretch: Stretch) -> NDArray[np.int64]:
        """Add a stretch of a plan.

        Returns:
            The columns that the fingerprint covers, shape (moves, 7): op_id, seq, move, key,
            from tier, to tier, and size in bytes.
        """
        rows = np.empty((len(stretch.moves), 7), np.int64)
        _describe_moves(
            compiled.reference(workload.struct),
            address(stretch.ops),
            len(stretch.ops),
            address(stretch.moves),
            compiled.reference(self.struct),
            address(rows),
        )
        return rows

    def to_info(self) -> Totals:
        """Return the totals as run.json records them."""
        counts = self._table("counts")
        size = self._table("bytes")
        hits = counts[HIT] + counts[PROMOTE]
        return Totals(
            ops=self.struct.ops,
            reads=self.struct.reads,
            hits=_by_tier(hits.sum(1)),
            misses=int(counts[MISS].sum()),
            stores=_by_tier(counts[STORE].sum(0)),
            demotions=_by_pair(counts[DEMOTE]),
            copies=_by_pair(counts[COPY]) if counts[COPY].any() else msgspec.UNSET,
            promotions=int(counts[PROMOTE].sum()),
            drops=int(counts[DROP].sum()),
            bypasses=int(counts[BYPASS].sum()),
            # Hits on the ends of chunks alone spare more than was asked for.
            recomputed_tokens=max(0, self.struct.recomputed_tokens),
            read_bytes=_by_tier(size[[HIT, PROMOTE, DEMOTE, COPY]].sum(axis=(0, 2))),
            write_bytes=_by_tier(self._entered(size)),
        )

    def demotions_from(self, tier: int) -> int:
        """Return the number of objects demoted from a tier."""
        return int(self._table("counts")[DEMOTE, tier].sum())

    def left_bytes(self) -> tuple[int, ...]:
        """Return the bytes that these moves leave in gpu, cpu and nvme."""
        size = self._table("bytes")
        taken = size[[DEMOTE, PROMOTE, DROP, DELETE]].sum(axis=(0, 2))
        return tuple((self._entered(size) - taken)[: len(TIERS)].tolist())

    @staticmethod
    def _entered(size: NDArray[np.int64]) -> NDArray[np.int64]:
        entered: NDArray[np.int64] = size[[STORE, DEMOTE, COPY]].sum(axis=(0, 1))
        return entered

    def _table(self, name: str) -> NDArray[np.int64]:
        return np.array(getattr(self.struct, name)[:], np.int64).reshape(len(MOVES), 4, 4)


def _by_pair(counts: NDArray[np.int64]) -> PairCounts:
    return PairCounts(
        gpu_cpu=int(counts[0, 1]),
        gpu_nvme=int(counts[0, 2]),
        cpu_nvme=int(counts[1, 2]),
    )


def _by_tier(values: NDArray[np.int64]) -> TierCounts:
    gpu, cpu, nvme = values[: len(TIERS)].tolist()
    return TierCounts(gpu=gpu, cpu=cpu, nvme=nvme)
