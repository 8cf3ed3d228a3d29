"""The arrangements that ship with the tool: each is whole, names its source, and has a pinned plan.

`python -m tests.replayer.arrangements.pinned_plans` writes the pinned plans anew.
"""

import json
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from replayer.arrangements.arrangement import WATERFALL, Arrangement, TierRules
from replayer.arrangements.loading import load_arrangement, read_shipped, shipped_names
from tests.replayer.arrangements.pinned_plans import PINNED, make_traces, plan_fingerprints
from tests.support.paths import ROOT
from tracegen.schema import Trace

FOLDER = ROOT / "replayer" / "arrangements"
TIER_RULES = {one.name for one in fields(TierRules)}
RULES = {one.name for one in fields(Arrangement)} - {
    *("name", "description", "source", "gpu", "cpu", "nvme", "scheduler")
}
GENERAL = {"waterfall", "spillover"}
ENGINES = sorted(set(shipped_names()) - GENERAL)


def test_every_file_of_the_folder_is_shipped() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(shipped_names())
    assert shipped_names()[:2] == ("waterfall", "spillover")


@pytest.mark.parametrize("name", shipped_names())
def test_an_arrangement_says_what_it_is(name: str) -> None:
    arrangement = load_arrangement(name)
    assert arrangement.name == name
    assert 10 <= len(arrangement.description) <= 43, "`replayer arrangements` has 100 columns"
    assert max(map(len, read_shipped(name).splitlines())) <= 120
    assert (arrangement.source is None) == (name in GENERAL)


@pytest.mark.parametrize("name", ENGINES)
def test_a_preset_is_what_its_file_says_and_no_more(name: str) -> None:
    """A key with its default value would only seem to be a rule of the engine."""
    table = tomllib.loads(read_shipped(name))
    written = {key for key in table if key in RULES}
    written |= {f"{tier}.{key}" for tier in ("gpu", "cpu", "nvme") for key in table.get(tier, {})}
    told = load_arrangement(name).to_table()
    found = {key for key in told if key in RULES}
    found |= {f"{tier}.{key}" for tier in ("gpu", "cpu", "nvme") for key in dict(told.get(tier, {}))}  # type: ignore[call-overload]
    assert written - found <= {"cpu.down", "cpu.touches", "nvme.down", "nvme.touches"}, "said for the reader"
    assert found <= written


def test_the_file_of_the_waterfall_shows_every_key() -> None:
    table = tomllib.loads(read_shipped("waterfall"))
    assert set(table) == {*RULES, "description", "gpu", "cpu", "nvme"}
    assert set(table["gpu"]) | set(table["cpu"]) == TIER_RULES
    assert load_arrangement("waterfall").to_table() == WATERFALL.to_table() == {}


def test_mlperf_is_the_waterfall() -> None:
    record = load_arrangement("mlperf").to_record()
    assert (record.name, record.rules, record.promote) == ("waterfall", None, False)
    assert load_arrangement("mlperf").lookup == "independent"


@pytest.fixture(scope="module")
def pinned_traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    return make_traces(tmp_path_factory.mktemp("pinned"))


@pytest.mark.parametrize("name", shipped_names())
def test_the_plans_of_an_arrangement_are_pinned(name: str, pinned_traces: dict[str, Trace]) -> None:
    assert plan_fingerprints(name, pinned_traces) == json.loads(Path(PINNED).read_text())[name]
