"""The settings of a run: how it executes its plan."""

from dataclasses import dataclass, field
from typing import Final

from replayer.options.run_groups import ControlOptions, DeviceOptions
from replayer.planning.pace import Demand, PlanWindow, Span
from replayer.record.conditions import Tier
from replayer.record.options import DEVICE_LAYOUTS
from replayer.tiers.request import BlockIO
from replayer.tiers.throttled import Throttle

_BUFFER_BYTES: Final = 256 << 20  # of all workers together
_MIN_REQUEST: Final = 1 << 18
_MAX_REQUEST: Final = 1 << 20


def choose_request_bytes(workers: int, depth: int) -> int:
    """Return the largest power of two for which the buffers of all workers stay within 256 MiB.

    The result is from 256 KiB to 1 MiB: larger requests were measured to be slower, since
    their buffers leave the CPU's caches, and that smaller ones cost more calls.

    Args:
        workers: moves in flight.
        depth: requests of one object in flight.
    """
    # A worker has a buffer for each request of its object in flight.
    share = _BUFFER_BYTES // workers // depth
    return min(_MAX_REQUEST, max(_MIN_REQUEST, 1 << share.bit_length() - 1))


@dataclass(frozen=True)
class Settings:
    """Settings by which a run executes its plan.

    Attributes:
        demand: the load that the run puts on the tiers.
        devices: how the tiers are reached, as the options say.
        io: requests to the file system, resolved from them.
        window: how far execution runs ahead.
        span: the part of the plan that is executed and measured.
        control: what happens before the run, at errors and after it.
        notes: options that this machine cannot honour, in words.
    """

    demand: Demand
    devices: DeviceOptions = field(default_factory=DeviceOptions)
    io: BlockIO = field(default_factory=BlockIO)
    window: PlanWindow = field(default_factory=PlanWindow)
    span: Span = field(default_factory=Span)
    control: ControlOptions = field(default_factory=ControlOptions)
    notes: tuple[str, ...] = ()

    @property
    def throttles(self) -> dict[Tier, Throttle]:
        """Limits of tiers that are slowed down, by tier."""
        return dict(self.devices.throttle)

    @property
    def is_on_drive(self) -> bool:
        """Whether the nvme tier, if there is one, stores its objects on a drive."""
        return self.devices.layout in DEVICE_LAYOUTS

    @property
    def chunk(self) -> int:
        """Bytes that a worker moves at once: all requests of one object in flight."""
        return self.io.size * self.io.depth
