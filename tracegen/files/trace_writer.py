"""Writing traces: one Parquet file, or a folder of parts; neither appears under its name before it is whole."""

import json
import re
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
from tracegen.files.outputs import check_free, private_name, remove, unwritable
from tracegen.schema import (
    DTYPES,
    ENUMS,
    METADATA_KEY,
    ROW_GROUP,
    SCHEMA,
    SHARD_COLUMNS,
    Columns,
    Fingerprint,
    Metadata,
    split_rows,
)

PART_SCHEMA: Final = pa.schema([*SCHEMA, *(pa.field(name, pa.int64(), nullable=False) for name in SHARD_COLUMNS)])
_AHEAD: Final = 8
_PART: Final = re.compile(r"part-\d{5}\.parquet")
_ASCENDING: Final = ("op_id", "time_ns", "request_id", "session_id", "key")


class TraceWriter:
    """Writes ops to a trace.

    Args:
        path: the file, or with `part_ops` the folder.
        metadata: completed with counts and fingerprint; with its `part` set, columns that a merge needs are kept.
        force: replace what is there.
        part_ops: begin another file of the folder after so many ops, in whole row groups.

    Raises:
        InputError: the output exists already and `force` is false, or it cannot be written.
    """

    def __init__(self, path: Path, metadata: Metadata, *, force: bool = False, part_ops: int = 0) -> None:
        self.path, self.metadata, self._part_ops = path, metadata, part_ops
        check_free(path, force=force, replaceable=self._is_trace)
        self._partial = private_name(path)
        self._schema = SCHEMA if metadata.part is None else PART_SCHEMA
        self._fingerprint, self.ops, self._written, self._tokens = Fingerprint(), 0, 0, 0
        self._waiting: list[Columns] = []  # rows of the next row group
        # Hashing and compressing leave the lock, so a second core takes them while the next ops are made.
        self._thread, self._work = ThreadPoolExecutor(1), deque[Future[None]]()
        self._highest = dict.fromkeys(("request_id", "session_id", "user_id", "key"), -1)
        self._files = self._rows = 0
        try:
            if part_ops:
                self._partial.mkdir()
            self._file = self._open()
        except OSError as error:
            remove(self._partial)
            raise unwritable(self.path, error) from None

    def _is_trace(self, path: Path) -> bool:
        """Whether what is there is as what will be: a file, or a folder of nothing but parts."""
        if not (self._part_ops and path.is_dir()):
            return path.is_file()
        return all(one.is_file() and _PART.fullmatch(one.name) for one in path.iterdir())

    def _open(self) -> pq.ParquetWriter:
        path = self._partial / f"part-{self._files:05}.parquet" if self._part_ops else self._partial
        self._files += 1
        # Half the time and two thirds of the size of the defaults, which make a dictionary of every column.
        rest = [name for name in self._schema.names if name not in _ASCENDING]
        packed = dict.fromkeys(_ASCENDING, "DELTA_BINARY_PACKED")
        # Statistics of every column of every row group would stay in memory until the end.
        return pq.ParquetWriter(
            path.absolute(),  # a relative a:b would be taken for an address
            self._schema,
            compression="zstd",
            use_dictionary=rest,
            column_encoding=packed,
            write_statistics=False,
        )

    def write(self, batch: Columns) -> None:
        """Append a batch of ops; op_ids continue where the last batch ended."""
        batch = {name: batch[name] for name in self._schema.names}
        self._later(self._fingerprint.update, batch)
        self.ops += len(batch["op_id"])
        self._waiting.append(batch)
        self._tokens += int(batch["new_tokens"].sum(dtype=np.int64))
        for name, highest in self._highest.items():
            self._highest[name] = max(highest, int(batch[name].max(initial=-1)))
        self._rows += len(batch["op_id"])
        if self._rows >= ROW_GROUP:
            *whole, rest = split_rows(self._waiting, ROW_GROUP)
            self._waiting, self._rows = [rest], len(rest["op_id"])
            for group in whole:
                self._later(self._write, group)

    def _later(self, task: Callable[[Columns], None], batch: Columns) -> None:
        self._work.append(self._thread.submit(task, batch))
        self._wait(_AHEAD)

    def _wait(self, left: int) -> None:
        """Until at most so many tasks are left."""
        while len(self._work) > left:
            try:
                self._work.popleft().result()
            except OSError as error:
                raise unwritable(self.path, error) from None

    def _write(self, batch: Columns) -> None:
        if self._part_ops and self._written >= self._files * self._part_ops:
            self._file.close()
            self._file = self._open()
        self._written += len(batch["op_id"])
        arrays = [
            pa.DictionaryArray.from_arrays(batch[name].astype(np.int8), pa.array(ENUMS[name]))
            if name in ENUMS
            else pa.array(batch[name].astype(DTYPES.get(name, np.int64), copy=False))
            for name in self._schema.names
        ]
        self._file.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=ROW_GROUP)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._thread.shutdown(cancel_futures=True)
            with suppress(OSError):  # said already, or of no account
                self._file.close()
            remove(self._partial)

    def _finish(self) -> None:
        if not self.ops:
            raise InputError(f"{self.path} would hold no ops; widen what it is made of.")
        self._wait(0)
        try:
            if self._rows:
                self._write(split_rows(self._waiting, ROW_GROUP)[0])
            self.metadata.fingerprint = self._fingerprint.hexdigest()
            totals = {name.removesuffix("_id") + "s": highest + 1 for name, highest in self._highest.items()}
            self.metadata.counts |= {"ops": self.ops, **totals, "tokens_generated": self._tokens}
            self._file.add_key_value_metadata({METADATA_KEY.decode(): json.dumps(asdict(self.metadata))})
            self._file.close()
            if self._part_ops and self.path.exists():
                remove(self.path)  # known to hold nothing but parts
            self._partial.replace(self.path)
        except OSError as error:
            raise unwritable(self.path, error) from None
