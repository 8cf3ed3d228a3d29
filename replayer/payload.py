"""What is written to the tiers: incompressible bytes, every sector stamped, a pure function of (seed, key, offset).

A block of 1 MiB is a pool of random words (from the seed) xor one word per (key, block); then the first word of each
512-byte sector is replaced by its stamp, a bijection of (key, sector). So no two sectors are equal, a sector found in a
wrong place names where it belongs, and a fill costs one pass over memory.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]

SECTOR: Final = 512
BLOCK: Final = 1 << 20
_WORDS: Final = SECTOR // 8
_SECTOR_BITS: Final = 28  # objects of up to 128 GiB, keys below 2^36
MAX_OBJECT: Final = SECTOR << _SECTOR_BITS

# The finaliser of SplitMix64 (Steele et al., OOPSLA'14), a bijection on 64-bit words, and its inverse.
_MUL: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_UNMUL: Final = (np.uint64(0x96DE1B173F119089), np.uint64(0x319642B2D24D8EC3))
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))


def mix(words: U64) -> U64:
    """SplitMix64's finaliser on every word."""
    words = (words ^ (words >> _SHIFTS[0])) * _MUL[0]
    words = (words ^ (words >> _SHIFTS[1])) * _MUL[1]
    return words ^ (words >> _SHIFTS[2])


def unmix(words: U64) -> U64:
    """The inverse of `mix`."""
    for shift, factor in zip(reversed(_SHIFTS), (*reversed(_UNMUL), np.uint64(1)), strict=True):
        words = (words ^ (words >> shift) ^ (words >> (shift + shift))) * factor
    return words


class Payload:
    """Fills and checks buffers; a buffer is an array of uint64 that begins at a sector of an object."""

    def __init__(self, seed: int) -> None:
        words = np.random.Philox(key=seed).random_raw(BLOCK // 8)
        self._pool: U64 = words
        self._salt = np.uint64(int(words[0]))

    def _stamps(self, key: int, sector: int, count: int) -> U64:
        places = np.arange(count, dtype=np.uint64) + np.uint64((key << _SECTOR_BITS) | sector)
        return mix(places ^ self._salt)

    def fill(self, buffer: U64, key: int, offset: int, length: int) -> None:
        """Write the bytes offset … offset+length-1 of an object, rounded up to whole sectors.

        Args:
            buffer: at least `length` bytes, rounded up to sectors.
            key: the object, below 2^36.
            offset: in bytes, a multiple of a sector.
            length: in bytes.
        """
        sectors = -(-length // SECTOR)
        words = buffer[: sectors * _WORDS]
        blocks = range(offset // BLOCK, -(-(offset + length) // BLOCK))
        masks = mix(np.array([(key << _SECTOR_BITS) | block for block in blocks], np.uint64) + self._salt)
        done, start = 0, offset % BLOCK // 8
        for mask in masks:
            part = words[done : done + BLOCK // 8 - start]
            np.bitwise_xor(self._pool[start : start + len(part)], mask, out=part)
            done, start = done + len(part), 0
        words[::_WORDS] = self._stamps(key, offset // SECTOR, sectors)

    def pad(self, buffer: U64, key: int, offset: int, length: int, whole: int) -> None:
        """Continue an object's bytes past offset+length-1, up to `whole` bytes after offset; what is before stays."""
        begin = length // SECTOR * SECTOR
        tail = np.empty((whole - begin) // 8, np.uint64)
        self.fill(tail, key, offset + begin, whole - begin)
        buffer.view(np.uint8)[length:whole] = tail.view(np.uint8)[length - begin :]

    def check_stamps(self, buffer: U64, key: int, offset: int, length: int) -> str | None:
        """Compare the stamp of every sector; returns what is wrong, None if nothing is.

        Args: as `fill`. A last sector of fewer than 8 bytes holds no whole stamp and is passed over.
        """
        sectors = (length + SECTOR - 8) // SECTOR
        found = buffer[: sectors * _WORDS : _WORDS]
        wrong = np.flatnonzero(found != self._stamps(key, offset // SECTOR, sectors))
        if not len(wrong):
            return None
        place = int(unmix(found[wrong[:1]])[0] ^ self._salt)
        sector, origin = offset // SECTOR + int(wrong[0]), (place >> _SECTOR_BITS, place & ((1 << _SECTOR_BITS) - 1))
        holds = f"sector {origin[1]} of key {origin[0]}" if origin[0] < 1 << 32 else "no stamp of this run"
        return (
            f"{len(wrong)} of {sectors} sectors wrong from byte {offset} on: sector {sector} of key {key} holds {holds}"
        )

    def check_bytes(self, buffer: U64, scratch: U64, key: int, offset: int, length: int) -> str | None:
        """Compare every byte; `scratch` is a second buffer of the same size. Returns as `check_stamps`."""
        if stamps := self.check_stamps(buffer, key, offset, length):
            return stamps
        self.fill(scratch, key, offset, length)
        whole = length // 8
        if np.array_equal(buffer[:whole], scratch[:whole]) and length == whole * 8:
            return None
        wrong = np.flatnonzero(buffer.view(np.uint8)[:length] != scratch.view(np.uint8)[:length])
        return (
            f"{len(wrong)} bytes of key {key} wrong, the first at byte {offset + int(wrong[0])}" if len(wrong) else None
        )
