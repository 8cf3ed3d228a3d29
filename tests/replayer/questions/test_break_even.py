"""Loading against computing, with numbers worked by hand."""

import numpy as np
import pytest

from replayer.planning.counts import GIB, Numbers
from replayer.questions.size import weigh_loading


def prompts(*each: tuple[int, int, int]) -> Numbers:
    return np.array(each, np.int64)


def test_sums_and_the_rates_at_which_both_are_equal() -> None:
    """Nvme serves 1,000 tokens/s, the GPU computes 500; 400 of 1,000 tokens are on nvme."""
    weighed = weigh_loading(prompts((1000, 400, 400)), GIB // 1000, 1.0, 500.0)
    assert weighed.load_tok_s == pytest.approx(1000, rel=1e-5)
    assert weighed.recompute_s == 2.0
    assert weighed.load_then_compute_s == pytest.approx(0.4 + 1.2, rel=1e-5)
    assert weighed.layer_by_layer_s == pytest.approx(1.2, rel=1e-5)
    assert weighed.equal_tok_s == weighed.load_tok_s
    # At 2,500 tokens/s, computing all takes the 0.4 s that loading takes.
    assert weighed.equal_layer_by_layer_tok_s == pytest.approx(2500, rel=1e-5)


def test_prompts_overlap_one_by_one_and_not_in_their_sum() -> None:
    """One prompt is all on nvme and one is all new: there is nothing to hide loading behind."""
    weighed = weigh_loading(prompts((1000, 1000, 1000), (1000, 0, 0)), GIB // 1000, 1.0, 1000.0)
    assert weighed.layer_by_layer_s == pytest.approx(weighed.load_then_compute_s, rel=1e-9)
    assert weighed.equal_layer_by_layer_tok_s == pytest.approx(weighed.load_tok_s, rel=1e-9)


def test_hits_in_memory_take_no_time_either_way() -> None:
    weighed = weigh_loading(prompts((1000, 900, 0)), GIB // 1000, 1.0, 1000.0)
    assert weighed.recompute_s == weighed.load_then_compute_s == weighed.layer_by_layer_s == 0.1
    assert weighed.equal_tok_s is None
    assert weighed.equal_layer_by_layer_tok_s is None
