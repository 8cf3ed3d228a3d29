"""Profiles of machines, as docs/predicting.md specifies them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, NotRequired, Self, TypedDict

from replayer.bindings.compiled import ProfileStruct
from replayer.prediction.stations import Bytes, Positive, Station, Time
from replayer.record.conditions import IoEngine, Tier
from replayer.record.options import TIERS, Fsync, GpuRead, Layout, ProfileKind, Verify
from tracegen.errors import InputError


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


class ThrottleLimits(TypedDict):
    """The speed limits of a tier, as run.json has them."""

    mib_s: Positive
    latency_us: Time
    write_mib_s: NotRequired[Positive]


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


# What replays are assumed to have if the profile was not measured
_OF_DATA_SHEETS: Final = ProfileConditions(
    layout="files", direct=True, io_bytes=1 << 20, io_depth=1, io_engine="psync", fsync="none", verify="stamps"
)


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
            InputError: the profile has no such tier.
        """
        tiers = dict(self.tiers)
        for tier, speed in speeds.items():
            if tier not in tiers:
                problem = f"the profile {self.name} has no tier {tier}"
                raise InputError(problem, f"name {' or '.join(tiers)}", setting="speed")
            one = tiers[tier]
            read, write = (station.slow_down(1 / speed) for station in (one.read, one.write))
            tiers[tier] = replace(one, read=read, write=write)
        return replace(self, tiers=tiers)

    def struct(self) -> ProfileStruct:
        """Return the profile as compiled code reads it; a tier that it lacks has no points."""
        struct = ProfileStruct(
            cores=self.cpu.cores,
            make_byte_ns=self.cpu.make_ns_per_byte,
            check_byte_ns=self.cpu.check_ns_per_byte,
            move_ns=self.cpu.move_us * 1000,
        )
        for name, tier in self.tiers.items():
            read, write = struct.tier[TIERS.index(name)]
            tier.read.fill(read, tier.writes_on_reads, tier.turn_bytes)
            tier.write.fill(write, tier.reads_on_writes, tier.turn_bytes)
        return struct

    @property
    def digest(self) -> str:
        """Hash of all that predictions depend on, as 64 hexadecimal digits.

        Name, source, machine and cells do not count.
        """
        content = asdict(self)
        model = {name: content[name] for name in ("kind", "conditions", "cpu")} | content["tiers"]
        text = json.dumps(model, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
