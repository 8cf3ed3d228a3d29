"""Blocks as vLLM lays a model's KV cache out (docs/models.md)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from replayer.models.geometry import KvGroup, Model, split_layers

# Tokens of a vLLM block, unless it is told otherwise.
BLOCK_TOKENS: Final = 16
_UNEVEN: Final = 1.5  # up to this ratio of layers vLLM pads the smaller kind


@dataclass(frozen=True)
class Sharding:
    """Division of a model among ranks, and the type of its keys and values.

    Attributes:
        dtype: type of keys and values.
        tensor_parallel: number of ranks that share each layer.
        pipeline_parallel: number of stages that share the layers.
    """

    dtype: str
    tensor_parallel: int = 1
    pipeline_parallel: int = 1


@dataclass(frozen=True)
class UnitLayout:
    """The unit in which an engine allocates, moves and stores a KV cache.

    Attributes:
        engine: name of the engine.
        unit: its word for the unit, and what the unit holds.
        tokens: number of tokens that a unit holds.
        rank_bytes: bytes of a unit on a rank of the largest stage: those of its file, where an
            engine writes one file per unit.
    """

    engine: str
    unit: str
    tokens: int
    rank_bytes: int


def lay_out(model: Model, sharding: Sharding, block_tokens: int) -> list[UnitLayout]:
    """Return vLLM's block, if it is known: of all layers, or, of a hybrid, of one of its groups of layers.

    A hybrid's layers have pages of equal bytes, so that all groups share one pool. Nothing is
    returned where vLLM cannot make them equal.

    Args:
        model: what is laid out.
        sharding: among ranks.
        block_tokens: tokens of a block; a model with states gets larger ones.

    Raises:
        InputError: the model cannot be divided among that many ranks.
    """
    groups = model.groups
    kinds = {group.cache.kind for group in groups}
    if kinds <= {"full", "latent"}:
        per_token = model.sizes(sharding.dtype, sharding.tensor_parallel, sharding.pipeline_parallel).per_token
        return [UnitLayout("vLLM", "block, all layers", block_tokens, block_tokens * per_token)]
    paged = {_rank_bytes(group, sharding) for group in groups if group.cache.kind != "state"}
    has_two_caches = any(len(layer) > 1 for layer in model.layers)
    if len(paged) > 1 or kinds == {"latent", "state"} or has_two_caches:
        return []
    (token_bytes,) = paged
    return [_lay_out_hybrid(model, sharding, block_tokens, token_bytes)]


def _lay_out_hybrid(model: Model, sharding: Sharding, block_tokens: int, token_bytes: int) -> UnitLayout:
    """Return the block of one of vLLM's groups of layers."""
    groups = model.groups
    states = [_rank_bytes(group, sharding) for group in groups if group.cache.kind == "state"]
    tokens = _raise_block(block_tokens, token_bytes, max(states, default=0))
    stages = split_layers(len(model.layers), sharding.pipeline_parallel)
    parts = _group_layers(groups)
    layers = max(sum(layer in stage for layer in part) for part in itertools.chain(*parts) for stage in stages)
    counts = [f"{len(part)} {group.cache.kind}" for group, part in zip(groups, parts, strict=True)]
    unit = f"block, {layers} layers; groups: {' + '.join(counts)}"
    return UnitLayout("vLLM", unit, tokens, tokens * token_bytes * layers)


def _rank_bytes(group: KvGroup, sharding: Sharding) -> int:
    return group.cache.rank_bytes(sharding.dtype, sharding.tensor_parallel)


def _raise_block(block_tokens: int, token_bytes: int, state_bytes: int) -> int:
    """Return the tokens of a block whose page of a layer is no smaller than a layer's state."""
    step = max(BLOCK_TOKENS, block_tokens)
    return max(block_tokens, step * -(-state_bytes // (step * token_bytes)))


def _group_layers(groups: Sequence[KvGroup]) -> list[list[tuple[int, ...]]]:
    """Return the layers of vLLM's groups, for each kind of layers.

    A group has as many layers as the rarest kind; if no kind has 1.5 times as many, as the
    commonest.
    """
    counts = [len(group.layers) for group in groups]
    most = max(counts) if max(counts) < _UNEVEN * min(counts) else min(counts)
    parts = []
    for group in groups:
        number = -(-len(group.layers) // most)
        parts.append([group.layers[first::number] for first in range(number)])
    return parts
