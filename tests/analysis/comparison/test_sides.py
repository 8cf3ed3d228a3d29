"""Systems of a report against one of them: ratios by hand, and refusals."""

import math
from pathlib import Path

import pytest

from analysis.comparison.answer import list_remarks, list_rows
from analysis.comparison.ratios import EQUAL_WORK
from analysis.comparison.sentences import describe_comparison, format_interval
from tests.analysis.comparison.crafting import Craft, compare_found, three

DRIVES = {
    "elapsed_s": (13.0, 10.0),
    "wall_clock_tok_s": (1000.0, 1300.0),
    "nvme_read_gib_s": (2.0, 3.0),
    "nvme_read_p95_ms": (30.0, 20.0),
    "ttfb_p95_ms": (90.0, 90.0),
    "decode_read_gib_s": (0.0, 0.0),
}
"""Values of an old and of a new drive."""


def drive(craft: Craft, name: str, side: int) -> list[Path]:
    """Make three trials whose rates are 1% below, at, and 1% above those of DRIVES; TTFT differs by 10%."""
    runs = []
    for trial, factor in enumerate((0.99, 1.0, 1.01)):
        values = {metric: pair[side] * factor for metric, pair in DRIVES.items()}
        values["elapsed_s"] = DRIVES["elapsed_s"][side] / factor
        values["ttfb_p95_ms"] = DRIVES["ttfb_p95_ms"][side] * (1 + (factor - 1) * 10)
        runs.append(craft(f"{name}-{trial}", values=values))
    return runs


def test_two_drives_worked_by_hand(craft: Craft) -> None:
    """3.0 / 2.0 = 1.5, 20 / 30 = 0.667, 1300 / 1000 = 1.3; both sides have the same spread.

    Logs of 0.99, 1 and 1.01 have the variance 1.00007e-4, t(0.975; 4) is 2.7764: half is 2.7764 × √(2 × 1.00007e-4 ÷ 3).
    """
    found = compare_found({"old": drive(craft, "old", 0), "new": drive(craft, "new", 1)})
    (new,) = found.pairs
    assert {metric: round(ratio.ratio or 0, 6) for metric, ratio in new.ratios.items()} == {
        EQUAL_WORK: 1.3,
        "wall_clock_tok_s": 1.3,
        "nvme_read_gib_s": 1.5,
        "nvme_read_p95_ms": 0.666667,
        "ttfb_p95_ms": 1.0,
    }
    reads = new.ratios["nvme_read_gib_s"]
    half = 2.7764 * math.sqrt(2 * 1.00007e-4 / 3)
    assert (reads.low, reads.high) == pytest.approx((1.5 * math.exp(-half), 1.5 * math.exp(half)), rel=1e-5)
    assert describe_comparison(found) == (
        "new is better than old: equal work per second and tokens/s 1.30 × (95% interval 1.27 to 1.33),"
        " P95 of NVMe reads 0.67 × (0.65 to 0.68);"
        " no difference shown: P95 of the storage part of TTFT 1.0 × (0.8 to 1.3)."
    )
    rows = [(row.old, row.new, format_interval(row.ratio)[0], row.ratio.winner) for row in list_rows(found)]
    assert rows == [
        ("0.0150", "0.0195", "1.30 ×", "new"),
        ("1,000", "1,300", "1.30 ×", "new"),
        ("2", "3", "1.50 ×", None),  # shown, and not one of the metrics named beforehand
        ("30", "20", "0.67 ×", "new"),
        ("90", "90", "1.0 ×", None),
    ]


def test_another_load_is_refused_unless_a_baseline_is_named(craft: Craft) -> None:
    systems = {
        "few": three(craft, "few", conditions={"users": 4}),
        "many": three(craft, "many", (1.9, 2.0, 2.1), conditions={"users": 8}),
    }
    refused = compare_found(systems)
    assert refused.compared == []
    assert describe_comparison(refused) == (
        "many is not compared with few: they ran another load: users 8 (many) against 4 (few)."
    )
    assert list_rows(refused) == []
    given = compare_found(systems, is_given=True)
    assert describe_comparison(given).startswith("many is better than few: equal work per second")
    assert "They differ in users 8 (many) against 4 (few)." in list_remarks(given)


def test_other_traces_are_never_compared(craft: Craft) -> None:
    systems = {"chat": three(craft, "c"), "rag": three(craft, "r", trace="other", plan="q")}
    for is_given in (False, True):
        found = compare_found(systems, is_given=is_given)
        assert found.pairs[0].why == "they replayed different traces"
        assert found.ranking == ["chat"]


def test_a_system_without_a_valid_run_is_refused(craft: Craft) -> None:
    found = compare_found({"old": three(craft, "o"), "new": []})
    assert found.pairs[0].why == "no valid run of new"


def test_several_configurations_have_a_row_each(craft: Craft) -> None:
    """The ratios are 2 and 8: their geometric mean is 4."""
    systems = {
        side: [
            craft(f"{side}-{users}-{trial}", speed * factor, conditions={"users": users})
            for users, factor in ((4, 1.0), (8, growth))
            for trial in range(2)
        ]
        for side, speed, growth in (("old", 1.0, 1.0), ("new", 2.0, 4.0))
    }
    found = compare_found(systems)
    rows = [row for row in list_rows(found) if row.label.startswith("throughput, tok/s: ")]
    assert [(row.label.partition(": ")[2], row.old, row.new, row.ratio.ratio) for row in rows] == [
        ("all configurations", "", "", pytest.approx(4.0)),
        ("users 4", "100", "200", pytest.approx(2.0)),
        ("users 8", "100", "800", pytest.approx(8.0)),
    ]
    assert "over 2 of 2 configurations" in describe_comparison(found)
