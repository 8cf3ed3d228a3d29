"""Derived traces: rows merged into one order and numbered again, whole traces or shards, and where they come from.

Ids become dense, and the first use of each object becomes its write.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np

from tracegen.arrays import IdTable, Ints, Numbering, sort_order
from tracegen.errors import InputError
from tracegen.recipes.recipe import Recipe
from tracegen.trace.columns import DELETE, READ, WRITE, Columns, concatenate, take_rows
from tracegen.trace.metadata import Metadata, SourceFile
from tracegen.trace.reading import Trace
from tracegen.typed_files import convert

T = TypeVar("T")
_NO_LIMIT: Final = 2**63 - 1


@dataclass(frozen=True)
class Derivation:
    """A derived trace, not written yet."""

    metadata: Metadata  # its metadata, which the writer completes
    batches: Iterator[Columns]  # its ops in order, which can be read once


def describe_origin(traces: Sequence[Trace], operation: dict[str, Any]) -> Metadata:
    """Make the metadata of a derived trace: the operation with its parameters, and the recipes of its inputs.

    The first input's seed, generator and defaults for replays are kept.
    """
    inputs = [trace.metadata for trace in traces]
    first = inputs[0]
    sources: list[SourceFile] = []
    for metadata in inputs:
        sources += [source for source in metadata.sources if source not in sources]
    ancestors = [{"fingerprint": item.fingerprint, "recipe": item.recipe} for item in inputs]
    recipe = operation | {"of": ancestors}
    if isinstance(first.recipe.get("replay"), dict):
        recipe["replay"] = first.recipe["replay"]
    return Metadata(
        seed=first.seed,
        recipe=recipe,
        generator=first.generator,
        tokenizer=_common([item.tokenizer for item in inputs]),
        block_tokens=_common([item.block_tokens for item in inputs]),
        prefix_chained=all(item.prefix_chained for item in inputs),
        sources=sources,
    )


def _common(values: Sequence[T | None]) -> T | None:
    """Return the value if all are equal, else None."""
    return values[0] if all(value == values[0] for value in values) else None


def count_of(trace: Trace, name: str) -> int:
    """Return a count of the trace's metadata.

    Raises:
        InputError: the metadata lacks it.
    """
    if name not in trace.metadata.counts:
        remedy = "write it as docs/trace-format.md specifies"
        raise InputError(f"its metadata has no counts.{name}", remedy, subject=trace.path)
    return trace.metadata.counts[name]


def renumber(batches: Iterable[Columns]) -> Iterator[Columns]:
    """Convert ops, in their final order, into batches of a new trace.

    Ids may be of any numbering, except users, whose ids are dense already.

    Raises:
        InputError: an object's first op is a delete.
    """
    requests = Numbering()
    sessions = Numbering()
    keys = Numbering()
    users = Numbering()
    turns_before = IdTable(np.int64)  # by session: turns that the new trace lacks
    ops = 0
    for batch in batches:
        request, begins = requests.number(batch["request_id"])
        session, opens = sessions.number(batch["session_id"])
        key, first = keys.number(batch["key"])
        if (batch["op"][first] == DELETE).any():
            problem = "the slice would delete an object that it never stored"
            raise InputError(problem, "let it begin before the object is written")
        op = np.where(batch["op"] == WRITE, READ, batch["op"]).astype(np.uint8)
        op[first] = WRITE
        # The first turn left of each session becomes turn 1.
        turns_before.append(batch["turn"][opens].astype(np.int64) - 1)
        # The pause before the first request left of each user becomes 0.
        think = batch["think_ns"].copy()
        _, begins_user = users.number(batch["user_id"][begins])
        think[begins[begins_user]] = 0
        yield batch | {
            "op_id": ops + np.arange(len(op)),
            "request_id": request,
            "session_id": session,
            "turn": (batch["turn"] - turns_before[session]).astype(np.int32),
            "op": op,
            "key": key,
            "think_ns": think,
        }
        ops += len(op)


def merge_streams(streams: Sequence[Iterator[Columns]]) -> Iterator[Columns]:
    """Merge the rows of sorted streams in order of (time, user, request); no user may be in two streams."""
    # Rows are complete up to the earliest of the streams' latest times, exclusively: a stream may
    # have more rows of its latest time.
    streams_left = {
        number: (batch for batch in stream if len(batch["time_ns"])) for number, stream in enumerate(streams)
    }
    held: dict[int, Columns] = {}
    limit = -1
    while streams_left:
        for number, stream in list(streams_left.items()):
            if number in held and _last_time(held[number]) > limit:
                continue
            batch = next(stream, None)
            if batch is None:
                del streams_left[number]
            else:
                held[number] = concatenate([held[number], batch]) if number in held else batch
        limit = min((_last_time(held[number]) for number in streams_left), default=_NO_LIMIT)
        ready = {number: int(np.searchsorted(batch["time_ns"], limit)) for number, batch in held.items()}
        rows = concatenate([take_rows(held[number], slice(end)) for number, end in ready.items()])
        held = {number: take_rows(held[number], slice(end, None)) for number, end in ready.items()}
        if len(rows["time_ns"]):
            yield take_rows(rows, sort_order(rows["time_ns"], rows["user_id"], rows["request_id"]))


def _last_time(batch: Columns) -> int:
    return int(batch["time_ns"][-1])


def merge_shards(shards: Sequence[Iterator[Columns]], users: Ints) -> Iterator[Columns]:
    """Merge the ops of a recipe's shards, with the columns of shards, into those of the whole recipe.

    `users` are the numbers of all users that have a request, in order; shape (users,).
    """
    spacing = len(shards) + 1

    def separate_ids(number: int, shard: Iterator[Columns]) -> Iterator[Columns]:
        """Make ids distinct from those of other shards, except ids of shared objects."""
        for batch in shard:
            ids = {name: batch[name] * spacing + number for name in ("request_id", "session_id", "key")}
            ids["key"] = np.where(batch["shared"] < 0, ids["key"], batch["shared"] * spacing + len(shards))
            yield batch | ids | {"user_id": np.searchsorted(users, batch["person"])}

    return renumber(merge_streams([separate_ids(*item) for item in enumerate(shards)]))


def merge(traces: Sequence[Trace]) -> Derivation:
    """Merge whole traces on one clock, sharing nothing, or all shards of a recipe.

    At equal times the users of the first trace precede those of the second. All shards of a recipe
    give the trace that a single process makes, byte for byte.

    Raises:
        InputError: shards are missing, given twice or of different recipes, or they are mixed with
            whole traces.
    """
    if any(trace.metadata.part for trace in traces):
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
    """Merge the shards of one recipe; refuse a missing, repeated or foreign one."""
    first = traces[0]
    wholes = [replace(trace.metadata, part=None, counts={}, fingerprint="") for trace in traces]
    parts = [trace.metadata.part or {"index": 0, "of": 0} for trace in traces]
    count = parts[0]["of"]
    for trace, part, whole in zip(traces, parts, wholes, strict=True):
        if part["of"] != count or whole != wholes[0]:
            problem = f"{trace.path} and {first.path} are not shards of the same trace"
            raise InputError(problem, "merge whole traces, or all shards of one recipe with the same inputs")
    recipe = convert(wholes[0].recipe, Recipe, first.path)
    # A shard without a user is not made: only as many as users and documents are needed.
    needed = list(range(min(count, recipe.users + recipe.documents)))
    given = sorted(part["index"] for part in parts)
    if given != needed:
        problem = f"shards {given} of {count} are given"
        raise InputError(problem, f"name each from 0 to {needed[-1]} once; `shard=I/{count}` makes shard I")
    users = [np.unique(batch["person"]) for trace in traces for batch in trace.batches(more=("person",))]
    streams = [trace.batches(more=("person", "shared")) for trace in traces]
    wholes[0].counts |= first.metadata.counts  # those of its sources are the same in all shards
    return Derivation(wholes[0], merge_shards(streams, np.unique(np.concatenate(users))))
