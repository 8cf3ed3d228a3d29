"""The I/O trace of MLCommons' kv-cache.py, `--io-trace-log` (CSV, .zst).

Timestamp (unix s) · Operation Write or Read · Object_Size_Bytes · Tier Tier-0, -1, -2 · Key · Phase Prefill, Decode or
Evict. A row is an I/O on one object. Each object is a session with a user of its own, each of its I/Os a request of its
phase; the tier and what was moved by eviction are the source's own placement, which a replay decides anew. kv-cache.py
reads the clock before it takes its log's lock: the order of the rows is what happened, and a time up to a second before
that of the row above is raised to it.

The log has no tokens. kv-cache.py reads an object once to load it and then once per batch of up to 32 tokens that it
generates, back to back; it logs the reads of history and chunks as Decode, too. So a decode read that follows the last
decode read of its object at once stands for 32 tokens, and any other for none. Our own export has the batches at their
nominal times, which tells them as well.
"""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from tracegen.files.outputs import open_output
from tracegen.formats.export import ExportOptions
from tracegen.formats.rows import (
    DECODE_BATCH,
    TIME_MAX,
    BadRowError,
    Call,
    Rows,
    integer,
    nanoseconds,
)
from tracegen.schema import DELETE, PREFILL, WRITE, Trace

BLOCK_TOKENS: int | None = None
PREFIX_CHAINED = False
TIME_UNIT = "s"
SORTED = True
COUNTS_BYTES = True
OWN_DECODE_READS = True
_SLACK_NS = 10**9
_AT_ONCE_NS = 20 * 10**6
_ROUNDED_NS = 1000  # of times in microseconds
_COLUMNS = ("Timestamp", "Operation", "Object_Size_Bytes", "Key", "Phase")


def read(rows: Rows) -> Iterator[Call]:
    """The I/Os of a file; `tokens` are bytes."""
    number: dict[str, int] = {}
    decoded: dict[int, int] = {}  # when each object was last read by decoding, since it was written or prefilled
    latest = 0
    for line, row in rows.table(*_COLUMNS):
        with rows.row(line):
            if row["Phase"] == "Evict":
                rows.left_out["evictions"] += 1
                continue
            if row["Operation"] not in ("Write", "Read") or row["Phase"] not in (
                "Prefill",
                "Decode",
            ):
                raise BadRowError(f"Operation: {row['Operation'][:20]!r} in phase {row['Phase'][:20]!r} is unknown")
            if not row["Key"]:
                raise BadRowError("Key: missing")
            size = integer(row, "Object_Size_Bytes", least=1, most=2**50)
            time = nanoseconds(row, "Timestamp", unit=10**9)
            time = max(time, latest) if time >= latest - _SLACK_NS else time
            latest = max(time, latest)
            is_read = row["Operation"] == "Read" and row["Phase"] == "Decode"
            # An object that is read first was written before the log began: its first op is to be a write.
            is_decode = is_read and row["Key"] in number
            object_ = number.setdefault(row["Key"], len(number))
            since = time - decoded.pop(object_, -TIME_MAX)
            is_batch = since <= _AT_ONCE_NS or abs(since - rows.batch_ns) <= _ROUNDED_NS
            if is_read:
                decoded[object_] = time
            name = (rows.path, object_)  # files of several ranks have keys of their own
            yield Call(
                time_ns=time,
                input_tokens=size,
                output_tokens=DECODE_BATCH if is_decode and is_batch else 0,
                blocks=[object_],
                session=name,
                user=name,
                scope=rows.path,
                tokens=[size],
                is_decode=is_decode,
            )


def write(trace: Trace, output: Path, options: ExportOptions) -> dict[str, int]:
    """One row per write and read, all of Tier-2, as from a run without GPU and CPU memory: a trace knows no placement.

    Raises:
        InputError: `bytes_per_token` is missing.
    """
    each, counts = options.object_bytes("mlcommons"), {"rows": 0, "deletes_left_out": 0}
    with open_output(output, force=options.force) as file:
        file.write(b"Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n")
        for batch in trace.batches():
            names = ("time_ns", "op", "tokens", "key", "phase")
            lines = [
                f"{Decimal(time) / 10**9:.9f},{'Write' if op == WRITE else 'Read'},{tokens * each},Tier-2,"
                f"key_{key:012},{'Prefill' if phase == PREFILL else 'Decode'}\n"
                for time, op, tokens, key, phase in zip(*(batch[name].tolist() for name in names), strict=True)
                if op != DELETE
            ]
            file.write("".join(lines).encode())
            counts["rows"] += len(lines)
            counts["deletes_left_out"] += len(batch["op_id"]) - len(lines)
    return counts
