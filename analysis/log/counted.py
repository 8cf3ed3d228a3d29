"""The requests whose times count, and what is known of the times of those that are not done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl
from msgspec.structs import asdict
from polars import col

from analysis.log.quantiles import sort
from analysis.log.requests import REQUEST
from replayer.schema import LOG_ENUMS, RunInfo, Unfinished

# The measures that exist under pace asap, which makes all requests due at once.
UNTIMED: Final = ("generation",)
# The measures of a request, in ns.
REQUEST_TIMES: Final = {
    "io": col("io_ns"),
    "queue": col("queue_ns"),
    "plan_wait": col("plan_wait_ns"),
    "lateness": col("start_ns") - col("due_ns"),
    "ttfb": col("prefill_end_ns") - col("due_ns"),
    "generation": col("generation_ns"),
    "e2e": col("done_ns") - col("due_ns"),
}
# Whether a measure of a request may still grow; all others may until the request is done.
_OPEN: Final = {"ttfb": col("in_prefill"), "lateness": ~col("has_begun")}
_ENDLESS: Final = 1 << 62
_QOS: Final = dict(enumerate(LOG_ENUMS["qos"]))
# The columns of requests that are not done.
OPEN_COLUMNS: Final[dict[str, type[pl.DataType]]] = {
    **dict.fromkeys(("rank", "request_id", "qos", "due_ns"), pl.Int64),
    "in_prefill": pl.Boolean,
}


@dataclass(frozen=True)
class RequestBounds:
    """The requests that count, as far as the rows do not say it.

    Attributes:
        timed: whether requests have times; False for pace asap.
        due_from_ns: requests due before it are of the warm-up; None: those whose first op is.
        cut_ns: requests due from then on do not count; None: the run was not cut.
        unfinished: requests that were due and are not done, with OPEN_COLUMNS; None: not known.
    """

    timed: bool = True
    due_from_ns: int | None = None
    cut_ns: int | None = None
    unfinished: pl.DataFrame | None = None


def bound_requests(
    infos: Sequence[RunInfo], shifts: Sequence[int], warm_end_ns: int | None, cut_ns: int | None
) -> RequestBounds:
    """Return which requests of a run count, on the common clock.

    Args:
        infos: run.json of each rank.
        shifts: the ns to add to each rank's clock.
        warm_end_ns: the end of the warm-up; None: nothing is past it, or there was none.
        cut_ns: the cut; None: there was none.
    """
    conditions = infos[0].conditions
    timed = conditions.pace != "asap"
    due_from_ns = None
    asked = conditions.warmup
    if timed and asked is not None and (asked.s or conditions.begins_steady):
        due_from_ns = _ENDLESS if warm_end_ns is None else warm_end_ns
    if any(info.unfinished is None and info.cut_s is not None for info in infos):
        return RequestBounds(timed, due_from_ns, cut_ns)
    opened = [
        pl.DataFrame(asdict(info.unfinished or Unfinished()) | {"rank": rank}, schema=OPEN_COLUMNS, strict=False)
        for rank, info in enumerate(infos)
    ]
    moved = [table.with_columns(col("due_ns") + shift) for table, shift in zip(opened, shifts, strict=True)]
    return RequestBounds(timed, due_from_ns, cut_ns, pl.concat(moved))


def select_counted(requests: pl.DataFrame, bounds: RequestBounds) -> pl.DataFrame:
    """Select the requests that were due inside the window, those that never began included.

    A request that is not done has the times that it had reached at the cut, or with a later move.

    Args:
        requests: all requests that have rows (`sum_by_request`).
        bounds: the requests that count.

    Returns:
        The requests, flags (has_begun, unfinished, in_prefill), and `all`, which is always 0.
    """
    opened = pl.DataFrame(schema=OPEN_COLUMNS) if bounds.unfinished is None else bounds.unfinished
    opened = opened.select(
        *(REQUEST, "in_prefill"),
        open_qos=col("qos").cast(pl.UInt8),
        open_due_ns="due_ns",
        unfinished=pl.lit(value=True),
    )
    joined = requests.join(opened, on="request", how="full", coalesce=True)
    times = ("session_id", "prefill_end_ns", "done_ns", "start_ns")
    summed = [name for name in requests.columns if name not in times]
    reached = pl.lit(bounds.cut_ns, pl.Int64)
    counted = (
        joined.with_columns(
            col("unfinished", "in_prefill").fill_null(value=False),
            has_begun=col("due_ns").is_not_null(),
            all=pl.lit(0, pl.Int64),
            qos=pl.coalesce("qos", "open_qos"),
            due_ns=pl.coalesce("due_ns", "open_due_ns"),
        )
        .with_columns(
            col(summed).fill_null(strategy="zero"),
            start_ns=pl.coalesce("start_ns", reached),
            prefill_end_ns=_extend("prefill_end_ns", col("in_prefill"), reached),
            done_ns=_extend("done_ns", col("unfinished"), reached),
        )
        .drop("open_qos", "open_due_ns")
    )
    is_past_warmup = ~col("warmup").cast(pl.Boolean)
    if not bounds.timed:
        return counted.filter(is_past_warmup)
    if bounds.due_from_ns is not None:
        is_past_warmup = col("due_ns") >= bounds.due_from_ns
    in_time = pl.lit(1) == 1 if bounds.cut_ns is None else col("due_ns") < bounds.cut_ns
    return counted.filter(is_past_warmup & in_time)


def _extend(column: str, is_open: pl.Expr, reached: pl.Expr) -> pl.Expr:
    return pl.when(is_open).then(pl.max_horizontal(column, reached)).otherwise(column)


def keep_complete(requests: pl.DataFrame, measure: str, window: tuple[int, int], by: str) -> pl.DataFrame:
    """Keep the requests that were due before the first one whose measure may still grow.

    They stand for the window, because nothing but their due time selects them. If they cover less
    than half of it, none is kept.

    Args:
        requests: the requests that count.
        measure: a key of REQUEST_TIMES.
        window: the measured time in ns.
        by: the column by whose values the first one is looked for.
    """
    is_open = col("unfinished") & _OPEN.get(measure, col("unfinished"))
    first_ns = col("due_ns").filter(is_open).min().over(by)
    is_complete = (col("due_ns") < first_ns) & (2 * first_ns >= sum(window))
    return requests.filter(first_ns.is_null() | is_complete)


def spread_measures(
    requests: pl.DataFrame, window: tuple[int, int], *, timed: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compute the distributions of all measures over requests.

    Args:
        requests: the requests that count.
        window: the measured time in ns.
        timed: whether requests have times.

    Returns:
        Two tables of a row per measure and qos (all, or a class), with count and STATS in ms: of
        the complete requests (`keep_complete`), and of all, unfinished ones as far as they got.
    """
    measures = {name: value for name, value in REQUEST_TIMES.items() if timed or name in UNTIMED}
    complete = []
    seen = []
    for measure, value in measures.items():
        for by, names in (("all", {0: "all"}), ("qos", _QOS)):
            labels = {code: (measure, name) for code, name in names.items()}
            kept = keep_complete(requests, measure, window, by)
            complete.append(_spread(kept, value, by, labels))
            seen.append(_spread(requests, value, by, labels))
    return pl.concat(complete), pl.concat(seen)


def _spread(rows: pl.DataFrame, value: pl.Expr, by: str, labels: dict[int, tuple[str, str]]) -> pl.DataFrame:
    """Return the distribution of a measure by the values of a column."""
    columns = {"measure": pl.String, "qos": pl.String}
    measured = rows.lazy().filter(value.is_not_null())
    ((_, values),) = sort([measured], {by: (col(by), 3)}, {"ms": value})
    spread = values.spread([by])
    named = [labels[code] for code in spread.drop_in_place(by)]
    return pl.concat([pl.DataFrame(named, columns, orient="row"), spread], how="horizontal")
