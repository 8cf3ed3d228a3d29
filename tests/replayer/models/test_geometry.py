"""Bytes of objects and of ranks, compared with sums layer by layer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.models.caches import attention, delta_net, latent_attention, mamba1, mamba2
from replayer.models.description import Sharding, raise_block
from replayer.models.geometry import DTYPE_BYTES, Layer, Model, TokenBytes, split_layers
from replayer.models.known import find_model
from tracegen.errors import InputError

WINDOW = 100
KINDS: tuple[Layer, ...] = (
    (),
    (attention(8, 64),),
    (attention(4, 128),),
    (attention(8, 64, window=WINDOW),),
    (attention(8, 64, WINDOW, "chunked"),),
    (latent_attention(576),),
    (latent_attention(576, indexer_dim=128),),
    (delta_net(4, 32, 8, 16, kernel=4, state_bytes=4),),
    (attention(2, 64), mamba2(8, 16, groups=2, state_size=64, kernel=4, state_bytes=2)),
    (mamba1(channels=64, state_size=16, kernel=4, state_bytes=4),),
)
MODELS = st.lists(st.sampled_from(KINDS), min_size=1, max_size=12).map(lambda layers: Model("m", tuple(layers)))


def naive_bytes(layers: tuple[Layer, ...], tokens: int, dtype: str, tensor_parallel: int) -> int:
    """Add up an object's bytes tensor by tensor; a rank that shares a head holds all of it."""
    total = 0
    for layer in layers:
        for cache in layer:
            if cache.kind == "state":
                units = 1 if tokens else 0
            elif cache.kind in ("window", "chunked"):
                units = tokens if tokens < cache.window else cache.window
            else:
                units = tokens
            for tensor in cache.tensors:
                heads = -(-tensor.heads // tensor_parallel)
                total += units * heads * tensor.elements * (tensor.element_bytes or DTYPE_BYTES[dtype])
    return total


@given(
    MODELS, st.lists(st.integers(0, 5 * WINDOW), min_size=1, max_size=5), st.sampled_from(list(DTYPE_BYTES)),
    st.sampled_from([1, 2, 4, 8, 16]),
)  # fmt: skip
def test_object_bytes_are_the_sum_over_layers(model: Model, tokens: list[int], dtype: str, ranks: int) -> None:
    sizes = model.sizes(dtype, ranks)
    expected = [naive_bytes(model.layers, count, dtype, ranks) for count in tokens]
    assert sizes.object_bytes(np.array(tokens, np.int32)).tolist() == expected


@given(MODELS, st.integers(1, 12))
def test_the_largest_stage_has_the_most_bytes_per_token(model: Model, stages: int) -> None:
    count = len(model.layers)
    if stages > count:
        with pytest.raises(InputError, match=f"pipeline_parallel {stages}: does not fit the {count} layers"):
            model.sizes("fp16", 1, stages)
        return
    parts = split_layers(count, stages)
    assert [index for part in parts for index in part] == list(range(count))
    assert {len(part) for part in parts} <= {count // stages, count // stages + 1}
    one = [Model("part", model.layers[part.start : part.stop]).sizes("fp16") for part in parts]
    assert model.sizes("fp16", 1, stages).per_token == max(sizes.per_token for sizes in one)


@pytest.mark.parametrize(
    ("layers", "stages", "lengths"),
    [(80, 3, [27, 27, 26]), (61, 4, [15, 15, 16, 15]), (61, 2, [31, 30]), (7, 4, [2, 2, 2, 1]), (4, 4, [1] * 4)],
)
def test_layers_that_remain_go_before_the_last_stage(layers: int, stages: int, lengths: list[int]) -> None:
    assert [len(part) for part in split_layers(layers, stages)] == lengths


def test_ranks_share_heads_or_hold_copies() -> None:
    state = delta_net(16, 128, 48, 128, kernel=4, state_bytes=4)
    assert state.rank_bytes("fp16", 1) == 3 * (2 * 16 + 48) * 128 * 2 + 48 * 128 * 128 * 4
    assert state.rank_bytes("fp8", 16) * 16 == state.rank_bytes("fp16", 1)
    with pytest.raises(InputError, match="tensor_parallel 32: does not divide the 48 value heads"):
        state.rank_bytes("fp16", 32)
    extended = mamba2(128, 64, groups=8, state_size=128, kernel=4, state_bytes=4)
    assert extended.rank_bytes("fp16", 16) == 8 * 64 * 3 * 2 + 1 * 2 * 128 * 3 * 2 + 8 * 64 * 128 * 4


def test_an_object_without_tokens_has_no_state() -> None:
    assert TokenBytes(10, 5, 4, 1000).object_bytes(np.array([0, 1, 4, 6])).tolist() == [0, 1015, 1060, 1080]


@pytest.mark.parametrize(
    ("name", "block", "blocks", "dearer"),
    [
        # 9 states: 48 layers of 3 × (2 × 16 × 128 + 48 × 128) elements of 2 bytes and 48 × 128 × 128 of 4
        ("qwen3.5-27b", 784, 10, 9 * 48 * (3 * 10_240 * 2 + 48 * 128 * 128 * 4)),
        # all but the last 1,024 tokens: 52 layers of 16 heads × 2 × 128 elements of 2 bytes
        ("gemma-3-27b", 16, 496, (496 * 16 - 1024) * 52 * 16 * 2 * 128 * 2),
    ],
)
def test_a_prompt_in_one_object_has_the_one_state_or_window_that_vllm_keeps(
    name: str, block: int, blocks: int, dearer: int
) -> None:
    """vLLM 0.32 keeps, of so many blocks, 1 state, or the last 64 of 496 blocks of a window; of each block an object has all."""
    sizes = find_model(name).sizes("bf16", 1)
    in_blocks, whole = (sizes.object_bytes(np.array(cut)).sum() for cut in ([block] * blocks, [block * blocks]))
    assert in_blocks - whole == dearer


FULL, DELTA = attention(2, 256), delta_net(16, 128, 32, 128, kernel=4, state_bytes=4)
BLOCKS: dict[str, tuple[Model, str, int | None]] = {
    # Qwen3.5-4B: "Setting attention block size to 528 tokens"
    "of 4 heads": (Model("", ((DELTA,), (DELTA,), (DELTA,), (attention(4, 256),)) * 8), "bf16", 528),
    # Qwen3.5-35B-A3B: "Setting attention block size to 2096 tokens"
    "fp8": (Model("", ((DELTA,), (DELTA,), (DELTA,), (FULL,)) * 10), "fp8", 2096),
    "by name": (find_model("qwen3.5-27b"), "bf16", 784),
    "without a state": (find_model("gemma-3-27b"), "bf16", None),
    "pages that differ": (Model("", ((attention(2, 512),), (FULL,), (DELTA,))), "bf16", None),
    "a state beside latents": (Model("", ((DELTA,), (latent_attention(576),))), "bf16", None),
    "attention and a state in one layer": (Model("", ((FULL, DELTA),)), "bf16", None),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_vllm_holds_a_state_where_its_layout_is_known(name: str) -> None:
    """The integers that vLLM prints when it starts."""
    model, dtype, tokens = BLOCKS[name]
    assert raise_block(model, Sharding(dtype)) == tokens
