"""What each kind of move does: the I/O, its timing, its verification, and what a failure leaves behind."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from queue import LifoQueue
from time import perf_counter_ns as clock
from typing import Final, Literal

from replayer.ordering import Move
from replayer.payload import BLOCK, Payload
from replayer.schema import STATUSES
from replayer.tiers import ALIGNMENT, Buffer, Tier
from replayer.waterfall import BYPASS, DELETE, DEMOTE, DROP, MISS, PROMOTE, STORE

OK, ERROR, UPSTREAM = range(len(STATUSES))
CHUNK: Final = 4 * BLOCK
STAGING_BYTES: Final = 256 << 20
_NO_IO: Final = frozenset((MISS, BYPASS))
_LEAVES: Final = frozenset((DEMOTE, PROMOTE, DROP, DELETE))

Verify = Literal["off", "stamps", "full"]


class CorruptionError(OSError):
    """What was read is not what was written."""


class Outcome:
    """How a move went; times in nanoseconds. Reads and writes exclude verification and each other."""

    __slots__ = ("device_read_ns", "device_write_ns", "error", "read_ns", "status", "verify_ns", "write_ns")

    def __init__(self) -> None:
        self.status = OK
        self.error: str | None = None
        self.read_ns = self.write_ns = self.device_read_ns = self.device_write_ns = self.verify_ns = 0


class Staging:
    """A bounded pool of buffers, made as they are first needed and handed out most recent first."""

    def __init__(self, verify: Verify) -> None:
        # Only the full check needs a second buffer, to hold what should have been read.
        self._sizes = (CHUNK, CHUNK if verify == "full" else 0)
        self._free: LifoQueue[tuple[Buffer, Buffer] | None] = LifoQueue()
        for _ in range(STAGING_BYTES // sum(self._sizes)):
            self._free.put(None)

    @contextmanager
    def buffers(self) -> Iterator[tuple[Buffer, Buffer]]:
        """A staging buffer and a scratch buffer; waits while all are in use."""
        pair = self._free.get() or (Buffer(self._sizes[0]), Buffer(self._sizes[1]))
        try:
            yield pair
        finally:
            self._free.put(pair)


class Executor:
    """Carries out moves on tiers; calls may overlap as far as the plan's order lets them.

    A key whose move failed is lost: until it is stored anew, its moves are `upstream`, without I/O. What is left of it
    is removed where the plan says that it leaves, because the plan gives that room to others.
    """

    def __init__(self, tiers: Sequence[Tier | None], seed: int, verify: Verify) -> None:
        self._tiers, self._payload, self._verify = tiers, Payload(seed), verify
        self._lost: set[int] = set()

    def run(self, move: Move, buffer: Buffer, scratch: Buffer) -> Outcome:
        """Execute one move; an I/O error or a wrong byte is an outcome, not an exception."""
        outcome = Outcome()
        if move.kind in _NO_IO:
            return outcome
        if move.kind == STORE:
            self._lost.discard(move.key)
        elif move.key in self._lost:
            outcome.status = UPSTREAM
            self._forget(move)
            return outcome
        try:
            if move.kind not in (DROP, DELETE):
                self._transfer(move, buffer, scratch, outcome)
            if move.kind in _LEAVES and move.from_tier >= 0:
                self._tier(move.from_tier).discard(move.key)
        except OSError as error:
            outcome.status, outcome.error = ERROR, f"{type(error).__name__}: {error}"
            self._lost.add(move.key)
            self._forget(move)
        return outcome

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

    def _transfer(self, move: Move, buffer: Buffer, scratch: Buffer, outcome: Outcome) -> None:
        """Chunk by chunk: read and verify the object, or make its bytes; then write it where it goes."""
        source = target = None
        with ExitStack() as opened:
            try:
                if move.from_tier >= 0:
                    began = clock()
                    source = opened.enter_context(self._tier(move.from_tier).open(move.key, move.size))
                    outcome.read_ns += clock() - began
                if move.to_tier >= 0:
                    began = clock()
                    target = opened.enter_context(self._tier(move.to_tier).create(move.key, move.size))
                    outcome.write_ns += clock() - began
                for offset in range(0, move.size, CHUNK):
                    length = min(CHUNK, move.size - offset)
                    began = clock()
                    if source is not None:
                        source.read(offset, length, buffer)
                        read = clock()
                        outcome.read_ns += read - began
                        self._check(move, offset, length, buffer, scratch)
                        outcome.verify_ns += clock() - read
                    elif self._tier(move.to_tier).keeps_bytes:
                        # What O_DIRECT pads is filled like the rest, so that no sector repeats on the device.
                        self._payload.fill(buffer.words, move.key, offset, -(-length // ALIGNMENT) * ALIGNMENT)
                    if target is not None:
                        began = clock()
                        target.write(offset, length, buffer)
                        outcome.write_ns += clock() - began
            finally:
                outcome.device_read_ns = source.device_ns if source else 0
                outcome.device_write_ns = target.device_ns if target else 0

    def _check(self, move: Move, offset: int, length: int, buffer: Buffer, scratch: Buffer) -> None:
        wrong = None
        if self._verify == "off" or not self._tier(move.from_tier).keeps_bytes:
            return
        if self._verify == "stamps":
            wrong = self._payload.check_stamps(buffer.words, move.key, offset, length)
        else:
            wrong = self._payload.check_bytes(buffer.words, scratch.words, move.key, offset, length)
        if wrong:
            raise CorruptionError(wrong)
