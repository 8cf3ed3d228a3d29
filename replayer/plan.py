"""A trace planned for a model and tiers: the stream of moves, their totals and the plan fingerprint."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from replayer.model import TokenBytes
from replayer.schema import CHECKPOINT_OPS, MOVES, PLAN_VERSION, TIERS
from replayer.waterfall import BYPASS, DEMOTE, DROP, HIT, MISS, PROMOTE, STORE, Moves, Usable, Waterfall
from tracegen.schema import DECODE, READ, Columns, InputError, Trace, chosen


@dataclass(frozen=True)
class PlanOptions:
    """What a plan depends on besides the trace.

    Attributes:
        capacity_gib: of gpu, cpu and nvme; 0: no such tier; None: unlimited.
        headroom: usable share of gpu and cpu.
        lookup: None takes the trace's default.
    """

    bytes_per_token: TokenBytes
    capacity_gib: tuple[Decimal, Decimal, Decimal | None]
    headroom: Decimal = Decimal("0.8")
    promote: bool = False
    lookup: Literal["independent", "contiguous"] | None = None
    decode: Literal["reread", "once", "none"] = "reread"

    def usable(self) -> Usable:
        """Usable bytes per tier: floor(floor(GiB × 2^30) × headroom), nvme without headroom.

        Raises:
            InputError: a capacity is negative or not finite, the headroom is no share, or every tier is empty.
        """
        if not 0 < self.headroom <= 1:
            raise InputError(f"--headroom {self.headroom} must be more than 0 and at most 1.")
        sizes: list[int | None] = []
        for tier, gib in zip(TIERS, self.capacity_gib, strict=True):
            flag = "--storage-capacity-gb" if tier == "nvme" else f"--{tier}-mem-gb"
            if gib is not None and not (gib.is_finite() and 0 <= gib < 2**33):
                raise InputError(f"{flag} {gib} must be a number of GiB, 0 or more.")
            share = Decimal(1) if tier == "nvme" else self.headroom
            sizes.append(None if gib is None else int(int(gib * 2**30) * share))
        if not any(size is None or size for size in sizes):
            raise InputError("no tier has any room; give one with --cpu-mem-gb or --storage-capacity-gb.")
        gpu, cpu, nvme = sizes
        return gpu, cpu, nvme


@dataclass
class Planned:
    """A stretch of the plan: ops as in the trace, their moves, and where each op's moves end."""

    ops: Columns
    moves: Moves
    ends: NDArray[np.int64]
    tokens: NDArray[np.int32]  # of each moved object


class Plan:
    """The plan of a trace; `stream` may be called once per instance.

    Attributes:
        lookup: as resolved from the trace.
        waterfall: the planner, with the account of the tiers.
        largest_object: bytes of the largest object planned so far.
    """

    def __init__(self, trace: Trace, options: PlanOptions) -> None:
        self._trace, self.options, self.largest_object = trace, options, 0
        self.lookup = options.lookup or ("contiguous" if trace.metadata.prefix_chained else "independent")
        self.waterfall = Waterfall(options.usable(), promote=options.promote, lookup=self.lookup)
        self._tokens = np.zeros(0, np.int32)  # per key

    def stream(self, size: int = CHECKPOINT_OPS) -> Iterator[Planned]:
        """The plan, at most `size` ops of the trace at a time."""
        for ops in _decode_filter(self._trace, self.options.decode, size):
            keys, tokens = ops["key"], ops["tokens"]
            if (top := int(keys.max(initial=-1)) + 1) > len(self._tokens):
                self._tokens = np.concatenate([self._tokens, np.zeros(max(top, len(self._tokens)), np.int32)])
            self._tokens[keys] = tokens
            sizes = self.options.bytes_per_token.of(tokens)
            self.largest_object = max(self.largest_object, int(sizes.max(initial=0)))
            moves, ends = self.waterfall.plan(ops, sizes)
            yield Planned(ops, moves, ends, self._tokens[moves.key])


def _decode_filter(trace: Trace, mode: str, size: int) -> Iterator[Columns]:
    """The trace's ops without the decode reads that `mode` leaves out; their new_tokens move to an op that stays.

    `once` keeps the first decode read of each request, `none` keeps none. The tokens go to the decode read that is
    kept, else to the request's last op that is.
    """
    if mode == "reread":
        yield from trace.batches(size)
        return
    requests = trace.ops  # ids are dense, so never more; the kernel backs only the pages used
    moved, receiver = np.zeros(requests, np.int64), np.zeros(requests, np.int64)
    for batch, kept in _kept(trace, mode, size):
        np.add.at(moved, batch["request_id"][~kept], batch["new_tokens"][~kept])
        receives = kept & (_is_decode_read(batch) if mode == "once" else True)
        receiver[batch["request_id"][receives]] = batch["op_id"][receives]
    for batch, kept in _kept(trace, mode, size):
        ops = chosen(batch, kept)
        extra = np.where(receiver[ops["request_id"]] == ops["op_id"], moved[ops["request_id"]], 0)
        yield ops | {"new_tokens": (ops["new_tokens"] + extra).astype(np.int32)}


