"""The targets of a run; a module of its own, as `--help` says the defaults."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Targets:
    """Bounds and capabilities that a run is compared with.

    Attributes:
        qos_ms: by QoS class, the time to first byte in ms that 95% of its requests should meet;
            the defaults are those of kv-cache.py.
        tier_gib_s: by tier, the GiB/s that it can read and write, from its data sheet or from fio.
        tbw: the endurance of the drive, in 10^12 bytes written.
        drive_tb: the capacity of the drive, in 10^12 bytes.
    """

    qos_ms: dict[str, float] = field(
        default_factory=lambda: {"interactive": 50.0, "responsive": 100.0, "batch": 1000.0}
    )
    tier_gib_s: dict[str, tuple[float, float]] = field(default_factory=dict)
    tbw: float | None = None
    drive_tb: float | None = None
