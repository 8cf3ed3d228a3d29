"""The writer of the log: records of the engine become rows of Parquet parts."""

from time import monotonic
from typing import Any, Final

import numpy as np

from replayer.bindings.compiled import RECORD, address, call
from replayer.planning.executing import Records
from replayer.record.columns import LOG_COLUMNS
from replayer.record.run_directory import RunDirectory

PART_ROWS: Final = 1 << 17
PART_SECONDS: Final = 2.0  # what a run that is killed may lose

_NAMES: Final = tuple(name for name in LOG_COLUMNS if name != "rank")
_split_records = call("records_split")


class LogWriter:
    """Collects records by column, and writes them as a part at some size or age.

    Args:
        directory: of the run.
        rank: of this process.
        by_age: whether rows become a part at some age, too; else the parts are the same each time.

    Attributes:
        rows: number of rows that are in no part yet.
    """

    def __init__(self, directory: RunDirectory, rank: int, *, by_age: bool = True) -> None:
        offsets: Any = RECORD.fields
        self._directory = directory
        self._rank = rank
        self._by_age = by_age
        # Allocated once: a part's columns are overwritten by the next part's.
        self._columns = {name: np.empty(PART_ROWS, RECORD[name]) for name in _NAMES}
        layout = [(offsets[name][1], RECORD[name].itemsize) for name in _NAMES]
        self._layout = np.array(layout, np.int64)
        self._errors: dict[int, str] = {}
        self._written_at = monotonic()
        self.rows = 0

    def add(self, records: Records, errors: dict[int, str]) -> None:
        """Add records; write a part if one is due.

        Args:
            records: as the engine gives them, shape (moves,); copied.
            errors: messages by the number that a record's `error` gives.

        Raises:
            OSError: the part cannot be written.
        """
        while len(records):
            if self.rows == PART_ROWS:  # a part that could not be written before
                self.write()
            batch, records = np.split(records, [PART_ROWS - self.rows])
            for row in np.flatnonzero(batch["error"] >= 0).tolist() if errors else ():
                self._errors[self.rows + row] = errors[int(batch["error"][row])]
            self._copy(batch)
            self.rows += len(batch)
            if self.rows == PART_ROWS:
                self.write()
        if self._by_age and monotonic() - self._written_at > PART_SECONDS:
            self.write()

    def _copy(self, batch: Records) -> None:
        """Copy the records into the columns, after the rows that are there."""
        targets = np.array([address(column[self.rows :]) for column in self._columns.values()], np.int64)
        layout = address(self._layout)
        # One pass of compiled code over the records: a copy per column would read them 35 times.
        _split_records(address(batch), len(batch), RECORD.itemsize, layout, address(targets), len(targets))

    def write(self) -> None:
        """Write all rows as a part; they stay here if that fails.

        Raises:
            OSError: the part cannot be written.
        """
        if self.rows:
            columns: dict[str, Any] = {name: column[: self.rows] for name, column in self._columns.items()}
            columns["rank"] = np.full(self.rows, self._rank)
            columns["error"] = [self._errors.get(row) for row in range(self.rows)] if self._errors else None
            self._directory.write_part(columns)
            self._errors = {}
            self.rows = 0
        self._written_at = monotonic()
