"""fio's iolog, version 3, and a job file that replays it: `fio version 3 iolog`, then `µs file action [offset length]`.

Each object has its place in one data file, given at its first write; reads and writes are cut into pieces of at most
4 MiB, offsets and lengths are multiples of 4 KiB, as O_DIRECT wants them. fio takes the times for microseconds (its
iolog.c; its manual names no unit), and 0 for no time at all, so the log's clock begins at 1.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np

from tracegen.arrays import IdTable, first_rows
from tracegen.errors import InputError
from tracegen.files.outputs import opened
from tracegen.formats.export import ExportOptions
from tracegen.schema import DELETE, WRITE, Trace

COUNTS_BYTES = True
PAGE: Final = 4096
PIECE: Final = 4 << 20
DATA: Final = "kv-cache.data"

JOB: Final = """\
; {total:,} bytes of disk for {objects:,} objects, {moved:,} bytes to move.
; Run in the folder to test, or name the file to test: fio --replay_redirect=FILE {job}
; (fio 3.33 crashes on --directory.) Without replay_no_stall=1 the requests come at the trace's own times. One at a
; time, in order: a read finds what was written before it, and engines with several in flight lose those at the end of
; a log (fio 3.33).
[global]
ioengine=psync
direct=1
filesize={total}

[kv-cache]
read_iolog={log}
replay_no_stall=1
"""
# What begins a comment, parts two names, or is replaced in a job file.
UNNAMEABLE: Final = (":", ";", "#", "\n", "${")


def write(trace: Trace, output: Path, options: ExportOptions) -> dict[str, int]:
    """The iolog, and beside it the job file, named like it with .fio.

    Holds 8 bytes per key.

    Raises:
        InputError: `bytes_per_token` is missing, or the path is one that fio cannot take.
    """
    each, job = options.object_bytes("fio"), output.with_name(output.name + ".fio")
    if output.suffix == ".zst" or any(mark in str(output.resolve()) for mark in UNNAMEABLE):
        raise InputError(f"{output.resolve()}: fio reads plain logs only, of paths without : ; # ${{; choose another.")
    offsets, counts, end, moved = IdTable(np.int64), {"ops": 0, "pieces": 0, "deletes_left_out": 0}, 0, 0
    with opened(output, force=options.force) as file, opened(job, force=options.force) as jobs:
        file.write(f"fio version 3 iolog\n1 {DATA} add\n1 {DATA} open\n".encode())
        for batch in trace.batches():
            kept = np.flatnonzero(batch["op"] != DELETE)
            keys, time = batch["key"][kept], batch["time_ns"][kept] // 1000 + 1
            size = -(-batch["tokens"][kept].astype(np.int64) * each // PAGE) * PAGE
            offsets.cover(keys)
            first = first_rows(offsets, keys)
            offsets[keys[first]] = end + np.cumsum(size[first]) - size[first] + 1  # 0 says not placed
            end += int(size[first].sum())
            moved += int(size.sum())
            place, action = offsets[keys] - 1, np.where(batch["op"][kept] == WRITE, "write", "read")
            counts["pieces"] += _pieces(file, time, action, place, size)
            counts["ops"] += len(kept)
            counts["deletes_left_out"] += len(batch["op_id"]) - len(kept)
        file.write(f"{int(batch['time_ns'][-1]) // 1000 + 1} {DATA} close\n".encode())
        text = JOB.format(total=end, objects=offsets.end, moved=moved, job=job.resolve(), log=output.resolve())
        jobs.write(text.encode())
    return counts | {"bytes_moved": moved, "bytes_of_disk": end}


def _pieces(file: Any, time: np.ndarray, action: np.ndarray, place: np.ndarray, size: np.ndarray) -> int:
    """Write the lines of some ops, one op at a time: objects of GiB have thousands of pieces each."""
    for at, what, begin, length in zip(time.tolist(), action.tolist(), place.tolist(), size.tolist(), strict=True):
        lines = [
            f"{at} {DATA} {what} {begin + offset} {min(PIECE, length - offset)}\n" for offset in range(0, length, PIECE)
        ]
        file.write("".join(lines).encode())
    return int((-(-size // PIECE)).sum())
