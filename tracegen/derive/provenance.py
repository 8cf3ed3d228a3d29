"""The metadata of derived traces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tracegen.errors import InputError
from tracegen.trace.columns import Columns
from tracegen.trace.metadata import Metadata
from tracegen.trace.reading import Trace

T = TypeVar("T")


@dataclass(frozen=True)
class Derivation:
    """A derived trace, not written yet.

    Attributes:
        metadata: its metadata, which the writer completes.
        batches: its ops in order, which can be read once.
    """

    metadata: Metadata
    batches: Iterator[Columns]


def describe_origin(traces: Sequence[Trace], operation: dict[str, Any]) -> Metadata:
    """Make the metadata of a derived trace: the operation, and the recipes of its inputs.

    Args:
        traces: the inputs; the first one's seed, generator and defaults for replays are kept.
        operation: name and parameters of the operation.
    """
    inputs = [trace.metadata for trace in traces]
    first = inputs[0]
    sources: list[dict[str, str]] = []
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
        problem = f"its metadata has no counts.{name}"
        remedy = "write it as docs/trace-format.md specifies"
        raise InputError(problem, remedy, subject=trace.path)
    return trace.metadata.counts[name]
