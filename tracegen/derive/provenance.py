"""Traces made from traces: what their metadata says."""

from collections.abc import Sequence
from typing import Any

from tracegen.errors import InputError
from tracegen.schema import Metadata, Trace


def derived(traces: Sequence[Trace], how: dict[str, Any]) -> Metadata:
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


def count_of(trace: Trace, name: str) -> int:
    """Return a count of the trace's metadata.

    Raises:
        InputError: the metadata lacks it.
    """
    if name not in trace.metadata.counts:
        raise InputError(f"{trace.path}: its metadata has no counts.{name}; write it as specified.")
    return trace.metadata.counts[name]
