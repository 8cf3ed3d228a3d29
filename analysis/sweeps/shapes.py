"""Knees and cliffs of curves, and the Pareto front of writes against hits (`docs/policies.md`)."""

import itertools
import math
from dataclasses import dataclass
from typing import Final

import polars as pl

from analysis.sweeps.sweep import MEMORY, Curve, Point, SweepTable

CLIFF: Final = 0.1
"""Share of the bound per halving from which a loss is a cliff."""
LEAST_RISE: Final = 0.05
"""Rise of the hit rate from which a curve can have a knee: a flat one has none."""
KNEE_RISE: Final = 0.1
"""A knee is at least this share of the curve's height above the straight line between its ends."""


@dataclass(frozen=True)
class Cliff:
    """Two neighbours on a curve between which a halving of the capacity loses the most.

    Attributes:
        below, above: the neighbours.
        points: percentage points lost per halving.
    """

    below: Point
    above: Point
    points: float


def find_cliff(curve: Curve) -> Cliff | None:
    """Return the steepest part of a curve; None if no halving loses CLIFF of the bound."""
    steps = [
        Cliff(low, high, 100 * (high.rate - low.rate) / math.log2(high.gib / low.gib))
        for low, high in itertools.pairwise(curve.points)
    ]
    least = 1.0 if curve.bound is None else curve.bound
    steepest = max(steps, key=lambda step: step.points, default=None)
    return steepest if steepest is not None and steepest.points >= 100 * CLIFF * least else None


def find_knee(curve: Curve) -> Point | None:
    """Return the point after which more memory brings less, by Kneedle's rule; None without one.

    Capacity (as a logarithm) and rate are scaled to 0 to 1; the knee is the point that is the
    furthest above the diagonal.
    """
    first, last = curve.points[0], curve.points[-1]
    if len(curve.points) < 3 or last.rate - first.rate < LEAST_RISE:
        return None

    def rise(point: Point) -> float:
        x = math.log2(point.gib / first.gib) / math.log2(last.gib / first.gib)
        return (point.rate - first.rate) / (last.rate - first.rate) - x

    knee = max(curve.points[1:-1], key=rise)
    return knee if rise(knee) >= KNEE_RISE else None


def describe_curve(curve: Curve) -> str:
    """Return what a curve looks like, as a sentence."""
    first, last = curve.points[0], curve.points[-1]
    parts = []
    if len(curve.points) == 1:
        parts.append(f"{_percent(first.rate)} at {first.gib:g} GiB")
    else:
        end = f"{_percent(last.rate)} at {last.gib:g} GiB"
        parts.append(f"{_percent(first.rate)} at {first.gib:g} GiB to {end}")
    if cliff := find_cliff(curve):
        parts.append(
            f"a cliff between {cliff.below.gib:g} and {cliff.above.gib:g} GiB, where halving loses"
            f" {cliff.points:.1f} points"
        )
    if knee := find_knee(curve):
        times, gained = last.gib / knee.gib, 100 * (last.rate - knee.rate)
        parts.append(
            f"a knee at {knee.gib:g} GiB ({_percent(knee.rate)}), above which {times:.3g} times the"
            f" memory brings {gained:.1f} points"
        )
    if (fall := _find_fall(curve)) is not None:
        parts.append(f"more memory hits less from {fall[0].gib:g} to {fall[1].gib:g} GiB")
    if curve.bound is not None:
        missing = 100 * (curve.bound - last.rate)
        below = f"{missing:.1f} points below unlimited memory"
        parts.append(below if missing >= 0.05 else "the bound is reached")
    return f"{MEMORY[curve.tier]}, {curve.name}: {'; '.join(parts)}."


def _find_fall(curve: Curve) -> tuple[Point, Point] | None:
    """Return the neighbours between which the rate falls the most; None if it never falls."""
    falls = [pair for pair in itertools.pairwise(curve.points) if pair[1].rate < pair[0].rate]
    return min(falls, key=lambda pair: pair[1].rate - pair[0].rate, default=None)


def find_front(sweep: SweepTable) -> pl.DataFrame:
    """Return bytes written to nvme against hits, a row per cell.

    A cell is on the front if no other hits as often with fewer bytes, or more often with as few.

    Returns:
        The columns name, gib (written to nvme), rate (of prompt tokens), cell, and front (a
        boolean), by rising gib; cells without prompts are left out. Empty if no cell has an nvme tier.
    """
    cells = sweep.cells.filter(pl.col("hit_rate_tokens").is_not_null())
    rows = [
        {
            "name": sweep.name(row),
            "gib": row["write_bytes_nvme"] / 2**30,
            "rate": row["hit_rate_tokens"],
            "cell": row["cell"],
        }
        for row in cells.iter_rows(named=True)
    ]
    if not any(row["gib"] for row in rows):
        return pl.DataFrame()
    table = pl.DataFrame(rows).sort("gib", -pl.col("rate"), "cell")
    is_best = table["rate"] > table["rate"].cum_max().shift(1).fill_null(-1.0)
    return table.with_columns(front=is_best)


def _percent(share: float) -> str:
    return f"{share:.1%}"
