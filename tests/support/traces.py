"""Small traces made by hand, for tests and benchmarks."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tracegen.generate import batches, open_sources
from tracegen.recipes.recipe import Recipe
from tracegen.schema import DTYPES, ENUMS, Columns, Metadata, Trace
from tracegen.trace.writing import TraceWriter
from tracegen.workload.schedule import list_users

Step = tuple[str, int, int]
"""(op, key, tokens); ops named w(rite), r(ead prefill), d(ecode read), x (delete)."""
OPS = {"w": ("write", "prefill"), "r": ("read", "prefill"), "d": ("read", "decode"), "x": ("delete", "prefill")}


def columns(steps: Sequence[Step], requests: Sequence[int] | None = None, **changes: Sequence[int]) -> Columns:
    """Ops, one request (of a session and user of its own) each unless `requests` says otherwise."""
    count = len(steps)
    request = np.arange(count) if requests is None else np.asarray(requests)
    step = np.arange(count) - np.searchsorted(request, request)
    keys = np.array([key for _, key, _ in steps])
    first = keys == 0
    first[np.unique(keys, return_index=True)[1]] = True
    values = {
        "op_id": np.arange(count),
        "time_ns": np.arange(count) * 1000,
        "request_id": request,
        "session_id": request,
        "user_id": request,
        "turn": np.ones(count),
        "step": step,
        "qos": request % 3,
        "phase": [ENUMS["phase"].index(OPS[op][1]) for op, _, _ in steps],
        "op": [ENUMS["op"].index(OPS[op][0]) for op, _, _ in steps],
        "source": np.where(first, 0, 1),
        "key": keys,
        "tokens": [tokens for _, _, tokens in steps],
        "new_tokens": np.ones(count),
        "think_ns": np.zeros(count),
    } | changes
    return {name: np.asarray(values[name]).astype(dtype) for name, dtype in DTYPES.items()}


def write(path: Path, batch: Columns, **metadata: object) -> Trace:
    """A trace file of these ops, which asks a replay for its decode reads, too."""
    about = Metadata(seed=0, recipe={"replay": {"decode": "reread"}}, generator="tests")
    for name, value in metadata.items():
        setattr(about, name, value)
    with TraceWriter(path, about, force=True) as writer:
        writer.write(batch)
    return Trace(path)


def made(recipe: Recipe) -> Columns:
    """The ops of a recipe of synthetic sources."""
    sources = open_sources(recipe, Metadata(0, {}, ""))
    return joined(list(batches(recipe, sources, list_users(recipe, sources))))


def joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class Held(Trace):
    """A trace in memory, for planning many small ones; nothing checks that it could be written."""

    def __init__(self, batch: Columns, **metadata: object) -> None:
        self.path, self.ops, self.metadata = Path("memory"), len(batch["op_id"]), Metadata(0, {}, "tests")
        self._batch = batch
        for name, value in metadata.items():
            setattr(self.metadata, name, value)

    def batches(self, size: int = 1 << 16, more: tuple[str, ...] = ()) -> Iterator[Columns]:
        del more  # all columns are there
        for begin in range(0, self.ops, size):
            yield {name: column[begin : begin + size] for name, column in self._batch.items()}

    def checked_batches(self, size: int = 1 << 16) -> Iterator[Columns]:
        return self.batches(size)

    def check(self) -> None:
        pass
