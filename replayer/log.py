"""The log: records of the engine become rows of Parquet parts."""

from time import monotonic
from typing import Any, Final

import numpy as np

from replayer.engine import Records
from replayer.run_directory import RunDirectory
from replayer.schema import LOG_COLUMNS

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
        try:
            self._collect(records, errors)
        finally:  # the engine will use its memory again
            self.waiting = [rows if rows.flags.owndata else rows.copy() for rows in self.waiting]

    def _collect(self, records: Records, errors: dict[int, str]) -> None:
        for begin in range(0, len(records), PART_ROWS):
            some = records[begin : begin + PART_ROWS]
            for row in np.flatnonzero(some["error"] >= 0).tolist() if errors else ():
                self._errors[self._rows + row] = errors[int(some["error"][row])]
            self.waiting.append(some)
            self._rows += len(some)
            if self._rows >= PART_ROWS:
                self.write()
        if monotonic() - self._written > PART_SECONDS:
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
