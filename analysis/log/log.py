"""The log as metrics see it: the condensed forms that they are computed from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow.parquet as pq

from analysis.log import requests
from analysis.log.cells import SUMS, decode_words, make_class, sum_by_cell, sum_within
from analysis.log.columns import EVICTION, QUEUE, SIZE, SIZE_CLASS, TOUCHES
from analysis.log.quantiles import Classes, sort
from analysis.log.requests import REQUEST_TIMES, UNTIMED
from replayer.schema import ADDED, DEVICE_ADDED, LOG_ENUMS, TIERS, WAITS

STRETCH: Final = 1 << 24
"""Rows that are grouped at once. A log of up to so many is held in memory, at 118 bytes each."""
AT_ONCE: Final = 3 << 26
"""Times that are taken from a log at one look, at 8 bytes each and as much again while they are sorted."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
SPLITS: Final[dict[str, dict[int, str]]] = {
    "all": {0: "all"},
    "cause": {0: "foreground", 1: "eviction"},
    "qos": dict(enumerate(LOG_ENUMS["qos"])),
    "phase": dict(enumerate(LOG_ENUMS["phase"])),
    "size": {n: f"{4**n >> 10 * (n // 5)} {_UNITS[n // 5]}" for n in range(32)},
}
"""What latencies are split by, one at a time, and the groups' names by code; a size is its class's lower bound."""
SHARES: Final = (*(step / 50 for step in range(50)), 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0)
"""Where the curves of distributions are drawn."""


_SPLIT_CODES: Final[Classes] = {
    "cause": (EVICTION, 2),
    "qos": make_class("qos"),
    "phase": make_class("phase"),
    "size": (SIZE_CLASS, 32),
}
_TIERS: Final = dict(enumerate(TIERS))
DEVICE_COLUMNS: Final[dict[str, type[pl.DataType]]] = {
    "time_ns": pl.Int64,
    "interval_ns": pl.Int64,
    "read_bytes": pl.Int64,
    "written_bytes": pl.Int64,
    "utilisation": pl.Float64,
    "process_cpu": pl.Float64,
    "system_cpu": pl.Float64,
    **{name: pl.Float64 if name == "steal_cpu" else pl.Int64 for name in DEVICE_ADDED},
    "host_cores": pl.Int64,
    "rank": pl.Int64,
    "host": pl.Int64,
    "shared": pl.Boolean,
}


@dataclass(frozen=True)
class Targets:
    """What a run is held against.

    Attributes:
        qos_ms: time to first byte per QoS class that 95% of its requests are to keep; kv-cache.py's.
        qos_ms_per_gib: how much longer a request may take for each GiB it moves before its first token.
        tier_gib_s: what a tier can read and write, by its data sheet or as fio measured it.
        tbw: what the drive may be written in its life, in 10^12 bytes.
        drive_tb: the drive's capacity, in 10^12 bytes.
    """

    qos_ms: dict[str, float] = field(
        default_factory=lambda: {"interactive": 50.0, "responsive": 100.0, "batch": 1000.0}
    )
    qos_ms_per_gib: float = 0.0
    tier_gib_s: dict[str, tuple[float, float]] = field(default_factory=dict)
    tbw: float | None = None
    drive_tb: float | None = None


def scan(files: list[Path]) -> pl.LazyFrame:
    """The rows of a log's parts, with the columns that version 1 lacks."""
    lacking = set(ADDED) - set(pq.read_schema(files[0].absolute()).names)
    absent = {
        "position": pl.col("op_id"),
        "window_ns": pl.lit(0, pl.Int64),
        "order_ns": pl.lit(0, pl.Int64),
        "waited_for": pl.lit(None, pl.Enum(WAITS)),
    }
    return pl.scan_parquet(files, glob=False).with_columns(**{name: absent[name] for name in sorted(lacking)})


