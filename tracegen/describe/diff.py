"""Comparison of two traces: the first row that differs, the rows that differ, the totals."""

from itertools import zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tracegen.describe.info import Facts, describe
from tracegen.trace.columns import DTYPES, ENUMS, Columns
from tracegen.trace.reading import Trace
from views.answer import Answer, Column, Table

AGGREGATES: Final = (
    "ops",
    "writes",
    "reads",
    "decode_ops",
    "requests",
    "sessions",
    "users",
    "keys",
    "tokens_stored",
    "tokens_read",
    "tokens_generated",
    "duration_s",
)


Difference = dict[str, str | int]
"""The first row that differs and its values; with `ends`, the row at which one trace ends."""


def compare_traces(a: Trace, b: Trace) -> Answer:
    """Compare the ops of two traces, row by row and in total; `equal` of its data is whether they are.

    Raises:
        InputError: one of them cannot be read.
    """
    first: Difference | None = None
    differing = dict.fromkeys(DTYPES, 0)
    row = 0
    for batch_a, batch_b in zip_longest(a.batches(), b.batches()):
        if batch_a is None or batch_b is None:
            break
        rows = min(len(batch_a["op_id"]), len(batch_b["op_id"]))
        unequal = {name: np.flatnonzero(batch_a[name][:rows] != batch_b[name][:rows]) for name in DTYPES}
        if first is None:
            first = _find_first(batch_a, batch_b, unequal, row)
        for name, places in unequal.items():
            differing[name] += len(places)
        row += rows
    if first is None and a.ops != b.ops:
        first = {"row": min(a.ops, b.ops), "column": "op_id", "a": a.ops, "b": b.ops, "ends": True}
    compared = min(a.ops, b.ops)
    differing = {name: number for name, number in differing.items() if number}
    totals = _compare_totals(describe(a), describe(b))
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


def _find_first(
    batch_a: Columns,
    batch_b: Columns,
    unequal: dict[str, NDArray[np.intp]],
    start: int,
) -> Difference | None:
    """Return the first of the unequal rows of two batches, which begin at row `start`."""
    firsts = [(int(places[0]), name) for name, places in unequal.items() if len(places)]
    if not firsts:
        return None
    place, name = min(firsts)
    return {
        "row": start + place,
        "column": name,
        "a": _value(batch_a, name, place),
        "b": _value(batch_b, name, place),
    }


def _value(batch: Columns, name: str, row: int) -> str | int:
    """Return a value of a batch; the word of an enum."""
    return ENUMS[name][batch[name][row]] if name in ENUMS else int(batch[name][row])


def _compare_totals(a: Facts, b: Facts) -> dict[str, list[float]]:
    """Return the totals that differ, by name."""
    totals = {name: [a[name], b[name]] for name in AGGREGATES}
    return {name: values for name, values in totals.items() if values[0] != values[1]}


def _say_difference(a: Trace, b: Trace, first: Difference | None) -> str:
    if first is None:
        return f"Equal: {a.ops:,} ops, fingerprint {a.metadata.fingerprint}."
    if "ends" in first:
        return f"{a.path} has {a.ops:,} ops, {b.path} {b.ops:,}; the {first['row']:,} they share are equal."
    return f"The first difference is in row {first['row']:,}: {first['column']} = {first['a']} and {first['b']}."
