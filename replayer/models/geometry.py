"""Geometry of a model: what each layer keeps of a sequence, and its bytes on one rank."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from tracegen.errors import InputError

if TYPE_CHECKING:  # `--help` names the models and needs no numpy
    import numpy as np
    from numpy.typing import NDArray

DTYPE_BYTES: Final = {"fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}

# What a layer keeps.
#
# - full: keys and values of every token.
# - window: those of the last tokens.
# - chunked: those of the current chunk, at most as many tokens as a chunk has.
# - latent: one vector per token from which keys and values follow (MLA).
# - state: no token, but a state of fixed size.
GroupKind = Literal["full", "window", "chunked", "latent", "state"]
# The kinds that keep a limited number of tokens.
LIMITED: Final = ("window", "chunked")


@dataclass(frozen=True)
class CacheTensor:
    """A tensor that a layer keeps, for each token or, as a state, for a sequence.

    Attributes:
        parts: what `heads` counts, for messages.
        heads: number of parts that tensor parallelism divides; 1 if each rank holds all of it.
        elements: number of elements of each part.
        element_bytes: bytes of an element; None: those of the type of keys and values.
    """

    parts: str
    heads: int
    elements: int
    element_bytes: int | None = None

    def rank_bytes(self, dtype: str, tensor_parallel: int) -> int:
        """Return the bytes on one of `tensor_parallel` ranks; ranks above `heads` hold copies.

        Raises:
            InputError: the parts cannot be divided among that many ranks.
        """
        if tensor_parallel < 1 or (self.heads % tensor_parallel and tensor_parallel % self.heads):
            raise InputError(
                f"does not divide the {self.heads} {self.parts}",
                "pass a divisor or a multiple of them",
                subject=tensor_parallel,
                setting="tensor_parallel",
            )
        # Types of states do not follow the type of keys and values.
        element_bytes = self.element_bytes or DTYPE_BYTES[dtype]
        return max(1, self.heads // tensor_parallel) * self.elements * element_bytes


@dataclass(frozen=True)
class LayerCache:
    """Cache of one layer: all that it keeps of a sequence.

    Attributes:
        kind: whether it keeps tokens, and which.
        tensors: kept for each token; those of a state, once.
        window: the largest number of tokens kept, if the kind is window or chunked.
    """

    kind: GroupKind
    tensors: tuple[CacheTensor, ...]
    window: int = 0

    def rank_bytes(self, dtype: str, tensor_parallel: int) -> int:
        """Return the bytes of a token, or of the state, on one rank.

        Raises:
            InputError: it cannot be divided among that many ranks.
        """
        return sum(tensor.rank_bytes(dtype, tensor_parallel) for tensor in self.tensors)


# What a decoder layer keeps: attention, a state, both, or nothing if it shares another's.
Layer = tuple[LayerCache, ...]


@dataclass(frozen=True)
class KvGroup:
    """The layers of a model that keep the same.

    Attributes:
        cache: what each of them keeps.
        layers: their indices, ascending.
    """

    cache: LayerCache
    layers: tuple[int, ...]


@dataclass(frozen=True)
class Model:
    """The geometry that decides the size of a model's KV cache.

    Attributes:
        name: name of the model.
        layers: what each decoder layer keeps, in their order.
        counts_windows_in_full: charge layers with a window as if they kept every token, as
            kv-cache.py does.
    """

    name: str
    layers: tuple[Layer, ...]
    counts_windows_in_full: bool = False

    @cached_property
    def groups(self) -> tuple[KvGroup, ...]:
        """The KV groups, in the order in which their first layers come."""
        places: dict[LayerCache, list[int]] = {}
        for index, layer in enumerate(self.layers):
            for cache in layer:
                places.setdefault(cache, []).append(index)
        return tuple(KvGroup(cache, tuple(indices)) for cache, indices in places.items())

    def sizes(self, dtype: str, tensor_parallel: int = 1, pipeline_parallel: int = 1) -> "TokenBytes":
        """Return the bytes that a rank of the largest pipeline stage stores.

        KV heads and heads of a state are divided among tensor-parallel ranks; a latent vector is
        on each of them. The largest stage has the most bytes per token, then per state.

        Args:
            dtype: type of keys and values, a key of DTYPE_BYTES.
            tensor_parallel: number of ranks that share each layer.
            pipeline_parallel: number of stages that share the layers.

        Raises:
            InputError: the heads or the layers cannot be divided among that many.
        """
        stages = [
            self._stage_bytes(stage, dtype, tensor_parallel)
            for stage in split_layers(len(self.layers), pipeline_parallel)
        ]
        return max(stages, key=lambda sizes: (sizes.per_token, sizes.state))

    def _stage_bytes(self, stage: range, dtype: str, tensor_parallel: int) -> "TokenBytes":
        full = windowed = window = state = 0
        counts = Counter(cache for index in stage for cache in self.layers[index])
        for cache, count in counts.items():
            size = count * cache.rank_bytes(dtype, tensor_parallel)
            if cache.kind == "state":
                state += size
            elif cache.kind in LIMITED and not self.counts_windows_in_full:
                windowed += size
                # A model has one length of windows; others are refused when its config is read.
                window = cache.window
            else:
                full += size
        return TokenBytes(full, windowed, window, state)


def split_layers(layers: int, pipeline_parallel: int) -> Sequence[range]:
    """Split layers among pipeline stages as vLLM does.

    The stages have equally many layers; those that remain go one each to the stages before the
    last, from the back.

    Args:
        layers: number of decoder layers.
        pipeline_parallel: number of stages.

    Returns:
        The layers of each stage.

    Raises:
        InputError: there are more stages than layers, or none.
    """
    if not 0 < pipeline_parallel <= layers:
        raise InputError(
            f"does not fit the {layers} layers",
            "pass 1 or more, and at most the number of layers",
            subject=pipeline_parallel,
            setting="pipeline_parallel",
        )
    each, remaining = divmod(layers, pipeline_parallel)
    first_with_more = pipeline_parallel - 1 - remaining
    stages, start = [], 0
    for stage in range(pipeline_parallel):
        has_more = first_with_more <= stage < pipeline_parallel - 1
        stages.append(range(start, start + each + has_more))
        start = stages[-1].stop
    return stages


@dataclass(frozen=True)
class TokenBytes:
    """Bytes that a rank stores: per token, per token inside a window, and per state.

    Attributes:
        full: bytes per token in layers that keep all tokens.
        windowed: bytes per token in layers that keep the last `window` tokens.
        window: number of tokens that those layers keep.
        state: bytes of the states of all layers that have one, once per object.
    """

    full: int
    windowed: int = 0
    window: int = 0
    state: int = 0

    @property
    def per_token(self) -> int:
        """Bytes of one token that is inside every window."""
        return self.full + self.windowed

    def object_bytes(self, tokens: "NDArray[Any]") -> "NDArray[np.int64]":
        """Return the bytes of objects with these numbers of tokens, shape as `tokens`.

        An object has its tokens in full layers, at most its last `window` tokens in layers with a
        window, and one checkpoint of the state after its last token (docs/models.md).
        """
        import numpy as np  # noqa: PLC0415

        counts = tokens.astype(np.int64)
        in_window = np.minimum(counts, self.window)
        sizes: NDArray[np.int64] = counts * self.full + in_window * self.windowed
        if self.state:
            sizes += np.where(counts > 0, self.state, 0)
        return sizes
