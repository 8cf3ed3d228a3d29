"""What each kind of move does: the I/O, its timing, its verification, and what a failure leaves behind."""

from collections.abc import Callable, Sequence
from time import perf_counter_ns as clock
from typing import Final, Literal

from replayer.ordering import Move
from replayer.payload import Payload
from replayer.schema import STATUSES
from replayer.tiers.contract import Buffer, Landing, Object, Tier, aligned
from replayer.waterfall import BYPASS, DELETE, DEMOTE, DROP, HIT, MISS, PROMOTE, STORE

OK, ERROR, UPSTREAM = range(len(STATUSES))
_NO_IO: Final = frozenset((MISS, BYPASS))
_LEAVES: Final = frozenset((DEMOTE, PROMOTE, DROP, DELETE))

Verify = Literal["off", "stamps", "full"]


class CorruptionError(OSError):
    """What was read is not what was written."""


class Outcome:
    """How a move went; times in nanoseconds, start, end and done on perf_counter's clock.

    What making and verifying bytes took, verify_ns, lies outside all others: it is shifted behind the end, wherever
    it took place. done_ns = end_ns + verify_ns: only then does what waits for the move go on.
    """

    __slots__ = (
        "device_read_ns", "device_write_ns", "done_ns", "end_ns", "error", "read_ns", "start_ns", "status", "verify_ns",
        "write_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.status = OK
        self.error: str | None = None
        self.read_ns = self.write_ns = self.device_read_ns = self.device_write_ns = self.verify_ns = 0
        self.start_ns = self.end_ns = self.done_ns = clock()


class Staging:
    """One worker's buffers: the host end of its moves, and what should have been read where every byte is checked.

    Attributes:
        chunk: bytes moved at a time.
        landing: a buffer in device memory; hits from the tiers in `landing_reads` end there, stores to those in
            `landing_writes` begin there.
    """

    def __init__(self, chunk: int, verify: Verify, make: Callable[[int], Buffer] = Buffer) -> None:
        self.chunk = chunk
        self.buffer, self.scratch = make(chunk), Buffer(chunk if verify == "full" else 0)
        self.landing: Landing | None = None
        self.landing_reads: frozenset[int] = frozenset()
        self.landing_writes: frozenset[int] = frozenset()


class Executor:
    """Carries out moves on tiers; calls may overlap as far as the plan's order lets them.

    A key whose move failed is lost: until it is stored anew, its moves are `upstream`, without I/O. What is left of it
    is removed where the plan says that it leaves, because the plan gives that room to others.
    """

    def __init__(self, tiers: Sequence[Tier | None], seed: int, verify: Verify) -> None:
        self._tiers, self._payload, self._verify = tiers, Payload(seed), verify
        self._lost: set[int] = set()

    def run(self, move: Move, staging: Staging) -> Outcome:
        """Execute one move; an I/O error or a wrong byte is an outcome, not an exception."""
        outcome = Outcome()
        if move.kind in _NO_IO:
            return outcome
        if move.kind == STORE:
            self._lost.discard(move.key)
        elif move.key in self._lost:
            outcome.status = UPSTREAM
            self._forget(move)
            outcome.end_ns = outcome.done_ns = clock()
            return outcome
        try:
            if move.kind not in (DROP, DELETE):
                self._transfer(move, staging, outcome)
            if move.kind in _LEAVES and move.from_tier >= 0:
                self._tier(move.from_tier).discard(move.key)
        except OSError as error:
            outcome.status, outcome.error = ERROR, f"{type(error).__name__}: {error}"
            self._lost.add(move.key)
            self._forget(move)
        outcome.done_ns = clock()
        outcome.end_ns = outcome.done_ns - outcome.verify_ns
        return outcome

    def is_quick(self, move: Move) -> bool:
        """Whether the move takes no longer than waking another thread does."""
        tiers = (move.from_tier, move.to_tier)
        return move.kind in _NO_IO or not any(tier >= 0 and self._tier(tier).chunked for tier in tiers)

    def _tier(self, tier: int) -> Tier:
        found = self._tiers[tier]
        assert found is not None, "the plan uses a tier that the run does not have"
        return found

    def _forget(self, move: Move) -> None:
        """Remove what a lost key left in the tiers that the plan takes it out of or was bringing it into."""
        for tier in (move.from_tier if move.kind in _LEAVES else -1, move.to_tier):
            if tier >= 0:
                try:
                    self._tier(tier).discard(move.key)
                except OSError:  # the move's own row carries the error
                    continue

    def _transfer(self, move: Move, staging: Staging, outcome: Outcome) -> None:
        """Read the object, write it, or both."""
        source = self._tier(move.from_tier) if move.from_tier >= 0 else None
        if move.to_tier < 0:
            assert source is not None, "a move that moves nothing"
            self._read(move, source, staging, outcome, None)
            return
        tier = self._tier(move.to_tier)
        if source is None:  # its bytes are made before the object is
            self._prepare(move, 0, min(staging.chunk, move.size), staging.buffer, outcome)
        began = clock()
        with tier.create(move.key, move.size) as target:
            outcome.write_ns += clock() - began
            try:
                if source is not None:
                    self._read(move, source, staging, outcome, target)
                else:
                    self._write(move, tier, staging, outcome, target)
                began = clock()
                target.finish()
                outcome.write_ns += clock() - began
            finally:
                outcome.device_write_ns = target.device_ns

    def _read(self, move: Move, tier: Tier, staging: Staging, outcome: Outcome, target: Object | None) -> None:
        """Piece by piece: read, verify, and write to the target if there is one."""
        step = staging.chunk if tier.chunked or target is not None else move.size
        landing = staging.landing if move.kind == HIT and move.from_tier in staging.landing_reads else None
        began = clock()
        with tier.open(move.key, move.size) as source:
            outcome.read_ns += clock() - began
            try:
                for offset in range(0, move.size, step):
                    length = min(step, move.size - offset)
                    began = clock()
                    source.read(offset, length, landing or staging.buffer)
                    outcome.read_ns += clock() - began
                    if self._verify != "off" and tier.keeps_bytes:
                        self._check(move, offset, length, staging, outcome, landing)
                    if target is not None:
                        self._prepare(move, offset, length, staging.buffer, outcome)
                        began = clock()
                        target.write(offset, length, staging.buffer)
                        outcome.write_ns += clock() - began
            finally:
                outcome.device_read_ns = source.device_ns

    def _write(self, move: Move, tier: Tier, staging: Staging, outcome: Outcome, target: Object) -> None:
        """Piece by piece: make the object's bytes, the first of which are there, and write them."""
        step = staging.chunk if tier.chunked else move.size
        landing = staging.landing if move.to_tier in staging.landing_writes else None
        for offset in range(0, move.size, step):
            length = min(step, move.size - offset)
            if offset:
                self._prepare(move, offset, length, staging.buffer, outcome)
            began = clock()
            if landing is not None:
                landing.stage(aligned(length), staging.buffer)
                outcome.verify_ns += clock() - began
                began = clock()
            target.write(offset, length, landing or staging.buffer)
            outcome.write_ns += clock() - began

    def _prepare(self, move: Move, offset: int, length: int, buffer: Buffer, outcome: Outcome) -> None:
        """Make the bytes of a store, and for any write what O_DIRECT pads it with, so that no sector repeats."""
        if not self._tier(move.to_tier).keeps_bytes:
            return
        began, whole = clock(), aligned(length)
        if move.from_tier < 0:
            self._payload.fill(buffer.words, move.key, offset, whole)
        elif whole > length:
            self._payload.pad(buffer.words, move.key, offset, length, whole)
        outcome.verify_ns += clock() - began

    def _check(
        self, move: Move, offset: int, length: int, staging: Staging, outcome: Outcome, landing: Landing | None
    ) -> None:
        words, began = staging.buffer.words, clock()
        if landing is not None:
            landing.fetch(length, staging.buffer)
        if self._verify == "stamps":
            wrong = self._payload.check_stamps(words, move.key, offset, length)
        else:
            wrong = self._payload.check_bytes(words, staging.scratch.words, move.key, offset, length)
        outcome.verify_ns += clock() - began
        if wrong:
            raise CorruptionError(wrong)