def load_stretches(rows: pl.LazyFrame, count: int, whole: int) -> list[pl.LazyFrame]:
    """Rows to be looked at many times, in stretches of at most STRETCH.

    Where the log is too large for memory only words are held, at 9 bytes a row: to decode them takes as long as all the
    numbers, which are read from the parts at every look.

    Args:
        rows: of a rank.
        count: how many.
        whole: how many there are of all ranks.
    """
    if whole <= STRETCH:
        return [rows.collect(engine="streaming").lazy()]
    words = rows.select("warmup", *LOG_ENUMS).collect(engine="streaming").lazy()
    both = pl.concat([words, rows.drop("warmup", *LOG_ENUMS)], how="horizontal")
    return [both.slice(begin, STRETCH) for begin in range(0, count, STRETCH)] or [both]


class Log:
    """A run's rows without its warm-up, over all ranks, on one clock.

    Args:
        rows: one row per move, with `warmup` and the columns KEPT, enums as such; in stretches.
        token_ns: generation per token.
        bounds_ns: when the warm-up ended, None: with the first start; and when the run was cut, None: it went on to its
            last op.
        timed: whether requests have times, which those of pace asap have not.
        workers: of all ranks together.
        device: samples of device.parquet of all ranks, with `rank`, the number of its `host`, and `shared` where a
            longer rank has the device.
        ranks: how many there are.
        cores: that the replayer may use, of all hosts together; and all that they have, None where that is not known.
        targets: what to hold the run against.
        cells: the rows added up, where they are already.
    """

    def __init__(
        self,
        rows: Sequence[pl.LazyFrame],
        *,
        token_ns: int = 0,
        bounds_ns: tuple[int | None, int | None] = (None, None),
        timed: bool = True,
        workers: int = 1,
        device: pl.LazyFrame | None = None,
        ranks: int = 1,
        cores: tuple[int, int | None] = (1, None),
        targets: Targets | None = None,
        cells: pl.DataFrame | None = None,
    ) -> None:
        self.every_move = pl.concat(rows)
        self.moves = self.every_move.filter(~pl.col("warmup"))
        self.stretches = [stretch.filter(~pl.col("warmup")) for stretch in rows]
        self.token_ns, (self.warm_end_ns, self.cut_ns), self.timed = token_ns, bounds_ns, timed
        self.ranks, (self.cores, self.host_cores), self.workers = ranks, cores, workers
        self.device = pl.LazyFrame(schema=DEVICE_COLUMNS) if device is None else device
        self.targets = targets or Targets()
        self._cells = cells
        self._within: dict[tuple[int, int], pl.LazyFrame] = {}

    @property
    def cells(self) -> pl.LazyFrame:
        """`every_cell` without the warm-up."""
        return self.every_cell.filter(~pl.col("warmup"))

    @cached_property
    def every_cell(self) -> pl.LazyFrame:
        """All rows added up (`added_up`)."""
        return (sum_by_cell(self.every_move) if self._cells is None else self._cells).lazy()

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first start and the last end; None where all is warm-up."""
        first, last = self.cells.select(pl.col("start_ns").min(), pl.col("end_ns").max()).collect().row(0)
        return None if first is None else (first, last)

    @cached_property
    def window(self) -> tuple[int, int] | None:
        """What rates are over: a cut run from the end of the warm-up to the cut, any other its `span`."""
        if self.span is None or self.cut_ns is None:
            return self.span
        begin = self.span[0] if self.warm_end_ns is None else self.warm_end_ns
        return begin, max(begin, self.cut_ns)

    @property
    def elapsed_s(self) -> pl.Expr:
        """How long the window is."""
        seconds = None if self.window is None else (self.window[1] - self.window[0]) / 1e9
        return pl.lit(seconds, pl.Float64)

    @property
    def rated(self) -> pl.LazyFrame:
        """What rates count, added up by enums: `cells`, of a cut run by the share of each move inside the window."""
        return self.cells if self.cut_ns is None or self.window is None else self.within(*self.window)

    def within(self, begin: int, end: int) -> pl.LazyFrame:
        """SUMS by enums, each move by the share of its start … end that lies in a span, those of the warm-up, too.

        Few moves straddle the edges: only theirs is taken off `cells`, and added where it is of the warm-up.
        """
        if (begin, end) not in self._within:
            steady = ~pl.col("warmup")
            straddling = (pl.col("end_ns") > end) | (pl.col("start_ns") < begin)
            late = pl.col("warmup") & (pl.col("end_ns") >= begin)
            edges = self.every_move.filter((steady & straddling) | late)
            numbers = pl.col(*SUMS).cast(pl.Float64)
            whole, more = self.cells.select(*LOG_ENUMS, numbers), sum_within(edges, begin, end).lazy()
            self._within[begin, end] = pl.concat([whole, more.select(*LOG_ENUMS, numbers)])
        return self._within[begin, end]

    @cached_property
    def requests(self) -> pl.LazyFrame:
        """One row per request of a rank (`requests.of`)."""
        return requests.sum_by_request(self.stretches, self.token_ns, timed=self.timed).lazy()

    @cached_property
    def waits(self) -> pl.DataFrame:
        """Times per request: a row per measure and qos (all, or a class), with count and the STATS in ms."""
        found, names = [], []
        for measure, value in REQUEST_TIMES.items():
            if not self.timed and measure not in UNTIMED:
                continue
            ((_, values),) = sort(
                [self.requests.filter(value.is_not_null())], {"qos": (pl.col("qos"), 3)}, {measure: value}
            )
            for split in ("all", "qos"):
                spread = values.spread([split])
                names += [(measure, SPLITS[split].get(code)) for code in spread.drop_in_place(split)]
                found.append(spread)
        named = pl.DataFrame(names, {"measure": pl.String, "qos": pl.String}, orient="row")
        return pl.concat([named, pl.concat(found)], how="horizontal")

    @cached_property
    def seconds(self) -> pl.LazyFrame:
        """Moves that ended in the same second since the first start, added up by move, status and tiers."""
        first = pl.lit(self.cells.select(pl.col("start_ns").min()).collect().item())
        second = ((pl.col("end_ns") - first) // 1_000_000_000).alias("second")
        alike = self.moves.group_by("move", "status", "from_tier", "to_tier", second)
        return alike.agg(pl.len().alias("rows"), SIZE.sum()).collect(engine="streaming").lazy()

    @property
    def latency(self) -> pl.DataFrame:
        """Times per object: a row per tier, side, clock, split and group, with count and the STATS in ms."""
        return self._spreads[0]

    @property
    def curves(self) -> pl.DataFrame:
        """Distributions of the total time per tier and side: `ms` that `share` of the moves do not exceed."""
        return self._spreads[1]

    @cached_property
    def _spreads(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        spreads, names, curves = [], [], []
        for side, (tier, touching) in TOUCHES.items():
            count = self.cells.filter(touching).select(pl.col("rows").sum()).collect().item()
            at_once = max(1, AT_ONCE // max(1, count))
            rows = [stretch.filter(touching) for stretch in self.stretches]
            total, device = pl.col(f"{side}_ns"), pl.col(f"device_{side}_ns")
            clocks = {"total": total, "device": device, "host": (total - device).clip(0), "queue": QUEUE}
            classes = {"tier": make_class(tier), **_SPLIT_CODES}
            for clock, values in sort(rows, classes, clocks, at_once):
                for split, groups in SPLITS.items():
                    spread = values.spread(["tier", split])
                    marks = zip(spread.drop_in_place("tier"), spread.drop_in_place(split), strict=True)
                    names += [(_TIERS.get(code), side, clock, split, groups.get(group)) for code, group in marks]
                    spreads.append(spread)
                if clock == "total":
                    points = values.points(["tier"], SHARES)
                    tiers = decode_words("tier", points["tier"], TIERS)
                    curves.append(points.select(tiers, pl.lit(side).alias("side"), "share", "ms"))
        columns = dict.fromkeys(("tier", "side", "clock", "split", "group"), pl.String)
        named = pl.DataFrame(names, columns, orient="row")
        return pl.concat([named, pl.concat(spreads)], how="horizontal"), pl.concat(curves)
