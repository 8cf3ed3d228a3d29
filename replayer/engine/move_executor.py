"""Moves that touch a tier outside compiled code (a GPU), made as `core/engine.c` makes the others.

Time spent on making and verifying payload, `verify_ns`, is part of no other interval of a move.
"""

import errno
from collections.abc import Callable, Sequence
from time import perf_counter_ns as clock
from typing import Final

from replayer.bindings.compiled import Job
from replayer.bindings.faults import CorruptionError, make_fault
from replayer.planning.executing import VERIFY
from replayer.planning.moves import DELETE, DEMOTE, DROP, HIT, PROMOTE
from replayer.record.columns import STATUSES
from replayer.tiers.base import Buffer, DeviceMemory, HostBuffer, align_up
from replayer.tiers.native import NativeObject, NativeTier
from replayer.tiers.payload import Payload

OK, ERROR, UPSTREAM = range(len(STATUSES))
_LEAVES: Final = frozenset((DEMOTE, PROMOTE, DROP, DELETE))
"""Moves after which the source no longer holds the object."""


class Staging:
    """The buffers of one worker.

    Args:
        chunk: bytes moved at a time.
        make: allocates the host buffer.
        on_device: a buffer in device memory, if some moves end or begin there.
        device_reads: tiers whose hits end in `on_device`.
        device_writes: tiers whose stores begin in `on_device`.

    Attributes:
        chunk: bytes moved at a time.
        host: the buffer in host memory.
        address: of `host`.
    """

    def __init__(
        self,
        chunk: int,
        make: Callable[[int], HostBuffer] = HostBuffer,
        on_device: DeviceMemory | None = None,
        device_reads: frozenset[int] = frozenset(),
        device_writes: frozenset[int] = frozenset(),
    ) -> None:
        self.chunk = chunk
        self.host = make(chunk)
        self.address = self.host.address
        self._on_device = on_device
        self._device_reads = device_reads
        self._device_writes = device_writes

    def read_buffer(self, job: Job) -> Buffer:
        """Return the buffer that a move reads into."""
        if self._on_device is not None and job.kind == HIT and job.source in self._device_reads:
            return self._on_device
        return self.host

    def write_buffer(self, job: Job) -> Buffer:
        """Return the buffer that a move writes from."""
        if self._on_device is not None and job.source < 0 and job.target in self._device_writes:
            return self._on_device
        return self.host


class MoveExecutor:
    """Makes moves through the Python protocol of tiers.

    Calls may overlap, from several workers, as far as the plan's dependencies allow; there is no
    state besides the job and the worker's buffers, so there is no lock.

    Args:
        tiers: by number; None for a tier that the run does not have.
        payload: makes and checks the bytes of objects.
        verify: how the bytes of reads are checked, as `EngineSettings` codes it.
    """

    def __init__(self, tiers: Sequence[NativeTier | None], payload: Payload, verify: int) -> None:
        self._tiers = tiers
        self._payload = payload
        self._verifies = verify != VERIFY["off"]
        self._every_byte = verify == VERIFY["full"]

    def run(self, job: Job, staging: Staging) -> None:
        """Make one move; an I/O error or a wrong byte is noted in the job, not raised."""
        # The same clock as compiled code has: CLOCK_MONOTONIC.
        job.start_ns = clock()
        # A move that this one depends on has failed: its object is not where the plan has it.
        if job.status == UPSTREAM:
            self._forget(job)
        else:
            try:
                if job.kind not in (DROP, DELETE):
                    self._transfer(job, staging)
                if job.kind in _LEAVES and job.source >= 0:
                    self._tier(job.source).discard(job.key)
            except OSError as error:
                job.status = ERROR
                job.fault = make_fault(error)
                self._forget(job)
        job.done_ns = clock()

    def _tier(self, number: int) -> NativeTier:
        tier = self._tiers[number]
        assert tier is not None, "the plan uses a tier that the run does not have"
        return tier

    def _forget(self, job: Job) -> None:
        """Remove a lost key from the tiers that the move takes it out of or brings it into."""
        for number in (job.source if job.kind in _LEAVES else -1, job.target):
            if number >= 0:
                try:
                    self._tier(number).discard(job.key)
                except OSError:  # the move's own row carries the error
                    continue

    def _transfer(self, job: Job, staging: Staging) -> None:
        """Read the object, write it, or both."""
        if job.target < 0:
            self._read(job, staging, None)
            return
        if job.source < 0:  # a store: its first bytes are made before the object is created
            self._prepare(job, 0, min(staging.chunk, job.size), staging.host)
        began = clock()
        with self._tier(job.target).create(job.key, job.size) as target:
            job.write_ns += clock() - began
            try:
                if job.source >= 0:
                    self._read(job, staging, target)
                else:
                    for offset in range(0, job.size, staging.chunk):
                        self._write(job, offset, min(staging.chunk, job.size - offset), staging, target)
                began = clock()
                target.finish()
                job.write_ns += clock() - began
            finally:
                job.device_write_ns = target.device_ns

    def _read(self, job: Job, staging: Staging, target: NativeObject | None) -> None:
        """Read chunk by chunk: verify each, and write it to the target if there is one."""
        tier = self._tier(job.source)
        buffer = staging.read_buffer(job)
        # A tier that keeps nothing returns whatever the buffer had.
        is_checked = self._verifies and tier.keeps_bytes
        began = clock()
        with tier.open(job.key, job.size) as source:
            job.read_ns += clock() - began
            try:
                for offset in range(0, job.size, staging.chunk):
                    length = min(staging.chunk, job.size - offset)
                    began = clock()
                    source.read(offset, length, buffer)
                    job.read_ns += clock() - began
                    if is_checked:
                        self._check(job, offset, length, staging.host, buffer)
                    if target is not None:
                        self._write(job, offset, length, staging, target)
            finally:
                job.device_read_ns = source.device_ns

    def _write(self, job: Job, offset: int, length: int, staging: Staging, target: NativeObject) -> None:
        """Write a chunk of bytes that were read, or that are made here."""
        if job.source >= 0 or offset:  # the first bytes of a store were made before
            self._prepare(job, offset, length, staging.host)
        buffer = staging.write_buffer(job)
        began = clock()
        if not isinstance(buffer, HostBuffer):
            buffer.copy_from_host(staging.host, align_up(length))
            job.verify_ns += clock() - began
            began = clock()
        target.write(offset, length, buffer)
        job.write_ns += clock() - began

    def _prepare(self, job: Job, offset: int, length: int, host: HostBuffer) -> None:
        """Make the bytes of a store; for other writes, the padding that O_DIRECT needs.

        The padding is payload, too, so that no sector repeats.
        """
        if not self._tier(job.target).keeps_bytes:
            return
        began = clock()
        whole = align_up(length)
        if job.source < 0:
            self._payload.fill(host.words, job.key, offset, whole)
        elif whole > length:
            self._payload.pad(host.words, job.key, offset, length, whole)
        job.verify_ns += clock() - began

    def _check(self, job: Job, offset: int, length: int, host: HostBuffer, buffer: Buffer) -> None:
        """Verify the bytes of a chunk.

        Raises:
            CorruptionError: they are not the bytes written.
        """
        began = clock()
        if not isinstance(buffer, HostBuffer):
            buffer.copy_to_host(host, length)
        problem = self._payload.check(host.words, job.key, offset, length, every_byte=self._every_byte)
        job.verify_ns += clock() - began
        if problem:
            raise CorruptionError(errno.EIO, problem)
