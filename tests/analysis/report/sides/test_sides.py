"""Systems of a report against one of them: ratios by hand, refusals, and the ranking."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from analysis.report.sides.ranking import rank_systems
from analysis.report.sides.remarks import list_remarks, write_sides
from analysis.report.sides.tables import convert_sides, tabulate_side_trials, tabulate_sides

from analysis.report.sides.section import render_sides
from tests.analysis.comparison.crafting import CPU, Craft, resampled_means, three
from tests.analysis.report.sides.comparing import sides_of

DRIVES = {
    "nvme_read_gib_s": (2.0, 3.0),
    "nvme_read_p95_ms": (30.0, 20.0),
    "ttfb_p95_ms": (90.0, 90.0),
    "wall_clock_tok_s": (1000.0, 1300.0),
}
"""Values of an old and of a new drive."""


def drive(craft: Craft, name: str, side: int) -> list[Path]:
    """Make three trials: 1% below, at, and 1% above the values of DRIVES; TTFT differs by 10%."""
    runs = []
    for trial, factor in enumerate((0.99, 1.0, 1.01)):
        values = {metric: pair[side] * factor for metric, pair in DRIVES.items()}
        values["ttfb_p95_ms"] = DRIVES["ttfb_p95_ms"][side] * (1 + (factor - 1) * 10)
        runs.append(craft(f"{name}-{trial}", values=values))
    return runs


def test_two_drives_worked_by_hand(craft: Craft) -> None:
    """3.0 / 2.0 = 1.5, 20 / 30 = 0.667, 1300 / 1000 = 1.3; both sides have the same spread.

    The interval is that of all 27 × 27 pairs of resamples.
    """
    sides = sides_of({"old": drive(craft, "old", 0), "new": drive(craft, "new", 1)})
    (new,) = sides.sides
    assert {metric: round(ratio.ratio or 0, 6) for metric, ratio in new.ratios.items()} == {
        "wall_clock_tok_s": 1.3,
        "nvme_read_gib_s": 1.5,
        "nvme_read_p95_ms": 0.666667,
        "ttfb_p95_ms": 1.0,
    }
    reads = new.ratios["nvme_read_gib_s"]
    means = np.log(resampled_means([0.99, 1.0, 1.01]))
    ends = 1.5 * np.exp(np.quantile(np.subtract.outer(means, means), (0.025, 0.975)))
    assert (reads.low, reads.high) == pytest.approx(tuple(ends))
    assert sides.describe() == (
        "new is better than old: NVMe read rate 1.50 × (95% interval 1.48 to 1.52),"
        " tokens/s 1.30 × (1.28 to 1.32), P95 of NVMe reads 0.67 × (0.66 to 0.68);"
        " no difference shown: P95 of the storage part of TTFT 1.00 × (0.87 to 1.14)."
    )
    (group,) = tabulate_sides(sides)
    assert [(row.old, row.new, row.times, row.tone) for row in group.rows] == [
        ("1,000", "1,300", "1.30 ×", "better"),
        ("2.00", "3.00", "1.50 ×", "better"),
        ("30.0", "20.0", "0.67 ×", "better"),
        ("90.0", "90.0", "1.00 ×", "equal"),
    ]
    assert sides.warnings == [
        "With 3 trials per system, 20% of the metrics of equal systems would be told apart by chance."
    ]
    head, *rows = tabulate_side_trials(sides)
    assert head[:3] == ["system", "trial", "configuration"]
    assert [row[0] for row in rows] == ["old"] * 3 + ["new"] * 3
    assert rows[0][3:5] == ["990", "1.98"]


def test_one_trial_each_has_no_interval_and_no_verdict(craft: Craft) -> None:
    sides = sides_of({"old": [craft("old")], "new": [craft("new", 2.0)]})
    assert sides.describe() == (
        "new against old, no verdict as there is no interval (one trial each): tokens/s 2.00 ×."
    )
    (group,) = tabulate_sides(sides)
    assert {(row.words, row.tone, row.interval) for row in group.rows} == {("no interval: one trial each", "open", "–")}
    mixed = sides_of({"old": three(craft, "b"), "new": [craft("c", 2.0)]})
    assert "(one trial of new)" in mixed.describe()


def test_another_load_is_refused_unless_a_baseline_is_named(craft: Craft) -> None:
    systems = {
        "few": three(craft, "few", conditions={"users": 4}),
        "many": three(craft, "many", (1.9, 2.0, 2.1), conditions={"users": 8}),
    }
    refused = sides_of(systems)
    assert refused.compared == []
    assert refused.describe() == (
        "many is not compared with few: they ran another load: users 8 (many) against 4 (few)."
    )
    assert tabulate_sides(refused) == []
    assert "users 8 (many) against 4 (few)" in render_sides(refused)
    given = sides_of(systems, is_given=True)
    assert given.describe().startswith("many is better than few: tokens/s 1.99 ×")
    assert "They differ in users 8 (many) against 4 (few)." in list_remarks(given)


def test_other_traces_are_never_compared(craft: Craft) -> None:
    systems = {"chat": three(craft, "c"), "rag": three(craft, "r", trace="other", plan="q")}
    for is_given in (False, True):
        sides = sides_of(systems, is_given=is_given)
        assert sides.sides[0].why == "they replayed different traces"
        assert sides.describe() == "rag is not compared with chat: they replayed different traces."
    assert [rank.system for rank in rank_systems(sides)] == ["chat"]


def test_a_system_without_a_valid_run_is_refused(craft: Craft) -> None:
    sides = sides_of({"old": three(craft, "o"), "new": []})
    assert sides.sides[0].why == "no valid run of new"


def test_different_tiers_are_compared_and_what_depends_on_the_work_is_not_judged(craft: Craft) -> None:
    reads = {"nvme_read_gib_s": 2.0, "hit_rate_prompt_tokens": 0.5}
    fewer = {"nvme_read_gib_s": 1.0, "hit_rate_prompt_tokens": 0.75}
    sides = sides_of(
        {
            "drive": three(craft, "d", values=reads),
            "dram": three(craft, "m", conditions=CPU, plan="q", values=fewer),
        }
    )
    (group,) = tabulate_sides(sides)
    rows = {row.ratio.metric: row for row in group.rows}
    assert rows["nvme_read_gib_s"].words == "not judged: it depends on the work"
    assert (rows["hit_rate_prompt_tokens"].old, rows["hit_rate_prompt_tokens"].new) == ("50.0%", "75.0%")
    assert "NVMe read rate" not in sides.describe()
    assert sides.sides[0].varied == ["size of cpu 4 GiB (dram) against 0 GiB (drive)"]


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
    sides = sides_of(systems)
    group = tabulate_sides(sides)[0]
    assert [(row.head, row.old, row.new, row.times) for row in group.rows] == [
        ("all configurations", "", "", "4.00 ×"),
        ("users 4", "100", "200", "2.00 ×"),
        ("users 8", "100", "800", "8.00 ×"),
    ]
    assert "over 2 configurations" in sides.describe()
    assert "geometric mean" in render_sides(sides)


def test_a_ranking_has_intervals_except_for_single_trials(craft: Craft) -> None:
    sides = sides_of({"slow": three(craft, "slow"), "fast": three(craft, "fast", (1.9, 2.0, 2.1))}, is_given=True)
    fast, base = rank_systems(sides)
    assert (fast.system, fast.trials, base.trials) == ("fast", 3, 3)
    assert (fast.low or math.inf) < (fast.speed_up or 0) < (fast.high or 0)
    assert (fast.tok_s_low or math.inf) < (fast.tok_s or 0) < (fast.tok_s_high or 0)
    assert (base.speed_up, base.low) == (1.0, None)
    assert (base.tok_s_low or math.inf) < (base.tok_s or 0), "the baseline's own trials differ, too"
    alone, _ = rank_systems(sides_of({"one": [craft("one")], "two": [craft("two", 2.0)]}))
    assert (alone.trials, alone.low, alone.high, alone.tok_s_low) == (1, None, None, None)


def test_three_systems_have_a_row_each_and_one_sentence(craft: Craft) -> None:
    sides = sides_of(
        {
            "base": three(craft, "b"),
            "same": three(craft, "s", (0.97, 1.0, 1.04)),
            "fast": three(craft, "f", (1.9, 2.0, 2.1)),
            "other": three(craft, "o", conditions={"pace": "open"}),
        }
    )
    text = sides.describe()
    assert text.startswith("Against base, tokens/s: fast 1.99 × (95% interval ")
    assert text.index("fast") < text.index("same")
    assert text.endswith(", no difference shown.")
    assert [row.head for row in tabulate_sides(sides)[0].rows] == ["same", "fast"]
    assert list_remarks(sides)[0] == (
        "other is not compared with base: they ran another load: pace open (other) against asap (base)."
    )


def test_names_are_escaped_and_json_is_plain(craft: Craft) -> None:
    sides = sides_of({"<b>": three(craft, "x"), "a|b": three(craft, "y", (1.9, 2.0, 2.1))})
    page = render_sides(sides)
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    markdown = "\n".join(write_sides(sides, lambda text: text.replace("|", "\\|")))
    assert "| a\\|b |" in markdown
    found = json.loads(json.dumps(convert_sides(sides)))
    assert found["baseline"] == "<b>"
    assert found["systems"][0]["ratios"]["wall_clock_tok_s"]["winner"] == "a|b"
