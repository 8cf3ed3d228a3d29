"""The fingerprint of a trace's content."""

import hashlib

import numpy as np

from tracegen.trace.columns import DTYPES, Columns
from tracegen.trace.metadata import FORMAT_VERSION


class Fingerprint:
    """SHA-256(version ‖ SHA-256(column 1) ‖ …) over little-endian values, computed while streaming."""

    def __init__(self) -> None:
        self._hashers = {name: hashlib.sha256() for name in DTYPES}

    def update(self, batch: Columns) -> None:
        """Add a batch of ops, in the trace's order."""
        for name, hasher in self._hashers.items():
            hasher.update(np.ascontiguousarray(batch[name], dtype=DTYPES[name]).data)

    def hexdigest(self) -> str:
        """The fingerprint of all ops added so far."""
        whole = hashlib.sha256(FORMAT_VERSION.to_bytes(8, "little"))
        for hasher in self._hashers.values():
            whole.update(hasher.digest())
        return whole.hexdigest()
