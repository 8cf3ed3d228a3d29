"""Writing a run directory, whose format `schema` holds."""

import contextlib
import fcntl
import os
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replayer.record.columns import DEVICE_SCHEMA, LOG_COLUMNS, LOG_ENUMS, LOG_SCHEMA, OPTIONAL
from replayer.record.reading import read_info
from replayer.record.run_info import RanksInfo, RunInfo, encode
from tracegen.errors import InputError


class RunDirectory:
    """A new run directory; a directory that exists is refused unless it is empty, or a run's and `force` is set.

    Args:
        path: where.
        force: replace a run that is there.
        parts: whether it is to hold a log; the directory above those of ranks holds none.

    Raises:
        InputError: the path is taken or cannot be written.
    """

    def __init__(self, path: Path, *, force: bool = False, parts: bool = True) -> None:
        self.path, self._parts = path, 0
        replaced = check_free(path, force=force)
        try:
            for old in replaced:  # what lies in a folder before the folder
                if old.is_dir():
                    old.rmdir()
                else:
                    old.unlink()
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # for as long as the process writes here
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if parts:
                (path / "moves").mkdir()
        except OSError as error:
            raise InputError(f"{path}: cannot make a run directory here ({error.strerror}); name another.") from None

    def abandon(self) -> None:
        """Remove what has been made, where nothing could be written."""
        with contextlib.suppress(OSError):
            (self.path / "moves").rmdir()
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def close(self) -> None:
        """Nothing more is written."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def save(self, info: RunInfo | RanksInfo) -> None:
        """Write run.json; a reader sees the old one or the new one, never half of it."""
        _replace(self.path / "run.json", encode(info))

    def write_part(self, rows: dict[str, Any]) -> None:
        """Write rows, by column, as the log's next part; it appears under its name when it is on the disk.

        Enums are codes, -1 where there is none; a column of nothing but nulls may be None.
        """
        count = len(rows["op_id"])
        columns = [
            array_of(name, rows[name]) if rows[name] is not None else pa.nulls(count, LOG_SCHEMA.field(name).type)
            for name in LOG_COLUMNS
        ]
        self._write(
            self.path / "moves" / f"part-{self._parts:05}.parquet", pa.Table.from_arrays(columns, schema=LOG_SCHEMA)
        )
        self._parts += 1

    def write_device(self, rows: list[dict[str, Any]]) -> None:
        """Write all samples of the counters so far, in the place of those before."""
        self._write(self.path / "device.parquet", pa.Table.from_pylist(rows, schema=DEVICE_SCHEMA))

    def _write(self, path: Path, table: pa.Table) -> None:
        # In memory first: a disk that fills up fails one write, which can be made again.
        sink = pa.BufferOutputStream()
        integers = [one.name for one in table.schema if pa.types.is_integer(one.type)]
        others = [one.name for one in table.schema if one.name not in integers]
        # Deltas pack stamps and ids smaller and sooner than dictionaries, which overflow on them.
        packed = dict.fromkeys(integers, "DELTA_BINARY_PACKED")
        pq.write_table(
            table, sink, compression="zstd", use_dictionary=others, column_encoding=packed, write_statistics=_SOUGHT
        )
        _replace(path, sink.getvalue())


_SOUGHT: Final = [
    "op_id",
    "position",
    "start_ns",
]  # by which readers skip rows; required columns need no counts of nulls


def check_free(path: Path, *, force: bool) -> list[Path]:
    """List the files to remove before a run directory is made: those of an earlier run, and only by force.

    Raises:
        InputError: something lies there that must stay.
    """
    try:
        found = sorted(path.rglob("*"), reverse=True) if path.is_dir() else []
        if found and not force:
            raise InputError(f"{path} is not empty; name a new run directory with -o, or pass --force.")
        if found:
            read_info(path)  # refuses what is not a run.json
            _check_idle(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be a run directory ({error.strerror}); name another with -o.") from None
    for one in found:
        kind = _FOLDERS if one.is_dir() else _FILES
        if one.is_symlink() or not kind.fullmatch(str(one.relative_to(path))):
            name = one.relative_to(path)
            raise InputError(f"{path} holds {name}, which is no run's; --force replaces runs and nothing else.")
    return sorted(found, key=lambda one: one == path / "run.json")  # last, so that a replacement cut short can go on


def _check_idle(path: Path) -> None:
    """Refuse a directory that a process writes to: its lock ends with the process, even if it is killed."""
    lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{path}: a run is going on there; name another directory with -o.") from None
    finally:
        os.close(lock)


_INNER: Final = r"rank_\d+"  # run directories inside one
_NAMES: Final = r"(run\.json|device\.parquet|moves/part-\d+\.parquet)"
_FILES: Final = re.compile(rf"({_INNER}/)?{_NAMES}(\.partial)?")
_FOLDERS: Final = re.compile(rf"{_INNER}|({_INNER}/)?moves")


def array_of(name: str, values: Any) -> pa.Array:
    """A column of the log as it is written; enums are codes, -1 where there is none."""
    if name in LOG_ENUMS:
        numbers = np.asarray(values).astype(np.int8)
        codes = pa.array(numbers, mask=numbers < 0 if name in OPTIONAL else None)
        return pa.DictionaryArray.from_arrays(codes, pa.array(LOG_ENUMS[name]))
    kind = LOG_SCHEMA.field(name).type
    return (
        pa.array(values, kind) if kind == pa.string() else pa.array(np.asarray(values).astype(kind.to_pandas_dtype()))
    )


def _replace(path: Path, content: Any) -> None:
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            # Renamed only once it is on the disk: a machine that loses power has the old file or the new one.
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    partial.replace(path)
    # The new name is on the disk once its folder is.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
