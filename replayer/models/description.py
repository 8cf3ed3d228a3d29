"""A model's geometry in numbers: its groups, its bytes, and the block of vLLM if states raise it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from replayer.models.geometry import LIMITED, GroupKind, KvGroup, Model

# Tokens of the sequences whose bytes are described.
SEQUENCE_TOKENS: Final = (1_024, 131_072)
_BLOCK_TOKENS: Final = 16  # vLLM's default; blocks that hold a state are multiples of it


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
class GroupDescription:
    """A KV group in numbers, on one tensor-parallel rank with all layers.

    Attributes:
        kind: what its layers keep.
        layers: number of its layers.
        window: the largest number of tokens that they keep; None: all, or none.
        layer_bytes_per_token: bytes of a token in one layer; 0 for a state.
        bytes_per_token: bytes of a token in all layers of the group; 0 for a state.
        state_bytes: bytes of the states of all layers; 0 if they keep tokens.
    """

    kind: GroupKind
    layers: int
    window: int | None
    layer_bytes_per_token: int
    bytes_per_token: int
    state_bytes: int


@dataclass(frozen=True)
class ModelDescription:
    """A model's geometry in numbers; totals are those of one rank of the largest stage.

    Attributes:
        name: name of the model.
        sharding: type of keys and values, and the numbers of ranks and stages.
        layers: number of decoder layers.
        layers_without_cache: number of those that keep nothing, or share another layer's.
        counts_windows_in_full: whether a plan charges windowed layers for every token.
        groups: KV groups, on a rank with all layers.
        bytes_per_token: bytes of a token that is inside every window.
        windowed_bytes_per_token: those of them that only the last `window` tokens take.
        window: number of tokens that windowed layers keep; 0: no layer is charged as windowed.
        state_bytes_per_object: bytes of a checkpoint of all states.
        sequence_bytes: bytes of an object by its number of tokens.
        vllm_block_tokens: tokens of a block of vLLM that states raise; None: they do not, or it is
            not known.
    """

    name: str
    sharding: Sharding
    layers: int
    layers_without_cache: int
    counts_windows_in_full: bool
    groups: tuple[GroupDescription, ...]
    bytes_per_token: int
    windowed_bytes_per_token: int
    window: int
    state_bytes_per_object: int
    sequence_bytes: dict[int, int]
    vllm_block_tokens: int | None


def describe_model(model: Model, sharding: Sharding) -> ModelDescription:
    """Describe a model, divided among ranks.

    Raises:
        InputError: the model cannot be divided among that many ranks.
    """
    # Of the largest stage, whose memory runs out first.
    sizes = model.sizes(sharding.dtype, sharding.tensor_parallel, sharding.pipeline_parallel)
    counts: Sequence[int] = SEQUENCE_TOKENS
    lengths = sizes.object_bytes(np.array(counts))
    return ModelDescription(
        name=model.name,
        sharding=sharding,
        layers=len(model.layers),
        layers_without_cache=sum(not layer for layer in model.layers),
        counts_windows_in_full=model.counts_windows_in_full,
        groups=tuple(_describe_group(group, sharding) for group in model.groups),
        bytes_per_token=sizes.per_token,
        windowed_bytes_per_token=sizes.windowed,
        window=sizes.window,
        state_bytes_per_object=sizes.state,
        sequence_bytes=dict(zip(counts, lengths.tolist(), strict=True)),
        vllm_block_tokens=raise_block(model, sharding),
    )


def _describe_group(group: KvGroup, sharding: Sharding) -> GroupDescription:
    cache, layers = group.cache, len(group.layers)
    each = cache.rank_bytes(sharding.dtype, sharding.tensor_parallel)
    is_state = cache.kind == "state"
    return GroupDescription(
        kind=cache.kind,
        layers=layers,
        window=cache.window if cache.kind in LIMITED else None,
        layer_bytes_per_token=0 if is_state else each,
        bytes_per_token=0 if is_state else layers * each,
        state_bytes=layers * each if is_state else 0,
    )


def raise_block(model: Model, sharding: Sharding) -> int | None:
    """Return the tokens of a block of vLLM whose page of a layer is no smaller than a layer's state.

    None where no layer has a state, or vLLM cannot make all pages equal: then the block is not known.
    """
    sizes: dict[bool, set[int]] = {True: set(), False: set()}  # of states, and of tokens
    for group in model.groups:
        is_state = group.cache.kind == "state"
        sizes[is_state].add(group.cache.rank_bytes(sharding.dtype, sharding.tensor_parallel))
    has_latents = any(group.cache.kind == "latent" for group in model.groups)
    has_two_caches = any(len(layer) > 1 for layer in model.layers)
    if not sizes[True] or len(sizes[False]) != 1 or has_latents or has_two_caches:
        return None
    (token_bytes,) = sizes[False]
    return _BLOCK_TOKENS * -(-max(sizes[True]) // (_BLOCK_TOKENS * token_bytes))
