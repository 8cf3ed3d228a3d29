"""Shards: merged, they are the trace of a single process."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.command_line import Run, sentence
from tests.support.workloads import recipes
from tests.tracegen.derived import RECIPE, make_shards, write_derivation
from tracegen.derive.merge import merge, merge_shards
from tracegen.describe.info import compare_traces
from tracegen.errors import InputError
from tracegen.generate import batches, generate, open_sources
from tracegen.recipes.recipe import Mix, Persona, Prefix, Recipe
from tracegen.schema import Fingerprint, Metadata, Trace
from tracegen.workload.schedule import Schedule, list_users, survey


@pytest.mark.parametrize("block", [0, 64])
def test_shards_and_jobs_give_the_single_process_trace(tmp_path: Path, block: int) -> None:
    recipe = replace(RECIPE, block_tokens=block, save_decode=bool(block))
    single = generate(recipe, tmp_path / "single.parquet")
    merged = write_derivation(tmp_path / "merged.parquet", merge(make_shards(tmp_path, recipe, 4)[::-1]))
    assert merged.metadata.fingerprint == single.fingerprint
    assert merged.metadata.counts == single.counts
    assert merged.metadata.recipe == json.loads(json.dumps(single.recipe))
    jobs = generate(recipe, tmp_path / "jobs.parquet", jobs=2)
    assert jobs.fingerprint == single.fingerprint
    assert compare_traces(Trace(tmp_path / "jobs.parquet"), merged).data["equal"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(recipes, st.integers(2, 5))
def test_the_shards_of_any_recipe_merge_to_the_whole(recipe: Recipe, count: int) -> None:
    recipe = replace(recipe, mix=replace(recipe.mix, sharegpt=0, personas=recipe.mix.personas or 1))
    sources = open_sources(recipe, Metadata(0, {}, ""))
    cut = survey(recipe, sources)
    parts = [batches(recipe, sources, (number, count), cut) for number in range(count)]
    prints = []
    for ops in (batches(recipe, sources, (0, 1), cut), merge_shards(parts, list_users(recipe, sources, end=cut))):
        fingerprint = Fingerprint()
        for batch in ops:
            fingerprint.update(batch)
        prints.append(fingerprint.hexdigest())
    assert prints[0] == prints[1]


def test_shards_without_users_are_not_needed(run: Run, tmp_path: Path) -> None:
    recipe = ["--set", "mix.personas=1", "--users", 1, "--requests", 50]
    run("tracegen", "generate", *recipe, "--shard", "0/3", "-o", tmp_path / "0.parquet")
    sentence(
        run("tracegen", "generate", *recipe, "--shard", "1/3", "-o", tmp_path / "1.parquet", ok=False), "shard 1 of 3"
    )
    run("tracegen", "merge", tmp_path / "0.parquet", "-o", tmp_path / "t.parquet")
    run("tracegen", "generate", *recipe, "-o", tmp_path / "whole.parquet")
    assert "Equal: " in run("tracegen", "diff", tmp_path / "t.parquet", tmp_path / "whole.parquet").stdout


@pytest.mark.parametrize(("seed", "users"), [(798, 3), (1284, 3), (1334, 3), (1374, 2)])
def test_no_user_is_forgotten_while_another_has_no_session_left(seed: int, users: int) -> None:
    """One user has no session left, and no turn waits, before the other's next session: one in 400 recipes."""
    person = Persona(generation=(0, 4000), think_s=(0.1, 100), max_turns=1)
    nobody = {name: Persona(weight=0) for name in ("coding", "document")}
    recipe = Recipe(
        seed=seed, users=users, duration_s=60, prefix=Prefix(share=0), mix=Mix(personas=1),
        personas={"chatbot": person, **nobody},
    )  # fmt: skip
    sources = open_sources(recipe, Metadata(0, {}, ""))
    counts = [
        sum(len(turns) for turns in Schedule(recipe, sources, part).batches())
        for part in [(0, 1), *((user, users) for user in range(users))]
    ]
    assert counts[0] == sum(counts[1:])


def test_shards_of_different_traces_are_refused(tmp_path: Path) -> None:
    parts = make_shards(tmp_path, RECIPE, 3)
    other = generate(replace(RECIPE, seed=1), tmp_path / "other.parquet", shard=(2, 3))
    assert other.part == {"index": 2, "of": 3}
    plain = generate(RECIPE, tmp_path / "plain.parquet")
    assert plain.part is None
    cases = {
        "shard 1 of 3 is missing; make it with `shard=1/3`": [parts[0], parts[2]],
        "both shard 0": [parts[0], parts[0], parts[1], parts[2]],
        "shards of different traces": [parts[0], parts[1], Trace(tmp_path / "other.parquet")],
        "merge only shards, or only whole traces": [parts[0], Trace(tmp_path / "plain.parquet")],
    }
    for words, chosen in cases.items():
        with pytest.raises(InputError, match=words):
            merge(chosen)


@pytest.mark.parametrize(
    ("jobs", "number", "end"), [(1, signal.SIGINT, (130, "Interrupted.")), (2, signal.SIGTERM, (143, "Terminated."))]
)
def test_a_signal_to_all_processes_ends_cleanly(
    jobs: int, number: signal.Signals, end: tuple[int, str], tmp_path: Path
) -> None:
    flags = ["--set", "mix.personas=1", "--users", "1000", "--duration", "1000000", "--jobs", str(jobs)]
    command = [sys.executable, "-m", "tracegen", "generate", *flags, "-o", str(tmp_path / "t.parquet")]
    going = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not any(path.stat().st_size > 10**6 for path in tmp_path.glob("t.parquet.*.partial")):
        time.sleep(0.05)
        assert going.poll() is None
    os.killpg(going.pid, number)
    _, said = going.communicate(timeout=30)
    assert (going.returncode, said.strip()) == end
    assert list(tmp_path.iterdir()) == []
    deadline = time.monotonic() + 10
    while subprocess.run(["pgrep", "-g", str(going.pid)], check=False, capture_output=True).stdout:
        assert time.monotonic() < deadline, "nobody of the group is left"
        time.sleep(0.05)
