"""The work of a run over time: what it had done by when, and whether its drive was the limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.log.columns import FIRST_TOUCH, OK, READS, SIDES, SIZE, TOUCHES
from analysis.log.log import scan
from analysis.runs.run import Run
from replayer.schema import LOG_ENUMS

Unit = Literal["bytes", "tokens"]
"""What counts as work: the bytes of a plan's moves; the tokens of the trace's ops, if the plans differ."""
IDENTITY: Final[dict[Unit, tuple[str, ...]]] = {
    "bytes": ("rank", "position", "seq"),
    "tokens": ("rank", "op_id", "key"),  # another order gives the op another position; each cycle has its own keys
}
"""The columns that name a piece of work in every run that shares it."""
_TRANSFERS: Final = OK & pl.col("move").is_in(["hit", "store", "demote", "promote", "copy"])
_ACTIVE: Final = 0.9
"""Users begin to run out when fewer than this share of them have requests left."""
_LEAST_MOVES: Final = 20
"""Fewer moves of a drive say nothing about its rate at different loads."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Work:
    """The moves of a run on a common clock, the warm-up included.

    Attributes:
        moves: a row per move: IDENTITY, start_ns, end_ns (later than the start), `amount` of work,
            new `tokens`, and the bytes that it read from and wrote to the nvme tier.
        begin_ns: the end of the warm-up; without one the first start.
        end_ns: the cut; in a run that was not cut the last end, or the time when users began to run
            out.
        is_cut: whether the run was cut.
    """

    moves: pl.DataFrame
    begin_ns: int
    end_ns: int
    is_cut: bool

    @cached_property
    def _line(self) -> tuple[Floats, Floats]:
        """The times at which the rate of work changes, in s since `begin_ns`, and the work done by then."""
        start, end = self._starts, self._ends
        amount = self.moves["amount"].to_numpy()
        rate = amount / (end - start)
        at = np.concatenate([start, end])
        order = np.argsort(at, kind="stable")
        at = at[order]
        rates = np.cumsum(np.concatenate([rate, -rate])[order])
        done = np.concatenate([[0.0], np.cumsum(np.maximum(rates[:-1], 0.0) * np.diff(at))])
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

    def sum_until(self, seconds: float, column: str) -> float:
        """Sum a column over moves until then, each by the share of its time."""
        return float(self.moves[column].to_numpy() @ self.share_until(seconds))

    def list_done(self, seconds: float) -> pl.DataFrame:
        """Return identity and amount of each piece of work that was done until then, in part or whole."""
        done = pl.Series("done", self.moves["amount"].to_numpy() * self.share_until(seconds))
        return self.moves.drop("start_ns", "end_ns").with_columns(done).filter(pl.col("done") > 0)

    def sum_under_way(self, seconds: float) -> float:
        """Sum the work of the moves that were under way at a time, as far as it was done."""
        shares = np.where((self._starts < seconds) & (self._ends > seconds), self.share_until(seconds), 0.0)
        return float(self.moves["amount"].to_numpy() @ shares)

    def measure_busy(self, seconds: float) -> float | None:
        """Return the share of the time until then in which at least one move was at the nvme tier; None without one."""
        at_drive = self._list_at_drive(("read_bytes", "write_bytes"), seconds)
        if not at_drive.any():
            return None
        start = np.clip(self._starts[at_drive], 0.0, seconds)
        end = np.clip(self._ends[at_drive], 0.0, seconds)
        order = np.argsort(start, kind="stable")
        start, end = start[order], np.maximum.accumulate(end[order])
        idle = float(start[0] + np.maximum(start[1:] - end[:-1], 0.0).sum() + seconds - end[-1])
        return 1 - idle / seconds

    def measure_saturation(self, seconds: float) -> float:
        """Return how little more the drive delivers when more moves are in flight, from 0 to about 1.

        It is bytes/s in the third of the time with the fewest moves in flight, over that with the
        most; of reads, writes or both, whichever is highest. Below 1 more load would have brought
        more.
        """
        kinds = (("read_bytes",), ("write_bytes",), ("read_bytes", "write_bytes"))
        return max(self._measure_saturation(columns, seconds) for columns in kinds)

    def _measure_saturation(self, columns: Sequence[str], seconds: float) -> float:
        at_drive = self._list_at_drive(columns, seconds)
        if at_drive.sum() < _LEAST_MOVES:
            return 0.0
        start, end = self._starts[at_drive], self._ends[at_drive]
        rate = self._sum_columns(columns)[at_drive] / (end - start)
        at = np.concatenate([np.clip(start, 0.0, seconds), np.clip(end, 0.0, seconds)])
        order = np.argsort(at, kind="stable")
        ones = np.ones(len(start))
        flying = np.rint(np.cumsum(np.concatenate([ones, -ones])[order])).astype(np.int64)
        delivered = np.cumsum(np.concatenate([rate, -rate])[order])
        length = np.diff(np.concatenate([at[order], [seconds]]))
        time_at = np.bincount(flying, length)
        bytes_at = np.bincount(flying, delivered * length)
        time_at[0] += at[order][0]
        time = np.concatenate([[0.0], np.cumsum(time_at)])
        moved = np.concatenate([[0.0], np.cumsum(bytes_at)])
        few, many = np.interp([time[-1] / 3, time[-1] * 2 / 3], time, moved)
        return float(few / (moved[-1] - many))

    def _list_at_drive(self, columns: Sequence[str], seconds: float) -> NDArray[np.bool_]:
        use: NDArray[np.bool_] = (self._sum_columns(columns) > 0) & (self._ends > 0) & (self._starts < seconds)
        return use

    def _sum_columns(self, columns: Sequence[str]) -> NDArray[np.int64]:
        return self.moves.select(pl.sum_horizontal(columns)).to_series().to_numpy()


def read_work(run: Run, unit: Unit) -> Work:
    """Read the work of a run from its log.

    Raises:
        InputError: a part of the log is missing or damaged, or the ranks' clocks are days apart.
    """
    own = ((pl.col("op") == "read") & READS) | FIRST_TOUCH
    amounts = {"bytes": SIZE * _TRANSFERS, "tokens": pl.col("tokens") * own}
    moves = pl.concat(
        scan(run.files[place])
        .with_columns(*(pl.col(name).cast(pl.Enum(known)) for name, known in LOG_ENUMS.items()))
        .select(
            pl.lit(rank, pl.Int32).alias("rank"),
            pl.col("user_id", *(name for name in IDENTITY[unit] if name != "rank")),
            pl.col("start_ns") + run.shifts[place],
            pl.max_horizontal("end_ns", pl.col("start_ns") + 1) + run.shifts[place],
            amounts[unit].cast(pl.Float64).alias("amount"),
            pl.col("new_tokens").cast(pl.Float64).alias("tokens"),
            *((SIZE * SIDES[f"nvme_{side}"].fill_null(False)).alias(f"{side}_bytes") for side in TOUCHES),
        )
        for rank, place in enumerate(run.info_of)
    ).collect(engine="streaming")
    warm_end_ns, cut_ns = run.bounds_ns
    begin_ns = warm_end_ns if run.has_warmup and warm_end_ns is not None else int(moves["start_ns"].to_numpy().min())
    end_ns = _find_end(moves, has_users=run.conditions.pace == "closed") if cut_ns is None else cut_ns
    return Work(moves.drop("user_id"), begin_ns, max(end_ns, begin_ns + 1), is_cut=cut_ns is not None)


def _find_end(moves: pl.DataFrame, *, has_users: bool) -> int:
    """Return the last end; of users who wait for their own requests the time when they began to run out.

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
