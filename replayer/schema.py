"""The run directory: `run.json`, and the log in `moves/part-*.parquet`, one row per move. replayer owns this format.

`docs/run-directory.md` specifies it in prose.
"""

import contextlib
import fcntl
import json
import os
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracegen.schema import ENUMS, InputError

RUN_VERSION: Final = 1
PLAN_VERSION: Final = 1
CHECKPOINT_OPS: Final = 1 << 16

TIERS: Final = ("gpu", "cpu", "nvme")
MOVES: Final = ("hit", "store", "miss", "demote", "promote", "drop", "bypass", "delete")
STATUSES: Final = ("ok", "error", "upstream")
LOG_ENUMS: Final = ENUMS | {"move": MOVES, "status": STATUSES, "from_tier": TIERS, "to_tier": TIERS}

_TYPES: Final = {
    pa.int64(): "op_id request_id session_id user_id key size_bytes due_ns ready_ns start_ns end_ns read_ns write_ns"
    " device_read_ns device_write_ns verify_ns",
    pa.int32(): "seq turn step new_tokens tokens worker rank",
    pa.bool_(): "warmup",
    pa.string(): "error",
    pa.dictionary(pa.int8(), pa.string()): " ".join(LOG_ENUMS),
}
_TYPE_OF: Final = {name: kind for kind, names in _TYPES.items() for name in names.split()}
_OPTIONAL: Final = ("from_tier", "to_tier", "error")
LOG_COLUMNS: Final = [
    "op_id",
    "seq",
    "request_id",
    "session_id",
    "user_id",
    "turn",
    "step",
    "qos",
    "phase",
    "op",
    "source",
    "new_tokens",
    "key",
    "tokens",
    "size_bytes",
    "move",
    "status",
    "from_tier",
    "to_tier",
    "due_ns",
    "ready_ns",
    "start_ns",
    "end_ns",
    "read_ns",
    "write_ns",
    "device_read_ns",
    "device_write_ns",
    "verify_ns",
    "worker",
    "rank",
    "warmup",
    "error",
]
LOG_SCHEMA: Final = pa.schema(
    [pa.field(name, _TYPE_OF[name], nullable=name in _OPTIONAL) for name in LOG_COLUMNS],
    metadata={"kv-run": str(RUN_VERSION)},
)

