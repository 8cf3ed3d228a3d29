"""The work of a run over time: what it had done by when, and whether its drive was the limit."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.log.columns import FIRST_TOUCH, OK, READS, SIDES, SIZE, TOUCHES
from analysis.runs.reading import scan
from analysis.runs.run import RankDirectory, Run
from replayer.schema import LOG_ENUMS

Unit = Literal["bytes", "tokens"]
"""What counts as work: bytes of a plan's moves; tokens of the trace's ops if plans differ."""
IDENTITY: Final[dict[Unit, tuple[str, ...]]] = {
    "bytes": ("rank", "position", "seq"),
    "tokens": ("rank", "op_id", "key"),  # positions differ by order; each cycle has its own keys
}
"""The columns that name a piece of work in every run that shares it."""
_TRANSFERS: Final = OK & pl.col("move").is_in(["hit", "store", "demote", "promote", "copy"])
# Users begin to run out when fewer than this share of them have requests left.
_ACTIVE: Final = 0.9
# Windows in which a drive is watched, in mean times of a move: within one its rate is unknown.
_VISITS: Final = 2.0
# Most of these windows.
_WINDOWS: Final = 1000
# Fewer say nothing about its rate at different loads.
_LEAST_WINDOWS: Final = 8
# Less than one move in flight, in a sum of floats.
_HALF: Final = 0.5

# What is summed over spans: new and missed tokens, and the bytes of the nvme tier.
SUMMED: Final = ("tokens", "missed", *(f"{side}_bytes" for side in TOUCHES))

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DriveLoad:
    """The load of a drive in a span.

    Attributes:
        busy: the share of the time in which it had something to do.
        depth: mean moves in flight at it.
        power: of the moves in flight by which it delivers more: 0 if it is saturated, 1 if it
            delivers in proportion to them, or if too little is known.
    """

    busy: float
    depth: float
    power: float


@dataclass(frozen=True)
class Work:
    """The moves of a run on a common clock, the warm-up included.

    Attributes:
        moves: a row per move: IDENTITY, start_ns, end_ns (later than the start), `amount` of work,
            new `tokens`, `missed` tokens, and for the nvme tier read_bytes, write_bytes, and the times in the
            device, read_ns and write_ns.
        begin_ns: the end of the warm-up; without one the first start.
        end_ns: the cut; in a run that was not cut the last end, or the time when users began to run
            out.
        is_cut: whether the run was cut.
        has_drive: whether the plan may use the nvme tier.
    """

    moves: pl.DataFrame
    begin_ns: int
    end_ns: int
    is_cut: bool
    has_drive: bool = True

    @cached_property
    def _line(self) -> tuple[Floats, Floats]:
        """The times at which the rate of work changes, in s since `begin_ns`, and the work by then."""
        at, done = _add_up(self._starts, self._ends, self.moves["amount"].to_numpy())
        return at, done - np.interp(0.0, at, done)

    @cached_property
    def _starts(self) -> Floats:
        return (self.moves["start_ns"].to_numpy() - self.begin_ns) / 1e9

    @cached_property
    def _ends(self) -> Floats:
        return (self.moves["end_ns"].to_numpy() - self.begin_ns) / 1e9

    @property
    def last_ns(self) -> int:
        """The last end, less the rounding of times in s."""
        return int(self.moves["end_ns"].to_numpy().max()) - 1_000

    @property
    def total(self) -> float:
        """The work of the whole window; a move under way counts by the share of its time."""
        at, done = self._line
        return float(np.interp((self.end_ns - self.begin_ns) / 1e9, at, done))

    def find_time(self, amount: float) -> float:
        """Return when an amount of work was done, in s since `begin_ns`."""
        at, done = self._line
        after = min(int(np.searchsorted(done, amount)), len(done) - 1)
        before = max(after - 1, 0)
        step = done[after] - done[before]
        share = (amount - done[before]) / step if step > 0 else 1.0
        return float(at[before] + min(share, 1.0) * (at[after] - at[before]))

    def share_until(self, seconds: float) -> Floats:
        """Return the share of each move's time between `begin_ns` and a time after it."""
        length = self._ends - self._starts
        inside = np.minimum(self._ends, seconds) - np.maximum(self._starts, 0.0)
        shares: Floats = np.clip(inside / length, 0.0, 1.0)
        return shares

    def sum_until(self, seconds: float) -> dict[str, float]:
        """Sum each column of SUMMED over moves until then, each by the share of its time."""
        shares = self.share_until(seconds)  # of millions of moves, so they are computed once
        return {column: float(self.moves[column].to_numpy() @ shares) for column in SUMMED}

    def list_done(self, seconds: float, unit: Unit) -> pl.DataFrame:
        """Return identity and `done` amount of each piece of work that was begun until then."""
        done = pl.Series("done", self.moves["amount"].to_numpy() * self.share_until(seconds))
        return self.moves.select(*IDENTITY[unit], done).filter(pl.col("done") > 0)

    def sum_under_way(self, seconds: float) -> float:
        """Sum the work of the moves that were under way at a time, as far as it was done."""
        is_under_way = (self._starts < seconds) & (self._ends > seconds)
        return float(self.moves["amount"].to_numpy() @ (self.share_until(seconds) * is_under_way))

    def measure_load(self, sides: Collection[str], seconds: float) -> DriveLoad | None:
        """Return the load of the nvme tier until then by reads, writes or both; None without any.

        Without `sides` it is the load of all tiers. A demotion is at the drive only while it writes
        there, so the times are those in the device: reads come first in a move, writes last.
        """
        start, end, size = self._list_visits(sides, seconds)
        if not len(start) or seconds <= 0:
            return None
        at, moved = _add_up(start, end, size)
        _, flown = _add_up(start, end, end - start)  # moves in flight, added up over time
        gaps = np.diff(np.clip(at, 0.0, seconds))[np.diff(flown) < _HALF * np.diff(at)]
        idle = gaps.sum() + max(at[0], 0.0) + max(seconds - at[-1], 0.0)
        # Within one move nobody can say at which depth its bytes were moved.
        windows = min(int(seconds / (_VISITS * np.mean(end - start))), _WINDOWS)
        edges = np.linspace(0.0, seconds, max(windows, 1) + 1)
        sizes, depths = (np.diff(np.interp(edges, at, done)) for done in (moved, flown))
        busy, depth = float(1 - idle / seconds), float(depths.sum() / seconds)
        return DriveLoad(busy, depth, _fit_power(depths, sizes))

    def _list_visits(self, sides: Collection[str], seconds: float) -> tuple[Floats, Floats, Floats]:
        """Return when moves came to the nvme tier and left it until then, and their bytes."""
        if not sides:
            use = (self.moves["amount"].to_numpy() > 0) & (self._ends > 0) & (self._starts < seconds)
            return self._starts[use], self._ends[use], self.moves["amount"].to_numpy()[use]
        visits = []
        for side in sides:
            size = self.moves[f"{side}_bytes"].to_numpy()
            time_s = np.maximum(self.moves[f"{side}_ns"].to_numpy(), 1) / 1e9
            start = self._starts if side == "read" else self._ends - time_s
            use = (size > 0) & (start + time_s > 0) & (start < seconds)
            visits.append((start[use], (start + time_s)[use], size[use].astype(np.float64)))
        start, end, size = (np.concatenate(each) for each in zip(*visits, strict=True))
        return start, end, size


