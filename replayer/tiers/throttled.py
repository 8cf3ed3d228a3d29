"""A tier made slower, for tests and what-if runs: limits of bandwidth and latency."""

from dataclasses import asdict, dataclass

from replayer.bindings.compiled import call
from replayer.tiers.native import NativeTier

_set_throttle = call("tier_throttle")


@dataclass(frozen=True)
class Throttle:
    """The speed limits of a tier: each transfer takes at least as long as they say.

    Attributes:
        mib_s: MiB per second of all reads together, and of all writes together.
        latency_us: microseconds added to the transfer of each request; requests wait in parallel.
        write_mib_s: MiB per second of all writes together, if it differs from that of reads.
    """

    mib_s: float
    latency_us: float = 0
    write_mib_s: float | None = None

    def slow_down(self, tier: NativeTier) -> None:
        """Set the limits of a tier, before the run."""
        # Compiled code waits by itself in moves that it makes; Python asks it to in all others.
        tier.is_throttled = True
        _set_throttle(tier.engine_handle, self.mib_s, self.write_mib_s or self.mib_s, self.latency_us)

    def as_dict(self) -> dict[str, float]:
        """Return the limits that are set, as run.json keeps them."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        """Format the limits for messages."""
        writes = ""
        if self.write_mib_s is not None:
            writes = f" of reads, {self.write_mib_s:g} MiB/s of writes"
        return f"{self.mib_s:g} MiB/s{writes} and {self.latency_us:g} us"
