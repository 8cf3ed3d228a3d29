"""GiB per second, by tier and direction."""

from typing import Final

import polars as pl

from analysis.log.columns import GIB, SIDES, SIZE, TOUCHES
from analysis.log.log import Log
from analysis.log.quantiles import gaps_ns, sort
from analysis.metrics.metric import Declared, Metric
from replayer.schema import TIERS


def bandwidth(log: Log) -> pl.LazyFrame:
    """Bytes divided by one of several times; each answers another question.

    {tier}_{direction}_gib_s: Σ bytes / elapsed_s: what the run got.
    {tier}_{direction}_busy_gib_s: Σ bytes / the union of start … end of such moves: the bandwidth
        while there was something to move.
    {tier}_{direction}_efficiency: busy_gib_s / the bandwidth stated for the tier (`tier_gib_s`; for
        nvme also `device_gib_s`); null if none is stated.
    """
    rates = log.rated.select(
        **{f"{touched}_gib_s": SIZE.filter(rows).sum() / GIB / log.elapsed_s for touched, rows in SIDES.items()}
    )
    frames = [rates, *(_busy(log, direction) for direction in TOUCHES)]
    return pl.concat(frames, how="horizontal").with_columns(_efficiencies(log))


def _efficiencies(log: Log) -> list[pl.Expr]:
    """Divide each busy bandwidth by the one that was stated for its tier."""
    return [
        (pl.col(f"{tier}_{direction}_busy_gib_s") / pl.lit(gib_s, pl.Float64)).alias(
            f"{tier}_{direction}_efficiency",
        )
        for tier in TIERS
        for direction, gib_s in zip(
            TOUCHES,
            log.targets.tier_gib_s.get(tier, (None, None)),
            strict=True,
        )
    ]


def _busy(log: Log, direction: str) -> pl.LazyFrame:
    """Compute the bandwidth of each tier over the union of its moves' intervals."""
    tier, touching = TOUCHES[direction]
    rows = [stretch.filter(touching) for stretch in log.stretches]
    sizes = dict(log.cells.filter(touching).group_by(tier).agg(SIZE.sum()).collect().iter_rows())
    classes = {"tier": (pl.col(tier).to_physical(), len(TIERS))}
    stamps = {"start": pl.col("start_ns"), "end": pl.col("end_ns")}
    (_, starts), (_, ends) = sort(rows, classes, stamps, at_once=2)
    values: dict[str, float | None] = dict.fromkeys(TIERS)
    for code, first, last in zip(starts.digits["tier"][0], starts.begins, starts.ends, strict=True):
        start, end = starts.packed[first:last], ends.packed[first:last]
        busy_ns = int(end[-1] - start[0]) - gaps_ns(start, end)
        if busy_ns:
            values[TIERS[code]] = sizes[TIERS[code]] / GIB / (busy_ns / 1e9)
    return pl.LazyFrame(
        {f"{name}_{direction}_busy_gib_s": [value] for name, value in values.items()},
        schema={f"{name}_{direction}_busy_gib_s": pl.Float64 for name in TIERS},
    )


def _declare(ending: str, label: str, *, unit: str = "GiB/s") -> Metric:
    """Describe a bandwidth of each tier in each direction."""
    return Metric(
        f"{{tier}}_{{direction}}_{ending}",
        unit,
        "speed",
        f"{{tier}} {{direction}}s{label}",
        "higher",
        short="{direction} GiB/s" if ending == "gib_s" else "",
    )


METRICS: Final[Declared] = {
    bandwidth: (
        _declare("gib_s", ""),
        _declare("busy_gib_s", " while busy"),
        _declare("efficiency", ", share of the stated bandwidth", unit="share"),
    ),
}
