"""Spans in which the runs of two systems did equal work, and whether they may be compared.

A run that is cut in time executes as much of the plan as it can, and later parts of a plan differ
from earlier ones. So rates over own windows divide different work. Here W is the least work in any
window of the set, t(W) the time in which a run did it, and every rate is one over the span up to
t(W). docs/comparing.md derives it and says where it fails.
"""

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import polars as pl

from analysis.comparison.work import IDENTITY, SUMMED, DriveLoad, Unit, Work
from analysis.log.columns import TOUCHES

# Least share of W that is the same moves in both runs; DRIVE is stricter about what matters.
OVERLAP: Final = 0.75
# Most of W that belongs to moves under way at t(W).
UNDER_WAY: Final = 0.10
# Least share of a span in which the drive of a cut run had something to do.
BUSY: Final = 0.99
# Most by which the ratio may be off as one drive had fewer moves in flight or other work. A drive
# delivers at most in proportion to the moves in flight, so equal numbers need no more proof; and a
# saturated drive needs no equal numbers. Both add up, and must not exceed CUT_ERROR.
LOST: Final = 0.02
# Most by which tokens per unit of work may differ.
MIX: Final = 0.05
# Most by which the ratios of the two halves of W may differ.
HALVES: Final = 0.25
# Systematic half-width of the ratio of cut runs, on the log scale.
CUT_ERROR: Final = math.log(1.02)
# Most by which amounts may differ that count as the same: tokens, or what was asked of a tier.
SAME: Final = 0.02
# Least busy share of a drive that limits its run.
LIMITING: Final = 0.8

_LONGER: Final = "replay longer"
_WHOLE: Final = "compare whole runs (--duration unlimited)"
_LOAD: Final = f"replay with more users or without pauses, or {_WHOLE}"
_LONGER_OR_LOAD: Final = f"{_LONGER}, with more users or without pauses, or {_WHOLE}"

T = TypeVar("T")
Works = Mapping[str, Sequence[Work]]
"""The work of each trial by system."""
Stretch = tuple[str, Work, float]
"""A trial: its system, its work, and its t(W) in s since its warm-up."""


@dataclass(frozen=True)
class EqualWork:
    """The spans of equal work of two systems in one configuration.

    Attributes:
        unit: what counts as work.
        amount: W, in that unit.
        spans_s: t(W) of each trial by system, in s since its warm-up.
        is_cut: whether a run was cut.
        busy: mean busy share of the nvme tier over the spans by system; None without that tier.
        reason: why runs that were cut cannot be compared; empty if they can.
        remedy: what would make it possible.
        same_tokens: whether tokens per unit of work agree within SAME.
        same_misses: whether the shares of the work that were missed agree within SAME.
    """

    unit: Unit
    amount: float
    spans_s: dict[str, list[float]]
    is_cut: bool
    busy: dict[str, float | None]
    reason: str = ""
    remedy: str = ""
    same_tokens: bool = True
    same_misses: bool = True

    @property
    def refusal(self) -> str:
        """Why runs cannot be compared, and the remedy."""
        return f"{self.reason}; {self.remedy}"

    @property
    def is_limited_by_load(self) -> bool:
        """Whether the drive of a system had nothing to do for much of the time."""
        return any(share is not None and share < LIMITING for share in self.busy.values())


def find_equal_work(works: Works, unit: Unit) -> EqualWork:
    """Find the spans in which the trials of two systems did equal work; `works` are in one unit."""
    every = [work for own in works.values() for work in own]
    amount = min(work.total for work in every)
    each = [(system, work, work.find_time(amount)) for system, own in works.items() for work in own]
    loads = _measure_each(each, lambda work, span: work.measure_load(TOUCHES, span))
    sums = _measure_each(each, Work.sum_until).values()
    means = {column: [statistics.fmean(one[column] for one in own) for own in sums] for column in SUMMED}
    tokens, missed = means["tokens"], means["missed"]
    mix = max(tokens) / min(tokens) - 1 if min(tokens) > 0 else math.inf if max(tokens) > 0 else 0.0
    is_cut = any(work.is_cut for work in every)
    # A run that was not cut did the whole plan, so no part of it can mislead.
    unlike = _compare_drives(means) if unit == "bytes" else 0.0
    reasons = _find_reasons(each, amount, mix, unlike, unit) if is_cut or amount <= 0 else iter(())
    reason, remedy = next(reasons, ("", ""))
    return EqualWork(
        unit,
        amount,
        spans_s=_measure_each(each, lambda _, span: span),
        is_cut=is_cut,
        busy={system: _average([load.busy for load in own if load]) for system, own in loads.items()},
        reason=reason,
        remedy=remedy,
        same_tokens=mix <= SAME,
        same_misses=max(missed) - min(missed) <= SAME * amount,
    )