DEVICE_SCHEMA: Final = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),  # end of the interval, since the run's start
        pa.field("interval_ns", pa.int64(), nullable=False),
        pa.field("read_bytes", pa.int64()),  # of the block device; null where there is none
        pa.field("written_bytes", pa.int64()),
        pa.field("read_requests", pa.int64()),
        pa.field("write_requests", pa.int64()),
        pa.field("queue", pa.float64()),  # requests in flight, mean
        pa.field("utilisation", pa.float64()),  # share of the interval with any in flight
        pa.field("process_cpu", pa.float64(), nullable=False),  # cores busy, mean
        pa.field("system_cpu", pa.float64(), nullable=False),
    ],
    metadata={"kv-run": str(RUN_VERSION)},
)


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

    def save(self, info: dict[str, Any]) -> None:
        """Write run.json; a reader sees the old one or the new one, never half of it."""
        _replace(self.path / "run.json", json.dumps({"run_version": RUN_VERSION} | info, indent=1).encode())

    def write_part(self, rows: dict[str, Any]) -> None:
        """Write rows, by column, as the log's next part; it appears under its name when it is on the disk.

        Enums are codes, -1 where there is none.
        """
        columns = [_array(name, rows[name]) for name in LOG_COLUMNS]
        self._write(
            self.path / "moves" / f"part-{self._parts:05}.parquet", pa.Table.from_arrays(columns, schema=LOG_SCHEMA)
        )
        self._parts += 1

    def write_device(self, rows: list[dict[str, Any]]) -> None:
        """Write all samples of the counters so far, in the place of those before."""
        self._write(self.path / "device.parquet", pa.Table.from_pylist(rows, schema=DEVICE_SCHEMA))

    def _write(self, path: Path, table: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        _replace(path, sink.getvalue())


def check_free(path: Path, *, force: bool) -> list[Path]:
    """What lies where a run directory is to be made, to be removed first; only a run's files may, and only by force.

    Raises:
        InputError: something lies there that must stay.
    """
    try:
        found = sorted(path.rglob("*"), reverse=True) if path.is_dir() else []
        if found and not force:
            raise InputError(f"{path} is not empty; name a new run directory with -o, or pass --force.")
        if found:
            ranks_of(path)  # refuses what is not a run.json
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{path}: a run is going on there; name another directory with -o.") from None
            finally:
                os.close(lock)
    except OSError as error:
        raise InputError(f"{path}: cannot be a run directory ({error.strerror}); name another with -o.") from None
    for one in found:
        kind = _FOLDERS if one.is_dir() else _FILES
        if one.is_symlink() or not kind.fullmatch(str(one.relative_to(path))):
            name = one.relative_to(path)
            raise InputError(f"{path} holds {name}, which is no run's; --force replaces runs and nothing else.")
    return sorted(found, key=lambda one: one == path / "run.json")  # last, so that a replacement cut short can go on


_FILES: Final = re.compile(r"(rank-\d+/)?(run\.json|device\.parquet|moves/part-\d+\.parquet)(\.partial)?")
_FOLDERS: Final = re.compile(r"rank-\d+|(rank-\d+/)?moves")


def _array(name: str, values: Any) -> pa.Array:
    if name in LOG_ENUMS:
        codes = pa.array(np.asarray(values).astype(np.int8), mask=np.asarray(values) < 0)
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
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


_RUN_KEYS: Final = {  # what every reader may rely on
    "status": "",
    "reason": "",
    "warnings": "",
    "trace": "fingerprint",
    "plan": "ops hits stores misses demotions promotions drops bypasses recomputed_tokens read_bytes write_bytes",
    "conditions": "model bytes_per_token usable_bytes workers pace direct verify",
}


def read_run(path: Path) -> dict[str, Any]:
    """The content of a run directory's run.json.

    Raises:
        InputError: it is missing, damaged, or of a newer version.
    """
    try:
        info: dict[str, Any] = json.loads((path / "run.json").read_text(encoding="utf-8"))
        version = info["run_version"]
        if not isinstance(version, int) or not isinstance(info["warnings"], list):
            raise TypeError("of other kinds than it is written with")
        for name, fields in _RUN_KEYS.items():
            if missing := set(fields.split()) - set(info[name] or {}):
                raise KeyError(f"{name}.{min(missing)}")
    except OSError as error:
        raise InputError(f"{path} is not a run directory: run.json: {error.strerror}; pass what `-o` named.") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}/run.json is damaged or incomplete ({error}); copy the run anew.") from None
    if version > RUN_VERSION:
        raise InputError(f"{path} is of run format {version}, this release reads up to {RUN_VERSION}; upgrade it.")
    return info


def ranks_of(path: Path) -> int | None:
    """How many ranks a run has whose run.json stands above theirs; None where it is one process's.

    Raises:
        InputError: run.json is missing or no JSON.
    """
    try:
        info = json.loads((path / "run.json").read_text(encoding="utf-8"))
        ranks = info["run_version"] and info.get("ranks")
    except OSError as error:
        raise InputError(f"{path} is not a run directory: run.json: {error.strerror}; pass what `-o` named.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}/run.json is damaged or incomplete ({error}); copy the run anew.") from None
    return ranks if isinstance(ranks, int) and 0 < ranks < 1 << 20 else None


def parts(path: Path) -> list[Path]:
    """The closed parts of a run's log, in order.

    Raises:
        InputError: there are none, or one is not a part of such a log.
    """
    found = sorted((path / "moves").glob("part-*.parquet"))
    if not found:
        raise InputError(f"{path} holds no closed part of a log: nothing was executed, or the run died at once.")
    for part in found:
        try:
            schema = pq.read_schema(part.absolute())
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{part} is not readable ({str(error).splitlines()[0]}); copy the run anew.") from None
        if missing := set(LOG_COLUMNS) - set(schema.names):
            raise InputError(f"{part} is not a move log: column {min(missing)} is missing.")
    return found
