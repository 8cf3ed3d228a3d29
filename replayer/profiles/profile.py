"""Profiles of machines, as docs/predicting.md specifies them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from ctypes import Array
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Self, cast

from replayer.bindings.compiled import ProfileStruct, StationStruct
from replayer.record.columns import TIERS
from replayer.record.options import Fsync, GpuRead, Layout, ProfileKind, Verify
from replayer.record.run_info import IoEngine, Tier
from tracegen.errors import InputError

_NO_SPREAD: Final = (1.0,) * 9
MOST_POINTS: Final = 16
"""Loads at which a station may have costs, at most."""
SPREAD_AT: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""The probabilities of the quantiles."""
_ROUNDING: Final = 1e-9  # a mean this close to 1 is one that was scaled before

Spread = tuple[float, ...]
"""The nine quantiles in ascending order; empty: every visit takes the mean time."""


@dataclass(frozen=True)
class Station:
    """One direction of a tier: its costs at some loads.

    Attributes:
        in_flight: the loads, ascending from 1; shape (points,), as of all that follow.
        open_us: to open an object.
        latency_us: of a visit, before it transfers bytes.
        bandwidth_gb_s: of all visits together, in 10^9 bytes per second.
        spread: nine quantiles for each load, or none.
        remove_us: to remove an object; empty: removing takes no time.
    """

    in_flight: tuple[float, ...]
    open_us: tuple[float, ...]
    latency_us: tuple[float, ...]
    bandwidth_gb_s: tuple[float, ...]
    spread: tuple[Spread, ...] = ()
    remove_us: tuple[float, ...] = ()

    def slow_down(self, factor: float) -> Self:
        """Return the station with all times multiplied."""
        return replace(
            self,
            open_us=_multiply(self.open_us, factor),
            latency_us=_multiply(self.latency_us, factor),
            bandwidth_gb_s=_multiply(self.bandwidth_gb_s, 1 / factor),
            remove_us=_multiply(self.remove_us, factor),
        )


@dataclass(frozen=True)
class TierProfile:
    """The speed of one tier.

    Attributes:
        read: its reads.
        write: its writes and removals.
        writes_on_reads: reads that a write weighs for reads.
        reads_on_writes: writes that a read weighs for writes.
        smallest_bytes: the smallest object that the profile is for.
        largest_bytes: the largest one.
        turn_bytes: bytes that a visit transfers before the next has its turn; 1: all get equal
            shares.
    """

    read: Station
    write: Station
    writes_on_reads: float
    reads_on_writes: float
    smallest_bytes: int
    largest_bytes: int
    turn_bytes: int = 1

    def slow_down(self, factor: float) -> Self:
        """Return the tier with all times multiplied."""
        return replace(self, read=self.read.slow_down(factor), write=self.write.slow_down(factor))


@dataclass(frozen=True)
class CpuProfile:
    """The work of a worker besides I/O.

    Attributes:
        cores: that workers may use.
        make_ns_per_byte: to make bytes that are written.
        check_ns_per_byte: to check bytes that were read.
        move_us: of book-keeping per move.
    """

    cores: float
    make_ns_per_byte: float
    check_ns_per_byte: float
    move_us: float


@dataclass(frozen=True)
class ProfileConditions:
    """The settings under which a profile was measured; replays under others cannot be predicted.

    The fields have the names and values of run.json's conditions.
    """

    layout: Layout
    direct: bool
    io_bytes: int
    io_depth: int
    io_engine: IoEngine
    fsync: Fsync
    verify: Verify
    gpu_read: GpuRead = "host"
    throttle: Mapping[Tier, Mapping[str, float]] = field(default_factory=dict)


_OF_DATA_SHEETS: Final = ProfileConditions(
    layout="files",
    direct=True,
    io_bytes=1 << 20,
    io_depth=1,
    io_engine="psync",
    fsync="none",
    verify="stamps",
)
"""What replays are assumed to have if the profile was not measured."""


@dataclass(frozen=True)
class MeasuredCell:
    """A time that was measured for a profile.

    Attributes:
        tier: where.
        what: read, write or remove; mixed read and mixed write: while the other went on, too.
        bytes: of an object.
        workers: that moved objects at once.
        in_flight: mean number of visits in the station; of both stations together if mixed.
        measured_us: median of the rounds.
        low_us: of the fastest round.
        high_us: of the slowest round.
        model_us: as the profile has it.
        residual: model ÷ measured − 1.
    """

    tier: Tier
    what: str
    bytes: int
    workers: int
    in_flight: float
    measured_us: float
    low_us: float
    high_us: float
    model_us: float
    residual: float


