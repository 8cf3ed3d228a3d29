"""Scaling: more users, or another pace."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from tracegen.arrays import Ints
from tracegen.derive.derivation import Derivation, count_of, describe_origin, merge_streams, renumber
from tracegen.errors import InputError
from tracegen.trace.columns import COMMON, RAG, SYSTEM, Columns
from tracegen.trace.reading import Trace

_ROWS: Final = 1 << 16  # rows per batch of the scaled trace
_TIME_MAX: Final = 2**62  # nanoseconds
SHARED_SOURCES: Final = (SYSTEM, COMMON, RAG)


def scale_trace(trace: Trace, users: int, time: Fraction) -> Derivation:
    """Make copies of every user with objects of their own, and multiply all times.

    Objects of the sources system, common and rag are shared by all copies.
    """
    is_shared = np.zeros(count_of(trace, "keys"), np.bool_)
    for batch in trace.batches():
        is_shared[batch["key"][np.isin(batch["source"], SHARED_SOURCES)]] = True

    def repeat() -> Iterator[Columns]:
        for batch in trace.batches(max(1, _ROWS // users)):
            copy = np.tile(np.arange(users), len(batch["op_id"]))
            rows = {name: np.repeat(column, users) for name, column in batch.items()}
            ids = {name: rows[name] * users + copy for name in ("request_id", "session_id", "user_id")}
            times = {name: multiply_times(rows[name], time) for name in ("time_ns", "think_ns")}
            key = rows["key"] * users + np.where(is_shared[rows["key"]], 0, copy)
            yield rows | ids | times | {"key": key}

    operation = {"scale": {"users": users, "time": str(time)}}
    return Derivation(describe_origin([trace], operation), renumber(merge_streams([repeat()])))


def multiply_times(times: Ints, factor: Fraction) -> Ints:
    """Return floor(times × factor), exactly; nanoseconds, shape (rows,).

    Raises:
        InputError: the factor has too many digits, or a product is 2^62 ns or more.
    """
    if factor == 1:
        return times
    numerator, denominator = factor.as_integer_ratio()
    if not 0 < numerator * denominator < _TIME_MAX:
        remedy = "give a positive number of at most nine digits"
        raise InputError("times cannot be multiplied by it", remedy, subject=factor, setting="time")
    if int(times.max(initial=0)) * factor >= _TIME_MAX:
        problem = "times would be over 146 years"
        raise InputError(problem, "give a smaller factor", subject=factor, setting="time")
    # Exact, because rest × numerator < denominator × numerator < 2^62.
    whole, rest = np.divmod(times, denominator)
    product: Ints = whole * numerator + rest * numerator // denominator
    return product
