"""The shipped sweeps and the pinned traces agree with the rules."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from analysis.submission import rules as ruling
from analysis.submission.rules import RULES, Option
from replayer.experiments import sweep
from replayer.models.known import find_model
from tests.support.paths import ROOT
from tests.support.submissions import PINS
from tracegen.generate import generate
from tracegen.recipes.loading import find_recipe, load_recipe, parse_value
from tracegen.recipes.recipe import Recipe


def cases(scale: str) -> list[tuple[Option, Recipe, dict[str, str]]]:
    """List the options of the rules, each with the recipe and the flags of its sweep."""
    found = []
    for option, case in zip(RULES[scale].options, shipped(scale).cases, strict=True):
        assert case.name == option.name
        settings = {key: parse_value(value) for key, _, value in (one.partition("=") for one in case.settings)}
        flags = dict(zip(case.flags[::2], case.flags[1::2], strict=True))
        found.append((option, load_recipe(find_recipe(case.recipe), settings), flags))
    return found


def shipped(scale: str) -> sweep.Sweep:
    return sweep.load_sweep(sweep.find_sweep(f"submission-{scale}"))


@pytest.mark.parametrize("scale", ["smoke", "full"])
def test_shipped_sweeps_follow_the_rules(scale: str) -> None:
    assert shipped(scale).trials == RULES[scale].trials
    assert shipped(scale).pause_s >= RULES[scale].pause_s
    for option, recipe, flags in cases(scale):
        model = find_model(flags.pop("--model", None) or recipe.replay.model or "")
        cpu_gib = Decimal(flags.pop("--cpu-mem-gb", str(recipe.replay.cpu_mem_gb)))
        assert (recipe.seed, recipe.replay.gpu_mem_gb, recipe.replay.storage_capacity_gb) == (ruling.SEED, 0, None)
        assert (recipe.users, recipe.replay.max_concurrent_allocs) == (option.users, option.allocs)
        assert (model.name, model.sizes("fp16", 1).per_token) == (option.model, option.bytes_per_token)
        assert int(cpu_gib * 2**30 * Decimal("0.8")) == option.cpu_bytes
        assert float(flags.pop("--duration", str(recipe.replay.duration_s))) == recipe.duration_s == option.duration_s
        assert flags == {}
        settings = dict(one.split("=", 1) for one in RULES[scale].settings)
        changed = {key: parse_value(value) for key, value in settings.items()} | {"users": option.users}
        made = replace(load_recipe(find_recipe(option.recipe), changed), replay=recipe.replay)
        assert made == recipe, "the validator generates this recipe"


PINNED = [("smoke", option, rank) for option in (1, 2, 3) for rank in (0, 1, 15)] + [("full", 3, 0), ("full", 3, 127)]


@pytest.mark.parametrize(("scale", "number", "rank"), PINNED)
def test_generated_traces_have_the_pinned_fingerprints(scale: str, number: int, rank: int, tmp_path: Path) -> None:
    option, recipe, _ = cases(scale)[number - 1]
    made = generate(replace(recipe, seed=recipe.seed + rank), tmp_path / "t.parquet")
    assert made.fingerprint == ruling.find_pin(scale, option.name, rank)


def test_pins_are_complete() -> None:
    known = json.loads((ROOT / "tests" / "data" / "recipe_fingerprints.json").read_text())
    for scale, ranks in (("smoke", 16), ("full", 128)):
        pins = [one for option in RULES[scale].options for one in PINS[scale][option.name]]
        assert len({*pins}) == len(pins) == 3 * ranks, "a trace of its own for every rank of every option"
        assert ruling.find_pin(scale, "option_1", ranks) is None
    for option in RULES["full"].options:
        assert ruling.find_pin("full", option.name, 0) == known[f"mlperf_{option.name}"]
