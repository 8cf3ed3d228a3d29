"""Scale a trace: more users, another pace."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from tracegen.derive.provenance import count_of, derived
from tracegen.derive.renumber import merged, renumbered
from tracegen.errors import InputError
from tracegen.randomness.draws import Ints
from tracegen.schema import COMMON, RAG, SYSTEM, Columns, Metadata, Trace

_ROWS: Final = 1 << 16
SHARED_SOURCES: Final = (SYSTEM, COMMON, RAG)


def scale(trace: Trace, users: int, time: Fraction) -> tuple[Metadata, Iterator[Columns]]:
    """Every user `users` times, with objects of their own, and all times multiplied.

    Objects of sources system, common and rag stay shared by all copies.
    """
    shared = np.zeros(count_of(trace, "keys"), np.bool_)
    for batch in trace.batches():
        shared[batch["key"][np.isin(batch["source"], SHARED_SOURCES)]] = True

    def copies() -> Iterator[Columns]:
        for batch in trace.batches(max(1, _ROWS // users)):
            number = np.tile(np.arange(users), len(batch["op_id"]))
            rows = {name: np.repeat(column, users) for name, column in batch.items()}
            ids = {name: rows[name] * users + number for name in ("request_id", "session_id", "user_id")}
            key = rows["key"] * users + np.where(shared[rows["key"]], 0, number)
            times = {name: scaled(rows[name], time) for name in ("time_ns", "think_ns")}
            yield rows | ids | times | {"key": key}

    how = {"scale": {"users": users, "time": str(time)}}
    return derived([trace], how), renumbered(merged([copies()]))


def scaled(values: Ints, factor: Fraction) -> Ints:
    """floor(value × factor), exactly.

    Raises:
        InputError: a time would be past what the format can say.
    """
    if factor == 1:
        return values
    over, under = factor.as_integer_ratio()
    if not 0 < over * under < 2**62:
        raise InputError(f"times cannot be multiplied by {factor}; give a positive number of at most nine digits.")
    if int(values.max(initial=0)) * factor >= 2**62:
        raise InputError("times would be over 146 years; multiply them by less.")
    # Exact where under × over is below 2^62, too: then so is rest × over.
    whole, rest = np.divmod(values, under)
    product: Ints = whole * over + rest * over // under
    return product
