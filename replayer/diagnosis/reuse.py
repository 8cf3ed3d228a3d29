"""Reuse in a trace's prompts: what no cache can change."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replayer.planning.workload import Workload


@dataclass(frozen=True, eq=False)
class PromptReuse:
    """Sums over the prompts of a trace.

    Attributes:
        prompt_tokens: tokens of all prompts.
        reused_tokens: the tokens of objects that an op before was on.
        stored_tokens: those of them that chunks let a tier store.
        object_bytes: bytes of each object that is stored at all, shape (objects,).
        reused_bytes: bytes of all objects that are used twice or more.
        once_bytes: bytes of all objects that are used once.
        prefix_bytes: bytes of the objects that each request uses again, shape (requests with any,).
    """

    prompt_tokens: int
    reused_tokens: int
    stored_tokens: int
    object_bytes: NDArray[np.int64]
    reused_bytes: int
    once_bytes: int
    prefix_bytes: NDArray[np.int64]

    @classmethod
    def of(cls, workload: Workload) -> "PromptReuse":
        """Measure the prompts of a trace, as its objects are stored."""
        request, key, is_again = workload.prompts()
        sizes = workload.sizes()
        tokens = workload.tokens(key.astype(np.int64))
        spared = workload.spared_tokens()[key]
        uses = np.bincount(key, minlength=workload.keys)
        prefix = np.bincount(request[is_again], sizes[key[is_again]], minlength=workload.requests)
        return cls(
            prompt_tokens=int(tokens.sum(dtype=np.int64)),
            reused_tokens=int(tokens[is_again].sum(dtype=np.int64)),
            stored_tokens=int(spared[is_again].sum(dtype=np.int64)),
            object_bytes=sizes[(uses > 0) & (sizes > 0)],
            reused_bytes=int(sizes[uses > 1].sum()),
            once_bytes=int(sizes[uses == 1].sum()),
            prefix_bytes=prefix[prefix > 0].astype(np.int64),
        )
