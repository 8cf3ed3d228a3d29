"""What differs between two traces: the first row, each column's share, the aggregates."""

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from tracegen.describe.info import describe
from tracegen.schema import DTYPES, ENUMS, Trace

AGGREGATES = ("ops", "writes", "reads", "decode_ops", "requests", "sessions", "users", "keys", "tokens_stored",
              "tokens_read", "tokens_generated", "duration_s")  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """Of traces a and b; `facts` as JSON prints them, `text` for people."""

    equal: bool
    facts: dict[str, Any]
    text: str


def difference(a: Trace, b: Trace) -> Difference:
    """Compare the ops of two traces, row by row and in sum.

    Raises:
        InputError: one of them cannot be read.
    """
    first: dict[str, Any] | None = None
    differing = dict.fromkeys(DTYPES, 0)
    row = 0
    for one, other in zip_longest(a.batches(), b.batches()):
        if one is None or other is None:
            break
        rows = min(len(one["op_id"]), len(other["op_id"]))
        unlike = {name: np.flatnonzero(one[name][:rows] != other[name][:rows]) for name in DTYPES}
        if first is None and any(map(len, unlike.values())):
            place, name = min((int(places[0]), name) for name, places in unlike.items() if len(places))
            values = [ENUMS[name][x[name][place]] if name in ENUMS else int(x[name][place]) for x in (one, other)]
            first = {"row": row + place, "column": name, "a": values[0], "b": values[1]}
        for name, places in unlike.items():
            differing[name] += len(places)
        row += rows
    if first is None and a.ops != b.ops:
        first = {"row": min(a.ops, b.ops), "column": "op_id", "a": a.ops, "b": b.ops, "ends": True}
    about = [describe(trace) for trace in (a, b)]
    sums = {name: [facts[name] for facts in about] for name in AGGREGATES if about[0][name] != about[1][name]}
    facts = {
        "equal": first is None,
        "first": first,
        "rows_compared": min(a.ops, b.ops),
        "rows_differing": {name: number for name, number in differing.items() if number},
        "aggregates": sums,
    }
    return Difference(first is None, facts, _text(a, b, facts))


def _text(a: Trace, b: Trace, facts: dict[str, Any]) -> str:
    first = facts["first"]
    if first is None:
        return f"{a.path} and {b.path} are equal: {a.ops:,} ops, fingerprint {a.metadata.fingerprint}"
    if first.get("ends"):
        lines = [f"{a.path} has {a.ops:,} ops, {b.path} {b.ops:,}; the {first['row']:,} they share are equal"]
    else:
        lines = [f"first difference in row {first['row']:,}: {first['column']} = {first['a']} and {first['b']}"]
    compared = facts["rows_compared"]
    lines += [
        f"  {name:12}{number:>14,} of {compared:,} rows differ ({number / compared:.1%})"
        for name, number in facts["rows_differing"].items()
    ]
    lines += [f"  {name:18}{one:>18,}{other:>18,}" for name, (one, other) in facts["aggregates"].items()]
    return "\n".join(lines)
