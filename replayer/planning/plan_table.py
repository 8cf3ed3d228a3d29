"""A plan as a table: a row per move, with the columns of the log that planning decides."""

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from replayer.planning.moves import Stretch
from replayer.planning.plan import Plan
from replayer.planning.workload import Workload
from replayer.record.columns import LOG_SCHEMA, PLANNED_COLUMNS
from replayer.record.run_directory import array_of
from tracegen.errors import InputError

_FIELDS: Final = [LOG_SCHEMA.field(name) for name in PLANNED_COLUMNS]
_SCHEMA: Final = pa.schema(_FIELDS, metadata=LOG_SCHEMA.metadata)
_FINGERPRINTED: Final = ("op_id", "seq", "move", "key", "from_tier", "to_tier", "size_bytes")


def tabulate(
    workload: Workload,
    stretch: Stretch,
    positions: NDArray[np.int64],
    moves: NDArray[np.int64],
) -> pa.Table:
    """Return the moves of a stretch as a table with the columns PLANNED_COLUMNS.

    Args:
        workload: the ops of the plan.
        stretch: ops of the plan and their moves.
        positions: positions of the ops, shape (ops,).
        moves: op_id, seq, move, key, from and to tier, and size in bytes; shape (moves, 7).
    """
    op_of_move = np.repeat(np.arange(len(stretch.ops)), stretch.ops["moves"])
    columns: dict[str, NDArray[Any]] = workload.describe_ops(stretch.ops["row"][op_of_move])
    columns |= dict(zip(_FINGERPRINTED, moves.T, strict=True))
    columns |= {
        "position": positions[op_of_move],
        "op": stretch.ops["role"][op_of_move],
        "new_tokens": np.where(columns["seq"] == 0, columns["new_tokens"], 0),
        "tokens": workload.tokens(columns["key"]),
    }
    arrays = [array_of(name, columns[name]) for name in PLANNED_COLUMNS]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


class PlannedMoves:
    """Writer of a plan's moves as Parquet; the file appears under its name once it is whole.

    Args:
        path: file to write; must not exist.
        plan: the plan whose moves are written.

    Raises:
        InputError: the file exists, or cannot be written.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._workload = plan.workload
        if path.exists():
            raise InputError("exists", "name a new file", subject=path, setting="moves")
        try:
            self._file = pq.ParquetWriter(self._partial, _SCHEMA, compression="zstd")
        except OSError as error:
            raise InputError(
                f"cannot be written ({error.strerror})",
                "name another file",
                subject=path,
                setting="moves",
            ) from None

    def add(self, stretch: Stretch, positions: NDArray[np.int64], moves: NDArray[np.int64]) -> None:
        """Write the moves of a stretch; the arguments are those of `tabulate`."""
        self._file.write_table(tabulate(self._workload, stretch, positions, moves))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if kind is None:
            self._partial.replace(self._path)
        else:
            self._partial.unlink(missing_ok=True)
