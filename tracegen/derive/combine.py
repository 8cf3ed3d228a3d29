"""Traces from traces: merge, slice, scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from tracegen.arrays import IdTable, Ints
from tracegen.derive.renumber import merged, renumbered
from tracegen.errors import InputError
from tracegen.schema import COMMON, PART_COLUMNS, RAG, SYSTEM, Columns, Metadata, Trace, chosen

_ROWS: Final = 1 << 16
SHARED_SOURCES: Final = (SYSTEM, COMMON, RAG)


def joined_parts(streams: Sequence[Iterator[Columns]], users: Ints) -> Iterator[Columns]:
    """The ops of a whole recipe from those of its parts.

    Args:
        streams: of each part, with PART_COLUMNS.
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
    before = np.cumsum([0, *(_count(trace, "users") for trace in traces)])
    many = len(traces)

    def apart(number: int, trace: Trace) -> Iterator[Columns]:
        for batch in trace.batches():
            ids = {name: batch[name] * many + number for name in ("request_id", "session_id", "key")}
            yield batch | ids | {"user_id": batch["user_id"] + before[number]}

    streams = [apart(number, trace) for number, trace in enumerate(traces)]
    return _derived(traces, {"merge": len(traces)}), renumbered(merged(streams))


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
    people = [np.unique(batch["person"]) for trace in ordered for batch in trace.batches(more=PART_COLUMNS)]
    streams = [trace.batches(more=PART_COLUMNS) for trace in ordered]
    counts = {name: number for name, number in traces[0].metadata.counts.items() if name not in _TOTALS}
    return replace(about, counts=counts), joined_parts(streams, np.unique(np.concatenate(people)))


def _users(recipe: dict[str, Any]) -> int:
    """Users and documents of a recipe: parts beyond them are empty."""
    retrieves = recipe["rag"]["share"] or recipe["mix"]["rag"]
    return int(recipe["users"] + (recipe["rag"]["documents"] if retrieves else 0))


_TOTALS: Final = ("ops", "requests", "sessions", "users", "keys", "tokens_generated")


def _derived(traces: Sequence[Trace], how: dict[str, Any]) -> Metadata:
    """What a trace made of traces says of itself: how, and of what."""
    about = [trace.metadata for trace in traces]
    first = about[0]
    sources: list[dict[str, Any]] = []
    for metadata in about:
        sources += [source for source in metadata.sources if source not in sources]
    recipe = how | {"of": [{"fingerprint": one.fingerprint, "recipe": one.recipe} for one in about]}
    if isinstance(first.recipe.get("replay"), dict):
        recipe["replay"] = first.recipe["replay"]
    return Metadata(
        seed=first.seed,
        recipe=recipe,
        generator=first.generator,
        tokenizer=first.tokenizer if all(one.tokenizer == first.tokenizer for one in about) else None,
        block_tokens=first.block_tokens if all(one.block_tokens == first.block_tokens for one in about) else None,
        prefix_chained=all(one.prefix_chained for one in about),
        sources=sources,
    )


Range = tuple[float, float]


@dataclass(frozen=True)
class Selection:
    """Which requests a slice keeps: those in every range given, first included, last not; ids and seconds."""

    seconds: Range | None = None
    users: Range | None = None
    sessions: Range | None = None
    requests: Range | None = None


def slice_(trace: Trace, selection: Selection) -> tuple[Metadata, Iterator[Columns]]:
    """The requests of a selection, whole, as a trace of their own; its time begins where that of the slice does."""
    present: set[int] = set()
    for batch in _kept(trace, selection):
        present.update(np.unique(batch["user_id"]).tolist())
    users = np.array(sorted(present), np.int64)
    begin = round(selection.seconds[0] * 10**9) if selection.seconds else 0

    def moved() -> Iterator[Columns]:
        for batch in _kept(trace, selection):
            changed = {"time_ns": batch["time_ns"] - begin, "user_id": np.searchsorted(users, batch["user_id"])}
            yield batch | changed

    how = {name: list(limits) for name, limits in vars(selection).items() if limits is not None}
    return _derived([trace], {"slice": how}), renumbered(moved())


def _kept(trace: Trace, selection: Selection) -> Iterator[Columns]:
    """The rows of the requests that are selected; a request counts by its first op."""
    limits = {
        "time_ns": selection.seconds and tuple(limit * 10**9 for limit in selection.seconds),
        "user_id": selection.users,
        "session_id": selection.sessions,
        "request_id": selection.requests,
    }
    keep, highest = IdTable(np.bool_), -1
    for batch in trace.batches():
        request = batch["request_id"]
        before = np.maximum.accumulate(np.concatenate([[highest], request[:-1]]))
        first = np.flatnonzero(request > before)  # requests are numbered in order of arrival
        highest = max(highest, int(request.max()))
        within = np.ones(len(first), np.bool_)
        for name, limit in limits.items():
            if limit is not None:
                within &= (batch[name][first] >= limit[0]) & (batch[name][first] < limit[1])
        keep.append(within)
        rows = np.flatnonzero(keep[request])
        if len(rows):
            yield chosen(batch, rows)


def scale(trace: Trace, users: int, time: Fraction) -> tuple[Metadata, Iterator[Columns]]:
    """Every user `users` times, with objects of their own, and all times multiplied.

    Objects of sources system, common and rag stay shared by all copies.
    """
    shared = np.zeros(_count(trace, "keys"), np.bool_)
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
    return _derived([trace], how), renumbered(merged([copies()]))


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


def _count(trace: Trace, name: str) -> int:
    if name not in trace.metadata.counts:
        raise InputError(f"{trace.path}: its metadata has no counts.{name}; write it as specified.")
    return trace.metadata.counts[name]