def _kept(trace: Trace, mode: str, size: int) -> Iterator[tuple[Columns, NDArray[np.bool_]]]:
    has_read = np.zeros(trace.ops, np.bool_)
    for batch in trace.batches(size):
        reads = np.flatnonzero(_is_decode_read(batch))
        kept = np.ones(len(batch["op_id"]), np.bool_)
        kept[reads] = False
        if mode == "once":
            requests = batch["request_id"][reads]
            first = np.unique(requests, return_index=True)[1]
            kept[reads[first[~has_read[requests[first]]]]] = True
            has_read[requests] = True
        yield batch, kept


def _is_decode_read(batch: Columns) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = (batch["phase"] == DECODE) & (batch["op"] == READ)
    return mask


class PlanHash:
    """SHA-256 over the version and every move; checkpoint i covers the moves of trace ops below (i + 1) · 65,536."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(PLAN_VERSION.to_bytes(8, "little"))
        self.checkpoints: list[str] = []

    def update(self, moves: bytes, op_id: int) -> None:
        """Add moves of trace op `op_id`, or of it and ops after it in the same block of 65,536."""
        while len(self.checkpoints) < op_id // CHECKPOINT_OPS:
            self.checkpoints.append(self._hash.hexdigest())
        self._hash.update(moves)

    def hexdigest(self) -> str:
        """The fingerprint of the plan so far."""
        return self._hash.hexdigest()


@dataclass
class Totals:
    """Sums over moves, kept as counts and bytes per (move, from tier, to tier)."""

    ops: int = 0
    reads: int = 0
    recomputed_tokens: int = 0
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros((len(MOVES), 4, 4), np.int64))
    bytes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((len(MOVES), 4, 4), np.int64))

    def add(self, part: Planned) -> None:
        """Add a stretch of the plan."""
        moves = part.moves
        self.ops += len(part.ends)
        self.reads += int((part.ops["op"] == READ).sum())
        place = (moves.move, moves.from_tier, moves.to_tier)  # -1, no tier, is the last of four
        np.add.at(self.counts, place, 1)
        np.add.at(self.bytes, place, moves.size)
        # An op that missed and could not be stored either is recomputed once.
        recomputed = (moves.move == MISS) | ((moves.move == BYPASS) & (moves.seq == 0))
        self.recomputed_tokens += int(part.tokens[recomputed].sum(dtype=np.int64))

    def summary(self) -> dict[str, Any]:
        """The totals under the names of `replayer plan --json`."""
        counts, size = self.counts, self.bytes
        per_tier = range(len(TIERS))
        hits = counts[HIT] + counts[PROMOTE]
        return {
            "ops": self.ops,
            "reads": self.reads,
            "hits": {TIERS[tier]: int(hits[tier].sum()) for tier in per_tier},
            "misses": int(counts[MISS].sum()),
            "stores": {TIERS[tier]: int(counts[STORE, :, tier].sum()) for tier in per_tier},
            "demotions": {
                f"{TIERS[a]}>{TIERS[b]}": int(counts[DEMOTE, a, b]) for a in per_tier for b in per_tier if a < b
            },
            "promotions": int(counts[PROMOTE].sum()),
            "drops": int(counts[DROP].sum()),
            "bypasses": int(counts[BYPASS].sum()),
            "recomputed_tokens": self.recomputed_tokens,
            "read_bytes": {
                TIERS[tier]: int(sum(size[move, tier].sum() for move in (HIT, PROMOTE, DEMOTE))) for tier in per_tier
            },
            "write_bytes": {
                TIERS[tier]: int(sum(size[move, :, tier].sum() for move in (STORE, DEMOTE))) for tier in per_tier
            },
        }


def simulate(plan: Plan, progress: Any) -> dict[str, Any]:
    """Plan the whole trace; what `replayer plan --json` prints but for the fingerprints' trace part."""
    totals, hashed = Totals(), PlanHash()
    for block, part in enumerate(plan.stream()):
        totals.add(part)
        hashed.update(part.moves.hashed(), block * CHECKPOINT_OPS)
        progress(len(part.ends))
    return totals.summary() | {
        "peak_bytes": dict(zip(TIERS, plan.waterfall.peak, strict=True)),
        "plan_fingerprint": hashed.hexdigest(),
        "plan_checkpoints": hashed.checkpoints,
    }
