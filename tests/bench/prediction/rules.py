"""Three simpler rules than the profile's, on the same cells: bytes ÷ peak, independent servers, processor sharing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from replayer.prediction.profile import Profile
from replayer.prediction.stations import Station

MANY: Final = 4096.0
"""A load that no cell reaches: a cost that is equal at 1 and here does not depend on the load."""


def make_independent(profile: Profile) -> Profile:
    """Return the profile in which each request takes as long as it takes alone."""
    return _change_stations(profile, _ignore_load)


def make_shared(profile: Profile) -> Profile:
    """Return the profile of latency and shared bandwidth: a fair share of each direction's peak."""
    return _change_stations(profile, _share_peak)


RULES: Final[dict[str, Callable[[Profile], Profile]]] = {
    "independent servers": make_independent,
    "processor sharing": make_shared,
}
"""The rules that are profiles; the third one is `predict_by_peak`."""
BY_PEAK: Final = "bytes ÷ peak"


def predict_by_peak(profile: Profile, work: dict[str, float | None]) -> dict[str, float | None]:
    """Predict rates alone: each station moves its bytes at its peak bandwidth, and all do so at once.

    Args:
        profile: the peaks.
        work: tokens_generated, and {tier}_{read|write}_bytes.
    """
    seconds = max(
        (work[f"{tier}_{way}_bytes"] or 0) / (max(station.bandwidth_gb_s) * 1e9)
        for tier, one in profile.tiers.items()
        for way, station in (("read", one.read), ("write", one.write))
    )
    read = (work["nvme_read_bytes"] or 0) / 2**30 / seconds
    return {"wall_clock_tok_s": (work["tokens_generated"] or 0) / seconds, "nvme_read_gib_s": read or None}


def name_work(profile: Profile) -> tuple[str, ...]:
    """Name the metrics that `predict_by_peak` needs."""
    return ("tokens_generated", *(f"{tier}_{way}_bytes" for tier in profile.tiers for way in ("read", "write")))


def _change_stations(profile: Profile, change: Callable[[Station], Station]) -> Profile:
    """Change all stations; reads and writes do not notice each other."""
    tiers = {
        tier: replace(one, read=change(one.read), write=change(one.write), writes_on_reads=0.0, reads_on_writes=0.0)
        for tier, one in profile.tiers.items()
    }
    return replace(profile, tiers=tiers, cells=())


def _ignore_load(station: Station) -> Station:
    return _make_station(station, {1.0: station.bandwidth_gb_s[0], MANY: MANY * station.bandwidth_gb_s[0]})


def _share_peak(station: Station) -> Station:
    alone, peak = station.bandwidth_gb_s[0], max(station.bandwidth_gb_s)
    return _make_station(station, {1.0: alone, peak / alone: peak, MANY: peak})


def _make_station(station: Station, bandwidths: dict[float, float]) -> Station:
    """Return a station of these bandwidths by load; opening, latency and spread are those of one request alone."""
    count = len(bandwidths)
    return Station(
        in_flight=tuple(bandwidths),
        open_us=station.open_us[:1] * count,
        latency_us=station.latency_us[:1] * count,
        bandwidth_gb_s=tuple(bandwidths.values()),
        spread=station.spread[:1] * count,
        remove_us=station.remove_us[:1] * count,
    )
