"""Profiles as text: the model as a table, what was left out, and where the fit is poor."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from replayer.prediction.profile import Profile, TierProfile
from replayer.prediction.stations import Station
from replayer.profiling.cells import Cell, format_size
from tracegen.errors import format_count

_POOR: Final = 0.15
"""The residual from which a cell is shown."""
_SHOWN: Final = 12
_REASONS: Final = {
    "room": "their objects need more room than a quarter of what is free, or 1 GiB",
    "time": "a phase of theirs would take more than a fortieth of the budget",
}


def tabulate_profile(profile: Profile) -> Iterator[str]:
    """Yield the lines of the model's table."""
    for tier, one in profile.tiers.items():
        yield f"{tier}, objects of {_format_range(one)}"
        for direction, station in (("read", one.read), ("write", one.write)):
            yield from _describe_station(direction, station)
        yield (
            f"  a write weighs {one.writes_on_reads:g} reads for reads,"
            f" a read {one.reads_on_writes:g} writes for writes;"
            f" error {float(profile.machine[f'{tier}_error']):.0%}"
        )
    cpu = profile.cpu
    yield (
        f"per core of {cpu.cores:g}: making bytes {cpu.make_ns_per_byte:.3g} s/GB, checking"
        f" {cpu.check_ns_per_byte:.3g} s/GB, book-keeping {cpu.move_us:.3g} us per move"
    )


def _describe_station(direction: str, station: Station) -> Iterator[str]:
    yield f"  {direction:7} in flight  {_columns(station.in_flight)}"
    rows = (
        ("open, us", station.open_us),
        ("latency, us", station.latency_us),
        ("GB/s", station.bandwidth_gb_s),
        ("remove, us", station.remove_us),
        ("P95 ÷ mean", tuple(one[6] if one else 1.0 for one in station.spread)),
    )
    for name, values in rows:
        if values:
            yield f"  {'':7} {name:10} {_columns(values)}"


def _columns(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:9.4g}" for value in values)


def _format_range(tier: TierProfile) -> str:
    return f"{format_size(tier.smallest_bytes)} to {format_size(tier.largest_bytes)}"


def describe_skipped(skipped: Mapping[Cell, str]) -> Iterator[str]:
    """Yield a line for each reason why cells were left out."""
    by_reason = defaultdict[str, list[Cell]](list)
    for cell, reason in skipped.items():
        by_reason[reason].append(cell)
    for reason, cells in by_reason.items():
        count = format_count(len(cells), "cell")
        yield f"{count} left out ({_REASONS[reason]}): {', '.join(_group(cells))}"


def _group(cells: list[Cell]) -> Iterator[str]:
    """Yield the cells of each tier and size in one piece."""
    by_size = defaultdict[tuple[str, int], list[int]](list)
    for cell in cells:
        by_size[cell.tier, cell.bytes].append(cell.workers)
    for (tier, size), workers in by_size.items():
        most = f" to {max(workers)}" if len(workers) > 1 else ""
        yield f"{tier} {format_size(size)} × {min(workers)}{most}"


def describe_poor_fits(profile: Profile) -> Iterator[str]:
    """Yield a line for each cell that the model misses most, if any is missed much."""
    poor = [cell for cell in profile.cells if abs(cell.residual) > _POOR and cell.what != "remove"]
    if not poor:
        return
    judged = sum(cell.what != "remove" for cell in profile.cells)
    cells = format_count(judged, "cell")
    yield f"the model is more than {_POOR:.0%} off in {len(poor)} of {cells}; the worst:"
    for cell in sorted(poor, key=lambda one: -abs(one.residual))[:_SHOWN]:
        yield (
            f"  {cell.tier} {cell.what}, {format_size(cell.bytes)} × {cell.workers}:"
            f" measured {cell.measured_us:,.0f} us"
            f" (rounds {cell.low_us:,.0f} to {cell.high_us:,.0f}),"
            f" model {cell.model_us:,.0f} ({cell.residual:+.0%})"
        )
