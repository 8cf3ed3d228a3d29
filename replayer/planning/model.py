"""Model geometry: the bytes of KV cache that a token takes."""

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
    """The geometry that decides the size of a model's KV cache.

    Attributes:
        name: name of the model.
        layers: number of attention layers that keep every token.
        kv_heads: key-value heads per layer (fewer than query heads under GQA).
        head_dim: elements per head, for keys and for values each.
        latent: elements per token and layer under MLA (kv_lora_rank + qk_rope_head_dim, DeepSeek-V2
            section 2.1); 0 if keys and values are stored per head.
        window_layers: number of attention layers that keep only the last `window` tokens.
        window: number of tokens that those layers keep.
    """

    name: str
    layers: int
    kv_heads: int = 0
    head_dim: int = 0
    latent: int = 0
    window_layers: int = 0
    window: int = 0

    def sizes(self, dtype: str, tensor_parallel: int) -> "TokenBytes":
        """Return the bytes per token that one of `tensor_parallel` ranks stores.

        KV heads are split over the ranks; MLA's latent is replicated.

        Args:
            dtype: type of keys and values, a key of DTYPE_BYTES.
            tensor_parallel: number of ranks.

        Raises:
            InputError: the heads cannot be split over that many ranks.
        """
        has_remainder = tensor_parallel < 1 or (
            not self.latent and self.kv_heads % tensor_parallel and tensor_parallel % self.kv_heads
        )
        if has_remainder:
            raise InputError(
                f"does not divide the {self.kv_heads} KV heads of {self.name}",
                "pass a divisor or a multiple of them",
                subject=tensor_parallel,
                setting="tensor_parallel",
            )
        heads = max(1, self.kv_heads // tensor_parallel)
        layer_bytes = (self.latent or 2 * heads * self.head_dim) * DTYPE_BYTES[dtype]
        full = self.layers * layer_bytes
        return TokenBytes(full, self.window_layers * layer_bytes, self.window)


@dataclass(frozen=True)
class TokenBytes:
    """Bytes per token, and the window that some layers keep.

    Attributes:
        full: bytes per token in layers that keep all tokens.
        windowed: bytes per token in layers that keep the last `window` tokens.
        window: number of tokens that those layers keep.
    """

    full: int
    windowed: int = 0
    window: int = 0

    @property
    def per_token(self) -> int:
        """Bytes of one token that is inside every window."""
        return self.full + self.windowed

    def object_bytes(self, tokens: NDArray[Any]) -> NDArray[np.int64]:
        """Return the bytes of objects with these numbers of tokens, shape as `tokens`."""
        counts = tokens.astype(np.int64)
        in_window = np.minimum(counts, self.window)
        sizes: NDArray[np.int64] = counts * self.full + in_window * self.windowed
        return sizes


# Geometry as published in each model's config.json; tiny-1b as in kv-cache.py. Windowed layers
# (gpt-oss) count in full here, as in kv-cache.py; with a config.json they count as stored.
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
    return _read_config(Path(name))


def _read_config(path: Path) -> Model:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        return _from_config(path.parent.name or path.stem, config.get("text_config", config))
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})",
            "pass a Hugging Face config.json",
            subject=path,
            setting="model",
        ) from None
    except (
        *(ValueError, AttributeError, TypeError, KeyError),
        *(ArithmeticError, RecursionError),
    ) as error:
        raise InputError(
            f"is not a Hugging Face model config ({error!r} in it)",
            "pass a config.json with num_hidden_layers, num_attention_heads and hidden_size",
            subject=path,
            setting="model",
        ) from None


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


def _from_config(name: str, config: Mapping[str, Any]) -> Model:
    """Return the model that a config describes, by the names of transformers' configs."""
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
    """Return the numbers of layers that keep all tokens and of layers that keep a window.

    The conventions are those of transformers' configs.
    """
    if kinds := config.get("layer_types"):
        stored = {"full_attention", "sliding_attention"}
        # A linear-attention layer keeps a state of fixed size and no KV per token.
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
    problem = "sliding_window without layer_types"
    raise ValueError(f"{problem}, for a model_type whose layers are not known")
