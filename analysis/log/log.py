"""The log of a run, and the condensed forms that metrics are computed from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

import polars as pl
from polars import col

from analysis.log import counted
from analysis.log.cells import SUMS, decode_words, make_class, sum_by_cell, sum_within
from analysis.log.columns import CAUSE, CAUSE_NAMES, QUEUE, SIZE_CLASS, TOUCHES
from analysis.log.counted import RequestBounds
from analysis.log.quantiles import Classes, Sorted, sort
from analysis.log.requests import sum_by_request
from analysis.log.targets import Targets
from replayer.schema import DEVICE_SCHEMA, LOG_ENUMS, TIERS

# The number of times that one pass reads from a log, at 8 bytes each, twice that during the sort.
AT_ONCE: Final = 3 << 26

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
# The groupings of latencies, and the names of their groups by code.
#
# The name of a size class is its lower bound.
SPLITS: Final[dict[str, dict[int, str]]] = {
    "all": {0: "all"},
    "cause": dict(enumerate(CAUSE_NAMES)),
    "qos": dict(enumerate(LOG_ENUMS["qos"])),
    "phase": dict(enumerate(LOG_ENUMS["phase"])),
    "size": {n: f"{4**n >> 10 * (n // 5)} {_UNITS[n // 5]}" for n in range(32)},
}
# The shares at which curves of distributions are drawn.
SHARES: Final = (*(step / 50 for step in range(50)), 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0)
_SPLIT_CLASSES: Final[Classes] = {
    "cause": (CAUSE, len(CAUSE_NAMES)),
    "qos": make_class("qos"),
    "phase": make_class("phase"),
    "size": (SIZE_CLASS, 32),
}
_TIERS: Final = dict(enumerate(TIERS))
# The columns of device.parquet, and those that `pool_samples` adds.
DEVICE_COLUMNS: Final = pl.Schema(
    {
        **pl.DataFrame(DEVICE_SCHEMA.empty_table()).schema,
        "host_cores": pl.Int64(),
        "rank": pl.Int64(),
        "host": pl.String(),
        "shared": pl.Boolean(),
    }
)


@dataclass
class Log:
    """The rows of a run, of all ranks on one clock.

    Attributes:
        every_stretch: one row per move, with `warmup` and the columns of KEPT, in stretches.
        token_ns: generation time per token in ns.
        warm_end_ns: the end of the warm-up in ns; None: there was none.
        cut_ns: the time at which the run was cut in ns; None: it was not.
        request_bounds: which requests count.
        workers: the number of workers of all ranks together.
        device: samples of all ranks, with DEVICE_COLUMNS.
        cores: the cores of all hosts that the replayer may use.
        host_cores: all their cores; None: not known.
        targets: the bounds to compare the run with.
        known_cells: the cells of the rows (`sum_by_cell`), if they are computed already.
    """

    every_stretch: Sequence[pl.LazyFrame]
    token_ns: int = 0
    warm_end_ns: int | None = None
    cut_ns: int | None = None
    request_bounds: RequestBounds = field(default_factory=RequestBounds)
    workers: int = 1
    device: pl.LazyFrame = field(default_factory=partial(pl.LazyFrame, schema=DEVICE_COLUMNS))
    cores: int = 1
    host_cores: int | None = None
    targets: Targets = field(default_factory=Targets)
    known_cells: pl.DataFrame | None = None

    def __post_init__(self) -> None:
        self._within: dict[tuple[int, int], pl.LazyFrame] = {}

    def cut(self, rows: pl.DataFrame, bounds_ns: tuple[int, int]) -> "Log":
        """Return a log of some of the rows, as though the run had been measured from one time to another."""
        begin, end = bounds_ns
        bounds = RequestBounds(self.timed)
        return replace(
            self, every_stretch=[rows.lazy()], warm_end_ns=begin, cut_ns=end, request_bounds=bounds, known_cells=None
        )

    @property
    def every_move(self) -> pl.LazyFrame:
        """All rows."""
        return pl.concat(self.every_stretch)

    @property
    def moves(self) -> pl.LazyFrame:
        """The rows after the warm-up."""
        return self.every_move.filter(~col("warmup"))

    @property
    def stretches(self) -> list[pl.LazyFrame]:
        """The rows after the warm-up, in stretches."""
        return [stretch.filter(~col("warmup")) for stretch in self.every_stretch]

    @property
    def timed(self) -> bool:
        """Whether requests have times; False for pace asap."""
        return self.request_bounds.timed

    @property
    def cells(self) -> pl.LazyFrame:
        """The cells without the warm-up."""
        return self.every_cell.filter(~col("warmup"))

    @cached_property
    def every_cell(self) -> pl.LazyFrame:
        """The cells of all rows (`sum_by_cell`)."""
        known = self.known_cells
        return (sum_by_cell(self.every_move) if known is None else known).lazy()

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first start and the last end in ns; None if all rows are warm-up."""
        first, last = self.cells.select(col("start_ns").min(), col("end_ns").max()).collect().row(0)
        return None if first is None else (first, last)

    @cached_property
    def window(self) -> tuple[int, int] | None:
        """The measured time in ns, which rates are computed over.

        It goes from the end of the warm-up to the cut; in a run that was not cut it is `span`.
        """
        if self.span is None or self.cut_ns is None:
            return self.span
        begin = self.span[0] if self.warm_end_ns is None else self.warm_end_ns
        return begin, max(begin, self.cut_ns)

    @property
    def elapsed_s(self) -> pl.Expr:
        """The length of the window in s; null if all rows are warm-up."""
        seconds = None if self.window is None else (self.window[1] - self.window[0]) / 1e9
        return pl.lit(seconds, pl.Float64)

    @property
    def rated(self) -> pl.LazyFrame:
        """The sums by enums that rates count; in a cut run each move counts by its share in the window."""
        if self.cut_ns is None or self.window is None:
            return self.cells
        return self.within(*self.window)

    def within(self, begin: int, end: int) -> pl.LazyFrame:
        """Return SUMS by enums, each move by the share of its time in a span, warm-up included.

        Few moves cross an edge of the span, so only their parts are computed from rows: parts
        outside the span are subtracted from `cells`, parts of the warm-up inside it are added.
        """
        if (begin, end) not in self._within:
            steady = ~col("warmup")
            straddling = (col("end_ns") > end) | (col("start_ns") < begin)
            late = col("warmup") & (col("end_ns") >= begin)
            edges = self.every_move.filter((steady & straddling) | late)
            numbers = col(*SUMS).cast(pl.Float64)
            whole = self.cells.select(*LOG_ENUMS, numbers)
            at_edges = sum_within(edges, begin, end).lazy().select(*LOG_ENUMS, numbers)
            self._within[begin, end] = pl.concat([whole, at_edges])
        return self._within[begin, end]

    @cached_property
    def every_request(self) -> pl.DataFrame:
        """One row per request of each rank that has rows (`sum_by_request`)."""
        return sum_by_request(self.every_stretch, self.token_ns, timed=self.timed)

    @cached_property
    def requests(self) -> pl.DataFrame:
        """The requests whose times count (`counted.select_counted`)."""
        return counted.select_counted(self.every_request, self.request_bounds)

    @cached_property
    def waits(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Times per request, of the complete ones and of all (`counted.spread_measures`)."""
        return counted.spread_measures(self.requests, self.window or (0, 0), timed=self.timed)

    def complete_requests(self, measure: str, by: str) -> pl.LazyFrame:
        """Return the requests with a known measure (`counted.keep_complete`)."""
        return counted.keep_complete(self.requests, measure, self.window or (0, 0), by).lazy()

    @property
    def latency(self) -> pl.DataFrame:
        """Times per object: a row per tier, side, clock, split and group, with count and STATS in ms."""
        return self._spreads[0]

    @property
    def curves(self) -> pl.DataFrame:
        """Distributions of total times by tier and side: `share` of the moves took at most `ms`."""
        return self._spreads[1]

    @cached_property
    def _spreads(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Latencies and curves, both from one sort per clock."""
        spreads = []
        labels = []
        curves = []
        for side in TOUCHES:
            for clock, values in self._sort_times(side):
                for split, groups in SPLITS.items():
                    spread = values.spread(["tier", split])
                    codes = zip(spread.drop_in_place("tier"), spread.drop_in_place(split), strict=True)
                    labels += [(_TIERS.get(tier), side, clock, split, groups.get(group)) for tier, group in codes]
                    spreads.append(spread)
                if clock == "total":
                    curves.append(_curve(values, side))
        columns = dict.fromkeys(("tier", "side", "clock", "split", "group"), pl.String)
        table = pl.DataFrame(labels, columns, orient="row")
        return pl.concat([table, pl.concat(spreads)], how="horizontal"), pl.concat(curves)

    def _sort_times(self, side: str) -> Iterator[tuple[str, Sorted]]:
        """Sort the times of the moves in one direction, clock by clock."""
        tier, touching = TOUCHES[side]
        count = self.cells.filter(touching).select(col("rows").sum()).collect().item()
        rows = [stretch.filter(touching) for stretch in self.stretches]
        total = col(f"{side}_ns")
        device = col(f"device_{side}_ns")
        clocks = {"total": total, "device": device, "host": (total - device).clip(0), "queue": QUEUE}
        return sort(rows, {"tier": make_class(tier), **_SPLIT_CLASSES}, clocks, max(1, AT_ONCE // max(1, count)))


def _curve(values: Sorted, side: str) -> pl.DataFrame:
    """Return the distribution of times by tier, at SHARES."""
    points = values.points(["tier"], SHARES)
    tiers = decode_words("tier", points["tier"], TIERS)
    return points.select(tiers, pl.lit(side).alias("side"), "share", "ms")
