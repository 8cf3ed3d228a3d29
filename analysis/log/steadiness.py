"""The time from which a run was steady: SNIA's rule over ten rounds of its window."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from analysis.log.columns import SIDES, SIZE, TOUCHES
from analysis.log.log import Log
from replayer.schema import TIERS

ROUNDS: Final = 10
LEAST_ROUND_S: Final = 1.0
# Moves of a mean round; the P95 of fewer varies by 20% by chance.
LEAST_MOVES: Final = 1000
_JUDGED: Final = 5
_RANGE: Final = 0.20  # SNIA's Solid State Storage Performance Test Specification, "steady state"
_SLOPE: Final = 0.10

Series = NDArray[np.float64]


@dataclass(frozen=True)
class Steadiness:
    """When a run was steady.

    Attributes:
        round_s: the length of a round.
        begin_s: the time since the run's start from which it was; None: never.
        is_from_start: whether it was from the start of its window.
    """

    round_s: float
    begin_s: float | None
    is_from_start: bool


def find_steadiness(log: Log) -> Steadiness | None:
    """Find the time from which bytes moved and the P95 of the slowest tier's reads were steady.

    It is the start of the first five rounds that are: users of a whole run end one after the other.

    Returns:
        The time; None if the window is too short, or has too few moves.
    """
    if log.window is None:
        return None
    begin, end = log.window
    width = (end - begin) // ROUNDS
    if width < LEAST_ROUND_S * 1e9:
        return None
    used = set(log.cells.select("from_tier").collect()["from_tier"])
    slowest = next((tier for tier in reversed(TIERS) if tier in used), TIERS[-1])
    touching = pl.any_horizontal(moves for _, moves in TOUCHES.values())
    is_read = SIDES[f"{slowest}_read"]
    is_inside = col("end_ns").is_between(begin, begin + ROUNDS * width, closed="left")
    rounds = (
        log.every_move.filter(is_inside & touching)
        .group_by(((col("end_ns") - begin) // width).alias("round"))
        .agg(
            moves=pl.len(),
            bytes=SIZE.sum(),
            reads=is_read.sum(),
            p95_ns=col("read_ns").filter(is_read).quantile(0.95, "linear"),
        )
        .collect(engine="streaming")
    )
    if rounds["moves"].sum() < ROUNDS * LEAST_MOVES:
        return None
    table = pl.DataFrame({"round": range(ROUNDS)}).join(rounds, on="round", how="left").fill_null(0)
    series = [table["bytes"].to_numpy().astype(np.float64)]
    if table["reads"].sum() >= ROUNDS * LEAST_MOVES:
        series.append(table["p95_ns"].to_numpy().astype(np.float64))
    starts = range(ROUNDS - _JUDGED + 1)
    steady = (at for at in starts if all(_is_steady(values[at : at + _JUDGED]) for values in series))
    first = next(steady, None)
    begin_s = None if first is None else (begin + first * width) / 1e9
    return Steadiness(width / 1e9, begin_s, first == 0)


def _is_steady(values: Series) -> bool:
    """Return whether the range and the excursion of the fitted line are small."""
    mean = float(values.mean())
    slope = float(np.polyfit(np.arange(len(values)), values, 1)[0])
    excursion = abs(slope) * (len(values) - 1)
    return float(np.ptp(values)) <= _RANGE * mean and excursion <= _SLOPE * mean
