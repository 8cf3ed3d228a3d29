"""Profiles of machines, as docs/predicting.md specifies them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from ctypes import Array
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, Final, Self, TypedDict, cast

from msgspec import Meta

from replayer.bindings.compiled import ProfileStruct, StationStruct
from replayer.record.columns import TIERS
from replayer.record.options import Fsync, GpuRead, Layout, ProfileKind, Verify
from replayer.record.run_info import IoEngine, Tier
from tracegen.errors import InputError

_NO_SPREAD: Final = (1.0,) * 9
SPREAD_AT: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""The probabilities of the quantiles."""
_ROUNDING: Final = 1e-9  # a mean this close to 1 is one that was scaled before

# The clock counts to 10^18 ns: times of sensible objects stay below it.
Positive = Annotated[float, Meta(ge=1e-6, lt=1e9)]
Time = Annotated[float, Meta(ge=0, lt=1e9)]
Times = tuple[Time, ...]
Bytes = Annotated[int, Meta(ge=1, lt=10**15)]
Spread = tuple[Time, ...]
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

    Raises:
        InputError: lists do not belong together.
    """

    in_flight: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=16)]
    open_us: Times
    latency_us: Times
    bandwidth_gb_s: tuple[Positive, ...]
    spread: tuple[Spread, ...] = ()
    remove_us: Times = ()

    def __post_init__(self) -> None:
        if self.in_flight[0] != 1 or not _is_ascending(self.in_flight, strictly=True):
            raise InputError("in_flight is not ascending from 1", "begin with 1.0 and sort it")
        points = len(self.in_flight)
        required = ("open_us", "latency_us", "bandwidth_gb_s")
        for name in (*required, "spread", "remove_us"):
            count = len(getattr(self, name))
            if count != points and (count or name in required):
                problem = f"{name} has {count} values, in_flight has {points}"
                raise InputError(problem, "write one for each point")
        for quantiles in filter(None, self.spread):
            is_nine = len(quantiles) == len(SPREAD_AT) and quantiles[-1] > 0
            if not is_nine or not _is_ascending(quantiles):
                remedy = f"write the quantiles at {', '.join(f'{one:g}' for one in SPREAD_AT)}"
                raise InputError("spread has a list that is not nine ascending numbers", remedy)

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
class DataSheet:
    """One direction of a tier in short, as data sheets have it.

    Attributes:
        latency_us: of one request alone.
        stream_gb_s: of one request alone.
        bandwidth_gb_s: of all requests together, at least that of one.
        requests_per_s: of all requests together; None: any number.
        remove_us: to remove an object.
    """

    latency_us: Time
    stream_gb_s: Positive
    bandwidth_gb_s: Positive
    requests_per_s: Positive | None = None
    remove_us: Time = 0.0

    def __post_init__(self) -> None:
        if self.bandwidth_gb_s < self.stream_gb_s:
            problem = "bandwidth_gb_s is less than stream_gb_s"
            raise InputError(problem, "write that of all requests together")

    def to_station(self) -> Station:
        """Return the station that follows; docs/predicting.md has the rule."""
        shares = [self.bandwidth_gb_s / self.stream_gb_s]
        slots_us = 0.0
        if self.requests_per_s is not None:
            slots_us = 1e6 / self.requests_per_s
            shares.append(self.requests_per_s * self.latency_us * 1e-6)
        loads = (1.0, *sorted({load for load in shares if load > 1}))
        return Station(
            in_flight=loads,
            open_us=(0.0,) * len(loads),
            latency_us=tuple(max(self.latency_us, load * slots_us) for load in loads),
            bandwidth_gb_s=tuple(min(self.bandwidth_gb_s, load * self.stream_gb_s) for load in loads),
            remove_us=(self.remove_us,) * len(loads) if self.remove_us else (),
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

    Raises:
        InputError: the smallest object is larger than the largest.
    """

    read: Station
    write: Station
    writes_on_reads: Time
    reads_on_writes: Time
    smallest_bytes: Bytes
    largest_bytes: Bytes
    turn_bytes: Bytes = 1

    def __post_init__(self) -> None:
        if self.smallest_bytes > self.largest_bytes:
            raise InputError("smallest_bytes is more than largest_bytes", "exchange the two")

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

    cores: Positive
    make_ns_per_byte: Time
    check_ns_per_byte: Time
    move_us: Time


class _Throttle(TypedDict):
    mib_s: Positive
    latency_us: Time


class ThrottleLimits(_Throttle, total=False):
    """The speed limits of a tier, as run.json has them."""

    write_mib_s: Positive


@dataclass(frozen=True)
class ProfileConditions:
    """The settings under which a profile was measured; replays under others cannot be predicted.

    The fields have the names and values of run.json's conditions.
    """

    layout: Layout
    direct: bool
    io_bytes: Bytes
    io_depth: Bytes
    io_engine: IoEngine
    fsync: Fsync
    verify: Verify
    gpu_read: GpuRead = "host"
    throttle: Mapping[Tier, ThrottleLimits] = field(default_factory=dict)


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
    cpu: CpuProfile
    tiers: Mapping[Tier, TierProfile]
    source: str = ""
    conditions: ProfileConditions | None = None
    machine: Mapping[str, str | int | float] = field(default_factory=dict)
    cells: tuple[MeasuredCell, ...] = ()

    def __post_init__(self) -> None:
        is_measured = self.kind == "measured"
        if not self.name.strip() or not self.name.isprintable():
            raise InputError(f"name is {self.name!r}", "write one line that is not empty")
        if not self.tiers:
            raise InputError("nvme is missing", "write [nvme.read] and [nvme.write]")
        if is_measured and self.conditions is None:
            raise InputError("conditions is missing", "write a table [conditions]")
        if not is_measured and not self.source:
            raise InputError("source is missing", "write where the numbers are from, and the date")

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
        """Return the profile as compiled code reads it; a tier that it lacks has no points."""
        struct = ProfileStruct(
            cores=self.cpu.cores,
            make_byte_ns=self.cpu.make_ns_per_byte,
            check_byte_ns=self.cpu.check_ns_per_byte,
            move_ns=self.cpu.move_us * 1000,
        )
        for number, name in enumerate(cast("tuple[Tier, ...]", TIERS)):
            tier = self.tiers.get(name)
            if tier is not None:
                read, write = struct.tier[number]
                _fill(read, tier.read, tier.writes_on_reads, tier.turn_bytes)
                _fill(write, tier.write, tier.reads_on_writes, tier.turn_bytes)
        return struct

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


def _is_ascending(values: Sequence[float], *, strictly: bool = False) -> bool:
    return all(low < high or (low == high and not strictly) for low, high in pairwise(values))


def _multiply(times: tuple[float, ...], factor: float) -> tuple[float, ...]:
    return tuple(time * factor for time in times)


def _fill(struct: StationStruct, station: Station, other_weight: float, turn_bytes: int) -> None:
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
