"""A tier made slower, for tests and what-if runs: behind a limit of bandwidth and latency."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Throttle:
    """A device's speed.

    Attributes:
        mib_s: MiB per second of all reads together, and of all writes together.
        latency_us: of each request beyond its transfer; requests wait for it side by side.
        write_mib_s: of all writes together, where it is not that of reads.
    """

    mib_s: float
    latency_us: float = 0
    write_mib_s: float | None = None

    def recorded(self) -> dict[str, float]:
        """As run.json keeps it: without what it leaves open."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        """For people: its limits."""
        writes = f" of reads, {self.write_mib_s:g} MiB/s of writes" if self.write_mib_s is not None else ""
        return f"{self.mib_s:g} MiB/s{writes} and {self.latency_us:g} us"
