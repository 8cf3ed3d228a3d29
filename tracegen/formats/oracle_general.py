"""libCacheSim's oracleGeneral (.zst), in packed, little-endian records of 24 bytes.

Fields: u32 time (s), u64 object, u32 size (bytes), i64 next access: the number of the next record
    on
the same object, or -1. Source: https://github.com/1a1a11a/libCacheSim
"""

from pathlib import Path
from typing import Final

import numpy as np

from tracegen.arrays import IdTable, Ints
from tracegen.describe.reuse import previous_rows
from tracegen.errors import InputError
from tracegen.formats.export import ExportOptions
from tracegen.formats.format import Format
from tracegen.outputs import open_output
from tracegen.trace.columns import DELETE
from tracegen.trace.reading import Trace

RECORD: Final = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])


def write(trace: Trace, output: Path, options: ExportOptions) -> dict[str, int]:
    """Write one record per write and read.

    It holds 8 bytes per record, because the next access is only known from later records.

    Raises:
        InputError: `bytes_per_token` is missing, or an object of 4 GiB or a time of 136 years does
            not fit.
    """
    token_bytes = options.require_bytes_per_token("oracle-general")
    counts = {"records": 0, "deletes_left_out": 0}
    next_access = _find_next_accesses(trace)
    with open_output(output, force=options.force) as file:
        for batch in trace.batches():
            kept = np.flatnonzero(batch["op"] != DELETE)
            size = batch["tokens"][kept].astype(np.int64) * token_bytes
            second = batch["time_ns"][kept] // 10**9
            for unit, values in (("bytes", size), ("seconds", second)):
                if int(values.max(initial=0)) >= 2**32:
                    row = int(batch["op_id"][kept][values.argmax()])
                    raise _explain_overflow(trace, row, f"{values.max()} {unit}")
            records = np.empty(len(kept), RECORD)
            records["time"] = second
            records["object"] = batch["key"][kept]
            records["size"] = size
            begin = counts["records"]
            records["next"] = next_access[begin : begin + len(kept)]
            file.write(records.tobytes())
            counts["records"] += len(kept)
            counts["deletes_left_out"] += len(batch["op_id"]) - len(kept)
    return counts


def _explain_overflow(trace: Trace, row: int, value: str) -> InputError:
    problem = f"{value} do not fit the 32 bits of oracle-general"
    remedy = "choose a smaller `bytes_per_token`, or export a slice"
    return InputError(problem, remedy, subject=f"{trace.path}, row {row}")


def _find_next_accesses(trace: Trace) -> Ints:
    """Return the number of the next write or read on the same key, or -1; shape (records,)."""
    next_access = np.full(trace.ops, -1, np.int64)
    latest = IdTable(np.int64)  # by key: number of its latest record + 1; 0: none
    count = 0
    for batch in trace.batches():
        keys = batch["key"][batch["op"] != DELETE]
        latest.cover(keys)
        number = count + np.arange(len(keys))
        previous = previous_rows(keys)
        before = np.where(previous >= 0, count + previous, latest[keys] - 1)
        has_before = before >= 0
        next_access[before[has_before]] = number[has_before]
        latest[keys] = number + 1  # if several rows set one entry, the last one stays
        count += len(keys)
    return next_access


FORMAT: Final = Format(write=write, counts_bytes=True)
