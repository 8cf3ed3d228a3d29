"""Merging: whole traces on one clock, and the shards that processes make of one recipe."""

from collections.abc import Iterator, Sequence

import numpy as np

from tracegen.arrays import Ints
from tracegen.derive.derivation import Derivation, count_of, describe_origin, merge_streams, renumber
from tracegen.trace.columns import Columns
from tracegen.trace.reading import Trace


def merge_shards(shards: Sequence[Iterator[Columns]], users: Ints) -> Iterator[Columns]:
    """Merge the ops of a recipe's shards into those of the whole recipe.

    Besides a trace's columns they have `person`, the user's number in the recipe, and `shared`, the
    number of an object that sessions share, or -1. `users` are the numbers of all users that have a
    request, in order; shape (users,).
    """
    count = len(shards)

    def separate_ids(number: int, shard: Iterator[Columns]) -> Iterator[Columns]:
        """Make ids distinct from those of other shards, except ids of shared objects."""
        for batch in shard:
            shared = batch["shared"]
            own_key = batch["key"] * (count + 1) + number
            yield batch | {
                "request_id": batch["request_id"] * count + number,
                "session_id": batch["session_id"] * count + number,
                "key": np.where(shared >= 0, shared * (count + 1) + count, own_key),
                "user_id": np.searchsorted(users, batch["person"]),
            }

    return renumber(merge_streams([separate_ids(*item) for item in enumerate(shards)]))


def merge(traces: Sequence[Trace]) -> Derivation:
    """Merge traces on one clock, sharing nothing.

    At equal times the users of the first trace precede those of the second.
    """
    users_before = np.cumsum([0, *(count_of(trace, "users") for trace in traces)])
    count = len(traces)

    def separate_ids(number: int, trace: Trace) -> Iterator[Columns]:
        """Make ids distinct from those of other traces."""
        for batch in trace.batches():
            ids = {name: batch[name] * count + number for name in ("request_id", "session_id", "key")}
            yield batch | ids | {"user_id": batch["user_id"] + users_before[number]}

    streams = [separate_ids(number, trace) for number, trace in enumerate(traces)]
    metadata = describe_origin(traces, {"merge": len(traces)})
    return Derivation(metadata, renumber(merge_streams(streams)))
