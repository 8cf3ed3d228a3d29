"""Comparison of two traces: the first row that differs, the rows that differ, the totals."""

from typing import Any

import polars as pl

from tracegen.describe.info import describe
from tracegen.trace.columns import DTYPES
from tracegen.trace.reading import Trace
from views.answer import Answer, Column, Table


def compare_traces(a: Trace, b: Trace) -> Answer:
    """Compare the ops of two traces, row by row and in total; `equal` of its data is whether they are."""
    facts_a, facts_b = describe(a), describe(b)
    compared = min(a.ops, b.ops)
    differing, first = _compare_rows(a, b, compared)
    numbers = {name: [value, facts_b[name]] for name, value in facts_a.items() if isinstance(value, int | float)}
    totals = {name: pair for name, pair in numbers.items() if pair[0] != pair[1]}
    return Answer(
        title=f"{a.path} and {b.path}",
        sentence=_say_difference(a, b, first),
        tables=[
            Table(
                title=f"Rows that differ, of {compared:,}",
                columns=[Column("column"), Column("rows"), Column("share", "share")],
                rows=[[name, number, number / compared] for name, number in differing.items()],
            ),
            Table(
                title="Totals that differ",
                columns=[Column("total"), Column("a"), Column("b")],
                rows=[[name, *values] for name, values in totals.items()],
            ),
        ],
        data={
            "equal": first is None,
            "first": first,
            "rows_compared": compared,
            "rows_differing": differing,
            "aggregates": totals,
        },
    )


def _compare_rows(a: Trace, b: Trace, compared: int) -> tuple[dict[str, int], dict[str, Any] | None]:
    """Return the number of rows that differ by column, and the first that differs with its values."""
    others = b.frame().rename({name: f"b_{name}" for name in DTYPES})
    rows = pl.concat([a.frame(), others], how="horizontal").head(compared)
    unequal = rows.select(pl.col(name) != pl.col(f"b_{name}") for name in DTYPES)
    counts, places = a.collect(unequal.sum(), unequal.select(pl.all().arg_max()))
    differing = {name: number for name, number in counts.row(0, named=True).items() if number}
    if differing:
        row, name = min((places[name][0], name) for name in differing)
        (values,) = a.collect(rows.slice(row, 1))
        return differing, {"row": row, "column": name, "a": values[name][0], "b": values[f"b_{name}"][0]}
    if a.ops != b.ops:
        return {}, {"row": compared, "column": "op_id", "a": a.ops, "b": b.ops, "ends": True}
    return {}, None


def _say_difference(a: Trace, b: Trace, first: dict[str, Any] | None) -> str:
    if first is None:
        return f"Equal: {a.ops:,} ops, fingerprint {a.metadata.fingerprint}."
    if "ends" in first:
        return f"{a.path} has {a.ops:,} ops, {b.path} {b.ops:,}; the {first['row']:,} they share are equal."
    return f"The first difference is in row {first['row']:,}: {first['column']} = {first['a']} and {first['b']}."
