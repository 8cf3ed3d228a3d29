"""libCacheSim's oracleGeneral (.zst), in packed, little-endian records of 24 bytes.

Fields: u32 time (s), u64 object, u32 size (bytes), i64 next access: the number of the next record
 on
the same object, or -1. Source: https://github.com/1a1a11a/libCacheSim
"""

from collections import Counter
from typing import Final

import numpy as np

from tracegen.arrays import Ints
from tracegen.describe.reuse import previous_rows
from tracegen.errors import InputError
from tracegen.formats.export import Export
from tracegen.formats.format import Chunks, Format

RECORD: Final = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])


def write(export: Export, counts: Counter[str]) -> Chunks:
    """Write one record per write and read.

    It holds 32 bytes per record, because the next access is only known from later records.
    """
    next_access = _find_next_accesses(export)
    for batch in export.read_touches(counts, "records"):
        second = batch["time_ns"] // 10**9
        for unit, values in (("bytes", batch["bytes"]), ("seconds", second)):
            if int(values.max(initial=0)) >= 2**32:
                problem = f"{values.max()} {unit} do not fit the 32 bits of oracle-general"
                row = f"{export.trace.path}, row {batch['op_id'][values.argmax()]}"
                raise InputError(problem, "choose a smaller `bytes_per_token`, or export a slice", subject=row)
        records = np.empty(len(second), RECORD)
        records["time"] = second
        records["object"] = batch["key"]
        records["size"] = batch["bytes"]
        records["next"] = next_access[counts["records"] - len(records) : counts["records"]]
        yield records.tobytes()


def _find_next_accesses(export: Export) -> Ints:
    """Return the number of the next write or read on the same key, or -1; shape (records,)."""
    keys = np.concatenate([batch["key"] for batch in export.read_touches(Counter(), "records")])
    previous = previous_rows(keys)
    next_access = np.full(len(keys), -1, np.int64)
    next_access[previous[previous >= 0]] = np.flatnonzero(previous >= 0)
    return next_access


FORMAT: Final = Format(write=write, counts_bytes=True)
