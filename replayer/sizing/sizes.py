"""The sizes that a search tries: whole MiB, 32 of them to each doubling."""

from decimal import Decimal
from typing import Final

STEPS: Final = 32
"""Sizes per doubling: a step is at most 1/32 of the size below it, and at least 1 MiB."""
_MIB: Final = 1 << 20
_MIB_PER_GIB: Final = 1024


def size_mib(index: int) -> int:
    """Return the size with this index, in MiB: 0, 1, …, 63, 64, 66, …, 126, 128, 132, ..."""
    if index < STEPS:
        return index
    doublings, step = divmod(index - STEPS, STEPS)
    return (STEPS + step) << doublings


def size_gib(index: int) -> Decimal:
    """Return the size with this index in GiB, exactly."""
    return Decimal(size_mib(index)) / _MIB_PER_GIB


def index_of(size_bytes: int) -> int:
    """Return the index of the least size of at least this number of bytes."""
    wanted = -(-size_bytes // _MIB)
    if wanted <= STEPS:
        return wanted
    doublings = max((wanted - 1).bit_length() - STEPS.bit_length(), 0)
    return doublings * STEPS + -(-wanted // (1 << doublings))


def halve(index: int) -> int:
    """Return the index of half the size, rounded down."""
    if index >= 2 * STEPS:
        return index - STEPS
    return size_mib(index) // 2
