"""libCacheSim's oracleGeneral (.zst): u32 time (s) · u64 object · u32 size (bytes) · i64 next access (-1: never).

Records are packed, little-endian, 24 bytes each. The next access is the number of the record that has
the object next.
"""

from pathlib import Path
from typing import Final

import numpy as np

from tracegen.arrays import IdTable
from tracegen.describe.reuse import previous_rows
from tracegen.errors import InputError
from tracegen.files.outputs import opened
from tracegen.formats.export import ExportOptions
from tracegen.schema import DELETE, Trace

COUNTS_BYTES = True
RECORD: Final = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])


def write(trace: Trace, output: Path, options: ExportOptions) -> dict[str, int]:
    """One record per write and read.

    Holds 8 bytes per record: what comes next is only known from what comes later.

    Raises:
        InputError: `bytes_per_token` is missing, or an object of 4 GiB or a time of 136 years does not fit.
    """
    each, counts = options.object_bytes("oracleGeneral"), {"records": 0, "deletes_left_out": 0}
    following = _next_accesses(trace)
    with opened(output, force=options.force) as file:
        for batch in trace.batches():
            kept = np.flatnonzero(batch["op"] != DELETE)
            size = batch["tokens"][kept].astype(np.int64) * each
            second = batch["time_ns"][kept] // 10**9
            for name, values in (("bytes", size), ("seconds", second)):
                if int(values.max(initial=0)) >= 2**32:
                    row = int(batch["op_id"][kept][values.argmax()])
                    raise InputError(f"{trace.path}, row {row}: {values.max()} {name} do not fit oracleGeneral.")
            records = np.empty(len(kept), RECORD)
            records["time"], records["object"], records["size"] = second, batch["key"][kept], size
            records["next"] = following[counts["records"] : counts["records"] + len(kept)]
            file.write(records.tobytes())
            counts["records"] += len(kept)
            counts["deletes_left_out"] += len(batch["op_id"]) - len(kept)
    return counts


def _next_accesses(trace: Trace) -> np.ndarray:
    """Of each write and read, the number of the next one on its key; -1: none."""
    following, latest, count = np.full(trace.ops, -1, np.int64), IdTable(np.int64), 0
    for batch in trace.batches():
        keys = batch["key"][batch["op"] != DELETE]
        latest.cover(keys)  # its record + 1; 0: none yet
        number, previous = count + np.arange(len(keys)), previous_rows(keys)
        before = np.where(previous >= 0, count + previous, latest[keys] - 1)
        following[before[before >= 0]] = number[before >= 0]
        latest[keys] = number + 1  # of rows that set one entry the last one stays
        count += len(keys)
    return following
