"""Stations: how long the reads or writes of a tier take at some loads."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Final, Self

from msgspec import Meta

from replayer.bindings.compiled import StationStruct
from tracegen.errors import InputError

_NO_SPREAD: Final = (1.0,) * 9
# The probabilities of the quantiles
SPREAD_AT: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
_ROUNDING: Final = 1e-9  # a mean this close to 1 is one that was scaled before

# The clock counts to 10^18 ns: times of sensible objects stay below it.
Positive = Annotated[float, Meta(ge=1e-6, lt=1e9)]
Time = Annotated[float, Meta(ge=0, lt=1e9)]
Times = tuple[Time, ...]
Bytes = Annotated[int, Meta(ge=1, lt=10**15)]
# The nine quantiles in ascending order; empty: every visit takes the mean time
Spread = tuple[Time, ...]


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
        InputError: lists do not belong together, or are not ascending.
    """

    in_flight: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=16)]
    open_us: Times
    latency_us: Times
    bandwidth_gb_s: tuple[Positive, ...]
    spread: tuple[Spread, ...] = ()
    remove_us: Times = ()

    def __post_init__(self) -> None:
        points = self.in_flight
        if points[0] != 1 or any(low >= high for low, high in pairwise(points)):
            raise InputError("in_flight is not ascending from 1", "begin with 1.0 and sort it")
        lists = (self.open_us, self.latency_us, self.bandwidth_gb_s)
        optional = (self.spread or points, self.remove_us or points)
        if any(len(one) != len(points) for one in (*lists, *optional)):
            problem = f"in_flight has {len(points)} values, and another list more or fewer"
            raise InputError(problem, "write one for each point")
        if not all(map(_is_spread, self.spread)):
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

    def fill(self, struct: StationStruct, other_weight: float, turn_bytes: int) -> None:
        """Fill the structure that compiled code reads."""
        struct.points = len(self.in_flight)
        struct.has_spread = bool(self.spread)
        struct.other_weight = other_weight
        struct.turn_bytes = turn_bytes
        columns = {
            "load": self.in_flight,
            "open_ns": _multiply(self.open_us, 1000),
            "latency_ns": _multiply(self.latency_us, 1000),
            "byte_ns": tuple(map(operator.truediv, self.in_flight, self.bandwidth_gb_s)),
            "remove_ns": _multiply(self.remove_us, 1000),
        }
        for name, values in columns.items():
            getattr(struct, name)[: len(values)] = values
        for point, quantiles in enumerate(self.spread):
            struct.spread[point][:] = quantiles or _NO_SPREAD


def _is_spread(quantiles: Spread) -> bool:
    is_nine = len(quantiles) == len(SPREAD_AT) and quantiles[-1] > 0
    return not quantiles or (is_nine and all(low <= high for low, high in pairwise(quantiles)))


def _multiply(times: tuple[float, ...], factor: float) -> tuple[float, ...]:
    return tuple(time * factor for time in times)


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
            raise InputError("bandwidth_gb_s is less than stream_gb_s", "write that of all requests together")

    def to_station(self) -> Station:
        """Return the station that follows; docs/predicting.md has the rule."""
        shares = [self.bandwidth_gb_s / self.stream_gb_s]
        slots_us = 0.0
        if self.requests_per_s is not None:
            slots_us = 1e6 / self.requests_per_s
            shares.append(self.requests_per_s * self.latency_us * 1e-6)
        loads = (1.0, *sorted({load for load in shares if load > 1}))
        bandwidths = (min(self.bandwidth_gb_s, load * self.stream_gb_s) for load in loads)
        return Station(
            in_flight=loads,
            open_us=(0.0,) * len(loads),
            latency_us=tuple(max(self.latency_us, load * slots_us) for load in loads),
            bandwidth_gb_s=tuple(bandwidths),
            remove_us=(self.remove_us,) * len(loads) if self.remove_us else (),
        )


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
