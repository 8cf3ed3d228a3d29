"""The shipped recipes: what each makes is pinned for ever, and each says in its first line what it is for."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from replayer.cli import main as replayer
from tests.conftest import DEMO, ROOT
from tracegen.generate import generate
from tracegen.schema import Trace
from tracegen.settings import load

RECIPES = sorted((ROOT / "traces" / "recipes").glob("*.toml"))
PLANS = json.loads((ROOT / "traces" / "recipes" / "plans.json").read_text())
PINNED = json.loads((ROOT / "traces" / "recipes" / "fingerprints.json").read_text())


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_golden_fingerprint(path: Path, tmp_path: Path) -> None:
    made = generate(load(path, {}), tmp_path / "t.parquet", quiet=True)
    assert made.fingerprint == PINNED[path.stem]
    if made.counts["ops"] < 10**6:
        assert not list(Trace(tmp_path / "t.parquet").problems())
    more = () if load(path, {}).replay.model else ("--model", "llama3.1-8b")
    planned = {order: plan(tmp_path / "t.parquet", "--order", order, *more) for order in ("trace", "reference")}
    assert {order: found["plan_fingerprint"] for order, found in planned.items()} == PLANS[path.stem]


def plan(trace: Path, *flags: str) -> dict[str, Any]:
    """What `replayer plan --json` prints."""
    done = CliRunner().invoke(replayer, ["plan", str(trace), *flags, "--json"], catch_exceptions=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_each_says_what_it_is_for() -> None:
    listed = (ROOT / "traces" / "README.md").read_text()
    for path in RECIPES:
        first = path.read_text().splitlines()[0]
        assert first.startswith("# ")
        assert path == DEMO or f"| `recipes/{path.name}` | {first[2:]} |" in listed


def test_mlperf_recipes_hold_the_rules_settings() -> None:
    table = {
        "mlperf_option_1": (200, 300, 0, "llama3.1-8b", 0),
        "mlperf_option_2": (100, 300, 4, "llama3.1-8b", 0),
        "mlperf_option_3": (70, 300, 0, "llama3.1-70b-instruct", 0),
        "mlperf_proposal_8b": (150, 600, 0, "llama3.1-8b", 30),
        "mlperf_proposal_70b": (40, 600, 0, "llama3.1-70b-instruct", 30),
    }
    for name, settings in table.items():
        recipe = load(ROOT / "traces" / "recipes" / f"{name}.toml", {})
        replay = recipe.replay
        assert settings == (
            recipe.users, recipe.duration_s, replay.cpu_mem_gb, replay.model, recipe.decode_token_ms
        ), name  # fmt: skip
        assert (recipe.seed, recipe.decode_max_context, replay.gpu_mem_gb) == (42, 10_000, 0)
        assert not recipe.retrieves, "RAG is not part of a submission"
