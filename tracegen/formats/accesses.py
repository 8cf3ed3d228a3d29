"""Exports of a trace's reads and writes, one by one: libCacheSim's oracleGeneral, and fio's iolog with its job file.

oracleGeneral (.zst) has packed, little-endian records of 24 bytes: u32 time (s), u64 object, u32 size (bytes), i64 next
access: the number of the next record on the same object, or -1. Source: https://github.com/1a1a11a/libCacheSim

A line of the iolog, version 3, is `µs file action [offset length]`. Each object has its place in one data file,
assigned at its first write. Reads and writes are cut into pieces of at most 4 MiB; offsets and
lengths are multiples of 4 KiB, as O_DIRECT needs them. fio takes the times for microseconds (its
iolog.c; its manual names no unit) and 0 for no time at all, so the log's clock begins at 1.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import IdTable, Ints, first_rows
from tracegen.describe.reuse import previous_rows
from tracegen.errors import InputError
from tracegen.formats.export import Export
from tracegen.formats.format import Chunks, Format
from tracegen.outputs import open_output
from tracegen.trace.columns import WRITE

RECORD: Final = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
PAGE: Final = 4096  # bytes
PIECE: Final = 4 << 20  # bytes
DATA_FILE: Final = "kv-cache.data"

JOB: Final = """\
; {total:,} bytes of disk for {objects:,} objects, {moved:,} bytes to move.
; Run in the folder to test, or name the file to test: fio --replay_redirect=FILE {job}
; (fio 3.33 crashes on --directory.) Without replay_no_stall=1 the requests come at the trace's own
; times. The job runs one request at a time, in order: a read finds what was written before it, and
; engines with several in flight lose those at the end of a log (fio 3.33).
[global]
ioengine=psync
direct=1
filesize={total}

[kv-cache]
read_iolog={log}
replay_no_stall=1
"""
# They begin a comment, separate two names, or are replaced in a job file.
UNNAMEABLE: Final = (":", ";", "#", "\n", "${")


def _write_records(export: Export, counts: Counter[str]) -> Chunks:
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


def _write_iolog(export: Export, counts: Counter[str]) -> Chunks:
    """Write the iolog, and next to it the job file, named like it with .fio."""
    log = export.output.resolve()
    if log.suffix == ".zst" or any(mark in str(log) for mark in UNNAMEABLE):
        problem = "fio reads only plain logs, whose paths contain no : ; # ${"
        raise InputError(problem, "choose another name", subject=log, setting="output")
    job = log.with_name(log.name + ".fio")
    places = IdTable(np.int64)  # by key: offset in the data file + 1; 0: no place yet
    last_us = end = 0
    with open_output(job, force=export.force) as job_file:
        yield f"fio version 3 iolog\n1 {DATA_FILE} add\n1 {DATA_FILE} open\n".encode()
        for batch in export.read_touches(counts, "ops"):
            sizes = -(-batch["bytes"] // PAGE) * PAGE
            places.cover(batch["key"])
            first = first_rows(places, batch["key"])
            new = sizes[first]
            places[batch["key"][first]] = end + np.cumsum(new) - new + 1
            end += int(new.sum())
            times_us = batch["time_ns"] // 1000 + 1
            last_us = int(times_us.max(initial=last_us))
            counts.update(pieces=int((-(-sizes // PIECE)).sum()), bytes_moved=int(sizes.sum()))
            yield from _list_pieces(times_us, batch["op"] == WRITE, places[batch["key"]] - 1, sizes)
        yield f"{last_us} {DATA_FILE} close\n".encode()
        counts["bytes_of_disk"] = end
        text = JOB.format(total=end, objects=places.end, moved=counts["bytes_moved"], job=job, log=log)
        job_file.write(text.encode())


def _list_pieces(times_us: Ints, is_write: NDArray[np.bool_], offsets: Ints, sizes: Ints) -> Iterator[bytes]:
    """Yield the lines of each op: an object of GiB has thousands of pieces."""
    columns = (times_us, np.where(is_write, "write", "read"), offsets, sizes)
    for time, action, begin, size in zip(*(column.tolist() for column in columns), strict=True):
        lines = [
            f"{time} {DATA_FILE} {action} {begin + offset} {min(PIECE, size - offset)}\n"
            for offset in range(0, size, PIECE)
        ]
        yield "".join(lines).encode()


ORACLE_GENERAL: Final = Format(write=_write_records, counts_bytes=True)
FIO: Final = Format(write=_write_iolog, counts_bytes=True)
