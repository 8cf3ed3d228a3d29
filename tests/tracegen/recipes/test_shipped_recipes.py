"""The shipped recipes: their traces and plans are pinned for ever; their first lines state their purpose."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from replayer.cli import main as replayer
from tests.support.paths import ROOT
from tracegen.cli import main as tracegen
from tracegen.generate import generate
from tracegen.recipes.loading import find_recipe, load_recipe
from tracegen.schema import Trace

RECIPES = sorted((ROOT / "tracegen" / "recipes").glob("*.toml"))
PLANS = json.loads((ROOT / "tests" / "data" / "recipe_plans.json").read_text())
PINNED = json.loads((ROOT / "tests" / "data" / "recipe_fingerprints.json").read_text())


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_recipe_makes_its_pinned_trace_and_plans(path: Path, tmp_path: Path) -> None:
    made = generate(load_recipe(path, {}), tmp_path / "t.parquet")
    assert made.fingerprint == PINNED[path.stem]
    if made.counts["ops"] < 3 * 10**5:  # those of a larger one take seconds
        assert not Trace(tmp_path / "t.parquet").violations().problems
    more = () if load_recipe(path, {}).replay.model else ("--model", "llama3.1-8b")
    planned = {order: plan(tmp_path / "t.parquet", "--order", order, *more) for order in ("trace", "reference")}
    assert {order: summary["plan_fingerprint"] for order, summary in planned.items()} == PLANS[path.stem]


def plan(trace: Path, *flags: str) -> dict[str, Any]:
    """Return the JSON that `replayer plan` prints."""
    done = CliRunner().invoke(replayer, ["plan", str(trace), *flags, "--json"], catch_exceptions=False)
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_recipes_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names work outside a checkout, too; a file of the same name wins."""
    monkeypatch.chdir(tmp_path)
    listed = json.loads(CliRunner().invoke(tracegen, ["recipes", "--json"]).stdout)
    assert listed.keys() == PINNED.keys()
    assert "smoke  " in CliRunner().invoke(tracegen, ["recipes"]).stdout
    assert CliRunner().invoke(tracegen, ["recipes", "smoke"]).stdout == find_recipe("smoke").read_text()
    made = CliRunner().invoke(tracegen, ["generate", "smoke", "--requests", "3", "-o", "t.parquet", "--json"])
    assert json.loads(made.stdout)["counts"]["requests"] == 3
    wrong = CliRunner().invoke(tracegen, ["generate", "agnetic", "-o", "u.parquet"])
    assert (wrong.exit_code, "did you mean agentic?" in wrong.stderr) == (2, True)
    Path("smoke").write_text("nonsense = 1")
    assert "nonsense" in CliRunner().invoke(tracegen, ["generate", "smoke", "-o", "u.parquet"]).stderr