def _add_up(start: Floats, end: Floats, amount: Floats) -> tuple[Floats, Floats]:
    """Return the times at which moves start or end, and what was done by then at each move's even rate."""
    at = np.concatenate([start, end])
    order = np.argsort(at, kind="stable")
    rate = amount / (end - start)
    rates = np.cumsum(np.concatenate([rate, -rate])[order])[:-1]
    at = at[order]
    # A sum of rates that should be 0 may be a little below it.
    return at, np.concatenate([[0.0], np.cumsum(np.maximum(rates, 0.0) * np.diff(at))])


def _fit_power(depths: Floats, moved: Floats) -> float:
    """Return by which power of the moves in flight bytes grow over windows, from 0 to 1.

    Two standard errors are added; without enough windows it is 1.
    """
    use = (depths > 0) & (moved > 0)
    if use.sum() < _LEAST_WINDOWS:
        return 1.0
    x, y = (np.log(each[use]) - np.log(each[use]).mean() for each in (depths, moved))
    spread = x @ x
    if spread <= 0:
        return 1.0
    power = x @ y / spread
    error = math.sqrt(float(((y - power * x) ** 2).sum()) / (len(x) - 2) / spread)
    # Two standard errors on top: a drive is called saturated only if that is sure.
    return float(np.clip(power + 2 * error, 0.0, 1.0))


