"""Doubts about predicted runs: of their profile, and none that only a measurement deserves."""

import json
from pathlib import Path

import pytest

from analysis.summary.summary import check_run, summarise
from tests.support.crafted_runs import Crafted, clean
from tests.support.doubts import Change, call, conditions, found, rank_runs
from tests.support.predicted_runs import SHEET, mark
from tests.support.run_json import run_json, save_run_json
from tracegen.errors import InputError

pytestmark = pytest.mark.usefixtures("latencies_once")


def test_a_clean_prediction_is_valid_without_doubts(tmp_path: Path) -> None:
    """It has no device.parquet, which in a measured run is a doubt."""
    summary = check_run(mark(clean()).save(tmp_path / "predicted")).to_json()
    assert (summary["valid"], summary["doubts"], summary["predicted"]) == (True, [], True)
    run = clean()
    run.samples = None
    assert set(found(run, tmp_path)) == {"unchecked reads"}


OF_MEASURING: dict[str, Change] = {
    "verification off": lambda run: conditions(run, verify="off"),
    "root file system": lambda run: run.info["machine"]["storage"].update(mount_point="/"),
    "short run": lambda run: run.slower(0.5),
    "device times": lambda run: (run.rows["device_read_ns"].fill(1), run.rows["device_write_ns"].fill(1)),
}


@pytest.mark.parametrize("kind", OF_MEASURING)
def test_faults_that_only_a_measurement_has_are_not_searched(tmp_path: Path, kind: str) -> None:
    run = clean()
    OF_MEASURING[kind](run)
    assert kind in found(run, tmp_path / "measured")
    assert kind not in found(mark(run), tmp_path / "predicted")


def test_a_data_sheet_is_a_doubt_and_named_once(tmp_path: Path) -> None:
    run = mark(clean(), **SHEET)
    run.info["warnings"] = [{"kind": "data sheet", "text": "assumed: files"}]
    doubts = found(run, tmp_path)
    assert set(doubts) == {"data sheet"}
    (doubt,) = doubts["data sheet"]
    assert not doubt.invalidates
    assert "acme.example, 2026-11-01" in doubt.text


def test_a_profile_of_a_page_cache_is_a_doubt_that_leaves_the_prediction_valid(tmp_path: Path) -> None:
    run = mark(clean())
    conditions(run, direct=False)
    doubts = found(run, tmp_path)
    assert set(doubts) == {"page cache"}
    assert not doubts["page cache"][0].invalidates


# Files whose version and mark disagree


@pytest.mark.parametrize(("version", "is_marked"), [(3, False), (2, True)])
def test_a_mark_goes_with_its_version(tmp_path: Path, version: int, is_marked: bool) -> None:
    place = mark(clean()).save(tmp_path / "run")
    info = run_json(place) | {"run_version": version}
    if not is_marked:
        del info["prediction"]
    save_run_json(place, info)
    with pytest.raises(InputError, match="prediction: only runs of version 3 have one, and each has one"):
        summarise(place)


def test_a_prediction_that_lost_its_mark_is_not_valid(tmp_path: Path) -> None:
    """Nothing of a replay is left in it: neither a payload nor counters."""
    place = mark(clean()).save(tmp_path / "run")
    info = run_json(place) | {"run_version": 2}
    del info["prediction"]
    save_run_json(place, info)
    assert not summarise(place).is_valid


def test_check_says_that_a_run_is_predicted(tmp_path: Path) -> None:
    place = mark(clean()).save(tmp_path / "run")
    assert "PREDICT" in call("check", place).stdout
    told = json.loads(call("check", place, "--json").stdout)
    assert (told["valid"], told["predicted"], told["doubts"]) == (True, True, [])
    run = mark(clean())
    run.rows["key"] = run.rows["key"][::-1]
    assert not check_run(run.save(tmp_path / "broken")).is_valid


# Ranks


@pytest.mark.parametrize("profiles", [("ab" * 32, None), ("ab" * 32, "cd" * 32)])
def test_ranks_of_unlike_origin_are_invalid(tmp_path: Path, profiles: tuple[str | None, str | None]) -> None:
    def change(rank: int, run: Crafted) -> None:
        if (digest := profiles[rank]) is not None:
            mark(run, profile_sha256=digest)

    summary = summarise(rank_runs(tmp_path / "run", change=change))
    assert [one.kind for one in summary.doubts if one.invalidates] == ["ranks"]
    alike = rank_runs(tmp_path / "alike", change=lambda _rank, run: mark(run))
    assert summarise(alike).is_valid
