"""The answer of `replayer profile`: the model, and how far off its fit is."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

from replayer.prediction.profile import Profile, TierProfile
from replayer.prediction.stations import Station
from replayer.profiling.cells import name_size
from views.answer import Answer, Column, Figure, Table

_STATION: Final = ("", "in flight", "open, µs", "latency, µs", "GB/s", "remove, µs", "P95 ÷ mean")
# Name, label and unit of the times of the CPU.
_TIMES: Final = (
    ("make_ns_per_byte", "making bytes, per core", "s/GB"),
    ("check_ns_per_byte", "checking bytes, per core", "s/GB"),
    ("move_us", "book-keeping of a move", "µs"),
)


def answer_profile(profile: Profile, output: Path) -> Answer:
    """Return the answer of a measurement: the profile as it was written, and its file."""
    return Answer(
        title=f"Profile {profile.name}",
        sentence=f"{output}: `replayer predict … --profile {output}` uses it",
        figures=_list_figures(profile),
        tables=[_tabulate_tier(name, tier) for name, tier in profile.tiers.items()],
        data={**asdict(profile), "sha256": profile.digest},
    )


def _list_figures(profile: Profile) -> list[Figure]:
    errors = [
        Figure(
            name=f"{tier}_error",
            label=f"error of the fit of {tier}",
            value=float(profile.machine[f"{tier}_error"]),
            unit="share",
            better="lower",
        )
        for tier in profile.tiers
    ]
    times = [
        Figure(name=name, label=label, value=getattr(profile.cpu, name), unit=unit) for name, label, unit in _TIMES
    ]
    return [*errors, *times]


def _tabulate_tier(name: str, tier: TierProfile) -> Table:
    sizes = f"{name_size(tier.smallest_bytes)} to {name_size(tier.largest_bytes)}"
    return Table(
        name=name,
        title=f"{name}, objects of {sizes}",
        columns=[Column(heading) for heading in _STATION],
        rows=[*_list_points("read", tier.read), *_list_points("write", tier.write)],
    )


def _list_points(direction: str, station: Station) -> list[list[str | float | None]]:
    unknown = (None,) * len(station.in_flight)
    tails = tuple(spread[6] if spread else None for spread in station.spread)
    columns = (station.in_flight, station.open_us, station.latency_us, station.bandwidth_gb_s)
    points = zip(*columns, station.remove_us or unknown, tails or unknown, strict=True)
    return [[direction, *point] for point in points]
