"""Reading and checking trace files."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tracegen.errors import InputError, check_is_file, quote_value
from tracegen.trace.columns import DTYPES, ENUMS, SCHEMA, Columns, cut
from tracegen.trace.fingerprint import Fingerprint
from tracegen.trace.invariants import Invariants, Problem
from tracegen.trace.metadata import read_metadata


class Trace:
    """A trace opened for reading, a file or a folder of parts; its columns and metadata are known to be of this format.

    Raises:
        InputError: the file is missing, not Parquet, truncated, not a trace, of a newer version, or lacks a column.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.paths = sorted(self.path.glob("part-*.parquet")) if self.path.is_dir() else [self.path]
        if not self.paths:
            raise InputError(f"{path} is a folder without part-*.parquet; name a trace.")
        self._files = [self._open(one) for one in self.paths]
        last = self._files[-1]
        self.metadata = read_metadata(self.path, (last.schema_arrow.metadata or {}) | (last.metadata.metadata or {}))
        for file in self._files:
            self._check_columns(file.schema_arrow)
        self.ops = sum(file.metadata.num_rows for file in self._files)
        if self.ops == 0:
            raise InputError(f"{path} holds no ops; generate it anew.")

    def _open(self, path: Path) -> pq.ParquetFile:
        check_is_file(path, "a trace")
        try:
            return pq.ParquetFile(path.absolute())  # a relative a:b would be taken for an address
        except FileNotFoundError:
            raise InputError(f"{path}: no such trace; make one with `tracegen generate … -o {path}`.") from None
        except (OSError, ValueError, pa.ArrowException) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"{path} is not a readable Parquet file ({reason}); generate or copy it anew.") from None

    def _check_columns(self, present: pa.Schema) -> None:
        for wanted in SCHEMA:
            if (count := present.names.count(wanted.name)) > 1:
                raise InputError(f"{self.path} has {count} columns {wanted.name}; write each once.")
            if not count:
                raise InputError(f"{self.path}: column {wanted.name} is missing; generate or copy the trace anew.")
            found = present.field(wanted.name).type
            value = found.value_type if pa.types.is_dictionary(found) else found
            is_text = pa.types.is_string(value) or pa.types.is_large_string(value)
            if not (is_text if wanted.name in ENUMS else found == wanted.type):
                expected = "text (an enum)" if wanted.name in ENUMS else wanted.type
                raise InputError(
                    f"{self.path}: column {wanted.name} is {str(found)[:60]}, not {expected}; write it as specified."
                )

    def batches(self, size: int = 1 << 16, more: tuple[str, ...] = ()) -> Iterator[Columns]:
        """The ops in order, exactly `size` rows at a time but for the last, however the file groups its rows.

        Args:
            size: rows per batch.
            more: columns beyond those of the format, int64.

        Raises:
            InputError: a page cannot be read, a value is null, or an enum holds an unknown word.
        """
        waiting: list[Columns] = []
        rows = 0
        for part in self._parts(size, [*SCHEMA.names, *more]):
            waiting.append(part)
            rows += len(part["op_id"])
            if rows >= size:
                *whole, rest = cut(waiting, size)
                waiting, rows = [rest], len(rest["op_id"])
                yield from whole
        if rows:
            yield cut(waiting, size)[0]

    def _parts(self, size: int, names: list[str]) -> Iterator[Columns]:
        start = 0
        try:
            for file in self._files:
                for batch in file.iter_batches(size, columns=names):
                    yield {name: self._decode(batch.column(name), name, start) for name in names}
                    start += batch.num_rows
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"{self.path} cannot be read past row {start} ({reason}); copy it anew.") from None

    def _decode(self, column: pa.Array, name: str, start: int) -> NDArray[Any]:
        if column.null_count:
            row = start + pc.index(column.is_null(), True).as_py()
            raise InputError(f"{self.path}, row {row}: {name} is null; every column of a trace is required.")
        if name not in ENUMS:
            values: NDArray[Any] = column.to_numpy()
            return values.astype(DTYPES.get(name, np.int64), copy=False)
        words = column.dictionary if isinstance(column, pa.DictionaryArray) else column
        codes = pc.index_in(words, pa.array(ENUMS[name], words.type))
        if isinstance(column, pa.DictionaryArray):
            codes = codes.take(column.indices)
        if codes.null_count:
            bad = pc.index(codes.is_null(), True).as_py()
            allowed = ", ".join(ENUMS[name])
            raise InputError(
                f"{self.path}, row {start + bad}: {name} = {quote_value(column[bad].as_py())} is none of {allowed}."
            )
        found: NDArray[Any] = codes.to_numpy()
        return found.astype(np.uint8)

    def violations(self) -> "Violations":
        """What breaks the format's invariants, in row order; metadata and fingerprint last.

        Raises:
            InputError: as `batches`.
        """
        check = Check(self)
        first = [problem for batch in self.batches() for problem in check.feed(batch)]
        whole = list(check.finish())
        return Violations([*first, *whole], check.found + len(whole))

    def problems(self) -> list[Problem]:
        """The first violations, of `violations`."""
        return self.violations().first

    def check(self) -> None:
        """Refuse the trace if it breaks any invariant.

        Raises:
            InputError: names the first violation, counts the others.
        """
        self.refuse(self.violations())

    def checked(self, size: int) -> Iterator[Columns]:
        """The ops in order as `batches`; each is known to be sound before it is given, the whole at the end.

        Raises:
            InputError: as `batches` and `check`.
        """
        check, waiting = Check(self), deque[tuple[Columns, Future[list[Problem]]]]()
        with ThreadPoolExecutor(1) as pool:  # checks a batch while the next one is read
            for batch in self.batches(size):
                waiting.append((batch, pool.submit(check.feed, batch)))
                if len(waiting) > 1:
                    yield self._sound(*waiting.popleft())
            while waiting:
                yield self._sound(*waiting.popleft())
        whole = list(check.finish())
        self.refuse(Violations(whole, len(whole)))

    def _sound(self, batch: Columns, found: "Future[list[Problem]]") -> Columns:
        """The batch, if nothing is wrong with it; else all that is wrong with the trace."""
        if found.result():
            self.check()
        return batch

    def refuse(self, found: "Violations") -> None:
        """Raise the first violation, and count the others.

        Raises:
            InputError: there are any.
        """
        if found.count:
            more = f" ({found.count - 1:,} more)" if found.count > 1 else ""
            raise InputError(f"{self.path}, {found.first[0]}{more}; `tracegen validate {self.path}` lists them.")


@dataclass(frozen=True)
class Violations:
    """The first violations of the format, a hundred of rows and those of the whole, and the number of all."""

    first: list[Problem]
    count: int


class Check:
    """Follows a trace from batch to batch, and finds what breaks the format."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._invariants, self._fingerprint = trace, Invariants(trace.ops), Fingerprint()

    @property
    def found(self) -> int:
        """Violations of the rows so far."""
        return self._invariants.found

    def feed(self, batch: Columns) -> list[Problem]:
        """What the next ops break, of the first hundred violations."""
        self._fingerprint.update(batch)
        return list(self._invariants.feed(batch))

    def finish(self) -> Iterator[Problem]:
        """What the whole breaks."""
        yield from self._invariants.finish(self._trace.metadata.counts)
        if self._fingerprint.hexdigest() != self._trace.metadata.fingerprint:
            wanted = self._trace.metadata.fingerprint
            yield Problem(None, "fingerprint", wanted, f"the ops give {self._fingerprint.hexdigest()}")
