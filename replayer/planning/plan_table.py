"""A plan as a table: a row per move, with the columns of the log that do not depend on how it went."""

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from replayer.planning.plan import Plan, Stretch
from replayer.record.columns import LOG_SCHEMA, PLANNED_COLUMNS
from replayer.record.run_directory import array_of
from tracegen.errors import InputError

_SCHEMA: Final = pa.schema([LOG_SCHEMA.field(name) for name in PLANNED_COLUMNS], metadata=LOG_SCHEMA.metadata)


class PlannedMoves:
    """Writes the moves of a plan as Parquet; the file appears under its name when it is whole.

    Args:
        path: a file that is yet to be made.
        plan: whose moves.

    Raises:
        InputError: the file exists, or cannot be written.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self._path, self._partial, self._workload = path, path.with_name(path.name + ".partial"), plan.workload
        if path.exists():
            raise InputError(f"--moves {path} exists; name a file that is yet to be made.")
        try:
            self._file = pq.ParquetWriter(self._partial, _SCHEMA, compression="zstd")
        except OSError as error:
            raise InputError(f"--moves {path}: cannot be written ({error.strerror}); name another.") from None

    def add(self, stretch: Stretch, positions: NDArray[np.int64], moves: NDArray[np.int64]) -> None:
        """Add a stretch.

        Args:
            stretch: of the plan.
            positions: of its ops, shape (ops,).
            moves: op_id, seq, move, key, from and to tier, size; shape (moves, 7).
        """
        of_move = np.repeat(np.arange(len(stretch.ops)), stretch.ops["moves"])
        columns: dict[str, Any] = self._workload.described(stretch.ops["row"][of_move])
        names = ("op_id", "seq", "move", "key", "from_tier", "to_tier", "size_bytes")
        columns |= dict(zip(names, moves.T, strict=True))
        columns |= {
            "position": positions[of_move],
            "op": stretch.ops["role"][of_move],
            "new_tokens": np.where(columns["seq"] == 0, columns["new_tokens"], 0),
            "tokens": self._workload.tokens(columns["key"]),
        }
        arrays = [array_of(name, columns[name]) for name in PLANNED_COLUMNS]
        self._file.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None:
            self._partial.replace(self._path)
        else:
            self._partial.unlink(missing_ok=True)