def _measure_each(each: Sequence[Stretch], measure: Callable[[Work, float], T]) -> dict[str, list[T]]:
    """Return what a function of work and span returns for each trial, by system."""
    values: dict[str, list[T]] = {}
    for system, work, span in each:
        values.setdefault(system, []).append(measure(work, span))
    return values


def _average(known: Sequence[float]) -> float | None:
    return statistics.fmean(known) if known else None


def _find_reasons(
    each: Sequence[Stretch], amount: float, mix: float, unlike: float, unit: Unit
) -> Iterator[tuple[str, str]]:
    """Yield why the ratio of cut runs may be that of their loads, and the remedy."""
    if amount <= 0 or min(span for *_, span in each) <= 0:
        yield "a run did no work in its window", _LONGER
        return
    under_way = max(work.sum_under_way(span) for _, work, span in each) / amount
    if under_way > UNDER_WAY:
        yield f"{under_way:.1%} of the work belongs to moves under way at the cut (at most {UNDER_WAY:.0%})", _LONGER
    for system, work, span in each:
        load = _measure_load(work, span, TOUCHES)
        busy = load.busy if load else 0.0
        if busy < BUSY:
            device = "drive" if work.has_drive else "memory"
            text = f"the {device} of {system} was busy {busy:.1%} of the time ({BUSY:.0%} needed)"
            yield f"the load limits, not the {device}: {text}", _LOAD
    starved = _measure_starved(each)
    if starved > LOST - unlike and starved >= unlike:
        text = f"with fewer moves in flight a system may have lost {starved:.2%} of its rate"
        yield f"the load limits: {text} (at most {max(LOST - unlike, 0.0):.2%})", _LONGER_OR_LOAD
    elif unlike > LOST - starved:
        text = f"what the drives did for it differs by {unlike:.2%} (at most {max(LOST - starved, 0.0):.2%})"
        yield f"{text}: the runs were cut in different parts of the plan", _LONGER
    if mix > MIX:
        text = f"tokens per unit of work differ by {mix:.1%} (at most {MIX:.0%})"
        yield f"{text}: the runs were cut in different parts of the plan", _LONGER
    # Moves of other objects or sizes would make the ratio one of workloads.
    overlap = _measure_overlap(each, amount, unit)
    if overlap < OVERLAP:
        yield f"only {overlap:.1%} of the work is the same in both ({OVERLAP:.0%} needed)", _LONGER
    # A ratio that changes within the span would be another one if the runs were longer.
    first, second = _compare_halves(each, amount)
    if max(first, second) > (1 + HALVES) * min(first, second):
        text = f"the ratio moves: {first:.2f} in the first half of the work, {second:.2f} in the second"
        yield text, f"{_LONGER}, or {_WHOLE}"


def _measure_starved(each: Sequence[Stretch]) -> float:
    """Return the share of its rate that a drive may have lost by fewer moves in flight.

    Reads, writes or both may limit: that which is always busy and lost least. A system without a
    drive is limited by its other tiers.
    """
    lost = 1.0
    # A drive may be limited by its reads, by its writes, or by both together.
    for sides in (TOUCHES, ("read",), ("write",)):
        if lost <= LOST / 10:  # each takes seconds of millions of moves
            break
        loads = _measure_each(each, partial(_measure_load, sides=sides)).values()
        known = [[load for load in own if load is not None and load.busy >= BUSY] for own in loads]
        if known == [*loads]:
            depths = [statistics.fmean(load.depth for load in own) for own in known]
            power = max(load.power for own in known for load in own)
            lost = min(lost, 1 - (min(depths) / max(depths)) ** power)
    return lost


def _measure_load(work: Work, span: float, sides: Collection[str]) -> DriveLoad | None:
    return work.measure_load(sides if work.has_drive else (), span)


def _compare_drives(means: Mapping[str, Sequence[float]]) -> float:
    """Return by how much the bytes that the drives moved differ, as a share of one's."""
    moved = [means[f"{side}_bytes"] for side in TOUCHES]
    most = max(map(sum, zip(*moved, strict=True)))
    return sum(abs(one - other) for one, other in moved) / most if most else 0.0


def _measure_overlap(each: Sequence[tuple[str, Work, float]], amount: float, unit: Unit) -> float:
    """Return the least share of the work that a trial has in common with the first one."""
    _, first, span = each[0]
    base = first.list_done(span, unit)
    shares = [
        base.join(work.list_done(end, unit).rename({"done": "other"}), on=IDENTITY[unit])
        .select(pl.min_horizontal("done", "other").sum())
        .item()
        for _, work, end in each[1:]
    ]
    return float(min(shares)) / amount


def _compare_halves(each: Sequence[Stretch], amount: float) -> tuple[float, float]:
    """Return the ratios of the systems' mean times for each half of the work."""
    halves = _measure_each(each, lambda work, span: (work.find_time(amount / 2), span)).values()
    (first, whole), (other, other_whole) = (map(statistics.fmean, zip(*own, strict=True)) for own in halves)
    return first / other, (whole - first) / (other_whole - other)
