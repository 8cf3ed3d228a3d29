"""Bytes per token follow from geometry."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer.planning import model
from replayer.schema import plain_model
from tracegen.errors import InputError

KNOWN = {
    "tiny-1b": 24_576,
    "mistral-7b": 131_072,
    "llama2-7b": 524_288,
    "llama3.1-8b": 131_072,
    "llama3.1-70b-instruct": 327_680,
    "qwen3-32b": 262_144,
    "gpt-oss-20b": 49_152,
    "gpt-oss-120b": 73_728,
    "deepseek-v3": 70_272,
}


def test_published_figures() -> None:
    assert {name: model.find_model(name).sizes("fp16", 1).per_token for name in model.MODELS} == KNOWN


def test_dtype_and_tensor_parallelism() -> None:
    llama, deepseek = model.find_model("llama3.1-8b"), model.find_model("deepseek-v3")
    assert llama.sizes("fp8", 1).per_token == llama.sizes("int8", 1).per_token == 65_536
    assert [llama.sizes("bf16", n).per_token for n in (2, 8, 16)] == [65_536, 16_384, 16_384]
    assert deepseek.sizes("bf16", 8).per_token == 70_272, "the latent is on every rank"
    for refused in (0, -1, 3, 12):
        with pytest.raises(InputError, match=f"tensor_parallel {refused}"):
            llama.sizes("fp16", refused)


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
    "linear layers keep no tokens": (
        DENSE | {"layer_types": ["linear_attention"] * 3 + ["full_attention"]},
        256,
        25_600,
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_hugging_face_configs(tmp_path: Path, name: str) -> None:
    config, one, hundred = CONFIGS[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    sizes = model.find_model(str(path)).sizes("bf16", 1)
    assert sizes.object_bytes(np.array([1, 100], np.int32)).tolist() == [one, hundred]


@pytest.mark.parametrize("config", ["{", "[]", "3", "{}", json.dumps(DENSE | {"num_attention_heads": 0}), json.dumps(DENSE | {"layer_types": ["mamba"] * 4}), json.dumps(DENSE | {"num_hidden_layers": -1}), json.dumps(DENSE | {"sliding_window": 9, "model_type": "x"})])  # fmt: skip
def test_what_is_no_config_is_refused(tmp_path: Path, config: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(config)
    with pytest.raises(InputError) as refused:
        model.find_model(str(path))
    assert str(path) in str(refused.value)


SPELLINGS = {
    "meta-llama/Llama-3.1-8B": "llama3.1-8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3.1-8b",
    "meta-llama/Meta-Llama-3.1-8B-Instruct": "llama3.1-8b",
    "llama-3.1-8b": "llama3.1-8b",
    "Llama3.1-8B": "llama3.1-8b",
    "meta-llama/Llama-3.1-70B": "llama3.1-70b-instruct",
    "meta-llama/Llama-2-7b-chat-hf": "llama2-7b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistral-7b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "openai/gpt-oss-20b": "gpt-oss-20b",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "deepseek-ai/DeepSeek-V3-Base": "deepseek-v3",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_models_are_known_by_their_vendors_names(name: str) -> None:
    assert model.find_model(name).name == SPELLINGS[name]


def test_no_two_models_are_spelled_alike() -> None:
    assert len({plain_model(name) for name in model.MODELS}) == len(model.MODELS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("llama9", "is unknown; pass"),
        ("gpt2", "is unknown; pass"),
        ("", "is unknown; pass"),
        ("meta-llama/Llama-3.2-8B", r"is unknown; did you mean llama3\.1-8b\? Otherwise pass"),
        ("none/config.json", "none/config.json: there is no such file"),
        ("/mnt/models/llama3.1-8b", "/mnt/models/llama3.1-8b: there is no such file"),
        ("../models/llama3.1-8b", "there is no such file"),
        ("models/meta/llama3.1-8b", "there is no such file"),
        ("llama3.1-8b" * 1000, "is unknown"),
    ],
)
def test_unknown_models_are_refused_with_the_list(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        model.find_model(name)
    assert str(refused.value).startswith(f"model {name}")
    assert "one of tiny-1b, mistral-7b, llama2-7b" in str(refused.value)
