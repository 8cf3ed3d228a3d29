"""Moves that touch a tier outside compiled code (a GPU), made as `core/engine.c` makes the others."""

import errno
from collections.abc import Callable, Sequence
from time import perf_counter_ns as clock
from typing import Final, Literal

from replayer.bindings.compiled import Job, address
from replayer.bindings.faults import CorruptionError, noted
from replayer.planning.moves import DELETE, DEMOTE, DROP, HIT, PROMOTE
from replayer.record.columns import STATUSES
from replayer.tiers.base import Buffer, Landing, Object, Tier, aligned
from replayer.tiers.payload import Payload

OK, ERROR, UPSTREAM = range(len(STATUSES))
_LEAVES: Final = frozenset((DEMOTE, PROMOTE, DROP, DELETE))
Verify = Literal["off", "stamps", "full"]


class Staging:
    """One worker's buffers: the host end of its moves.

    Attributes:
        chunk: bytes moved at a time.
        address: of the buffer.
        landing: a buffer in device memory; hits from the tiers in `landing_reads` end there, stores to those in
            `landing_writes` begin there.
    """

    def __init__(self, chunk: int, make: Callable[[int], Buffer] = Buffer) -> None:
        self.chunk, self.buffer = chunk, make(chunk)
        self.address = address(self.buffer.words)
        self.landing: Landing | None = None
        self.landing_reads: frozenset[int] = frozenset()
        self.landing_writes: frozenset[int] = frozenset()


class Elsewhere:
    """Makes moves through the tiers' Python face; calls may overlap as far as the plan's order lets them."""

    def __init__(self, tiers: Sequence[Tier | None], payload: Payload, verify: Verify) -> None:
        self._tiers, self._payload, self._verify = tiers, payload, verify

    def run(self, job: Job, staging: Staging) -> None:
        """Make one move; an I/O error or a wrong byte is noted in the job, not raised."""
        job.start_ns = clock()
        if job.status == UPSTREAM:
            self._forget(job)
        else:
            try:
                if job.kind not in (DROP, DELETE):
                    self._transfer(job, staging)
                if job.kind in _LEAVES and job.source >= 0:
                    self._tier(job.source).discard(job.key)
            except OSError as error:
                job.status, job.fault = ERROR, noted(error)
                self._forget(job)
        job.done_ns = clock()

    def _tier(self, tier: int) -> Tier:
        found = self._tiers[tier]
        assert found is not None, "the plan uses a tier that the run does not have"
        return found

    def _forget(self, job: Job) -> None:
        """Remove what a lost key left in the tiers that the plan takes it out of or was bringing it into."""
        for tier in (job.source if job.kind in _LEAVES else -1, job.target):
            if tier >= 0:
                try:
                    self._tier(tier).discard(job.key)
                except OSError:  # the move's own row carries the error
                    continue

    def _transfer(self, job: Job, staging: Staging) -> None:
        """Read the object, write it, or both."""
        source = self._tier(job.source) if job.source >= 0 else None
        if job.target < 0:
            assert source is not None, "a move that moves nothing"
            self._read(job, source, staging, None)
            return
        tier = self._tier(job.target)
        if source is None:  # its bytes are made before the object is
            self._prepare(job, 0, min(staging.chunk, job.size), staging.buffer)
        began = clock()
        with tier.create(job.key, job.size) as target:
            job.write_ns += clock() - began
            try:
                if source is not None:
                    self._read(job, source, staging, target)
                else:
                    self._write(job, staging, target)
                began = clock()
                target.finish()
                job.write_ns += clock() - began
            finally:
                job.device_write_ns = target.device_ns

    def _read(self, job: Job, tier: Tier, staging: Staging, target: Object | None) -> None:
        """Piece by piece: read, verify, and write to the target if there is one."""
        landing = staging.landing if job.kind == HIT and job.source in staging.landing_reads else None
        began = clock()
        with tier.open(job.key, job.size) as source:
            job.read_ns += clock() - began
            try:
                for offset in range(0, job.size, staging.chunk):
                    length = min(staging.chunk, job.size - offset)
                    began = clock()
                    source.read(offset, length, landing or staging.buffer)
                    job.read_ns += clock() - began
                    if self._verify != "off" and tier.keeps_bytes:
                        self._check(job, offset, length, staging, landing)
                    if target is not None:
                        self._prepare(job, offset, length, staging.buffer)
                        began = clock()
                        target.write(offset, length, staging.buffer)
                        job.write_ns += clock() - began
            finally:
                job.device_read_ns = source.device_ns

    def _write(self, job: Job, staging: Staging, target: Object) -> None:
        """Piece by piece: make the object's bytes, the first of which are there, and write them."""
        landing = staging.landing if job.target in staging.landing_writes else None
        for offset in range(0, job.size, staging.chunk):
            length = min(staging.chunk, job.size - offset)
            if offset:
                self._prepare(job, offset, length, staging.buffer)
            began = clock()
            if landing is not None:
                landing.stage(aligned(length), staging.buffer)
                job.verify_ns += clock() - began
                began = clock()
            target.write(offset, length, landing or staging.buffer)
            job.write_ns += clock() - began

    def _prepare(self, job: Job, offset: int, length: int, buffer: Buffer) -> None:
        """Make the bytes of a store, and for any write what O_DIRECT pads it with, so that no sector repeats."""
        if not self._tier(job.target).keeps_bytes:
            return
        began, whole = clock(), aligned(length)
        if job.source < 0:
            self._payload.fill(buffer.words, job.key, offset, whole)
        elif whole > length:
            self._payload.pad(buffer.words, job.key, offset, length, whole)
        job.verify_ns += clock() - began

    def _check(self, job: Job, offset: int, length: int, staging: Staging, landing: Landing | None) -> None:
        words, began = staging.buffer.words, clock()
        if landing is not None:
            landing.fetch(length, staging.buffer)
        compare = self._payload.check_stamps if self._verify == "stamps" else self._payload.check_bytes
        wrong = compare(words, job.key, offset, length)
        job.verify_ns += clock() - began
        if wrong:
            raise CorruptionError(errno.EIO, wrong)
