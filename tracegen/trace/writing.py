"""Trace files, or folders of parts, written in row groups while the ops are made."""

import json
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracegen.errors import InputError
from tracegen.outputs import PartialOutput, check_output, write_failure
from tracegen.trace.columns import DTYPES, ENUMS, ROW_GROUP, SCHEMA, SHARD_SCHEMA, Columns, split_rows
from tracegen.trace.metadata import METADATA_KEY, Fingerprint, Metadata

_TASKS_AHEAD: Final = 8  # batches that may wait for the writing thread
_IDS: Final = {"requests": "request_id", "sessions": "session_id", "users": "user_id", "keys": "key"}
_ASCENDING: Final = ("op_id", "time_ns", "request_id", "session_id", "key")


class TraceWriter:
    """Writer of a trace, as a context manager.

    The trace appears under its name when the context ends without an exception. The writer completes
    the metadata with counts and fingerprint; with its `part` set, the trace is a shard. With `part_ops`
    the trace is a folder, whose parts have this many ops or up to a row group more.

    Raises:
        InputError: the output exists already and `force` is false, or it cannot be written.
    """

    def __init__(self, path: Path, metadata: Metadata, *, force: bool = False, part_ops: int = 0) -> None:
        self.path = path
        self.metadata = metadata
        self._part_ops = part_ops
        check_output(path, force=force, is_replaceable=_is_trace)
        self._partial = PartialOutput(path)
        self._counts = dict.fromkeys(("ops", *_IDS, "tokens_generated"), 0)
        self._fingerprint = Fingerprint()
        self._waiting: list[Columns] = []  # the rows of the next row group
        self._waiting_rows = 0
        # Hashing and compressing release the interpreter's lock, so a second core does them while
        # the caller makes the next ops.
        self._thread = ThreadPoolExecutor(1)
        self._tasks = deque[Future[None]]()
        try:
            if part_ops:
                self._partial.path.mkdir()
            self._file = self._open_file()
        except OSError as error:
            self._partial.discard()
            raise write_failure(path, error) from None

    @property
    def ops(self) -> int:
        """Number of ops so far."""
        return self._counts["ops"]

    def write(self, batch: Columns) -> None:
        """Append ops; their op_ids continue those of the last batch.

        Raises:
            InputError: the disk is full, or another batch could not be written.
        """
        batch = {name: batch[name] for name in self._file.schema.names}
        self._submit(self._fingerprint.update, batch)
        self._counts["ops"] += len(batch["op_id"])
        self._counts["tokens_generated"] += int(batch["new_tokens"].sum(dtype=np.int64))
        for name, column in _IDS.items():
            self._counts[name] = max(self._counts[name], int(batch[column].max(initial=-1)) + 1)
        self._waiting.append(batch)
        self._waiting_rows += len(batch["op_id"])
        if self._waiting_rows >= ROW_GROUP:
            *groups, rest = split_rows(self._waiting, ROW_GROUP)
            self._waiting = [rest]
            self._waiting_rows = len(rest["op_id"])
            for group in groups:
                self._submit(self._write_group, group)

    def _submit(self, task: Callable[[Columns], None], batch: Columns) -> None:
        self._tasks.append(self._thread.submit(task, batch))
        self._wait_for_tasks(_TASKS_AHEAD)

    def _open_file(self) -> pq.ParquetWriter:
        schema = SHARD_SCHEMA if self.metadata.part else SCHEMA
        path = self._partial.path
        if self._part_ops:
            path /= f"part-{len(list(path.iterdir())):05}.parquet"
        self._ops_in_file = 0
        # Takes half the time and two thirds of the size of Parquet's defaults, which make a
        # dictionary of every column.
        return pq.ParquetWriter(
            path.absolute(),  # Arrow takes a relative a:b for a URL
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name not in _ASCENDING],
            column_encoding=dict.fromkeys(_ASCENDING, "DELTA_BINARY_PACKED"),
            write_statistics=False,  # they would stay in memory until the end, per row group
        )

    def _write_group(self, batch: Columns) -> None:
        """Write a row group, in another part if the last one is full."""
        if self._part_ops and self._ops_in_file >= self._part_ops:
            self._file.close()
            self._file = self._open_file()
        self._ops_in_file += len(batch["op_id"])
        arrays = [_to_arrow(name, batch) for name in batch]
        self._file.write_table(pa.Table.from_arrays(arrays, schema=self._file.schema), row_group_size=ROW_GROUP)

    def _wait_for_tasks(self, limit: int) -> None:
        """Wait until at most `limit` tasks are left."""
        while len(self._tasks) > limit:
            try:
                self._tasks.popleft().result()
            except OSError as error:
                raise write_failure(self.path, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._thread.shutdown(cancel_futures=True)
            with suppress(OSError):  # the first error is being raised already
                self._file.close()
            self._partial.discard()

    def _finish(self) -> None:
        if not self.ops:
            raise InputError(f"{self.path} would hold no ops", "select more requests")
        self._wait_for_tasks(0)
        try:
            if self._waiting_rows:
                self._write_group(split_rows(self._waiting, ROW_GROUP)[0])
            self.metadata.fingerprint = self._fingerprint.hexdigest()
            self.metadata.counts |= self._counts
            self._file.add_key_value_metadata({METADATA_KEY.decode(): json.dumps(asdict(self.metadata))})
            self._file.close()
            self._partial.publish()
        except OSError as error:
            raise write_failure(self.path, error) from None


def _is_trace(path: Path) -> bool:
    """Return whether a path is a file, or a folder of only parts."""
    return path.is_file() or (
        path.is_dir() and all(file.match("part-[0-9][0-9][0-9][0-9][0-9].parquet") for file in path.iterdir())
    )


def _to_arrow(name: str, batch: Columns) -> pa.Array:
    values = batch[name]
    if name in ENUMS:
        return pa.DictionaryArray.from_arrays(values.astype(np.int8), pa.array(ENUMS[name]))
    return pa.array(values.astype(DTYPES.get(name, np.int64), copy=False))
