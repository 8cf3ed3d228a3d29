"""Preconditioning: write to the nvme tier before a run, so that the drive is not measured fresh."""

from collections.abc import Iterator
from itertools import count
from time import monotonic
from typing import Final

from replayer.options.settings import Settings
from replayer.record.run_info import Precondition
from replayer.tiers.base import ALIGNMENT, HostBuffer, align_up
from replayer.tiers.native import NativeTier
from replayer.tiers.payload import Payload
from tracegen.errors import InputError
from tracegen.progress import Advance

_OBJECT: Final = 64 << 20  # bytes of one object
_FIRST_KEY: Final = 1 << 34  # above the keys of every trace


def precondition(
    nvme: NativeTier | None, settings: Settings, room: int, payload: Payload, advance: Advance
) -> Precondition | None:
    """Write `settings.control.precondition` to the nvme tier and remove it again; return what it took.

    The tier is emptied whenever it is full.

    Args:
        nvme: the tier; None if the run has none on a disk.
        settings: of the run.
        room: bytes that the tier may hold.
        payload: makes the bytes.
        advance: takes the bytes written since its last call.

    Raises:
        InputError: there is no nvme tier on a disk, or it cannot be written.
    """
    left = int(settings.control.precondition * 2**30)
    if not left:
        return None
    if nvme is None:
        problem = "writes to the nvme tier, and this run has none on a disk"
        raise InputError(problem, "leave it out, or give the run an nvme tier", setting="precondition")
    began = monotonic()
    try:
        for size in _write_objects(nvme, left, room, HostBuffer(settings.chunk), payload):
            advance(size)
    except OSError as error:
        problem = f"{settings.devices.cache_dir}: {error.strerror}"
        raise InputError(problem, "ask for less", setting="precondition") from None
    return Precondition(gib=settings.control.precondition, s=monotonic() - began)


def _write_objects(nvme: NativeTier, left: int, room: int, buffer: HostBuffer, payload: Payload) -> Iterator[int]:
    """Write objects and yield their bytes; remove them whenever there is no room for another, and at the end."""
    stored: list[int] = []
    for key in count(_FIRST_KEY):  # each object has a key of its own: no bytes are written twice
        if not left or (len(stored) + 1) * _OBJECT > room:
            while stored:
                nvme.discard(stored.pop())
        if not left:
            break
        size = min(_OBJECT, left, max(room, ALIGNMENT))
        stored.append(key)
        _write_object(nvme, key, size, buffer, payload)
        left -= size
        yield size


def _write_object(nvme: NativeTier, key: int, size: int, buffer: HostBuffer, payload: Payload) -> None:
    chunk = len(buffer.view)
    with nvme.create(key, size) as target:
        for offset in range(0, size, chunk):
            length = min(chunk, size - offset)
            payload.fill(buffer.words, key, offset, align_up(length))  # direct I/O writes whole blocks
            target.write(offset, length, buffer)