@dataclass(frozen=True)
class Profile:
    """The profile of a machine.

    Attributes:
        name: its name.
        kind: whether it was measured.
        source: of one that was not measured: where its numbers are from.
        conditions: under which it was measured; None if it was not measured.
        machine: facts about the machine, by name.
        cpu: the work of workers besides I/O.
        tiers: those that were measured.
        cells: what was measured.
    """

    name: str
    kind: ProfileKind
    source: str
    conditions: ProfileConditions | None
    machine: Mapping[str, str | int | float]
    cpu: CpuProfile
    tiers: Mapping[Tier, TierProfile]
    cells: tuple[MeasuredCell, ...] = ()

    @property
    def assumed_conditions(self) -> ProfileConditions:
        """The conditions under which its times hold."""
        return self.conditions or _OF_DATA_SHEETS

    def with_speed(self, speeds: Mapping[Tier, float]) -> Self:
        """Return the profile with faster tiers.

        Args:
            speeds: how many times as fast, by tier; all times of the tier are divided by it.

        Raises:
            InputError: the profile has no such tier, or a speed is not positive.
        """
        for tier, speed in speeds.items():
            if tier not in self.tiers:
                raise InputError(
                    f"the profile {self.name} has no tier {tier}",
                    f"name {' or '.join(self.tiers)}",
                    setting="speed",
                )
            if not 1e-6 <= speed <= 1e6:
                problem = "is not a speed from 0.000001 to 1,000,000"
                remedy = "write 2 for twice as fast"
                raise InputError(problem, remedy, subject=f"{tier}={speed:g}", setting="speed")
        faster = {tier: self.tiers[tier].slow_down(1 / speed) for tier, speed in speeds.items()}
        return replace(self, tiers={**self.tiers, **faster})

    def struct(self) -> ProfileStruct:
        """Return the profile as compiled code reads it."""
        return _make_struct(self.cpu, self.tiers)

    @property
    def digest(self) -> str:
        """Hash of all that predictions depend on, as 64 hexadecimal digits.

        Name, source, machine and cells do not count.
        """
        content = {
            "kind": self.kind,
            "conditions": None if self.conditions is None else asdict(self.conditions),
            "cpu": asdict(self.cpu),
            **{tier: asdict(self.tiers[tier]) for tier in TIERS if tier in self.tiers},
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _multiply(times: tuple[float, ...], factor: float) -> tuple[float, ...]:
    return tuple(time * factor for time in times)


def _make_struct(cpu: CpuProfile, tiers: Mapping[Tier, TierProfile]) -> ProfileStruct:
    """Return a machine as compiled code reads it; a tier that it lacks has no points.

    Args:
        cpu: the work of its workers.
        tiers: its tiers.
    """
    struct = ProfileStruct(
        cores=cpu.cores,
        make_byte_ns=cpu.make_ns_per_byte,
        check_byte_ns=cpu.check_ns_per_byte,
        move_ns=cpu.move_us * 1000,
    )
    for number, name in enumerate(cast("tuple[Tier, ...]", TIERS)):
        tier = tiers.get(name)
        if tier is not None:
            _fill(struct.tier[number][0], tier.read, tier.writes_on_reads, tier.turn_bytes)
            _fill(struct.tier[number][1], tier.write, tier.reads_on_writes, tier.turn_bytes)
    return struct


def _fill(struct: StationStruct, station: Station, other_weight: float, turn_bytes: int) -> None:
    """Fill the structure of a station."""
    struct.points = len(station.in_flight)
    struct.has_spread = bool(station.spread)
    struct.other_weight = other_weight
    struct.turn_bytes = turn_bytes
    pairs = zip(station.in_flight, station.bandwidth_gb_s, strict=True)
    _copy(struct.load, station.in_flight)
    _copy(struct.open_ns, [time * 1000 for time in station.open_us])
    _copy(struct.latency_ns, [time * 1000 for time in station.latency_us])
    _copy(struct.byte_ns, [load / bandwidth for load, bandwidth in pairs])
    _copy(struct.remove_ns, [time * 1000 for time in station.remove_us])
    for point, quantiles in enumerate(station.spread):
        _copy(struct.spread[point], quantiles or _NO_SPREAD)


def _copy(array: Array[Any], values: Sequence[float]) -> None:
    array[: len(values)] = list(values)


def compute_spread_mean(quantiles: Sequence[float]) -> float:
    """Return the mean of the distribution that is linear between nine quantiles."""
    widths = [high - low for low, high in pairwise(SPREAD_AT)]
    middles = [(low + high) / 2 for low, high in pairwise(quantiles)]
    return sum(width * middle for width, middle in zip(widths, middles, strict=True))


def scale_spread(quantiles: Sequence[float]) -> Spread:
    """Scale nine quantiles such that their mean is 1; those whose mean is 1 stay as they are."""
    mean = compute_spread_mean(quantiles)
    if abs(mean - 1) <= _ROUNDING:
        return tuple(quantiles)
    return tuple(quantile / mean for quantile in quantiles)
