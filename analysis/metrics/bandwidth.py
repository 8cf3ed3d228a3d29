"""GiB per second and tier."""

import polars as pl

from analysis.log.columns import GIB, SIDES, SIZE, TOUCHES
from analysis.log.log import Log
from analysis.log.quantiles import gaps_ns, sort
from replayer.schema import TIERS

_BEST_S = 10


def bandwidth(log: Log) -> pl.LazyFrame:
    """Bytes over several times; each is right for one question.

    {tier}_{side}_gib_s: over elapsed_s: what the run got. Over a nominal duration it would be too much.
    {tier}_{side}_busy_gib_s: over the union of the intervals of such moves: while there was something to do.
    {tier}_{side}_best10_gib_s: of moves that ended within the best 10 s; null in runs below 10 s.
    {tier}_{side}_io_gib_s: over the sum of their times: what one move alone gets.
    {tier}_{side}_efficiency: busy_gib_s / what the tier can do (--tier-gib-s, --device-gib-s for nvme); null where that
        is not given.
    """
    sides = SIDES.items()
    rates = log.rated.select(**{f"{side}_gib_s": SIZE.filter(rows).sum() / GIB / log.elapsed_s for side, rows in sides})
    alone = log.cells.select(
        **{f"{side}_io_gib_s": _over(SIZE.filter(rows).sum(), _time(side).filter(rows).sum()) for side, rows in sides}
    )
    whole = log.span is not None and (log.span[1] - log.span[0]) / 1e9 >= _BEST_S
    best = [
        _best(log.seconds.filter(rows), whole).select(pl.first().alias(f"{side}_best10_gib_s")) for side, rows in sides
    ]
    frames = [rates, alone, *(_busy(log, side) for side in TOUCHES), *best]
    return pl.concat(frames, how="horizontal").with_columns(
        (pl.col(f"{tier}_{side}_busy_gib_s") / pl.lit(gib_s, pl.Float64)).alias(f"{tier}_{side}_efficiency")
        for tier in TIERS
        for side, gib_s in zip(TOUCHES, log.targets.tier_gib_s.get(tier, (None, None)), strict=True)
    )


def _time(side: str) -> pl.Expr:
    return pl.col(side.split("_")[1] + "_ns")


def _over(size: pl.Expr, time_ns: pl.Expr) -> pl.Expr:
    return pl.when(time_ns > 0).then(size / GIB / (time_ns / 1e9))


def _busy(log: Log, side: str) -> pl.LazyFrame:
    tier, touching = TOUCHES[side]
    rows = [stretch.filter(touching) for stretch in log.stretches]
    sizes = dict(log.cells.filter(touching).group_by(tier).agg(SIZE.sum()).collect().iter_rows())
    classes = {"tier": (pl.col(tier).to_physical(), len(TIERS))}
    (_, starts), (_, ends) = sort(rows, classes, {"start": pl.col("start_ns"), "end": pl.col("end_ns")}, at_once=2)
    found: dict[str, float | None] = dict.fromkeys(TIERS)
    for code, first, last in zip(starts.digits["tier"][0], starts.begins, starts.ends, strict=True):
        start, end = starts.packed[first:last], ends.packed[first:last]
        busy_ns = int(end[-1] - start[0]) - gaps_ns(start, end)
        if busy_ns:
            found[TIERS[code]] = sizes[TIERS[code]] / GIB / (busy_ns / 1e9)
    return pl.LazyFrame(
        {f"{name}_{side}_busy_gib_s": [value] for name, value in found.items()},
        schema={f"{name}_{side}_busy_gib_s": pl.Float64 for name in TIERS},
    )


def _best(seconds: pl.LazyFrame, whole: bool) -> pl.LazyFrame:
    """Over windows of ten whole seconds, of which the one that begins with a second that saw an end is the best."""
    sums = seconds.group_by("second").agg(SIZE.sum()).sort("second")
    window = SIZE.rolling_sum_by("second", f"{_BEST_S}i").max() / GIB / _BEST_S
    return sums.select(window if whole else pl.lit(None, pl.Float64))
