"""Blocks, pages and chunks as engines lay a model's KV cache out (docs/models.md)."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from replayer.models.geometry import KvGroup, Model, split_layers
from tracegen.errors import InputError

BLOCK_TOKENS: Final = 16
"""Tokens of a vLLM block, unless it is told otherwise."""
_SGLANG_PAGE: Final = 64  # what its guide to HiCache passes; without HiCache a page is one token
_LMCACHE_CHUNK: Final = 256
_TENSORRT_BLOCK: Final = 32
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


def list_layouts(model: Model, sharding: Sharding, block_tokens: int) -> list[UnitLayout]:
    """Return the units of the engines whose layout of this model is known.

    Args:
        model: what is laid out.
        sharding: among ranks.
        block_tokens: tokens of a vLLM block; a model with states gets larger ones.

    Raises:
        InputError: the model cannot be divided among that many ranks, or a block has no token.
    """
    if block_tokens < 1:
        raise InputError(
            "must be 1 or more",
            "pass a number of tokens",
            subject=block_tokens,
            setting="block_tokens",
        )
    return [
        *_lay_out_in_vllm(model, sharding, block_tokens),
        *_lay_out_uniformly(model, sharding),
        *_lay_out_in_tensorrt(model, sharding),
    ]


def _lay_out_uniformly(model: Model, sharding: Sharding) -> Iterator[UnitLayout]:
    """Yield the units that hold all layers of a rank: known if each layer keeps every token.

    Keys of an indexer are stored beside them, or not, depending on the version.
    """
    caches = [group.cache for group in model.groups]
    if all(cache.kind in ("full", "latent") and len(cache.tensors) == 1 for cache in caches):
        per_token = _rank_bytes_per_token(model, sharding)
        for engine, unit, tokens in (
            ("SGLang HiCache", "page, all layers", _SGLANG_PAGE),
            ("LMCache", "chunk, all layers", _LMCACHE_CHUNK),
        ):
            yield UnitLayout(engine, unit, tokens, tokens * per_token)


def _rank_bytes_per_token(model: Model, sharding: Sharding) -> int:
    sizes = model.sizes(sharding.dtype, sharding.tensor_parallel, sharding.pipeline_parallel)
    return sizes.per_token


def _lay_out_in_tensorrt(model: Model, sharding: Sharding) -> Iterator[UnitLayout]:
    """Yield the blocks of TensorRT-LLM's pools: one pool per window length and number of heads."""
    caches = [group.cache for group in model.groups]
    if any(cache.kind == "state" or len(cache.tensors) > 1 for cache in caches):
        return
    stages = split_layers(len(model.layers), sharding.pipeline_parallel)
    for group in model.groups:
        size = _rank_bytes(group, sharding)
        layers = _most_on_a_stage(group.layers, stages)
        unit = f"block, {group.cache.kind} layers"
        yield UnitLayout("TensorRT-LLM", unit, _TENSORRT_BLOCK, _TENSORRT_BLOCK * layers * size)


def _most_on_a_stage(layers: Sequence[int], stages: Sequence[range]) -> int:
    return max(sum(layer in stage for layer in layers) for stage in stages)


def _lay_out_in_vllm(model: Model, sharding: Sharding, block_tokens: int) -> Iterator[UnitLayout]:
    """Yield vLLM's blocks: of all layers, or, of a hybrid model, of groups of equally many.

    A hybrid's layers have pages of equal bytes, so that all groups share one pool. Nothing is
    yielded where vLLM cannot make them equal.
    """
    groups = model.groups
    kinds = {group.cache.kind for group in groups}
    if kinds <= {"full", "latent"}:
        per_token = _rank_bytes_per_token(model, sharding)
        yield UnitLayout("vLLM", "block, all layers", block_tokens, block_tokens * per_token)
        return
    paged = {_rank_bytes(group, sharding) for group in groups if group.cache.kind != "state"}
    states = {_rank_bytes(group, sharding) for group in groups if group.cache.kind == "state"}
    if len(paged) > 1 or kinds == {"latent", "state"} or _has_two_caches(model):
        return
    (token_bytes,) = paged
    tokens = _raise_block(block_tokens, token_bytes, max(states, default=0))
    stages = split_layers(len(model.layers), sharding.pipeline_parallel)
    parts = _group_in_vllm(groups)
    layers = max(_most_on_a_stage(part, stages) for part in itertools.chain(*parts))
    unit = f"block, {layers} layers; groups: {_count_kinds(groups, parts)}"
    yield UnitLayout("vLLM", unit, tokens, tokens * token_bytes * layers)


def _count_kinds(groups: Sequence[KvGroup], parts: Sequence[Sequence[object]]) -> str:
    """Return how many of vLLM's groups each kind of layers has, for example 5 window + 1 full."""
    kinds = [group.cache.kind for group in groups]
    return " + ".join(f"{len(part)} {kind}" for kind, part in zip(kinds, parts, strict=True))


def _rank_bytes(group: KvGroup, sharding: Sharding) -> int:
    return group.cache.rank_bytes(sharding.dtype, sharding.tensor_parallel)


def _has_two_caches(model: Model) -> bool:
    """Return whether a layer keeps both tokens and a state."""
    return any(len(layer) > 1 for layer in model.layers)


def _raise_block(block_tokens: int, token_bytes: int, state_bytes: int) -> int:
    """Return the tokens of a block whose page of a layer is no smaller than a layer's state."""
    step = max(BLOCK_TOKENS, block_tokens)
    raised = step * -(-state_bytes // (step * token_bytes))
    return max(block_tokens, raised)


def _group_in_vllm(groups: Sequence[KvGroup]) -> list[list[tuple[int, ...]]]:
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
