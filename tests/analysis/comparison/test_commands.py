"""The compare command as a user types it."""

import csv
import json

import pytest

from tests.analysis.comparison.crafting import Craft, three, typed


def test_two_sets_are_compared_as_typed(craft: Craft) -> None:
    fast, slow = three(craft, "fast", (2.0, 2.1, 1.9)), three(craft, "slow")
    done = typed(*fast, "--against", *slow)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert [line.partition(": ")[0] for line in lines[1:3]] == ["  fast", "  slow"]
    (row,) = [line for line in lines if line.startswith("  throughput, tok/s")]
    assert row.endswith("  fast is better")
    assert "doubt: short run (6 of 6 runs): " in done.output
    mixed = typed(fast[0], "--metric", "elapsed_s", *fast[1:], f"--against={slow[0]}", "--json", *slow[1:])
    found = json.loads(mixed.stdout)
    assert list(found["systems"][0]["ratios"]) == ["equal_work", "elapsed_s"]
    assert {system: len(runs) for system, runs in found["runs"].items()} == {"fast": 3, "slow": 3}


def test_json_contains_the_comparison(craft: Craft) -> None:
    runs = (*three(craft, "a", (2.0, 2.2)), "--against", craft("b"), "--against", craft("c", 0.5))
    content = json.loads(typed(*runs, "--json").stdout)
    assert (content["baseline"], content["ranking"]) == ("c", ["a", "b", "c"])
    first = content["systems"][0]
    assert (first["system"], first["ratios"]["decode_read_gib_s"]["verdict"]) == ("a", "no verdict")
    (one,) = first["configurations"]
    assert first["ratios"]["wall_clock_tok_s"]["means"] == [pytest.approx(210), pytest.approx(50)]
    assert one["equal_work"]["reason"] == ""
    assert one["equal_work"]["spans_s"]["c"] == [pytest.approx(20.0)]


def test_csv_has_the_ratios_of_the_text_and_why_there_are_none(craft: Craft) -> None:
    """Values over own windows are no comparison of runs that were cut, so CSV has none."""
    runs = (*three(craft, "a", (2.0, 2.2)), "--against", *three(craft, "b", (1.0, 1.1)))
    (system,) = json.loads(typed(*runs, "--json").stdout)["systems"]
    rows = list(csv.DictReader(typed(*runs, "--csv").stdout.splitlines()))
    assert [row["metric"] for row in rows] == list(system["ratios"])
    for row, ratio in zip(rows, system["ratios"].values(), strict=True):
        assert float(row["ratio"]) == pytest.approx(ratio["ratio"])
        assert (row["verdict"], row["winner"], row["why"]) == (ratio["verdict"], ratio["winner"] or "", ratio["why"])
        assert float(row["mean"]) / float(row["baseline_mean"]) == pytest.approx(2.0)
    assert (rows[0]["metric"], rows[0]["unit"]) == ("equal_work", "bytes/s")


def test_a_single_set_shows_its_statistics(craft: Craft) -> None:
    runs = three(craft, "a", (1.0, 2.0, 3.0))
    done = typed(*runs)
    (row,) = [line for line in done.output.splitlines() if line.startswith("  wall_clock_tok_s ")]
    assert row.split()[1:] == ["3", "50.0%", "200", "100", "200", "45.71", "722.3"]
    statistics = json.loads(typed(*runs, "--json").stdout)["statistics"]
    assert [own["mean"] for own in statistics if own["metric"] == "wall_clock_tok_s"] == [200]
    # ln 100, ln 200 and ln 300 have the mean 5.202 and the deviation 0.556: exp(5.202 ± 4.303 × 0.556 / √3)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["A", "--against"], "--against: needs runs before it and after it"),
        (["--against", "B"], "--against: needs runs before it and after it"),
        (["A", "--against", "B", "--metric", "elapsed"], "did you mean elapsed_s?"),
        (["A", "--against", "B", "--metric", "bottleneck"], "--metric bottleneck: not a number"),
        (["A", "--against", "B", "--vary", "workrs"], "did you mean workers?"),
        (["A", "--against", "missing"], "missing is not a run directory"),
        ([], "Missing argument 'RUNS...'"),
    ],
)
def test_wrong_usage_is_refused_in_one_sentence(craft: Craft, command: list[str], sentence: str) -> None:
    place = {name: craft(name) for name in "AB"}
    done = typed(*(place.get(word, word) for word in command))
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stdout == ""
    assert len([line for line in done.stderr.splitlines() if line.startswith("Error:")]) == 1
