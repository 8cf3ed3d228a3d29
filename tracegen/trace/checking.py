"""Checks of whole traces against the format, while their ops stream by."""

from collections.abc import Iterator
from dataclasses import dataclass

from tracegen.trace.columns import Columns
from tracegen.trace.fingerprint import Fingerprint
from tracegen.trace.invariants import Invariants, Problem
from tracegen.trace.metadata import Metadata


@dataclass(frozen=True)
class Violations:
    """The violations of a trace.

    Attributes:
        first: the first hundred of rows, then those of the file as a whole.
        count: number of all violations.
    """

    first: list[Problem]
    count: int


class TraceCheck:
    """Checker of a trace's invariants and fingerprint, fed batch by batch.

    Args:
        ops: number of ops in the trace.
        metadata: the trace's metadata, whose counts and fingerprint the ops must confirm.
    """

    def __init__(self, ops: int, metadata: Metadata) -> None:
        self._metadata = metadata
        self._invariants = Invariants(ops)
        self._fingerprint = Fingerprint()

    @property
    def row_violations(self) -> int:
        """Number of violations in the rows so far."""
        return self._invariants.violations

    def feed(self, batch: Columns) -> list[Problem]:
        """Check the next ops; return their violations, up to a hundred in the whole trace."""
        self._fingerprint.update(batch)
        return list(self._invariants.feed(batch))

    def finish(self) -> Iterator[Problem]:
        """Yield the violations of the trace as a whole, after its last ops."""
        yield from self._invariants.finish(self._metadata.counts)
        fingerprint = self._fingerprint.hexdigest()
        recorded = self._metadata.fingerprint
        if fingerprint != recorded:
            yield Problem(None, "fingerprint", recorded, f"the ops give {fingerprint}")
