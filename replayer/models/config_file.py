"""Models as a Hugging Face config.json describes them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from replayer.models.caches import attention, delta_net, latent_attention, mamba1, mamba2
from replayer.models.geometry import Layer, LayerCache, Model
from replayer.models.layer_kinds import LayerKind, UnknownCacheError, list_layer_kinds
from replayer.record.run_parts import MOST_STATE_BYTES, MOST_TOKEN_BYTES
from tracegen.errors import InputError, check_is_file

_STATE_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2, "auto": 2}
_MAX_TOKENS: Final = 2**31
# Configs come from anywhere: values of any type, and nested as deeply as JSON allows.
_NO_CONFIG: Final = (ValueError, AttributeError, TypeError, KeyError, ArithmeticError, RecursionError)


def read_config(path: Path) -> Model:
    """Read a Hugging Face config.json; the model is named after its folder.

    Raises:
        InputError: the file cannot be read, is no model's, or describes layers whose cache is not
            known.
    """
    check_is_file(path, "a Hugging Face config.json")
    remedy = "pass a Hugging Face config.json with num_hidden_layers, num_attention_heads and hidden_size"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        return parse_config(path.parent.name or path.stem, config)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    except UnknownCacheError as error:
        problem = f"has {error}, whose KV cache is not known"
        remedy = "pass the config.json of another model"
    except _NO_CONFIG as error:
        cause = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else f"{error!r} in it"
        problem = f"is not a Hugging Face model config ({cause})"
    raise InputError(problem, remedy, subject=path, setting="model")


def parse_config(name: str, config: Mapping[str, Any]) -> Model:
    """Return the model that a config describes, by the names of transformers' configs.

    Args:
        name: of the model.
        config: content of the config.json; that of a multimodal model has a `text_config`.

    Raises:
        UnknownCacheError: it has layers whose cache is not known.
        KeyError: it lacks a key that its layers need.
        ValueError: its values are not those of a model.
    """
    text = config.get("text_config", config)
    kinds = list_layer_kinds(text)
    # transformers 5 numbers layers in text: "05".
    overrides = {int(index): own for index, own in (text.get("per_layer_config") or {}).items()}
    layers = []
    for index, kind in enumerate(kinds):
        layers.append(_describe(kind, {**text, **overrides.get(index, {})}))
    for index in _list_shared(text, len(kinds)):
        layers[index] = ()
    model = Model(name, tuple(layers))
    _check(model)
    return model


def _check(model: Model) -> None:
    """Refuse models of sizes that no model has."""
    caches = [group.cache for group in model.groups]
    tensors = [tensor for cache in caches for tensor in cache.tensors]
    if any(tensor.heads < 1 or tensor.elements < 1 for tensor in tensors):
        raise ValueError("heads or elements below 1")
    sizes = model.sizes("fp16")
    if not 0 < sizes.per_token < MOST_TOKEN_BYTES or not 0 <= sizes.state < MOST_STATE_BYTES:
        raise ValueError("no plausible bytes per token")
    windows = {cache.window for cache in caches if cache.window}
    if len(windows) > 1:
        raise UnknownCacheError(f"windows of different lengths ({sorted(windows)})")
    if any(not 0 < window < _MAX_TOKENS for window in windows):
        raise ValueError("no plausible window")


def _describe(kind: LayerKind, config: Mapping[str, Any]) -> Layer:
    """Return what a layer of this kind keeps."""
    if kind == "nothing":
        return ()
    if kind == "linear":
        return (_describe_state(config),)
    if kind == "parallel":
        return _describe_attention("full", config), _describe_state(config)
    return (_describe_attention(kind, config),)


def _describe_attention(kind: LayerKind, config: Mapping[str, Any]) -> LayerCache:
    if config.get("kv_lora_rank"):
        latent = int(config["kv_lora_rank"]) + int(config["qk_rope_head_dim"])
        if kind not in ("full", "indexed"):
            raise UnknownCacheError("latent attention with a window")
        return latent_attention(latent, int(config.get("index_head_dim") or 0))
    if kind == "indexed":
        raise UnknownCacheError("indexed attention without a latent")
    kv_heads, head_dim = _read_heads(config)
    if kind == "window":
        return attention(kv_heads, head_dim, _read_window(config, "sliding_window"))
    if kind == "chunked":
        chunk = _read_window(config, "attention_chunk_size")
        return attention(kv_heads, head_dim, chunk, "chunked")
    if config.get("global_head_dim"):  # Gemma 4: its full layers have heads of their own
        head_dim = int(config["global_head_dim"])
        if config.get("attention_k_eq_v"):
            kv_heads = int(config.get("num_global_key_value_heads") or kv_heads)
    return attention(kv_heads, head_dim)


def _read_heads(config: Mapping[str, Any]) -> tuple[int, int]:
    """Return the KV heads, and the elements of each."""
    heads = int(config["num_attention_heads"])
    head_dim = config.get("head_dim") or config.get("attention_head_dim")
    kv_heads = int(config.get("num_key_value_heads") or heads)
    if config.get("v_head_dim") not in (None, head_dim):
        raise UnknownCacheError("values of another size than keys")
    return kv_heads, int(head_dim or int(config["hidden_size"]) // heads)


def _read_window(config: Mapping[str, Any], key: str) -> int:
    if not config.get(key):
        raise KeyError(key)
    return int(config[key])


def _describe_state(config: Mapping[str, Any]) -> LayerCache:
    """Return the state of a layer, by the keys that describe it."""
    state_type = config.get("mamba_ssm_dtype") or config.get("mamba_ssm_cache_dtype") or "auto"
    if state_type not in _STATE_BYTES:
        raise UnknownCacheError(f"a state of type {state_type!r}")
    state_bytes = _STATE_BYTES[state_type]
    if "linear_num_value_heads" in config:  # Qwen3-Next, Qwen3.5
        parts = ("num_key_heads", "key_head_dim", "num_value_heads", "value_head_dim")
        names = [f"linear_{name}" for name in (*parts, "conv_kernel_dim")]
        return delta_net(*[*_read_numbers(config, *names), state_bytes])
    if linear := config.get("linear_attn_config"):  # Kimi Linear: its state is always float32
        heads, head_dim, kernel = _read_numbers(linear, "num_heads", "head_dim", "short_conv_kernel_size")
        return delta_net(heads, head_dim, heads, head_dim, kernel, 4)
    if "linear_num_heads" in config:  # Kimi Linear, as transformers 5 writes it
        heads, head_dim = _read_numbers(config, "linear_num_heads", "linear_head_dim")
        (kernel,) = _read_numbers(config, "linear_conv_kernel_dim")
        return delta_net(heads, head_dim, heads, head_dim, kernel, 4)
    if "mamba_num_heads" in config:  # Nemotron-H
        groups = "n_groups" if "n_groups" in config else "mamba_n_groups"
        width = "conv_kernel" if "conv_kernel" in config else "mamba_d_conv"
        keys = ("mamba_num_heads", "mamba_head_dim", groups, "ssm_state_size", width)
        return mamba2(*[*_read_numbers(config, *keys), state_bytes])
    if "mamba_d_state" in config:
        return _describe_mamba(config, state_bytes)
    raise UnknownCacheError("linear attention without the sizes of its state")


def _read_numbers(config: Mapping[str, Any], *keys: str) -> list[int]:
    return [int(config[key]) for key in keys]


def _describe_mamba(config: Mapping[str, Any], state_bytes: int) -> LayerCache:
    """Return the state of Jamba's layers, or of those of Bamba, Granite 4 and Falcon-H1."""
    state_size, kernel = _read_numbers(config, "mamba_d_state", "mamba_d_conv")
    channels = int(config.get("mamba_d_ssm") or 0)
    if not channels:
        expand, hidden = _read_numbers(config, "mamba_expand", "hidden_size")
        channels = expand * hidden
    if "mamba_n_heads" not in config:
        return mamba1(channels, state_size, kernel, state_bytes)
    heads, groups = _read_numbers(config, "mamba_n_heads", "mamba_n_groups")
    if channels % heads:
        raise ValueError(f"{channels} channels of {heads} heads")
    return mamba2(heads, channels // heads, groups, state_size, kernel, state_bytes)


def _list_shared(config: Mapping[str, Any], layers: int) -> list[int]:
    """Return the layers that read another layer's keys and values and keep none themselves."""
    last = int(config.get("num_kv_shared_layers") or 0)  # Gemma 3n, Gemma 4
    factor = int(config.get("cla_share_factor") or 1) if config.get("use_cla") else 1  # Hunyuan
    if not 0 <= last < layers or factor < 1:
        raise ValueError(f"num_kv_shared_layers {last}, cla_share_factor {factor}")
    return [index for index in range(layers) if index >= layers - last or index % factor]
