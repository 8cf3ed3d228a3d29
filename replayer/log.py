"""The log: records of the engine become rows of Parquet parts."""

from time import monotonic
from typing import Any, Final

import numpy as np

from replayer.engine import Records
from replayer.schema import LOG_COLUMNS, RunDirectory

PART_ROWS: Final = 1 << 17
PART_SECONDS: Final = 2.0


class Log:
    """Collects records into parts of some size or age.

    Attributes:
        waiting: records, and their errors by row, that are not in a part yet.
    """

    def __init__(self, directory: RunDirectory, rank: int) -> None:
        self._directory, self._rank = directory, rank
        self.waiting, self._errors, self._rows = list[Records](), dict[int, str](), 0
        self._written = monotonic()

    def add(self, records: Records, errors: dict[int, str]) -> None:
        """Add records; writes a part where one is due.

        Args:
            records: as the engine gives them; copied.
            errors: what went wrong, by the number that a record's `error` gives.
        """
        if len(records):
            for row in np.flatnonzero(records["error"] >= 0).tolist() if errors else ():
                self._errors[self._rows + row] = errors[int(records["error"][row])]
            self.waiting.append(records.copy())
            self._rows += len(records)
        if self._rows >= PART_ROWS or monotonic() - self._written > PART_SECONDS:
            self.write()

    def write(self) -> None:
        """Close a part; its rows stay waiting where it cannot be written."""
        if self.waiting:
            self._directory.write_part(self._columns())
            self.waiting, self._errors, self._rows = [], {}, 0
        self._written = monotonic()

    def _columns(self) -> dict[str, Any]:
        rows = np.concatenate(self.waiting) if len(self.waiting) > 1 else self.waiting[0]
        columns: dict[str, Any] = {name: rows[name] for name in LOG_COLUMNS if name not in ("rank", "error")}
        columns["rank"] = np.full(self._rows, self._rank)
        columns["error"] = [self._errors.get(row) for row in range(self._rows)] if self._errors else None
        return columns
