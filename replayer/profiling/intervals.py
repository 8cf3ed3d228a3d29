"""Intervals of parameters: fits to rounds that are drawn again (Efron's bootstrap)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from replayer.profiles.profile import CpuProfile, Ranges, Station, TierProfile
from replayer.profiling.cpu_fit import fit_cpu
from replayer.profiling.station_fit import round_figures
from replayer.profiling.tier_fit import fit_tier
from replayer.profiling.visits import Cell, Measured, Rounds
from replayer.record.run_info import Tier

_DRAWS: Final = 60
_EDGES: Final = (0.05, 0.95)
_LISTS: Final = ("open_us", "latency_us", "bandwidth_gb_s", "remove_us")
_WEIGHTS: Final = ("writes_on_reads", "reads_on_writes")
_CPU_TIMES: Final = ("make_ns_per_byte", "check_ns_per_byte", "move_us")


def add_intervals(
    cpu: CpuProfile,
    tiers: Mapping[Tier, TierProfile],
    rounds: Rounds,
) -> tuple[CpuProfile, dict[Tier, TierProfile]]:
    """Return the parts of a profile with the middle nine tenths of each parameter.

    Args:
        cpu: as it was fitted.
        tiers: as they were fitted.
        rounds: what was measured; each draw takes as many rounds of each cell, some of them twice.
    """
    bits = np.random.Philox(key=0)  # the same rounds give the same profile
    draws = [_draw(rounds, bits) for _ in range(_DRAWS)]
    cpus = [fit_cpu(cpu.cores, draw) for draw in draws]
    with_ranges = dict[Tier, TierProfile]()
    for tier, one in tiers.items():
        with_ranges[tier] = _with_ranges(one, [fit_tier(tier, draw, one) for draw in draws])
    return replace(cpu, ranges=_numbers(cpus, _CPU_TIMES)), with_ranges


def _draw(rounds: Rounds, bits: np.random.Philox) -> Rounds:
    drawn = dict[Cell, list[Measured]]()
    for cell, runs in rounds.items():
        if runs:
            places = bits.random_raw(len(runs)) % len(runs)
            drawn[cell] = [runs[int(at)] for at in places]
    return drawn


def _with_ranges(tier: TierProfile, draws: Sequence[TierProfile]) -> TierProfile:
    read = replace(tier.read, ranges=_lists([draw.read for draw in draws]))
    write = replace(tier.write, ranges=_lists([draw.write for draw in draws]))
    return replace(tier, read=read, write=write, ranges=_numbers(draws, _WEIGHTS))


def _lists(stations: Sequence[Station]) -> Ranges:
    """Return the intervals of the lists of stations that have the same points."""
    return {
        key: tuple(_interval(values) for values in zip(*lists, strict=True))
        for key in _LISTS
        if all(lists := [getattr(one, key) for one in stations])
    }


def _numbers(parts: Sequence[CpuProfile] | Sequence[TierProfile], keys: Sequence[str]) -> Ranges:
    return {key: (_interval([getattr(one, key) for one in parts]),) for key in keys}


def _interval(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile(values, _EDGES)
    return round_figures(float(low)), round_figures(float(high))
