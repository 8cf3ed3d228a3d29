"""Loading KV from nvme, against computing it again (`docs/worth-it.md`)."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from replayer.sizing.halves import GIB, Prompts

_HALVINGS: Final = 60  # of an interval of prefill rates: to the last bit


@dataclass(frozen=True)
class BreakEven:
    """Seconds to get the KV of all prompts, and the prefill rates at which ways are equally fast.

    Hits in gpu and cpu take no time here.

    Attributes:
        prefill_tok_s: tokens that a GPU computes per second.
        load_tok_s: tokens that nvme delivers per second.
        recompute_s: to compute all tokens of all prompts.
        load_then_compute_s: to load the hits of each prompt, then compute its other tokens.
        layer_by_layer_s: the longer of both, prompt by prompt.
        equal_tok_s: prefill rate below which loading first is faster than computing all; None if
            nothing is loaded.
        equal_layer_by_layer_tok_s: the same, for loading layer by layer.
    """

    prefill_tok_s: float
    load_tok_s: float
    recompute_s: float
    load_then_compute_s: float
    layer_by_layer_s: float
    equal_tok_s: float | None
    equal_layer_by_layer_tok_s: float | None


def weigh_loading(
    prompts: Prompts,
    bytes_per_token: int,
    nvme_gib_s: float,
    prefill_tok_s: float,
) -> BreakEven:
    """Compare loading from nvme with computing, over all prompts of a trace.

    Args:
        prompts: tokens of each prompt, and who serves them.
        bytes_per_token: KV cache bytes of a token.
        nvme_gib_s: GiB/s at which a request reads nvme.
        prefill_tok_s: tokens per second of a prefill.
    """
    load_tok_s = nvme_gib_s * GIB / bytes_per_token
    computed = prompts.asked - prompts.spared
    load_s = prompts.from_nvme / load_tok_s
    compute_s = computed / prefill_tok_s
    loads = bool(prompts.from_nvme.any())
    return BreakEven(
        prefill_tok_s=prefill_tok_s,
        load_tok_s=load_tok_s,
        recompute_s=float((computed + prompts.from_nvme).sum() / prefill_tok_s),
        load_then_compute_s=float((load_s + compute_s).sum()),
        layer_by_layer_s=float(np.maximum(load_s, compute_s).sum()),
        equal_tok_s=load_tok_s if loads else None,
        equal_layer_by_layer_tok_s=_equal_rate(prompts, load_tok_s) if loads else None,
    )


def _equal_rate(prompts: Prompts, load_tok_s: float) -> float:
    """Return the prefill rate at which loading layer by layer takes as long as computing all.

    At rate P, loading takes P × Σ max(load, computed ÷ P) token times, which grows with P, and
    computing a constant number: so there is one such rate.
    """
    computed = prompts.asked - prompts.spared
    load_s = prompts.from_nvme / load_tok_s
    total = float((computed + prompts.from_nvme).sum())
    low = load_tok_s
    high = total / float(load_s.sum())  # there, loading alone takes as long
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(np.maximum(middle * load_s, computed).sum()) < total:
            low = middle
        else:
            high = middle
    return high
