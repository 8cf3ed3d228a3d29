"""Merging: whole traces on one clock, or all shards of a recipe."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tracegen.arrays import Ints
from tracegen.derive.derivation import Derivation, count_of, describe_origin, merge_streams, renumber
from tracegen.errors import InputError
from tracegen.trace.columns import SHARD_COLUMNS, Columns
from tracegen.trace.metadata import Metadata
from tracegen.trace.reading import Trace

_TOTALS: Final = ("ops", "requests", "sessions", "users", "keys", "tokens_generated")


def merge_shards(shards: Sequence[Iterator[Columns]], users: Ints) -> Iterator[Columns]:
    """Merge the ops of a recipe's shards, with SHARD_COLUMNS, into those of the whole recipe.

    `users` are the numbers of all users that have a request, in order; shape (users,).
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
    """Merge whole traces on one clock, sharing nothing, or all shards of a recipe.

    At equal times the users of the first trace precede those of the second. All shards of a recipe
    give the trace that a single process makes, byte for byte.

    Raises:
        InputError: shards are missing, given twice or of different recipes, or they are mixed with
            whole traces.
    """
    if any(trace.metadata.part is not None for trace in traces):
        return _merge_shard_files(traces)
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


def _merge_shard_files(traces: Sequence[Trace]) -> Derivation:
    shards = _order_shards(traces)
    users = [np.unique(batch["person"]) for trace in shards for batch in trace.batches(more=SHARD_COLUMNS)]
    streams = [trace.batches(more=SHARD_COLUMNS) for trace in shards]
    counts = {name: number for name, number in shards[0].metadata.counts.items() if name not in _TOTALS}
    metadata = replace(_without_shard(shards[0].metadata), counts=counts)
    return Derivation(metadata, merge_shards(streams, np.unique(np.concatenate(users))))


def _order_shards(traces: Sequence[Trace]) -> list[Trace]:
    """Put the shards of one recipe in order; refuse a missing, repeated or foreign one."""
    first = traces[0]
    whole = _without_shard(first.metadata)
    shards: dict[int, Trace] = {}
    for trace in traces:
        part = trace.metadata.part
        if part is None or first.metadata.part is None:
            problem = f"{trace.path} and {first.path}: one is a shard, the other a whole trace"
            raise InputError(problem, "merge only shards, or only whole traces")
        count = first.metadata.part["of"]
        if _without_shard(trace.metadata) != whole or part["of"] != count:
            problem = f"{trace.path} and {first.path} are shards of different traces"
            raise InputError(problem, "make all with the same recipe, inputs and number of shards")
        number = part["index"]
        if number in shards:
            problem = f"{trace.path} and {shards[number].path} are both shard {number}"
            raise InputError(problem, "name each shard once")
        shards[number] = trace
    # A shard without a user is not made: only as many as users and documents are needed.
    retrieves = whole.recipe["rag"]["share"] or whole.recipe["mix"]["rag"]
    users = whole.recipe["users"] + (whole.recipe["rag"]["documents"] if retrieves else 0)
    missing = sorted(set(range(min(count, users))) - set(shards))
    if missing:
        remedy = f"make it with `shard={missing[0]}/{count}`"
        raise InputError(f"shard {missing[0]} of {count} is missing", remedy)
    return [shards[number] for number in sorted(shards)]


def _without_shard(metadata: Metadata) -> Metadata:
    """Return the metadata that all shards of a trace have in common."""
    return replace(metadata, part=None, counts={}, fingerprint="")
