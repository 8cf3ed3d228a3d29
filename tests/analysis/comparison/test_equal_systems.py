"""Trials of one system, split at random, are not called different systems more often than is said."""

import math
import random
from pathlib import Path

import pytest

from analysis.comparison.compare import compare_systems
from analysis.comparison.trials import Trial, load_sets
from tests.support.crafted_runs import clean

RUNS = 10
SPLITS = 60
METRICS = ("wall_clock_tok_s", "nvme_read_gib_s", "nvme_read_p95_ms", "e2e_p95_ms")


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    """Make runs of one plan whose speed has 4% of seeded noise, with logs as real runs have."""
    rng = random.Random(12)
    place = tmp_path_factory.mktemp("equal")
    paths: list[Path] = []
    for number in range(RUNS):
        run = clean(300).slower(math.exp(rng.gauss(0, 0.04)))
        run.info["clock"] = run.info["clock"] | {"zero_ns": 10**18 + number}
        paths.append(run.save(place / f"run-{number}"))
    return load_sets({"all": paths})[0]["all"]


@pytest.mark.parametrize("size", [2, 3, 5])
def test_splits_of_one_system_are_told_apart_in_at_most_10_percent(trials: list[Trial], size: int) -> None:
    rng = random.Random(size)
    verdicts = []
    for _ in range(SPLITS // size):
        chosen = rng.sample(trials, 2 * size)
        (pair,) = compare_systems({"a": chosen[:size], "b": chosen[size:]}, "b", (), METRICS).pairs
        verdicts += [ratio.verdict for ratio in pair.ratios.values()]
    assert len(verdicts) >= 5 * 12
    assert verdicts.count("apart") <= 0.1 * len(verdicts)


def test_a_system_that_is_20_percent_faster_is_found(trials: list[Trial], tmp_path: Path) -> None:
    rng = random.Random(1)
    fast = []
    for number in range(5):
        run = clean(300).slower(math.exp(rng.gauss(0, 0.04)) / 1.2)
        run.info["clock"] = run.info["clock"] | {"zero_ns": 2 * 10**18 + number}
        fast.append(run.save(tmp_path / f"fast-{number}"))
    new = load_sets({"new": fast})[0]["new"]
    (pair,) = compare_systems({"new": new, "old": trials[:5]}, "old", (), METRICS).pairs
    assert (pair.ratios["equal_work"].verdict, pair.ratios["equal_work"].winner) == ("apart", "new")
