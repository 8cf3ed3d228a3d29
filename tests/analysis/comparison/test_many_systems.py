"""Many systems ranked, and the names they are given."""

from pathlib import Path

import pytest

from tests.analysis.comparison.crafting import compare
from analysis.comparison.matching import name_sets
from tests.analysis.comparison.crafting import render
from tests.analysis.comparison.crafting import Craft, three


def test_several_systems_are_ranked(craft: Craft) -> None:
    sides = {
        "mid": three(craft, "m", (2.0, 2.02, 1.98)),
        "slow": three(craft, "s"),
        "best": three(craft, "f", (4.0, 4.1, 3.9)),
    }
    found = compare(sides)
    assert found.ranking == ["best", "mid", "slow"]
    assert [(pair.a, pair.b) for pair in found.pairs] == [("mid", "best"), ("slow", "best")]
    assert [pair.ratios["decode_read_gib_s"].ratio for pair in found.pairs] == [
        pytest.approx(0.5),
        pytest.approx(3.01 / 12),
    ]
    text = render(found)
    assert text.index("1  best") < text.index("2  mid") < text.index("3  slow")
    assert "worse than the best" in text


def test_configurations_are_matched_across_all_systems(craft: Craft) -> None:
    sides = {
        side: [craft(f"{side}-{n}", conditions={"users": n}) for n in users]
        for side, users in (("a", (1, 2)), ("b", (1, 2)), ("c", (2, 3)))
    }
    found = compare(sides)
    assert [configuration.conditions.users for configuration in found.configurations] == [2]
    assert len(found.unmatched) == 3


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([["r/fast-1", "r/fast-2"], ["r/slow-1", "r/slow-2"]], ["fast", "slow"]),
        ([["r/run1"], ["r/run2"]], ["run1", "run2"]),
        ([["x/run-1", "x/run-2"], ["y/run-1", "y/run-2"]], ["x", "y"]),
        ([["s/x/opt1/t0", "s/x/opt2/t0"], ["s/y/opt1/t0", "s/y/opt2/t0"]], ["x", "y"]),
        ([["r/run-11", "r/run-12"], ["r/run-13", "r/run-14"]], ["run-11 …", "run-13 …"]),
        ([["r/p5-11", "r/p5-12"], ["r/p6-11"]], ["p5", "p6-11"]),
    ],
)
def test_systems_have_short_names(sets: list[list[str]], expected: list[str]) -> None:
    assert name_sets([[Path(run) for run in runs] for runs in sets]) == expected
