"""Many systems ranked, and the names they are given."""

from pathlib import Path

import pytest

from analysis.comparison.matching import name_sets
from tests.analysis.comparison.crafting import GIB, Craft, compare, render, three


def test_several_systems_are_ranked(craft: Craft) -> None:
    sides = {
        "slow": three(craft, "s"),
        "mid": three(craft, "m", (2.0, 2.02, 1.98)),
        "best": three(craft, "f", (4.0, 4.1, 3.9)),
    }
    found = compare(sides)
    assert found.ranking == ["best", "mid", "slow"]
    assert [(pair.name, pair.baseline) for pair in found.pairs] == [("mid", "best"), ("slow", "best")]
    sentence = render(found).splitlines()[-1]
    assert sentence.startswith("Against best, equal work per second: mid 0.50 × (95% interval ")
    assert sentence.index("mid") < sentence.index("slow")
    assert [pair.ratios["decode_read_gib_s"].ratio for pair in found.pairs] == [
        pytest.approx(0.5, rel=1e-3),
        pytest.approx(0.25, rel=1e-2),
    ]


def test_systems_with_other_units_of_work_have_rows_of_their_own(craft: Craft) -> None:
    """The plan follows from the size of a tier, so that system is compared by tokens."""
    sizes = {"usable_bytes": {"gpu": 0, "cpu": 4 * GIB, "nvme": None}}
    runs = {"a": three(craft, "a"), "b": three(craft, "b", conditions=sizes), "c": three(craft, "c")}
    lines = render(compare(runs, vary=["usable_bytes"])).splitlines()
    for system, unit in (("a", "GiB/s"), ("b", "tokens/s of prompts and answers")):
        assert any(line.startswith(f"  equal work, {unit}: {system} ") for line in lines)


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([["r/fast-1", "r/fast-2"], ["r/slow-1", "r/slow-2"]], ["fast", "slow"]),
        ([["r/run1"], ["r/run2"]], ["run1", "run2"]),
        ([["x/run-1", "x/run-2"], ["y/run-1", "y/run-2"]], ["x", "y"]),
        ([["s/x/opt1/t0", "s/x/opt2/t0"], ["s/y/opt1/t0", "s/y/opt2/t0"]], ["x", "y"]),
        ([["r/run-11", "r/run-12"], ["r/run-13", "r/run-14"]], ["run-11 …", "run-13 …"]),
        ([["r/p5-11", "r/p5-12"], ["r/p6-11"]], ["p5", "p6-11"]),
        (
            [["s/dram/t1"], ["s/drive-arrangement=aibrix-hot/t1"], ["s/drive-arrangement=vllm/t1"]],
            ["dram", "aibrix-hot", "vllm"],
        ),
        ([["s/drive-arrangement=aibrix-hot/t1"], ["s/other-arrangement=aibrix-hot/t1"]], ["set 1", "set 2"]),
    ],
)
def test_systems_have_short_names(sets: list[list[str]], expected: list[str]) -> None:
    assert name_sets([[Path(run) for run in runs] for runs in sets]) == expected
