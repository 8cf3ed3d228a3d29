"""The requests whose times count, and what is known of the times of those that are not done."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from analysis.log.quantiles import sort
from analysis.log.requests import REQUEST
from replayer.schema import LOG_ENUMS

UNTIMED: Final = ("generation",)
"""The measures that exist under pace asap, which makes all requests due at once."""
REQUEST_TIMES: Final = {
    "io": pl.col("io_ns"),
    "queue": pl.col("queue_ns"),
    "plan_wait": pl.col("plan_wait_ns"),
    "lateness": pl.col("start_ns") - pl.col("due_ns"),
    "ttfb": pl.col("prefill_end_ns") - pl.col("due_ns"),
    "generation": pl.col("generation_ns"),
    "e2e": pl.col("done_ns") - pl.col("due_ns"),
}
"""The measures of a request, in ns."""
_OPEN: Final = {"ttfb": pl.col("in_prefill"), "lateness": ~pl.col("has_begun")}
"""Whether a measure of a request may still grow; all others may until the request is done."""
_QOS: Final = dict(enumerate(LOG_ENUMS["qos"]))
OPEN_COLUMNS: Final[dict[str, type[pl.DataType]]] = {
    **dict.fromkeys(("rank", "request_id", "qos", "due_ns"), pl.Int64),
    "in_prefill": pl.Boolean,
}
"""The columns of requests that are not done."""


@dataclass(frozen=True)
class Arrivals:
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


def select_counted(requests: pl.DataFrame, arrivals: Arrivals) -> pl.DataFrame:
    """Select the requests that were due inside the window, those that never began included.

    A request that is not done has the times that it had reached at the cut, or with a later move.

    Args:
        requests: all requests that have rows (`sum_by_request`).
        arrivals: the requests that count.

    Returns:
        The requests, flags (has_begun, unfinished, in_prefill), and a column `all` that is always 0.
    """
    opened = pl.DataFrame(schema=OPEN_COLUMNS) if arrivals.unfinished is None else arrivals.unfinished
    columns = {"open_qos": pl.col("qos").cast(pl.UInt8), "open_due_ns": pl.col("due_ns"), "unfinished": pl.lit(True)}  # noqa: FBT003
    joined = requests.join(opened.select(REQUEST, "in_prefill", **columns), on="request", how="full", coalesce=True)
    summed = [name for name in requests.columns if name not in ("session_id", "prefill_end_ns", "done_ns", "start_ns")]
    reached = pl.lit(arrivals.cut_ns, pl.Int64)
    counted = (
        joined.with_columns(
            pl.col("unfinished", "in_prefill").fill_null(value=False),
            has_begun=pl.col("due_ns").is_not_null(),
            all=pl.lit(0, pl.Int64),
            qos=pl.coalesce("qos", "open_qos"),
            due_ns=pl.coalesce("due_ns", "open_due_ns"),
        )
        .with_columns(
            pl.col(summed).fill_null(strategy="zero"),
            start_ns=pl.coalesce("start_ns", reached),
            prefill_end_ns=_extend("prefill_end_ns", pl.col("in_prefill"), reached),
            done_ns=_extend("done_ns", pl.col("unfinished"), reached),
        )
        .drop(list(columns)[:2])
    )
    is_past_warmup = ~pl.col("warmup").cast(pl.Boolean)
    if not arrivals.timed:
        return counted.filter(is_past_warmup)
    if arrivals.due_from_ns is not None:
        is_past_warmup = pl.col("due_ns") >= arrivals.due_from_ns
    in_time = pl.lit(1) == 1 if arrivals.cut_ns is None else pl.col("due_ns") < arrivals.cut_ns
    return counted.filter(is_past_warmup & in_time)


def _extend(column: str, is_open: pl.Expr, reached: pl.Expr) -> pl.Expr:
    return pl.when(is_open).then(pl.max_horizontal(column, reached)).otherwise(column)


def keep_complete(requests: pl.DataFrame, measure: str, window: tuple[int, int], by: str) -> pl.DataFrame:
    """Keep the requests that were due before the first one whose measure may still grow.

    They are as good as all of the window, because nothing but their due time selects them. If that is
    less than half of it, none is kept: the slow ones are among the others.

    Args:
        requests: the requests that count.
        measure: a key of REQUEST_TIMES.
        window: the measured time in ns.
        by: the column by whose values the first one is looked for.
    """
    is_open = pl.col("unfinished") & _OPEN.get(measure, pl.col("unfinished"))
    first_ns = pl.col("due_ns").filter(is_open).min().over(by)
    is_complete = (pl.col("due_ns") < first_ns) & (2 * first_ns >= sum(window))
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
        Two tables of a row per measure and qos (all, or a class), with count and STATS in ms: of the
        complete requests (`keep_complete`), and of all, unfinished ones with the times they had reached.
    """
    measures = {name: value for name, value in REQUEST_TIMES.items() if timed or name in UNTIMED}
    complete = []
    seen = []
    for measure, value in measures.items():
        for by, names in (("all", {0: "all"}), ("qos", _QOS)):
            labels = {code: (measure, name) for code, name in names.items()}
            complete.append(_spread(keep_complete(requests, measure, window, by), value, by, labels))
            seen.append(_spread(requests, value, by, labels))
    return pl.concat(complete), pl.concat(seen)


def _spread(
    rows: pl.DataFrame, value: pl.Expr, by: str, labels: dict[int, tuple[str, str]]
) -> pl.DataFrame:
    """Return the distribution of a measure by the values of a column."""
    columns = {"measure": pl.String, "qos": pl.String}
    measured = rows.lazy().filter(value.is_not_null())
    ((_, values),) = sort([measured], {by: (pl.col(by), 3)}, {"ms": value})
    spread = values.spread([by])
    named = [labels[code] for code in spread.drop_in_place(by)]
    return pl.concat([pl.DataFrame(named, columns, orient="row"), spread], how="horizontal")
