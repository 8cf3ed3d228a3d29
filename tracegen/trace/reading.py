"""Trace files, opened for reading."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tracegen.errors import InputError, check_is_file, quote_value
from tracegen.trace.columns import DTYPES, ENUMS, SCHEMA, SHARD_SCHEMA, Columns, split_rows
from tracegen.trace.invariants import TraceCheck
from tracegen.trace.metadata import read_metadata

if TYPE_CHECKING:
    import polars as pl


BATCH_OPS: Final = 1 << 16


class Trace:
    """A trace opened for reading: a Parquet file, or a folder of `part-*.parquet` files.

    Raises:
        InputError: the file is missing, is not Parquet, is truncated, is not a trace, is of a newer
            version, or lacks a column.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.paths = [self.path]
        if self.path.is_dir():
            self.paths = sorted(self.path.glob("part-*.parquet"))
        if not self.paths:
            raise InputError(f"{path} is a folder without part-*.parquet", "name a trace")
        self._files = [self._open(file) for file in self.paths]
        last = self._files[-1]
        entries = (last.schema_arrow.metadata or {}) | (last.metadata.metadata or {})
        self.metadata = read_metadata(self.path, entries)
        for file in self._files:
            self._check_columns(file.schema_arrow)
        self.ops = sum(file.metadata.num_rows for file in self._files)
        if self.ops == 0:
            raise InputError(f"{path} holds no ops", "generate it again")

    def _open(self, path: Path) -> pq.ParquetFile:
        check_is_file(path, "a trace")
        try:
            return pq.ParquetFile(path.absolute())  # Arrow takes a relative a:b for a URL
        except FileNotFoundError:
            raise InputError("no such trace", f"make one with `tracegen generate … -o {path}`", subject=path) from None
        except MemoryError:
            raise
        except (OSError, ValueError, pa.ArrowException) as error:
            problem = f"{path} is not a readable Parquet file ({_first_line(error)})"
            raise InputError(problem, "generate or copy it again") from None

    def _check_columns(self, schema: pa.Schema) -> None:
        for column in SHARD_SCHEMA if self.metadata.part else SCHEMA:
            name = column.name
            count = schema.names.count(name)
            if count > 1:
                raise InputError(f"{self.path} has {count} columns {name}", "write each once")
            if not count:
                problem = f"column {name} is missing"
                raise InputError(problem, "generate or copy the trace again", subject=self.path)
            kind = schema.field(name).type
            value = kind.value_type if pa.types.is_dictionary(kind) else kind
            is_text = pa.types.is_string(value) or pa.types.is_large_string(value)
            if not (is_text if name in ENUMS else kind == column.type):
                wanted = "text (an enum)" if name in ENUMS else column.type
                problem = f"column {name} is {str(kind)[:60]}, not {wanted}"
                raise InputError(problem, "write it as docs/trace-format.md specifies", subject=self.path)

    def frame(self) -> "pl.LazyFrame":
        """Scan all columns lazily with Polars, one row per op, in order.

        The columns `qos`, `phase`, `op` and `source` are of type `pl.Enum`, with the words and the
        order of ENUMS; all others are integers, as `docs/trace-format.md` has them. A query that
        cannot be executed raises Polars' own errors when it is collected.
        """
        import polars as pl  # noqa: PLC0415 (takes longer to import than all else here)

        frame = pl.scan_parquet(self.paths, glob=False).select(SCHEMA.names)
        return frame.with_columns(pl.col(name).cast(pl.Enum(words)) for name, words in ENUMS.items())

    def collect(self, *queries: "pl.LazyFrame") -> "list[pl.DataFrame]":
        """Execute queries on the frame.

        Raises:
            InputError: the trace cannot be read.
        """
        import polars as pl  # noqa: PLC0415 (as in `frame`)

        try:
            return pl.collect_all(queries)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"{self.path} cannot be read ({_first_line(error)})", "copy it again") from None

    def batches(self, size: int = BATCH_OPS, more: tuple[str, ...] = ()) -> Iterator[Columns]:
        """Yield the ops in order, `size` rows at a time, however the file groups its rows.

        `more` names columns of a shard to read besides those of all traces.

        Raises:
            InputError: a page cannot be read, a value is null, or an enum holds an unknown word.
        """
        waiting: list[Columns] = []
        rows = 0
        for batch in self._decoded_batches(size, [*SCHEMA.names, *more]):
            waiting.append(batch)
            rows += len(batch["op_id"])
            if rows >= size:
                *whole, rest = split_rows(waiting, size)
                waiting = [rest]
                rows = len(rest["op_id"])
                yield from whole
        if rows:
            yield split_rows(waiting, size)[0]

    def _decoded_batches(self, size: int, names: list[str]) -> Iterator[Columns]:
        """Yield the rows in batches of at most `size`, as the files group them."""
        start = 0
        try:
            for file in self._files:
                for batch in file.iter_batches(size, columns=names):
                    yield {name: self._decode(batch.column(name), name, start) for name in names}
                    start += batch.num_rows
        except MemoryError:  # Arrow's is one of its exceptions, too
            raise
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            problem = f"{self.path} cannot be read after row {start} ({_first_line(error)})"
            raise InputError(problem, "copy it again") from None

    def _decode(self, column: pa.Array, name: str, start: int) -> NDArray[Any]:
        """Convert a column to NumPy; `start` is the number of its first row."""
        if column.null_count:
            row = start + pc.index(column.is_null(), True).as_py()
            remedy = "give every column of a trace a value in each row"
            raise InputError(f"{name} is null", remedy, subject=f"{self.path}, row {row}")
        if name not in ENUMS:
            values: NDArray[Any] = column.to_numpy()
            return values.astype(DTYPES.get(name, np.int64), copy=False)
        words = column.dictionary if isinstance(column, pa.DictionaryArray) else column
        codes = pc.index_in(words, pa.array(ENUMS[name], words.type))
        if isinstance(column, pa.DictionaryArray):
            codes = codes.take(column.indices)
        if codes.null_count:
            place = pc.index(codes.is_null(), True).as_py()
            problem = f"{name} = {quote_value(column[place].as_py())}"
            remedy = f"write one of {', '.join(ENUMS[name])}"
            raise InputError(problem, remedy, subject=f"{self.path}, row {start + place}")
        decoded: NDArray[Any] = codes.to_numpy()
        return decoded.astype(np.uint8)

    def violations(self) -> TraceCheck:
        """Find the violations of the format."""
        found = TraceCheck(self.ops, self.metadata)
        for batch in self.batches():
            found.feed(batch)
        found.finish()
        return found

    def check(self) -> None:
        """Refuse the trace if it breaks the format, naming the first violation."""
        self._refuse(self.violations())

    def checked_batches(self, size: int) -> Iterator[Columns]:
        """Yield the ops as `batches` does, each batch once it is checked.

        The trace as a whole is checked at the end.
        """
        found = TraceCheck(self.ops, self.metadata)
        with ThreadPoolExecutor(1) as pool:
            checked = ((batch, pool.submit(found.feed, batch)) for batch in self.batches(size))
            # In pairs, so that a batch is checked while the next one is read.
            for current, _ in pairwise(chain(checked, [None])):
                assert current is not None
                batch, check = current
                check.result()
                if found.count:
                    self.check()  # which counts the violations of the whole trace
                yield batch
        found.finish()
        self._refuse(found)

    def _refuse(self, found: TraceCheck) -> None:
        """Raise an InputError if there are any violations."""
        if found.count:
            others = f" ({found.count - 1:,} more)" if found.count > 1 else ""
            raise InputError(f"{self.path}, {found.problems[0]}{others}", f"`tracegen validate {self.path}` lists them")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
