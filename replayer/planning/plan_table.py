"""A plan as a table: a row per move, with the columns of the log that planning decides."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from replayer.planning.moves import Stretch
from replayer.planning.plan import Look, Plan
from replayer.planning.workload import Workload
from replayer.record.columns import LOG_SCHEMA, PLANNED_COLUMNS
from replayer.record.run_directory import array_of
from tracegen.outputs import open_output

_FIELDS: Final = [LOG_SCHEMA.field(name) for name in PLANNED_COLUMNS]
_SCHEMA: Final = pa.schema(_FIELDS, metadata=LOG_SCHEMA.metadata)
_FINGERPRINTED: Final = ("op_id", "seq", "move", "key", "from_tier", "to_tier", "size_bytes")


def tabulate(workload: Workload, stretch: Stretch, positions: NDArray[np.int64], moves: NDArray[np.int64]) -> pa.Table:
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
        # The tokens of an op count once, at its first move.
        "new_tokens": np.where(columns["seq"] == 0, columns["new_tokens"], 0),
        "tokens": workload.tokens(columns["key"]),
    }
    arrays = [array_of(name, columns[name]) for name in PLANNED_COLUMNS]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


@contextmanager
def write_moves(path: Path, plan: Plan) -> Iterator[Look]:
    """Write a plan's moves as Parquet; the file appears under its name once it is whole.

    What is yielded takes the stretches of the plan, as the arguments of `tabulate`.

    Raises:
        InputError: the file exists, or cannot be written.
    """
    with (
        open_output(path, force=False, setting="moves") as file,
        pq.ParquetWriter(file, _SCHEMA, compression="zstd") as writer,
    ):
        yield lambda *stretch: writer.write_table(tabulate(plan.workload, *stretch))
