"""Shards and processes: merged, they are the trace of a single process."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.command_line import Run, sentence
from tests.support.workloads import recipes
from tests.tracegen.derived import RECIPE, write_derivation
from tracegen.derive.derivation import merge, merge_shards
from tracegen.errors import InputError
from tracegen.generate import batches, generate, open_sources
from tracegen.recipes.recipe import Recipe
from tracegen.schema import Fingerprint, Metadata, Trace
from tracegen.workload.schedule import list_users


def make_shards(folder: Path, recipe: Recipe, count: int) -> list[Trace]:
    paths = [folder / f"{number}.parquet" for number in range(count)]
    for number, path in enumerate(paths):
        generate(recipe, path, shard=(number, count))
        assert not Trace(path).violations().problems
    return [Trace(path) for path in paths]


@pytest.mark.parametrize("block", [0, 64])
def test_shards_and_jobs_give_the_single_process_trace(tmp_path: Path, block: int) -> None:
    recipe = replace(RECIPE, block_tokens=block, save_decode=bool(block))
    generate(recipe, tmp_path / "single.parquet")
    write_derivation(tmp_path / "merged.parquet", merge(make_shards(tmp_path, recipe, 4)[::-1]))
    generate(recipe, tmp_path / "jobs.parquet", jobs=2)
    for name in ("merged", "jobs"):
        assert (tmp_path / f"{name}.parquet").read_bytes() == (tmp_path / "single.parquet").read_bytes()


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(recipes, st.integers(2, 5))
def test_the_shards_of_any_recipe_merge_to_the_whole(recipe: Recipe, count: int) -> None:
    recipe = replace(recipe, mix=replace(recipe.mix, sharegpt=0, personas=recipe.mix.personas or 1))
    sources = open_sources(recipe, Metadata(0, {}, ""))
    users = list_users(recipe, sources)
    parts = [batches(recipe, sources, users[users % count == number]) for number in range(count)]
    prints = []
    for ops in (batches(recipe, sources, users), merge_shards(parts, users)):
        fingerprint = Fingerprint()
        for batch in ops:
            fingerprint.update(batch)
        prints.append(fingerprint.hexdigest())
    assert prints[0] == prints[1]


def test_shards_without_users_are_not_needed(run: Run, tmp_path: Path) -> None:
    recipe = ["--set", "mix.personas=1", "--users", 2, "--requests", 50]
    for shard in (0, 1):
        run("tracegen", "generate", *recipe, "--shard", f"{shard}/3", "-o", tmp_path / f"{shard}.parquet")
    empty = run("tracegen", "generate", *recipe, "--shard", "2/3", "-o", tmp_path / "2.parquet", ok=False)
    sentence(empty, "shard 2 of 3")
    run("tracegen", "merge", tmp_path / "0.parquet", tmp_path / "1.parquet", "-o", tmp_path / "t.parquet")
    run("tracegen", "generate", *recipe, "-o", tmp_path / "whole.parquet")
    assert "Equal: " in run("tracegen", "diff", tmp_path / "t.parquet", tmp_path / "whole.parquet").stdout


def test_shards_of_different_traces_are_refused(tmp_path: Path) -> None:
    parts = make_shards(tmp_path, RECIPE, 3)
    generate(replace(RECIPE, seed=1), tmp_path / "other.parquet", shard=(2, 3))
    generate(RECIPE, tmp_path / "plain.parquet")
    cases = {
        r"shards \[0, 2\] of 3 are given; .* `shard=I/3`": [parts[0], parts[2]],
        r"shards \[0, 0, 1, 2\] of 3": [parts[0], parts[0], parts[1], parts[2]],
        "other.parquet .*not shards of the same": [parts[0], parts[1], Trace(tmp_path / "other.parquet")],
        "plain.parquet .*not shards of the same": [parts[0], Trace(tmp_path / "plain.parquet")],
    }
    for words, chosen in cases.items():
        with pytest.raises(InputError, match=words):
            merge(chosen)
