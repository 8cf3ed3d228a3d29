"""The I/O trace of MLCommons' kv-cache.py, `--io-trace-log` (CSV, .zst).

Columns: Timestamp (seconds since 1970), Operation (Write or Read), Object_Size_Bytes, Tier (Tier-0,
-1, -2), Key, Phase (Prefill, Decode or Evict). A row is an I/O on one object. Each object becomes a
session with a user of its own, and each of its I/Os a request of its phase. The tier and the moves
by eviction are the source's own placement, which a replay decides anew. kv-cache.py reads the clock
before it takes its log's lock: the order of the rows is what happened, and a time up to a second
before that of the row above is raised to it.

The log has no tokens. kv-cache.py reads an object once to load it and then once per batch of up to
32 tokens that it generates, back to back. It logs the reads of history and chunks as Decode, too.
So a decode read that follows the last decode read of its object at once counts 32 tokens, and
any other for none. In our own export the batches are at their nominal times, which identifies them
as well.
"""

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from tracegen.formats.export import Export
from tracegen.formats.format import Chunks, Format
from tracegen.formats.rows import (
    DECODE_BATCH,
    TIME_MAX,
    BadRowError,
    Call,
    Rows,
    TextFields,
    parse_integer,
    parse_nanoseconds,
)
from tracegen.trace.columns import DECODE, PREFILL, READ, WRITE

_SLACK_NS: Final = 10**9
_AT_ONCE_NS: Final = 20 * 10**6
_ROUNDING_NS: Final = 1000  # times are in microseconds
_COLUMNS: Final = ("Timestamp", "Operation", "Object_Size_Bytes", "Key", "Phase")
_OPERATIONS: Final = {WRITE: "Write", READ: "Read"}
_PHASES: Final = {PREFILL: "Prefill", DECODE: "Decode"}
_EXPORTED: Final = ("time_ns", "op", "bytes", "key", "phase")


def read(rows: Rows) -> Iterator[Call]:
    """Yield the I/Os of a file as requests whose tokens are bytes."""
    numbers: dict[str, int] = {}  # of objects, by key
    last_ns: dict[int, int] = {}  # by object: its last decode read since it was written or prefilled
    latest = 0
    for line, row in rows.table(*_COLUMNS):
        with rows.row(line):
            if row["Phase"] == "Evict":
                rows.left_out["evictions"] += 1
                continue
            _check_operation(row)
            size = parse_integer(row, "Object_Size_Bytes", least=1, most=2**50)
            time = parse_nanoseconds(row, "Timestamp", unit=10**9)
            if time >= latest - _SLACK_NS:
                time = max(time, latest)
            latest = max(time, latest)
            is_read = row["Operation"] == "Read" and row["Phase"] == "Decode"
            # An object that is read first was written before the log began: its first op is a write.
            is_decode = is_read and row["Key"] in numbers
            number = numbers.setdefault(row["Key"], len(numbers))
            since = time - last_ns.pop(number, -TIME_MAX)
            is_batch = since <= _AT_ONCE_NS or abs(since - rows.batch_ns) <= _ROUNDING_NS
            if is_read:
                last_ns[number] = time
            name = (rows.path, number)  # files of several ranks have keys of their own
            yield Call(
                time_ns=time,
                input_tokens=size,
                output_tokens=DECODE_BATCH if is_decode and is_batch else 0,
                blocks=[number],
                session=name,
                user=name,
                scope=rows.path,
                tokens=[size],
                is_decode=is_decode,
            )


def _check_operation(row: TextFields) -> None:
    operation, phase = row["Operation"], row["Phase"]
    if operation not in ("Write", "Read") or phase not in ("Prefill", "Decode"):
        reason = f"{operation[:20]!r} in phase {phase[:20]!r} is unknown"
        raise BadRowError("Operation", reason)
    if not row["Key"]:
        raise BadRowError("Key", "missing")


def write(export: Export, counts: Counter[str]) -> Chunks:
    """Write one row per write and read, all of Tier-2, as a run without GPU and CPU memory would."""
    yield b"Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n"
    for batch in export.read_touches(counts, "rows"):
        lines = [
            f"{Decimal(time) / 10**9:.9f},{_OPERATIONS[op]},{size},Tier-2,key_{key:012},{_PHASES[phase]}\n"
            for time, op, size, key, phase in zip(*(batch[name].tolist() for name in _EXPORTED), strict=True)
        ]
        yield "".join(lines).encode()


FORMAT: Final = Format(read=read, write=write, time_unit="s", counts_bytes=True, has_decode_reads=True)
