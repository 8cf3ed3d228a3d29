"""A tier made slower, for tests and what-if runs: behind a limit of bandwidth and latency."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Throttle:
    """A device's speed.

    Attributes:
        mib_s: MiB per second of all reads together, and of all writes together.
        latency_us: of each request beyond its transfer; requests wait for it side by side.
    """

    mib_s: float
    latency_us: float = 0
