"""The compare command as a user types it."""

import json

import pytest

from tests.analysis.comparison.crafting import compare
from analysis.comparison.text import as_json
from tests.analysis.comparison.crafting import Craft, three, typed


def test_two_sets_are_compared_as_typed(craft: Craft) -> None:
    fast, slow = three(craft, "fast", (2.0, 2.1, 1.9)), three(craft, "slow")
    done = typed(*fast, "--against", *slow)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("fast  3 runs: ")
    assert lines[1].startswith("slow  3 runs: ")
    (row,) = [line for line in lines if line.startswith("wall_clock_tok_s")]
    assert row.split("  ")[-1] == "tells them apart: fast is better"
    assert "1.99x" in row
    assert "With 3 trials per system, 20% of the metrics of equal systems would be told apart by chance." in done.output
    assert "Doubts: short run (6 of 6 runs)" in done.output
    assert max(map(len, lines[3:])) <= 160
    mixed = typed(fast[0], "--metric", "elapsed_s", *fast[1:], f"--against={slow[0]}", "--json", *slow[1:])
    found = json.loads(mixed.stdout)
    assert found["metrics"] == ["elapsed_s"]
    assert {system: len(runs) for system, runs in found["runs"].items()} == {"fast": 3, "slow": 3}


def test_json_contains_the_comparison(craft: Craft) -> None:
    systems = [three(craft, "a", (2.0, 2.2)), [craft("b")], [craft("c", 0.5)]]
    found = compare(systems)
    content = json.loads(json.dumps(as_json(found), allow_nan=False))
    assert content["ranking"] == ["a", "b", "c"]
    assert content["pairs"][0]["ratios"]["elapsed_s"]["verdict"] == "no verdict"
    assert content["configurations"][0]["statistics"]["wall_clock_tok_s"]["a"]["mean"] == pytest.approx(210)
    assert content["configurations"][0]["cpu_gib"] == 0.0


def test_a_single_set_shows_its_statistics(craft: Craft) -> None:
    done = typed(*three(craft, "a", (1.0, 2.0, 3.0)))
    (row,) = [line for line in done.output.splitlines() if line.strip().startswith("wall_clock_tok_s")]
    assert row.split() == [
        "wall_clock_tok_s",
        "3",
        "200",
        "100",
        "50.0%",
        "200",
        "122",
        "..",
        "278",
    ]  # 100 + 0.65 × 33.3 of 27
    assert "Quote" not in done.output


def test_workloads_are_shown_next_to_each_other(craft: Craft) -> None:
    a, b = three(craft, "chat"), three(craft, "agents", trace="u", conditions={"workers": 3})
    done = typed(*a, "--against", *b, "--by", "workload")
    assert done.exit_code == 0, done.output
    assert "WARNING: not only the workloads differ: workers (8, 3)." in done.output
    assert "The work differs" in done.output
    assert "verdict" not in done.output
    quiet = typed(*a, "--against", *b, "--by", "workload", "--vary", "workers")
    assert "WARNING" not in quiet.output
    assert "Varied: workers: 8 (chat), 3 (agents)" in quiet.output
    mixed = typed(*a, *b, "--against", craft("c"), "--by", "workload")
    assert mixed.exit_code == 2
    assert "mixes runs with different traces" in mixed.output
    moved = typed(
        craft("d", machine={"host": "x"}), "--against", craft("e", trace="u", machine={"host": "y"}), "--by", "workload"
    )
    assert "WARNING: the set of workloads mixes machines (x; y)" in moved.output


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["A", "--against"], "--against: needs runs before it and after it"),
        (["--against", "B"], "--against: needs runs before it and after it"),
        (["A", "--against", "B", "--metric", "elapsed"], "did you mean elapsed_s?"),
        (["A", "--against", "B", "--metric", "bottleneck"], "--metric bottleneck: not a number"),
        (["A", "--against", "B", "--vary", "workrs"], "did you mean workers?"),
        (["A", "--against", "missing"], "missing is not a run directory"),
        (["A", "--against", "B", "--by", "users"], "'users' is not 'workload'"),
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
