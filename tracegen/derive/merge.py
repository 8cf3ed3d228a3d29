"""Merge traces, or the parts of one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tracegen.derive.provenance import count_of, derived
from tracegen.derive.renumber import merged, renumbered
from tracegen.errors import InputError
from tracegen.randomness.draws import Ints
from tracegen.schema import SHARD_COLUMNS, Columns, Metadata, Trace


def joined_parts(streams: Sequence[Iterator[Columns]], users: Ints) -> Iterator[Columns]:
    """The ops of a whole recipe from those of its parts.

    Args:
        streams: of each part, with SHARD_COLUMNS.
        users: the numbers of all users that have a request, in order.
    """
    many = len(streams)

    def apart(number: int, stream: Iterator[Columns]) -> Iterator[Columns]:
        for batch in stream:
            ids = {name: batch[name] * many + number for name in ("request_id", "session_id")}
            shared = batch["shared"]
            key = np.where(shared >= 0, shared * (many + 1) + many, batch["key"] * (many + 1) + number)
            yield batch | ids | {"key": key, "user_id": np.searchsorted(users, batch["person"])}

    return renumbered(merged([apart(number, stream) for number, stream in enumerate(streams)]))


def merge(traces: Sequence[Trace]) -> tuple[Metadata, Iterator[Columns]]:
    """One trace of several, all their users on one clock, sharing nothing.

    Of all parts of a recipe: the trace that a single process would have made, to the byte.

    Raises:
        InputError: parts are missing, double, or of different recipes, or they are mixed with whole traces.
    """
    if any(trace.metadata.part is not None for trace in traces):
        return _merge_parts(traces)
    # Users of the first trace come before those of the second.
    before = np.cumsum([0, *(count_of(trace, "users") for trace in traces)])
    many = len(traces)

    def apart(number: int, trace: Trace) -> Iterator[Columns]:
        for batch in trace.batches():
            ids = {name: batch[name] * many + number for name in ("request_id", "session_id", "key")}
            yield batch | ids | {"user_id": batch["user_id"] + before[number]}

    streams = [apart(number, trace) for number, trace in enumerate(traces)]
    return derived(traces, {"merge": len(traces)}), renumbered(merged(streams))


def _merge_parts(traces: Sequence[Trace]) -> tuple[Metadata, Iterator[Columns]]:
    about = replace(traces[0].metadata, part=None, counts={}, fingerprint="")
    parts: dict[int, Trace] = {}
    many = (traces[0].metadata.part or {}).get("of", 0)
    for trace in traces:
        part = trace.metadata.part
        if part is None or not many:
            raise InputError(f"{trace.path} and {traces[0].path}: one is a part and one a whole; merge like with like.")
        number = part.get("index", -1)
        if replace(trace.metadata, part=None, counts={}, fingerprint="") != about or part.get("of") != many:
            raise InputError(f"{trace.path} and {traces[0].path} are parts of different recipes, inputs or divisions.")
        if number in parts:
            raise InputError(f"{trace.path} and {parts[number].path} are both part {number}; name each once.")
        parts[number] = trace
    missing = sorted(set(range(min(many, _users(about.recipe)))) - set(parts))
    if missing:
        raise InputError(f"part {missing[0]} of {many} is missing; make it with --shard {missing[0]}/{many}.")
    ordered = [parts[number] for number in sorted(parts)]
    people = [np.unique(batch["person"]) for trace in ordered for batch in trace.batches(more=SHARD_COLUMNS)]
    streams = [trace.batches(more=SHARD_COLUMNS) for trace in ordered]
    counts = {name: number for name, number in traces[0].metadata.counts.items() if name not in _TOTALS}
    return replace(about, counts=counts), joined_parts(streams, np.unique(np.concatenate(people)))


def _users(recipe: dict[str, Any]) -> int:
    """Users and documents of a recipe: parts beyond them are empty."""
    retrieves = recipe["rag"]["share"] or recipe["mix"]["rag"]
    return int(recipe["users"] + (recipe["rag"]["documents"] if retrieves else 0))


_TOTALS: Final = ("ops", "requests", "sessions", "users", "keys", "tokens_generated")
