"""Known models: their bytes, and how they are found."""

import pytest

from replayer.models.geometry import TokenBytes
from replayer.models.known import MODELS, find_model
from replayer.record.wording import plain_model
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
    "qwen3-8b": 147_456,
    "qwen3-30b-a3b": 48 * 2 * 4 * 128 * 2,
    "qwen3.5-27b": 16 * 2 * 4 * 256 * 2,  # 16 of its 64 layers
    "llama3.3-70b-instruct": 327_680,
    "gemma-3-27b": 62 * 2 * 16 * 128 * 2,
    "mistral-small-24b": 40 * 2 * 8 * 128 * 2,
    "glm-4.5": 92 * 2 * 8 * 128 * 2,
    "kimi-k2": 70_272,
    "deepseek-v3.2": 61 * ((512 + 64) * 2 + 128 + 4),  # a key of the indexer in FP8, and its scale
}


def test_published_figures() -> None:
    assert {name: find_model(name).sizes("fp16", 1).per_token for name in MODELS} == KNOWN


def test_gpt_oss_is_charged_in_full() -> None:
    """By name; `test_config_file.py` compares the layers of the other models with windows and states."""
    assert find_model("gpt-oss-120b").sizes("fp16") == TokenBytes(73_728)


def test_dtype_and_tensor_parallelism() -> None:
    llama, deepseek = find_model("llama3.1-8b"), find_model("deepseek-v3")
    assert llama.sizes("fp8", 1).per_token == llama.sizes("int8", 1).per_token == 65_536
    assert [llama.sizes("bf16", n).per_token for n in (2, 8, 16)] == [65_536, 16_384, 16_384]
    assert deepseek.sizes("bf16", 8).per_token == 70_272, "the latent is on every rank"
    for refused in (0, -1, 3, 12):
        with pytest.raises(InputError, match=f"tensor_parallel {refused}"):
            llama.sizes("fp16", refused)


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
    "deepseek-ai/DeepSeek-V3.2": "deepseek-v3.2",
    "Qwen/Qwen3-8B": "qwen3-8b",
    "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b",
    "Qwen/Qwen3.5-27B": "qwen3.5-27b",
    "meta-llama/Llama-3.3-70B-Instruct": "llama3.3-70b-instruct",
    "google/gemma-3-27b-it": "gemma-3-27b",
    "zai-org/GLM-4.5": "glm-4.5",
    "moonshotai/Kimi-K2-Instruct": "kimi-k2",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_models_are_known_by_their_vendors_names(name: str) -> None:
    assert find_model(name).name == SPELLINGS[name]


def test_no_two_models_are_spelled_alike() -> None:
    assert len({plain_model(name) for name in MODELS}) == len(MODELS)


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
        find_model(name)
    assert str(refused.value).startswith(f"model {name}".strip())
    assert "one of tiny-1b, mistral-7b, llama2-7b" in str(refused.value)
