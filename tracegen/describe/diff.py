"""Comparison of two traces: the first row that differs, the rows that differ, the totals."""

from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from tracegen.describe.info import Facts, describe
from tracegen.trace.columns import DTYPES, ENUMS, Columns
from tracegen.trace.reading import Trace

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


class FirstDifference(TypedDict):
    """The first row that differs and its values; with `ends`, the row at which one trace ends."""

    row: int
    column: str
    a: str | int
    b: str | int
    ends: NotRequired[bool]


class ComparisonFacts(TypedDict):
    """A comparison of two traces, as `tracegen diff --json` prints it."""

    equal: bool
    first: FirstDifference | None
    rows_compared: int
    rows_differing: dict[str, int]
    aggregates: dict[str, list[float]]


@dataclass(frozen=True)
class TraceComparison:
    """A comparison of traces a and b.

    Attributes:
        is_equal: all ops are equal.
        facts: the comparison as JSON prints it.
        text: the comparison as text.
    """

    is_equal: bool
    facts: ComparisonFacts
    text: str


def compare_traces(a: Trace, b: Trace) -> TraceComparison:
    """Compare the ops of two traces, row by row and in total.

    Raises:
        InputError: one of them cannot be read.
    """
    first: FirstDifference | None = None
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
    facts: ComparisonFacts = {
        "equal": first is None,
        "first": first,
        "rows_compared": min(a.ops, b.ops),
        "rows_differing": {name: number for name, number in differing.items() if number},
        "aggregates": _compare_totals(describe(a), describe(b)),
    }
    return TraceComparison(first is None, facts, _format_comparison(a, b, facts))


def _find_first(
    batch_a: Columns,
    batch_b: Columns,
    unequal: dict[str, NDArray[np.intp]],
    start: int,
) -> FirstDifference | None:
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


def _format_comparison(a: Trace, b: Trace, facts: ComparisonFacts) -> str:
    first = facts["first"]
    if first is None:
        fingerprint = a.metadata.fingerprint
        return f"{a.path} and {b.path} are equal: {a.ops:,} ops, fingerprint {fingerprint}"
    if first.get("ends"):
        equal = f"the {first['row']:,} they share are equal"
        lines = [f"{a.path} has {a.ops:,} ops, {b.path} {b.ops:,}; {equal}"]
    else:
        values = f"{first['column']} = {first['a']} and {first['b']}"
        lines = [f"first difference in row {first['row']:,}: {values}"]
    compared = facts["rows_compared"]
    lines += [
        f"  {name:12}{number:>14,} of {compared:,} rows differ ({number / compared:.1%})"
        for name, number in facts["rows_differing"].items()
    ]
    lines += [f"  {name:18}{total_a:>18,}{total_b:>18,}" for name, (total_a, total_b) in facts["aggregates"].items()]
    return "\n".join(lines)
