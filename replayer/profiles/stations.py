"""The stations of a profile: read as lists of points, or in the short form of data sheets."""

from itertools import pairwise
from typing import Final

from replayer.profiles.profile import MOST_POINTS, SPREAD_AT, Spread, Station, scale_spread
from replayer.profiles.tables import TomlTable

_SHORT: Final = "stream_gb_s"
"""The key that only the short form has."""
_POINTS: Final = "in_flight"
"""The key that only the form with points has."""


def read_station(table: TomlTable, *, removes: bool = False) -> Station:
    """Return the station of a table.

    Args:
        table: with lists of points, or in short.
        removes: whether objects are removed there.

    Raises:
        InputError: a key is missing, unknown or wrong.
    """
    is_short = _SHORT in table or _POINTS not in table
    station = _read_short(table, removes) if is_short else _read_points(table, removes)
    table.end()
    return station


def expand_data_sheet(
    latency_us: float,
    stream_gb_s: float,
    bandwidth_gb_s: float,
    requests_per_s: float | None = None,
    remove_us: float = 0.0,
) -> Station:
    """Return the station that four numbers of a data sheet describe.

    Args:
        latency_us: of one request alone.
        stream_gb_s: of one request alone.
        bandwidth_gb_s: of all requests together, at least that of one.
        requests_per_s: of all requests together; None: any number.
        remove_us: to remove an object.
    """
    shares = [bandwidth_gb_s / stream_gb_s]
    if requests_per_s is not None:
        shares.append(requests_per_s * latency_us * 1e-6)
    loads = (1.0, *sorted({load for load in shares if load > 1}))
    slots_us = 0.0 if requests_per_s is None else 1e6 / requests_per_s
    return Station(
        in_flight=loads,
        open_us=(0.0,) * len(loads),
        latency_us=tuple(max(latency_us, load * slots_us) for load in loads),
        bandwidth_gb_s=tuple(min(bandwidth_gb_s, load * stream_gb_s) for load in loads),
        remove_us=(remove_us,) * len(loads) if remove_us else (),
    )


def _read_short(table: TomlTable, removes: bool) -> Station:
    stream_gb_s = table.number(_SHORT)
    bandwidth_gb_s = table.number("bandwidth_gb_s")
    if bandwidth_gb_s < stream_gb_s:
        problem = f"is less than `{_SHORT}`"
        raise table.refuse("bandwidth_gb_s", problem, "write that of all requests together")
    rate = table.number("requests_per_s") if "requests_per_s" in table else None
    return expand_data_sheet(
        table.number("latency_us", has_zero=True),
        stream_gb_s,
        bandwidth_gb_s,
        rate,
        table.number("remove_us", has_zero=True, default=0.0) if removes else 0.0,
    )


def _read_points(table: TomlTable, removes: bool) -> Station:
    in_flight = table.numbers(_POINTS, None)
    if not 1 <= len(in_flight) <= MOST_POINTS:
        problem = f"has {len(in_flight)} points"
        raise table.refuse(_POINTS, problem, f"write 1 to {MOST_POINTS} points")
    if in_flight[0] != 1 or any(low >= high for low, high in pairwise(in_flight)):
        raise table.refuse(_POINTS, "is not ascending from 1", "begin with 1.0 and sort it")
    count = len(in_flight)
    has_removal = removes and "remove_us" in table
    return Station(
        in_flight,
        open_us=table.numbers("open_us", count, has_zero=True),
        latency_us=table.numbers("latency_us", count, has_zero=True),
        bandwidth_gb_s=table.numbers("bandwidth_gb_s", count),
        spread=_read_spread(table, count) if "spread" in table else (),
        remove_us=table.numbers("remove_us", count, has_zero=True) if has_removal else (),
    )


def _read_spread(table: TomlTable, count: int) -> tuple[Spread, ...]:
    spread = table.lists("spread", count)
    for quantiles in spread:
        if quantiles and (
            len(quantiles) != len(SPREAD_AT)
            or any(low > high for low, high in pairwise(quantiles))
            or quantiles[-1] == 0
        ):
            problem = "has a list that is not nine ascending numbers"
            remedy = f"write the quantiles at {', '.join(f'{one:g}' for one in SPREAD_AT)}"
            raise table.refuse("spread", problem, remedy)
    if not any(spread):
        return ()
    return tuple(scale_spread(one) if one else one for one in spread)
