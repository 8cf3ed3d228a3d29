"""Loading against computing, with numbers worked by hand."""

import numpy as np
import pytest

from replayer.planning.counts import GIB
from replayer.questions.size import BreakEven, weigh_loading


def weigh(prefill_tok_s: float, *each: tuple[int, int, int]) -> BreakEven:
    weighed = weigh_loading(np.array(each, np.int64), GIB // 1000, 1.0, prefill_tok_s)
    assert weighed is not None
    return weighed


def test_sums_and_the_rates_at_which_both_are_equal() -> None:
    """Nvme serves 1,000 tokens/s, the GPU computes 500; 400 of 1,000 tokens are on nvme."""
    weighed = weigh(500.0, (1000, 400, 400))
    assert weighed.load_tok_s == pytest.approx(1000, rel=1e-5)
    assert weighed.recompute_s == 2.0
    assert weighed.load_then_compute_s == pytest.approx(0.4 + 1.2, rel=1e-5)
    assert weighed.layer_by_layer_s == pytest.approx(1.2, rel=1e-5)
    # At 2,500 tokens/s, computing all takes the 0.4 s that loading takes.
    assert weighed.equal_layer_by_layer_tok_s == pytest.approx(2500, rel=1e-5)


def test_prompts_overlap_one_by_one_and_not_in_their_sum() -> None:
    """One prompt is all on nvme and one is all new: there is nothing to hide loading behind."""
    weighed = weigh(1000.0, (1000, 1000, 1000), (1000, 0, 0))
    assert weighed.layer_by_layer_s == pytest.approx(weighed.load_then_compute_s, rel=1e-9)
    assert weighed.equal_layer_by_layer_tok_s == pytest.approx(weighed.load_tok_s, rel=1e-9)


def test_hits_in_memory_take_no_time_either_way() -> None:
    weighed = weigh(1000.0, (1000, 900, 0), (100, 100, 100))
    assert (weighed.recompute_s, weighed.load_then_compute_s) == (0.2, pytest.approx(0.2, rel=1e-5))
    assert weigh_loading(np.array([(1000, 900, 0)]), GIB // 1000, 1.0, 1000.0) is None
