"""Models as their config.json describes them: configs shortened to the keys that are read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer.models.config_file import parse_config
from replayer.models.geometry import TokenBytes
from replayer.models.known import MODELS, find_model
from tracegen.errors import InputError

DENSE = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8}
CONFIGS: dict[str, tuple[dict[str, Any], int, int]] = {
    # config, bytes of 1 token, bytes of 100 tokens
    "dense": (DENSE, 4 * 2 * 64 * 2, 100 * 4 * 2 * 64 * 2),
    "gqa": (DENSE | {"num_key_value_heads": 2}, 4 * 2 * 16 * 2, 100 * 4 * 2 * 16 * 2),
    "head_dim": (DENSE | {"num_key_value_heads": 2, "head_dim": 32}, 4 * 2 * 64 * 2, 100 * 4 * 2 * 64 * 2),
    "mla": (DENSE | {"kv_lora_rank": 24, "qk_rope_head_dim": 8}, 4 * 32 * 2, 100 * 4 * 32 * 2),
    "multimodal": ({"text_config": DENSE}, 4 * 2 * 64 * 2, 100 * 4 * 2 * 64 * 2),
    "all layers slide": (DENSE | {"sliding_window": 10, "model_type": "mistral"}, 1024, 10 * 1024),
    "every other layer": (DENSE | {"sliding_window": 10, "model_type": "gemma2"}, 1024, 100 * 512 + 10 * 512),
    "sliding off": (DENSE | {"sliding_window": 10, "use_sliding_window": False}, 1024, 100 * 1024),
    "from a layer on": (
        DENSE | {"sliding_window": 10, "use_sliding_window": True, "max_window_layers": 3},
        1024,
        100 * 768 + 10 * 256,
    ),
    "layer types": (
        DENSE | {"sliding_window": 10, "layer_types": ["sliding_attention", "full_attention"] * 2},
        1024,
        100 * 512 + 10 * 512,
    ),
    "pattern": (DENSE | {"sliding_window": 10, "sliding_window_pattern": 4}, 1024, 100 * 256 + 10 * 768),
    "layer types go on with layers for drafts": (DENSE | {"layer_types": ["full_attention"] * 5}, 1024, 102_400),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_hugging_face_configs(tmp_path: Path, name: str) -> None:
    config, one, hundred = CONFIGS[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    sizes = find_model(str(path)).sizes("bf16", 1)
    assert sizes.object_bytes(np.array([1, 100], np.int32)).tolist() == [one, hundred]


GPT_OSS = {
    "model_type": "gpt_oss", "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 64, "hidden_size": 2880, "sliding_window": 128,
}  # fmt: skip
GEMMA3 = {
    "model_type": "gemma3_text", "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16,
    "head_dim": 128, "hidden_size": 5376, "sliding_window": 1024,
}  # fmt: skip
GEMMA3N = {
    "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
    "hidden_size": 2048, "sliding_window": 512, "num_kv_shared_layers": 15,
    "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
}  # fmt: skip
GEMMA4 = {
    "num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
    "hidden_size": 64, "sliding_window": 1024, "global_head_dim": 512, "num_global_key_value_heads": 2,
    "attention_k_eq_v": True, "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
}  # fmt: skip
LLAMA4 = {
    "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
    "hidden_size": 5120, "attention_chunk_size": 8192, "no_rope_layers": [],
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
    "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
}  # fmt: skip
KIMI_LINEAR = {
    "num_hidden_layers": 27, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 72,
    "hidden_size": 2304, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4,
        "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26],
    },
}  # fmt: skip
QWEN35 = {
    "num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
    "hidden_size": 5120, "full_attention_interval": 4, "mamba_ssm_dtype": "float32", "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_value_head_dim": 128,
}  # fmt: skip
QWEN3_NEXT = QWEN35 | {"num_hidden_layers": 48, "num_key_value_heads": 2, "linear_num_value_heads": 32}
del QWEN3_NEXT["mamba_ssm_dtype"]
JAMBA = {
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
    "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
}  # fmt: skip
NEMOTRON_H = {
    "num_hidden_layers": 52, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 4096,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4,
}  # fmt: skip
BAMBA = {
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
    "attn_layer_indices": [9, 18, 27], "mamba_d_conv": 4, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_expand": 2,
    "mamba_n_groups": 1, "mamba_n_heads": 128,
}  # fmt: skip
GRANITE4 = {
    "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
    "layer_types": [("attention" if index in (5, 15, 25, 35) else "mamba") for index in range(40)],
    "mamba_d_conv": 4, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1,
    "mamba_n_heads": 128,
}  # fmt: skip
FALCON_H1 = {
    "model_type": "falcon_h1", "num_hidden_layers": 36, "num_attention_heads": 8, "num_key_value_heads": 2,
    "head_dim": 128, "hidden_size": 2048, "mamba_d_ssm": 1536, "mamba_n_heads": 24, "mamba_n_groups": 1,
    "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_expand": 2,
}  # fmt: skip
MAMBA2_STATE = 3 * (8192 + 2 * 128) * 2 + 128 * 64 * 128 * 2

ARCHITECTURES: dict[str, tuple[dict[str, Any], TokenBytes]] = {
    "gpt-oss-120b": (GPT_OSS, TokenBytes(18 * 2048, 18 * 2048, 128)),
    "gemma-3-27b": ({"text_config": GEMMA3}, TokenBytes(10 * 8192, 52 * 8192, 1024)),
    "gemma-3n-e4b": (GEMMA3N, TokenBytes(4 * 2048, 16 * 2048, 512)),
    "gemma 4": (GEMMA4, TokenBytes(2 * 2 * 512 * 2, 5 * 2 * 8 * 256 * 2, 1024)),
    "gemma 4, as transformers 5 writes it": (
        {key: value for key, value in GEMMA4.items() if "global" not in key}
        | {"per_layer_config": {"05": {"head_dim": 512, "num_key_value_heads": 2}}},
        TokenBytes(2 * 2 * 512 * 2, 5 * 2 * 8 * 256 * 2, 1024),
    ),
    "indexers of its own in each layer": (
        DEEPSEEK | {"index_head_dim": 128, "indexer_types": ["full"] * 61},
        TokenBytes(61 * 1284),
    ),
    "kimi linear, as transformers 5 writes it": (
        DEEPSEEK
        | {"num_hidden_layers": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"]}
        | {"linear_num_heads": 32, "linear_head_dim": 128, "linear_conv_kernel_dim": 4},
        TokenBytes(1152, state=3 * (3 * 3 * 4096 * 2 + 32 * 128 * 128 * 4)),
    ),
    "llama 4": (LLAMA4, TokenBytes(12 * 4096, 36 * 4096, 8192)),
    "llama 4, listed": (
        LLAMA4 | {"num_hidden_layers": 4, "no_rope_layers": [1, 0, 1, 1]},
        TokenBytes(4096, 3 * 4096, 8192),
    ),
    "hunyuan": (DENSE | {"use_cla": True, "cla_share_factor": 2}, TokenBytes(2 * 256)),
    "deepseek-v3": (DEEPSEEK, TokenBytes(70_272)),
    "deepseek-v3.2": (DEEPSEEK | {"index_head_dim": 128}, TokenBytes(61 * 1284)),
    "kimi linear": (KIMI_LINEAR, TokenBytes(7 * 1152, state=20 * (3 * 3 * 4096 * 2 + 32 * 128 * 128 * 4))),
    "qwen3.5-27b": (QWEN35, TokenBytes(65_536, state=48 * 3_207_168)),
    "qwen3-next": (QWEN3_NEXT, TokenBytes(12 * 2048, state=36 * (3 * 8192 * 2 + 32 * 128 * 128 * 2))),
    "jamba": (JAMBA, TokenBytes(4 * 4096, state=28 * 8192 * (3 + 16) * 2)),
    "nemotron-h": (
        NEMOTRON_H,
        TokenBytes(4 * 4096, state=24 * (3 * (8192 + 2 * 8 * 128) * 2 + 128 * 64 * 128 * 2)),
    ),
    "bamba": (BAMBA, TokenBytes(3 * 4096, state=29 * MAMBA2_STATE)),
    "granite 4": (GRANITE4, TokenBytes(4 * 4096, state=36 * MAMBA2_STATE)),
    "falcon-h1": (FALCON_H1, TokenBytes(36 * 1024, state=36 * (3 * (1536 + 512) * 2 + 1536 * 256 * 2))),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(name: str) -> None:
    config, sizes = ARCHITECTURES[name]
    assert parse_config(name, config).sizes("bf16") == sizes


@pytest.mark.parametrize("name", ["gpt-oss-120b", "gemma-3-27b", "deepseek-v3", "deepseek-v3.2", "qwen3.5-27b"])
def test_the_table_agrees_with_the_config(name: str) -> None:
    assert parse_config(name, ARCHITECTURES[name][0]).layers == MODELS[name].layers


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "letters": (NEMOTRON_H | {"hybrid_override_pattern": "X" * 52}, "has layers of type 'X', whose KV cache is not"),
    "types": (DENSE | {"layer_types": ["conv"] * 4}, "has layers of type 'conv', whose KV cache is not known"),
    "few types": (DENSE | {"layer_types": ["full_attention"] * 3}, "types of 3 layers for num_hidden_layers 4"),
    "state": (DENSE | {"layer_types": ["mamba", "attention"] * 2}, "linear attention without the sizes of its state"),
    "state type": (QWEN35 | {"mamba_ssm_dtype": "int3"}, "a state of type 'int3'"),
    "window": (DENSE | {"sliding_window": 9, "model_type": "x"}, "a sliding_window without layer_types"),
    "no window": (DENSE | {"layer_types": ["sliding_attention"] * 4}, "it lacks sliding_window"),
    "two windows": (
        DENSE | {"sliding_window": 9, "attention_chunk_size": 8, "layer_types": ["sliding_attention", "chunked_attention"] * 2},
        "windows of different lengths",
    ),
    "latent window": (
        DEEPSEEK | {"sliding_window": 9, "layer_types": ["sliding_attention"] * 61}, "latent attention with a window",
    ),
    "indexed": (DENSE | {"layer_types": ["indexed_attention"] * 4}, "indexed attention without a latent"),
    "shared indexers": (DEEPSEEK | {"indexer_types": ["full", "shared"]}, "layers that share an indexer"),
    "heads of windows": (GPT_OSS | {"swa_num_key_value_heads": 4}, "layers with a window and heads of their own"),
    "values": (GPT_OSS | {"v_head_dim": 32}, "values of another size than keys"),
    "states somewhere": (BAMBA | {"attn_layer_indices": None}, "has states in layers that it does not name, whose"),
    "lightning": (DENSE | {"attn_type_list": [0, 0, 0, 1]}, "has lightning attention, whose KV cache is not known"),
    "compressed": (DEEPSEEK | {"compress_ratios": [4]}, "compressed attention"),
    "encoder": (DENSE | {"is_encoder_decoder": True}, "an encoder"),
    "all share": (DENSE | {"num_kv_shared_layers": 4}, "num_kv_shared_layers 4"),
    "only states": (QWEN35 | {"layer_types": ["linear_attention"] * 64}, "no plausible bytes per token"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(tmp_path: Path, name: str) -> None:
    config, words = REFUSED[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with pytest.raises(InputError, match=words) as refused:
        find_model(str(path))
    assert str(refused.value).startswith(f"model {path}: ")


@pytest.mark.parametrize("config", ["{", "[]", "3", "{}", json.dumps(DENSE | {"num_attention_heads": 0}), json.dumps(DENSE | {"num_hidden_layers": -1}), json.dumps(DENSE | {"num_key_value_heads": -2})])  # fmt: skip
def test_what_is_no_config_is_refused(tmp_path: Path, config: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(config)
    with pytest.raises(InputError) as refused:
        find_model(str(path))
    assert str(path) in str(refused.value)
