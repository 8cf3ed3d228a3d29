"""The figures of a log so far, as the compiled core adds them up."""

import ctypes
from ctypes import Structure, c_int64
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import address, call, view

_BUCKETS: Final = 1888
_EXACT: Final = 32
"""Times in ns that have a bucket each; then each power of two has as many buckets."""
_add = call("figures_add")


class FiguresStruct(Structure):
    """The figures of a log so far, as `Figures` in engine.h; histograms of times in ns."""

    _fields_ = (
        ("bytes", c_int64 * 2 * 3),
        *((name, c_int64) for name in ("requests", "is_steady", "prompt_tokens", "hit_tokens")),
        *((name, c_int64 * _BUCKETS) for name in ("nvme_reads", "first_bytes")),
    )


class LogFigures:
    """The figures of a log so far.

    Args:
        requests: number of requests of the trace; 0: they have no time, as under pace asap.

    Attributes:
        struct: of the compiled core.
    """

    def __init__(self, requests: int) -> None:
        self.struct = FiguresStruct(requests=requests)
        self._requests = np.zeros((requests, 2), np.int64)

    def add(self, records: NDArray[Any]) -> None:
        """Add rows of the log, of dtype RECORD."""
        requests = address(self._requests)
        _add(ctypes.byref(self.struct), address(records), len(records), requests)

    def tier_bytes(self) -> list[tuple[int, int]]:
        """Return the bytes read and written so far, by tier."""
        return [(read, written) for read, written in self.struct.bytes]

    def nvme_read_ns(self, share: float) -> float | None:
        """Return a quantile of the time to read an object from nvme; None: nothing was read."""
        return self._find_quantile("nvme_reads", share)

    def first_byte_ns(self, share: float) -> float | None:
        """Return a quantile of the time to first byte of requests; None: it is not timed."""
        return self._find_quantile("first_bytes", share)

    def _find_quantile(self, name: str, share: float) -> float | None:
        """Return the middle of the bucket that holds the time at a share of all times."""
        field = getattr(FiguresStruct, name)
        counts = view(ctypes.addressof(self.struct) + field.offset, _BUCKETS, np.dtype(np.int64))
        ends = np.cumsum(counts)
        if not ends[-1]:
            return None
        rank = max(1, int(np.ceil(share * ends[-1])))
        return find_middle(int(np.searchsorted(ends, rank)))


def find_middle(bucket: int) -> float:
    """Return the middle of a bucket's times, in ns."""
    if bucket < _EXACT:
        return float(bucket)
    octave, step = divmod(bucket, _EXACT)
    width = 1 << (octave - 1)
    return (_EXACT + step) * width + (width - 1) / 2
