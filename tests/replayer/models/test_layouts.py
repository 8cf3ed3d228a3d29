"""Blocks of vLLM: integers by hand, and block sizes that it printed when it started."""

import pytest

from replayer.models.caches import attention, delta_net, latent_attention, mamba2
from replayer.models.geometry import Layer, Model
from replayer.models.known import MODELS
from replayer.models.layouts import Sharding, lay_out

DELTA = delta_net(16, 128, 32, 128, kernel=4, state_bytes=4)
FULL, SLIDING = attention(2, 256), attention(2, 256, window=64)


def hybrid(pattern: tuple[Layer, ...], times: int) -> Model:
    return Model("hybrid", pattern * times)


def blocks(model: Model, sharding: Sharding, block_tokens: int = 16) -> list[tuple[int, int]]:
    """Tokens and bytes of the block, if it is known."""
    return [(layout.tokens, layout.rank_bytes) for layout in lay_out(model, sharding, block_tokens)]


def test_a_block_of_a_model_that_keeps_every_token() -> None:
    assert blocks(MODELS["llama3.1-8b"], Sharding("fp16")) == [(16, 16 * 131_072)]
    assert blocks(MODELS["llama3.1-8b"], Sharding("fp8", 2, 2), 64) == [(64, 64 * 131_072 // 8)]


@pytest.mark.parametrize(
    ("model", "dtype", "tokens", "size"),
    [
        # Qwen3.5-4B: "Setting attention block size to 528 tokens"
        (hybrid((*((DELTA,),) * 3, (attention(4, 256),)), 8), "bf16", 528, 528 * 4096 * 8),
        # Qwen3.5-35B-A3B: "Setting attention block size to 2096 tokens"
        (hybrid((*((DELTA,),) * 3, (FULL,)), 10), "fp8", 2096, 2096 * 1024 * 10),
        (MODELS["qwen3.5-27b"], "bf16", 784, 784 * 4096 * 16),
    ],
)
def test_a_block_is_raised_to_the_size_of_a_state(model: Model, dtype: str, tokens: int, size: int) -> None:
    assert blocks(model, Sharding(dtype)) == [(tokens, size)]


def test_a_block_that_is_large_enough_stays() -> None:
    model = hybrid(((DELTA,), (FULL,)), 2)
    assert blocks(model, Sharding("fp8"), 4096) == [(4096, 4096 * 1024 * 2)]


@pytest.mark.parametrize(
    ("full", "sliding", "layers", "groups"),
    [
        (10, 20, 10, "1 full + 2 window"),
        (13, 12, 13, "1 full + 1 window"),
        (2, 3, 2, "1 full + 2 window"),
        (4, 9, 4, "1 full + 3 window"),
        (0, 8, 8, "1 window"),
    ],
)
def test_groups_have_equally_many_layers(full: int, sliding: int, layers: int, groups: str) -> None:
    model = Model("hybrid", ((FULL,),) * full + ((SLIDING,),) * sliding)
    (found,) = lay_out(model, Sharding("fp16"), 16)
    assert found.unit == f"block, {layers} layers; groups: {groups}"
    assert (found.tokens, found.rank_bytes) == (16, 16 * 2048 * layers)


def test_a_stage_has_its_part_of_each_group() -> None:
    model = hybrid(((SLIDING,), (SLIDING,), (FULL,)), 4)
    assert blocks(model, Sharding("fp16", 1, 2)) == [(16, 16 * 2048 * 2)]


UNKNOWN = {
    "pages that differ": hybrid(((attention(2, 512),), (SLIDING,)), 2),
    "a state beside latents": hybrid(((DELTA,), (latent_attention(576),)), 2),
    "attention and a state in one layer": hybrid(((FULL, mamba2(8, 16, 1, 64, 4, 2)),), 2),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_vllm_does_is_said_only_where_it_is_known(name: str) -> None:
    assert not lay_out(UNKNOWN[name], Sharding("fp16"), 16)
