"""The kind of each layer, by the conventions of transformers' configs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

# What a layer is: attention of a kind; a state; both side by side; or without a cache.
LayerKind = Literal["full", "window", "chunked", "indexed", "linear", "parallel", "nothing"]


class UnknownCacheError(Exception):
    """A config describes layers whose cache is not known; the text is a noun phrase."""


# Kinds by the words in `layer_types` and `layers_block_type`.
_KINDS: Final[Mapping[str, LayerKind]] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "chunked",
    "indexed_attention": "indexed",
    "deepseek_sparse_attention": "indexed",
    "linear_attention": "linear",
    "mamba": "linear",
    "mlp": "nothing",
    "moe": "nothing",
}

# Kinds by the letters in Nemotron-H's `hybrid_override_pattern`.
_PATTERN_LETTERS: Final[Mapping[str, LayerKind]] = {"M": "linear", "*": "full", "-": "nothing", "E": "nothing"}

# Keys of architectures whose cache is another than their other keys say.
_UNKNOWN_KEYS: Final = {
    "attn_type_list": "lightning attention",
    "block_configs": "blocks of different sizes",
    "block_types": "recurrent blocks",
    "compress_ratios": "compressed attention",
    "cross_attention_layers": "cross-attention layers",
    "is_encoder_decoder": "an encoder",
    "index_topk_freq": "layers that share an indexer",
    "index_topk_pattern": "layers that share an indexer",
    "attention_other_setting": "layers with a window and heads of their own",
    "swa_head_dim": "layers with a window and heads of their own",
    "swa_num_key_value_heads": "layers with a window and heads of their own",
}

# Keys of states, which some of the layers have.
_STATE_KEYS: Final = ("linear_num_heads", "linear_num_value_heads", "mamba_d_state", "mamba_num_heads")

_ALL_SLIDE: Final = ("mistral", "mixtral", "phi3", "starcoder2")
# Every n-th layer keeps all tokens, by model_type, in configs that do not say so.
_PERIODS: Final = {"gemma2": 2, "gpt_oss": 2, "cohere2": 4, "gemma3_text": 6, "gemma3": 6}


def list_layer_kinds(config: Mapping[str, Any]) -> list[LayerKind]:
    """Return the kind of each decoder layer of a config.

    Raises:
        UnknownCacheError: it has layers of a kind that is not known.
        KeyError: it lacks a key that its layers need.
        ValueError: its values are not those of a model.
    """
    _refuse_unknown(config)
    if named := config.get("layer_types") or config.get("layers_block_type"):
        count = int(config.get("num_hidden_layers") or len(named))
        return [_kind_of(str(name), _KINDS) for name in _first(named, count)]
    count = int(config["num_hidden_layers"])
    if count < 1:
        raise ValueError(f"num_hidden_layers {count}")
    if pattern := config.get("hybrid_override_pattern"):
        return [_kind_of(letter, _PATTERN_LETTERS) for letter in _first(pattern, count)]
    for key, read in _READERS.items():
        if config.get(key) is not None:
            return read(count, config)
    if config.get("model_type") == "falcon_h1":
        return ["parallel"] * count
    if config.get("sliding_window") and config.get("use_sliding_window") is not False:
        return _list_sliding(count, config)
    if any(config.get(key) for key in _STATE_KEYS):
        raise UnknownCacheError("states in layers that it does not name")
    return ["indexed" if config.get("index_head_dim") else "full"] * count


def _refuse_unknown(config: Mapping[str, Any]) -> None:
    """Refuse architectures whose cache is another than the names of their layers say."""
    for key, architecture in _UNKNOWN_KEYS.items():
        if config.get(key):
            raise UnknownCacheError(architecture)
    if set(config.get("indexer_types") or ()) - {"full"}:
        raise UnknownCacheError("layers that share an indexer")


def _kind_of(name: str, kinds: Mapping[str, LayerKind]) -> LayerKind:
    if name not in kinds:
        raise UnknownCacheError(f"layers of type {name!r}")
    return kinds[name]


def _first(named: Sequence[str], count: int) -> Sequence[str]:
    """Return the decoder layers of a list, in which layers for drafts may follow."""
    if len(named) < count or count < 1:
        raise ValueError(f"types of {len(named)} layers for num_hidden_layers {count}")
    return named[:count]


def _every(period: int, count: int, other: LayerKind) -> list[LayerKind]:
    """Return kinds; every `period`-th is full attention, from the `period`-th on."""
    return ["full" if index % period == period - 1 else other for index in range(count)]


def _list_interval(count: int, config: Mapping[str, Any]) -> list[LayerKind]:
    return _every(int(config["full_attention_interval"]), count, "linear")


def _list_kimi(count: int, config: Mapping[str, Any]) -> list[LayerKind]:
    linear = {int(number) - 1 for number in config["linear_attn_config"]["kda_layers"]}
    return ["linear" if index in linear else "full" for index in range(count)]


def _list_bamba(count: int, config: Mapping[str, Any]) -> list[LayerKind]:
    full = set(config["attn_layer_indices"])
    return ["full" if index in full else "linear" for index in range(count)]


def _list_jamba(count: int, config: Mapping[str, Any]) -> list[LayerKind]:
    period, offset = int(config["attn_layer_period"]), int(config["attn_layer_offset"])
    return ["full" if index % period == offset else "linear" for index in range(count)]


def _list_llama4(count: int, config: Mapping[str, Any]) -> list[LayerKind]:
    """Return Llama 4's kinds: layers with positions (RoPE) attend to a chunk."""
    interval = int(config.get("no_rope_layer_interval") or 4)
    listed = config.get("no_rope_layers")
    if not listed:
        return _every(interval, count, "chunked")
    return ["chunked" if has_positions else "full" for has_positions in _first(listed, count)]


# Functions by the key that only configs of their architectures have.
_READERS: Final[Mapping[str, Callable[[int, Mapping[str, Any]], list[LayerKind]]]] = {
    "full_attention_interval": _list_interval,
    "linear_attn_config": _list_kimi,
    "attn_layer_indices": _list_bamba,
    "attn_layer_period": _list_jamba,
    "attention_chunk_size": _list_llama4,
}


def _list_sliding(count: int, config: Mapping[str, Any]) -> list[LayerKind]:
    """Return the kinds of a config with a `sliding_window` and without `layer_types`."""
    model_type = config.get("model_type")
    if period := config.get("sliding_window_pattern") or _PERIODS.get(str(model_type)):
        return _every(int(period), count, "window")
    if "use_sliding_window" in config:  # the layers from max_window_layers on
        first = int(config.get("max_window_layers", 0))
        return ["window" if index >= first else "full" for index in range(count)]
    if model_type in _ALL_SLIDE:
        return ["window"] * count
    raise UnknownCacheError("a sliding_window without layer_types")
