"""Profiles as compiled code reads them: costs in ns per unit."""

from collections.abc import Mapping, Sequence
from ctypes import Array
from typing import TYPE_CHECKING, Any, Final, cast

from replayer.bindings.compiled import ProfileStruct, StationStruct
from replayer.record.columns import TIERS
from replayer.record.run_info import Tier

if TYPE_CHECKING:  # `Profile.struct` calls this module
    from replayer.profiles.profile import CpuProfile, Station, TierProfile

_NO_SPREAD: Final = (1.0,) * 9


def make_struct(cpu: "CpuProfile", tiers: "Mapping[Tier, TierProfile]") -> ProfileStruct:
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


def _fill(struct: StationStruct, station: "Station", other_weight: float, turn_bytes: int) -> None:
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


def _copy(array: "Array[Any]", values: Sequence[float]) -> None:
    array[: len(values)] = list(values)
