"""Model geometry: how many bytes of KV cache a token takes."""

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.record.wording import plain_model
from tracegen.errors import InputError

DTYPE_BYTES: Final = {"fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


@dataclass(frozen=True)
class Model:
    """What decides the size of a model's KV cache.

    Attributes:
        layers: attention layers that keep every token.
        kv_heads: key-value heads per layer (fewer than query heads under GQA).
        head_dim: elements per head, for keys and for values each.
        latent: elements per token and layer under MLA (kv_lora_rank + qk_rope_head_dim, DeepSeek-V2 section 2.1); 0
            where keys and values are stored per head.
        window_layers: attention layers that keep only the last `window` tokens.
        window: tokens that those layers keep.
    """

    name: str
    layers: int
    kv_heads: int = 0
    head_dim: int = 0
    latent: int = 0
    window_layers: int = 0
    window: int = 0

    def sizes(self, dtype: str, tensor_parallel: int) -> "TokenBytes":
        """Bytes that one rank of `tensor_parallel` stores; heads are split over ranks, MLA's latent is replicated.

        Raises:
            InputError: the heads cannot be split over so many ranks.
        """
        if tensor_parallel < 1 or (
            not self.latent and self.kv_heads % tensor_parallel and tensor_parallel % self.kv_heads
        ):
            raise InputError(
                f"--tensor-parallel {tensor_parallel} does not divide the {self.kv_heads} KV heads of {self.name};"
                " pass a divisor or a multiple of them."
            )
        heads = max(1, self.kv_heads // tensor_parallel)
        layer = (self.latent or 2 * heads * self.head_dim) * DTYPE_BYTES[dtype]
        return TokenBytes(self.layers * layer, self.window_layers * layer, self.window)


@dataclass(frozen=True)
class TokenBytes:
    """Bytes per token: of layers that keep all tokens, and of layers that keep the last `window`."""

    full: int
    windowed: int = 0
    window: int = 0

    @property
    def per_token(self) -> int:
        """Bytes of one token while it is inside every window."""
        return self.full + self.windowed

    def of(self, tokens: NDArray[Any]) -> NDArray[np.int64]:
        """Bytes of objects of so many tokens, shape as `tokens`."""
        counts = tokens.astype(np.int64)
        sizes: NDArray[np.int64] = counts * self.full + np.minimum(counts, self.window) * self.windowed
        return sizes


# Geometry as published in each model's config.json; tiny-1b as in kv-cache.py. Windowed layers (gpt-oss) count in full
# here, as they do in kv-cache.py; with the model's config.json they count as stored.
MODELS: Final = {
    model.name: model
    for model in (
        Model("tiny-1b", layers=12, kv_heads=4, head_dim=128),
        Model("mistral-7b", layers=32, kv_heads=8, head_dim=128),
        Model("llama2-7b", layers=32, kv_heads=32, head_dim=128),
        Model("llama3.1-8b", layers=32, kv_heads=8, head_dim=128),
        Model("llama3.1-70b-instruct", layers=80, kv_heads=8, head_dim=128),
        Model("qwen3-32b", layers=64, kv_heads=8, head_dim=128),
        Model("gpt-oss-20b", layers=24, kv_heads=8, head_dim=64),
        Model("gpt-oss-120b", layers=36, kv_heads=8, head_dim=64),
        Model("deepseek-v3", layers=61, latent=512 + 64),
    )
}


_PLAIN: Final = {plain_model(name): name for name in MODELS}


def find(name: str) -> Model:
    """A known model, as we or its vendor spell it, or the one that a Hugging Face config.json describes.

    Raises:
        InputError: the name is unknown, or the file is not such a config.
    """
    if name in MODELS:
        return MODELS[name]
    path = Path(name)
    if not os.path.exists(name):  # noqa: PTH110 (Path.exists() raises on names that are too long)
        found = None if _is_path(name) else _PLAIN.get(plain_model(name))
        if found is None:
            raise InputError(_unknown(name))
        return MODELS[found]
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        return _from_config(path.parent.name or path.stem, config.get("text_config", config))
    except OSError as error:
        raise InputError(
            f"--model {name}: cannot read it ({error.strerror}); pass a Hugging Face config.json."
        ) from None
    except (ValueError, AttributeError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise InputError(f"--model {name} is not a Hugging Face model config ({error!r} in it).") from None


def _is_path(name: str) -> bool:
    """Whether a name can only be a file's: a model's has at most its vendor before it."""
    return name.endswith(".json") or name.startswith(("/", "./", "../", "~")) or name.count("/") > 1


def _unknown(name: str) -> str:
    """What to say of a name that is neither a model's nor a file's."""
    remedy = f"a Hugging Face config.json or one of {', '.join(MODELS)}."
    if _is_path(name):
        return f"--model {name}: there is no file {name}; pass {remedy}"
    near = difflib.get_close_matches(plain_model(name), _PLAIN, n=1, cutoff=0.75)
    hint = f"did you mean {_PLAIN[near[0]]}? Pass" if near else "pass"
    return f"--model {name} is unknown; {hint} {remedy}"


def _from_config(name: str, config: Mapping[str, Any]) -> Model:
    layers = int(config["num_hidden_layers"])
    full, windowed = _layer_kinds(layers, config)
    window = int(config.get("sliding_window") or 0) if windowed else 0
    if config.get("kv_lora_rank"):
        latent = int(config["kv_lora_rank"]) + int(config["qk_rope_head_dim"])
        model = Model(name, full, latent=latent, window_layers=windowed, window=window)
    else:
        heads = int(config["num_attention_heads"])
        head_dim = int(config.get("head_dim") or int(config["hidden_size"]) // heads)
        kv_heads = int(config.get("num_key_value_heads") or heads)
        model = Model(name, full, kv_heads, head_dim, window_layers=windowed, window=window)
    if not 0 < model.sizes("fp16", 1).per_token < 2**40 or not 0 <= window < 2**31:
        raise ValueError("no plausible bytes per token")
    return model


def _layer_kinds(layers: int, config: Mapping[str, Any]) -> tuple[int, int]:
    """(layers that keep all tokens, layers that keep a window), by the conventions of transformers' configs."""
    if kinds := config.get("layer_types"):
        stored = {"full_attention", "sliding_attention"}
        # A linear-attention layer keeps a state of fixed size, no KV per token.
        if unknown := set(kinds) - stored - {"linear_attention"}:
            raise ValueError(f"layer type {unknown.pop()!r}")
        return kinds.count("full_attention"), kinds.count("sliding_attention")
    if not config.get("sliding_window") or config.get("use_sliding_window") is False:
        return layers, 0
    if pattern := config.get("sliding_window_pattern"):  # every n-th layer keeps all
        return layers // int(pattern), layers - layers // int(pattern)
    if "use_sliding_window" in config:  # the layers from max_window_layers on
        full = min(layers, int(config.get("max_window_layers", 0)))
        return full, layers - full
    if config.get("model_type") == "gemma2":  # every other layer slides, the first one does
        return layers // 2, layers - layers // 2
    if config.get("model_type") in ("mistral", "mixtral", "phi3", "starcoder2"):
        return 0, layers
    raise ValueError("sliding_window without layer_types, of a model_type whose layers are not known")
