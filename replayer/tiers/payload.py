"""The bytes of objects: incompressible, with every sector stamped.

They are a function of (seed, nonce, key, offset). A block of 1 MiB is a pool of random words (from
seed and nonce) xor one word per (key, block); then the first word of each 512-byte sector is
replaced by its stamp, a bijection of (key, sector). `core/payload.c` makes and compares the bytes.
"""

import ctypes
from typing import Final

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import address, call

U64 = NDArray[np.uint64]

SECTOR: Final = 512
BLOCK: Final = 1 << 20
_SECTOR_BITS: Final = 28  # objects of up to 128 GiB, keys below 2^36
MAX_OBJECT: Final = SECTOR << _SECTOR_BITS
_TEXT: Final = 240  # bytes of a message of the core

_new = call("payload_new")
_free = call("payload_free")
_fill = call("payload_fill")
_pad = call("payload_pad")
_check = call("payload_check")


class Payload:
    """The payload of one run: fills and checks buffers.

    A buffer is an array of uint64 that begins at a sector of an object.

    Args:
        seed: of the trace, plus the rank; below 2^64.
        nonce: of one run, below 2^64. The payloads of two nonces share no block, and no stamp of
            one is right in the other.

    Attributes:
        handle: the compiled core's payload.
    """

    def __init__(self, seed: int, nonce: int = 0) -> None:
        # Counter-based: every process of a run makes the same pool from the same key.
        pool = np.random.Philox(key=seed | nonce << 64).random_raw(BLOCK // 8)
        self.handle: int = _new(address(pool))

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            _free(self.handle)

    def fill(self, buffer: U64, key: int, offset: int, length: int) -> None:
        """Write the bytes offset … offset+length-1 of an object, rounded up to whole sectors.

        Args:
            buffer: at least `length` bytes, rounded up to sectors.
            key: the object, below 2^36.
            offset: in bytes, a multiple of a sector.
            length: in bytes.
        """
        _fill(self.handle, address(buffer), key, offset, length)

    def pad(self, buffer: U64, key: int, offset: int, length: int, whole: int) -> None:
        """Write an object's bytes from offset+length up to offset+whole; leave those before."""
        _pad(self.handle, address(buffer), key, offset, length, whole)

    def check(self, buffer: U64, key: int, offset: int, length: int, *, every_byte: bool = True) -> str | None:
        """Compare every byte, or the stamp of every sector; otherwise arguments as for `fill`.

        A last sector of fewer than 8 bytes holds no whole stamp and is skipped.

        Returns:
            What is wrong, in words; None if nothing is.
        """
        text = ctypes.create_string_buffer(_TEXT)
        memory = address(buffer)
        is_wrong = _check(self.handle, memory, key, offset, length, every_byte, text, _TEXT)
        return text.value.decode() if is_wrong else None