def read_work(run: Run, unit: Unit) -> Work:
    """Read the work of a run from its log.

    Raises:
        InputError: a part of the log is missing or damaged, or the ranks' clocks are days apart.
    """
    moves = pl.concat(_read_rank(rank, number, unit) for number, rank in enumerate(run.ranks)).collect(
        engine="streaming"
    )
    warm_end_ns, cut_ns = run.bounds_ns
    begin_ns = warm_end_ns if run.has_warmup else None
    if begin_ns is None:
        begin_ns = int(moves["start_ns"].to_numpy().min())
    has_users = run.conditions.pace == "closed"
    end_ns = _find_end(moves, has_users=has_users) if cut_ns is None else cut_ns
    has_drive = run.conditions.usable_bytes.nvme != 0
    # A warm-up may end after the last move.
    return Work(moves.drop("user_id"), begin_ns, max(end_ns, begin_ns + 1), cut_ns is not None, has_drive)


def _read_rank(rank: RankDirectory, number: int, unit: Unit) -> pl.LazyFrame:
    """Read the moves of one rank on the common clock."""
    words = (pl.col(name).cast(pl.Enum(known)) for name, known in LOG_ENUMS.items())
    own = ((pl.col("op") == "read") & READS) | FIRST_TOUCH
    amounts = {"bytes": SIZE * _TRANSFERS, "tokens": pl.col("tokens") * own}
    at_drive = {side: SIDES[f"nvme_{side}"].fill_null(value=False) for side in TOUCHES}
    # The rate of a move is its work over its time, so its time is never 0.
    later = pl.max_horizontal("end_ns", pl.col("start_ns") + 1)
    return (
        scan(rank.files)
        .with_columns(*words)
        .select(
            pl.lit(number, pl.Int32).alias("rank"),
            pl.col("user_id", *(name for name in IDENTITY[unit] if name != "rank")),
            pl.col("start_ns") + rank.shift_ns,
            later + rank.shift_ns,
            amounts[unit].cast(pl.Float64).alias("amount"),
            pl.col("new_tokens").cast(pl.Float64).alias("tokens"),
            (pl.col("tokens") * (pl.col("move") == "miss")).cast(pl.Float64).alias("missed"),
            *((SIZE * moved).alias(f"{side}_bytes") for side, moved in at_drive.items()),
            *(pl.col(f"device_{side}_ns").alias(f"{side}_ns") for side in TOUCHES),
        )
    )


def _find_end(moves: pl.DataFrame, *, has_users: bool) -> int:
    """Return the last end; with a closed pace the time when users began to run out.

    After that fewer and fewer users share the system, so that it is judged under another load. If
    less than half of the work is done by then, the last end counts.
    """
    last = int(moves["end_ns"].to_numpy().max())
    if not has_users:
        return last
    ends = moves.group_by("rank", "user_id").agg(pl.col("end_ns").max())["end_ns"].sort()
    first = int(ends[round((1 - _ACTIVE) * len(ends))])
    done = moves.filter(pl.col("end_ns") <= first)["amount"].sum()
    return first if 2 * done >= moves["amount"].sum() else last
