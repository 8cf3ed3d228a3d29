"""Numbers with their nouns."""

from collections.abc import Callable

import pytest

from analysis import wording as analysis_wording
from replayer import wording as replayer_wording


@pytest.mark.parametrize("counted", [analysis_wording.counted, replayer_wording.counted])
def test_one_is_singular_and_nothing_else_is(counted: Callable[..., str]) -> None:
    assert [counted(number, "trial") for number in (0, 1, 2, 1000)] == [
        "0 trials",
        "1 trial",
        "2 trials",
        "1,000 trials",
    ]
    assert [counted(number, "criterion", "criteria") for number in (1, 5)] == ["1 criterion", "5 criteria"]
