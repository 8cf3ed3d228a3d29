"""The shards of processes: merged, they are the trace of a single one."""

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

from tests.support.workloads import recipes
from tests.tracegen.derived import RECIPE
from tracegen.derive.derivation import merge_shards
from tracegen.generate import batches, generate, open_sources
from tracegen.recipes.recipe import Mix, Persona, Prefix, Recipe
from tracegen.schema import Fingerprint, Metadata, Trace
from tracegen.workload.schedule import Schedule, list_users, survey


@pytest.mark.parametrize("block", [0, 64])
def test_several_processes_make_the_trace_of_one(tmp_path: Path, block: int) -> None:
    recipe = replace(RECIPE, block_tokens=block, save_decode=bool(block))
    single = generate(recipe, tmp_path / "single.parquet")
    assert generate(recipe, tmp_path / "jobs.parquet", jobs=2) == single
    assert Trace(tmp_path / "jobs.parquet").violations().count == 0


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
