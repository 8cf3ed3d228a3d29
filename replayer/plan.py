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
from replayer.selection import Selection
from replayer.waterfall import BYPASS, DEMOTE, DROP, HIT, MISS, PROMOTE, STORE, Moves, Usable, Waterfall
from tracegen.schema import READ, Columns, InputError, Trace


@dataclass(frozen=True)
class PlanOptions:
    """What a plan depends on besides the trace.

    Attributes:
        capacity_gib: of gpu, cpu and nvme; 0: no such tier; None: unlimited.
        headroom: usable share of gpu and cpu.
        lookup: None takes the trace's default.
        selection: which ops of the trace are taken.
    """

    bytes_per_token: TokenBytes
    capacity_gib: tuple[Decimal, Decimal, Decimal | None]
    headroom: Decimal = Decimal("0.8")
    promote: bool = False
    lookup: Literal["independent", "contiguous"] | None = None
    selection: Selection = field(default_factory=Selection)

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

    def slice(self, begin: int, end: int) -> "Planned":
        """The stretch's ops from `begin` to before `end`."""
        first = int(self.ends[begin - 1]) if begin else 0
        rows = slice(first, int(self.ends[end - 1]) if end else 0)
        ops = {name: column[begin:end] for name, column in self.ops.items()}
        return Planned(ops, self.moves[rows], self.ends[begin:end] - first, self.tokens[rows])

    def op_of_move(self) -> NDArray[np.int64]:
        """The number of its op within the stretch, per move."""
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))


class Plan:
    """The plan of a trace; `stream` may be called once per instance.

    Attributes:
        lookup: as resolved from the trace.
        waterfall: the planner, with the account of the tiers.
        largest_object: bytes of the largest object planned so far.
        last_op: op_id of the last op planned of each request, shape (requests or more,).
    """

    def __init__(self, trace: Trace, options: PlanOptions) -> None:
        self.trace, self.options, self.largest_object = trace, options, 0
        self.lookup = options.lookup or ("contiguous" if trace.metadata.prefix_chained else "independent")
        self.waterfall = Waterfall(options.usable(), promote=options.promote, lookup=self.lookup)
        self._tokens = np.zeros(0, np.int32)  # per key
        self.last_op = np.zeros(0, np.int64)

    @property
    def ops(self) -> int:
        """How many op_ids the plan spans, those of ops left out included."""
        return int(self.trace.ops * self.options.selection.cycles)

    def stream(self, size: int = CHECKPOINT_OPS) -> Iterator[Planned]:
        """The plan, at most `size` ops of the trace at a time; the trace is read in large batches all the same."""
        batches = self.options.selection.batches(self.trace, max(size, CHECKPOINT_OPS))
        for ops in (part for batch in batches for part in _stretches(batch, size)):
            keys, tokens = ops["key"], ops["tokens"]
            self._tokens = _reaching(self._tokens, keys)
            self._tokens[keys] = tokens
            self.last_op = _reaching(self.last_op, ops["request_id"])
            self.last_op[ops["request_id"]] = ops["op_id"]  # of a request's several ops the last one stays
            sizes = self.options.bytes_per_token.of(tokens)
            self.largest_object = max(self.largest_object, int(sizes.max(initial=0)))
            moves, ends = self.waterfall.plan(ops, sizes)
            yield Planned(ops, moves, ends, self._tokens[moves.key])


def _stretches(ops: Columns, size: int) -> Iterator[Columns]:
    for begin in range(0, len(ops["op_id"]), size):
        yield {name: column[begin : begin + size] for name, column in ops.items()}


def _reaching(table: NDArray[Any], ids: NDArray[np.int64]) -> NDArray[Any]:
    """The table, grown so that every id has a place."""
    top = int(ids.max(initial=-1)) + 1
    more = max(top, len(table)) if top > len(table) else 0
    return np.concatenate([table, np.zeros(more, table.dtype)]) if more else table


class PlanHash:
    """SHA-256 over the version and every move; checkpoint i covers the moves of trace ops below (i + 1) · 65,536."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(PLAN_VERSION.to_bytes(8, "little"))
        self.checkpoints: list[str] = []

    def update(self, moves: Moves) -> None:
        """Add moves in plan order."""
        blocks = moves.op_id // CHECKPOINT_OPS
        begin = 0
        for end in [*(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(moves)]:
            if begin < end:
                while len(self.checkpoints) < blocks[begin]:
                    self.checkpoints.append(self._hash.hexdigest())
                self._hash.update(moves[begin:end].hashed())
            begin = end

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

    def hit_rate(self) -> float:
        """Hits among reads; 0 where there were none."""
        return int(self.counts[HIT].sum() + self.counts[PROMOTE].sum()) / self.reads if self.reads else 0.0

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
    for part in plan.stream():
        totals.add(part)
        hashed.update(part.moves)
        progress(len(part.ends))
    return totals.summary() | {
        "peak_bytes": dict(zip(TIERS, plan.waterfall.peak, strict=True)),
        "plan_fingerprint": hashed.hexdigest(),
        "plan_checkpoints": hashed.checkpoints,
    }
