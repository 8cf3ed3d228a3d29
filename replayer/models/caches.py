"""Caches of layers, by the architecture of their attention or of their state."""

from replayer.models.geometry import CacheTensor, GroupKind, LayerCache

_MODEL_BYTES = 2  # states of convolutions are of the model's type, fp16 or bf16
_INDEXER_BLOCK = 128  # elements that share a scale of 4 bytes


def attention(heads: int, head_dim: int, window: int = 0, kind: GroupKind | None = None) -> LayerCache:
    """Return what attention keeps: a key and a value of `head_dim` elements per KV head.

    Args:
        heads: number of KV heads, fewer than those of queries under GQA.
        head_dim: elements of a head's key, and of its value.
        window: the largest number of tokens kept; 0: all.
        kind: by default window or full.
    """
    kind = kind or ("window" if window else "full")
    return LayerCache(kind, (CacheTensor("KV heads", heads, 2 * head_dim),), window)


def latent_attention(latent: int, indexer_dim: int = 0) -> LayerCache:
    """Return what multi-head latent attention keeps (DeepSeek-V2, section 2.1).

    Args:
        latent: elements of the vector, kv_lora_rank + qk_rope_head_dim.
        indexer_dim: elements of the key of a sparse-attention indexer (DeepSeek-V3.2), which is
            kept as FP8 with a scale of 4 bytes for each 128 elements; 0: no indexer.
    """
    tensors = [CacheTensor("latent vectors", 1, latent)]
    if indexer_dim:
        size = indexer_dim + 4 * -(-indexer_dim // _INDEXER_BLOCK)
        tensors.append(CacheTensor("indexer keys", 1, size, 1))
    return LayerCache("latent", tuple(tensors))


def delta_net(
    key_heads: int, key_dim: int, value_heads: int, value_dim: int, kernel: int, state_bytes: int
) -> LayerCache:
    """Return what a gated delta net keeps (Qwen3-Next, Qwen3.5; Kimi's KDA).

    The convolution keeps the last `kernel` − 1 inputs of queries, keys and values; the recurrence
    keeps a matrix of `key_dim` × `value_dim` per value head.

    Args:
        key_heads: heads of queries, and as many of keys.
        key_dim: elements of such a head.
        value_heads: heads of values.
        value_dim: elements of such a head.
        kernel: width of the convolution.
        state_bytes: bytes of an element of the recurrence's state.
    """
    return LayerCache(
        "state",
        (
            CacheTensor("key heads", key_heads, 2 * key_dim * (kernel - 1), _MODEL_BYTES),
            CacheTensor("value heads", value_heads, value_dim * (kernel - 1), _MODEL_BYTES),
            CacheTensor("value heads", value_heads, key_dim * value_dim, state_bytes),
        ),
    )


def mamba2(heads: int, head_dim: int, groups: int, state_size: int, kernel: int, state_bytes: int) -> LayerCache:
    """Return what a Mamba-2 layer keeps.

    The convolution keeps the last `kernel` − 1 inputs of x, B and C; the recurrence a matrix of
    `head_dim` × `state_size` per head.

    Args:
        heads: number of heads.
        head_dim: elements of a head.
        groups: number of groups that share B and C.
        state_size: elements of the state per channel.
        kernel: width of the convolution.
        state_bytes: bytes of an element of the recurrence's state.
    """
    return LayerCache(
        "state",
        (
            CacheTensor("Mamba heads", heads, head_dim * (kernel - 1), _MODEL_BYTES),
            CacheTensor("Mamba groups", groups, 2 * state_size * (kernel - 1), _MODEL_BYTES),
            CacheTensor("Mamba heads", heads, head_dim * state_size, state_bytes),
        ),
    )


def mamba1(channels: int, state_size: int, kernel: int, state_bytes: int) -> LayerCache:
    """Return what a Mamba layer keeps: per channel `kernel` − 1 inputs, and its state.

    Args:
        channels: number of inner channels.
        state_size: elements of the state per channel.
        kernel: width of the convolution.
        state_bytes: bytes of an element of the state.
    """
    return LayerCache(
        "state",
        (
            CacheTensor("Mamba channels", channels, kernel - 1, _MODEL_BYTES),
            CacheTensor("Mamba channels", channels, state_size, state_bytes),
        ),
    )
