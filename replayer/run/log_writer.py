"""The log: records of the engine become rows of Parquet parts."""

from time import monotonic
from typing import Any, Final

import numpy as np

from replayer.bindings.compiled import RECORD, address, call
from replayer.engine.engine import Records
from replayer.record.columns import LOG_COLUMNS
from replayer.record.run_directory import RunDirectory

PART_ROWS: Final = 1 << 17
PART_SECONDS: Final = 2.0

_NAMES: Final = tuple(name for name in LOG_COLUMNS if name != "rank")
_split = call("records_split")


class Log:
    """Collects records by column, and writes them as a part at some size or age.

    Attributes:
        rows: how many are in no part yet.
    """

    def __init__(self, directory: RunDirectory, rank: int) -> None:
        self._directory, self._rank = directory, rank
        self._columns = {name: np.empty(PART_ROWS, RECORD[name]) for name in _NAMES}
        fields: Any = RECORD.fields
        self._fields = np.array([(fields[name][1], RECORD[name].itemsize) for name in _NAMES], np.int64)
        self._errors, self.rows = dict[int, str](), 0
        self._written = monotonic()

    def add(self, records: Records, errors: dict[int, str]) -> None:
        """Add records; writes a part where one is due.

        Args:
            records: as the engine gives them; copied.
            errors: what went wrong, by the number that a record's `error` gives.
        """
        while len(records):
            if self.rows == PART_ROWS:
                self.write()
            some, records = np.split(records, [PART_ROWS - self.rows])
            for row in np.flatnonzero(some["error"] >= 0).tolist() if errors else ():
                self._errors[self.rows + row] = errors[int(some["error"][row])]
            outs = np.array([address(column[self.rows :]) for column in self._columns.values()], np.int64)
            _split(address(some), len(some), RECORD.itemsize, address(self._fields), address(outs), len(outs))
            self.rows += len(some)
        if self.rows == PART_ROWS or monotonic() - self._written > PART_SECONDS:
            self.write()

    def write(self) -> None:
        """Close a part; its rows stay waiting where it cannot be written."""
        if self.rows:
            columns: dict[str, Any] = {name: column[: self.rows] for name, column in self._columns.items()}
            columns["rank"] = np.full(self.rows, self._rank)
            columns["error"] = [self._errors.get(row) for row in range(self.rows)] if self._errors else None
            self._directory.write_part(columns)
            self._errors, self.rows = {}, 0
        self._written = monotonic()
