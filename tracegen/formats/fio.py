"""fio's iolog, version 3, and a job file that replays it.

A line of the log is `µs file action [offset length]`. Each object has its place in one data file,
assigned at its first write. Reads and writes are cut into pieces of at most 4 MiB; offsets and
lengths are multiples of 4 KiB, as O_DIRECT needs them. fio takes the times for microseconds (its
iolog.c; its manual names no unit) and 0 for no time at all, so the log's clock begins at 1.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import IdTable, Ints, first_rows
from tracegen.errors import InputError
from tracegen.formats.export import ExportOptions
from tracegen.formats.format import Format
from tracegen.outputs import open_output
from tracegen.trace.columns import DELETE, WRITE
from tracegen.trace.reading import Trace

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


class _Places:
    """The places of objects in the data file, in bytes; 8 bytes per key."""

    def __init__(self) -> None:
        self._offsets = IdTable(np.int64)  # offset + 1; 0: no place yet
        self.end = 0

    def place(self, keys: Ints, sizes: Ints) -> Ints:
        """Return the offset of each object; new objects are placed at the end of the file."""
        self._offsets.cover(keys)
        first = first_rows(self._offsets, keys)
        new = sizes[first]
        self._offsets[keys[first]] = self.end + np.cumsum(new) - new + 1
        self.end += int(new.sum())
        return self._offsets[keys] - 1

    @property
    def objects(self) -> int:
        """Number of objects."""
        return self._offsets.end


def write(trace: Trace, output: Path, options: ExportOptions) -> dict[str, int]:
    """Write the iolog, and next to it the job file, named like it with .fio.

    Raises:
        InputError: `bytes_per_token` is missing, or fio cannot use the path.
    """
    token_bytes = options.require_bytes_per_token("fio")
    log = output.resolve()
    if output.suffix == ".zst" or any(mark in str(log) for mark in UNNAMEABLE):
        problem = "fio reads only plain logs, whose paths contain no : ; # ${"
        raise InputError(problem, "choose another name", subject=log, setting="output")
    job = output.with_name(output.name + ".fio")
    counts = {"ops": 0, "pieces": 0, "deletes_left_out": 0}
    places = _Places()
    moved = 0
    with (
        open_output(output, force=options.force) as file,
        open_output(job, force=options.force) as job_file,
    ):
        file.write(f"fio version 3 iolog\n1 {DATA_FILE} add\n1 {DATA_FILE} open\n".encode())
        for batch in trace.batches():
            kept = np.flatnonzero(batch["op"] != DELETE)
            tokens = batch["tokens"][kept].astype(np.int64)
            sizes = -(-tokens * token_bytes // PAGE) * PAGE
            offsets = places.place(batch["key"][kept], sizes)
            times = batch["time_ns"][kept] // 1000 + 1
            actions = np.where(batch["op"][kept] == WRITE, "write", "read")
            counts["pieces"] += _write_pieces(file, times, actions, offsets, sizes)
            counts["ops"] += len(kept)
            counts["deletes_left_out"] += len(batch["op_id"]) - len(kept)
            moved += int(sizes.sum())
        file.write(f"{int(batch['time_ns'][-1]) // 1000 + 1} {DATA_FILE} close\n".encode())
        text = JOB.format(total=places.end, objects=places.objects, moved=moved, job=job.resolve(), log=log)
        job_file.write(text.encode())
    return counts | {"bytes_moved": moved, "bytes_of_disk": places.end}


def _write_pieces(file: Any, times: Ints, actions: NDArray[np.str_], offsets: Ints, sizes: Ints) -> int:
    """Write the lines of some ops and return their number.

    The lines of one op are joined at a time, because an object of GiB has thousands of pieces.
    """
    rows = zip(times.tolist(), actions.tolist(), offsets.tolist(), sizes.tolist(), strict=True)
    for time, action, begin, size in rows:
        lines = [
            f"{time} {DATA_FILE} {action} {begin + offset} {min(PIECE, size - offset)}\n"
            for offset in range(0, size, PIECE)
        ]
        file.write("".join(lines).encode())
    return int((-(-sizes // PIECE)).sum())


FORMAT: Final = Format(write=write, counts_bytes=True)
