"""The models that are known by name, and the search for a model by name or by file."""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from replayer.models.caches import attention, delta_net, latent_attention
from replayer.models.config_file import read_config
from replayer.models.geometry import Layer, Model
from replayer.record.wording import plain_model
from tracegen.errors import InputError


def _uniform(name: str, layers: int, kv_heads: int, head_dim: int) -> Model:
    """Return a model whose layers all keep every token."""
    return Model(name, ((attention(kv_heads, head_dim),),) * layers)


def _latent(name: str, indexer_dim: int = 0) -> Model:
    """Return a model of DeepSeek-V3's architecture: 61 layers of MLA, 512 + 64 elements."""
    return Model(name, ((latent_attention(512 + 64, indexer_dim),),) * 61)


def _repeat(pattern: Sequence[Layer], layers: int) -> tuple[Layer, ...]:
    return tuple(pattern[index % len(pattern)] for index in range(layers))


def _gpt_oss(name: str, layers: int) -> Model:
    """Return a gpt-oss: every other layer slides; all count in full, as in kv-cache.py."""
    pattern = ((attention(8, 64, window=128),), (attention(8, 64),))
    return Model(name, _repeat(pattern, layers), counts_windows_in_full=True)


_GEMMA3_27B: Final = (*((attention(16, 128, window=1024),),) * 5, (attention(16, 128),))
_QWEN35_27B: Final = (*((delta_net(16, 128, 48, 128, 4, 4),),) * 3, (attention(4, 256),))

# Geometry as published in each model's config.json; tiny-1b as in kv-cache.py. gpt-oss counts its
# windowed layers in full under these names, which fingerprints of earlier releases depend on; with
# its config.json they count as stored.
MODELS: Final = {
    model.name: model
    for model in (
        _uniform("tiny-1b", 12, 4, 128),
        _uniform("mistral-7b", 32, 8, 128),
        _uniform("llama2-7b", 32, 32, 128),
        _uniform("llama3.1-8b", 32, 8, 128),
        _uniform("llama3.1-70b-instruct", 80, 8, 128),
        _uniform("qwen3-32b", 64, 8, 128),
        _gpt_oss("gpt-oss-20b", 24),
        _gpt_oss("gpt-oss-120b", 36),
        _latent("deepseek-v3"),
        _uniform("qwen3-8b", 36, 8, 128),
        _uniform("qwen3-30b-a3b", 48, 4, 128),
        Model("qwen3.5-27b", _repeat(_QWEN35_27B, 64)),
        _uniform("llama3.3-70b-instruct", 80, 8, 128),
        Model("gemma-3-27b", _repeat(_GEMMA3_27B, 62)),
        _uniform("mistral-small-24b", 40, 8, 128),
        _uniform("glm-4.5", 92, 8, 128),
        _latent("kimi-k2"),
        _latent("deepseek-v3.2", indexer_dim=128),
    )
}

_NAME_BY_PLAIN_NAME: Final = {plain_model(name): name for name in MODELS}


def find_model(name: str) -> Model:
    """Return a known model, or the one that a Hugging Face config.json describes.

    Args:
        name: as in MODELS or as the model's vendor spells it, or the path of a config.json.

    Raises:
        InputError: the name is unknown, or the file is not a model's config.json.
    """
    if name in MODELS:
        return MODELS[name]
    if not os.path.exists(name):  # noqa: PTH110 (Path.exists() raises on names that are too long)
        known = None if _is_path(name) else _NAME_BY_PLAIN_NAME.get(plain_model(name))
        if known is None:
            raise _unknown_model(name)
        return MODELS[known]
    return read_config(Path(name))


def _is_path(name: str) -> bool:
    """Return whether a name can only be a file's: a model's has at most its vendor before it."""
    is_rooted = name.startswith(("/", "./", "../", "~"))
    return name.endswith(".json") or is_rooted or name.count("/") > 1


def _unknown_model(name: str) -> InputError:
    """Make the error for a name that is neither a model's nor a file's."""
    remedy = f"pass a Hugging Face config.json or one of {', '.join(MODELS)}"
    if _is_path(name):
        return InputError("there is no such file", remedy, subject=name, setting="model")
    close = difflib.get_close_matches(plain_model(name), _NAME_BY_PLAIN_NAME, n=1, cutoff=0.75)
    if close:
        remedy = f"did you mean {_NAME_BY_PLAIN_NAME[close[0]]}? Otherwise {remedy}"
    return InputError("is unknown", remedy, subject=name, setting="model")
