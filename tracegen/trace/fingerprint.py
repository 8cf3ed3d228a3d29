"""The fingerprint of a trace's content."""

import hashlib

import numpy as np

from tracegen.trace.columns import DTYPES, Columns
from tracegen.trace.metadata import FORMAT_VERSION


class Fingerprint:
    """The fingerprint, computed batch by batch.

    It is SHA-256(version ‖ SHA-256(column 1) ‖ …), over little-endian values.
    """

    def __init__(self) -> None:
        self._hashers = {name: hashlib.sha256() for name in DTYPES}

    def update(self, batch: Columns) -> None:
        """Add the next ops of the trace."""
        for name, hasher in self._hashers.items():
            hasher.update(np.ascontiguousarray(batch[name], dtype=DTYPES[name]).data)

    def hexdigest(self) -> str:
        """Return the fingerprint of all ops added so far, as 64 hexadecimal digits."""
        whole = hashlib.sha256(FORMAT_VERSION.to_bytes(8, "little"))
        for hasher in self._hashers.values():
            whole.update(hasher.digest())
        return whole.hexdigest()
