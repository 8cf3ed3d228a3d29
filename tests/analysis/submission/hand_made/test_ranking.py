"""Ranking packages, and packages that cannot be ranked."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from analysis.submission import ranking
from analysis.submission.package_tree import Package, Submission, find_packages, read_json
from analysis.submission.ranking import rank_packages
from analysis.submission.separation import check_samples, check_separation
from tests.support.crafted_runs import SECOND, clean
from tests.support.doubts import call
from tests.support.submissions import Open, begun, edited, packed
from tests.support.summaries import summary_of
from tracegen.errors import InputError

pytestmark = pytest.mark.usefixtures("tiny")


@pytest.fixture(scope="module")
def rivals(pristine: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make packages: duff is slower than acme at option 1 and faster at option 2; evil has no runs."""
    place = tmp_path_factory.mktemp("duff")
    work = begun(place, Submission("duff", "box", "closed", "tiny"), slower=lambda option, *_: SLOWER[option.name])
    duff = packed(work, place / "results").top
    evil = shutil.copytree(duff, duff.with_name("evil"))
    shutil.rmtree(evil / "results" / "box" / "kv_cache")
    edited(evil / "results" / "box" / "manifest.json", "organisation", "evil")
    return {"acme": pristine["alone"] / "closed" / "acme", "duff": duff, "evil": evil}


SLOWER = {"option_1": 1.6, "option_2": 0.8}


def test_packages_are_ranked_best_first(rivals: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    places = [rivals["duff"], rivals["acme"], rivals["evil"]]
    found = rank_packages([package for place in places for package in find_packages(place)])
    monkeypatch.setattr(ranking, "rank_packages", lambda *_: found)  # it takes seconds
    lines = call("submission", "compare", *places).stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("Not ranked: evil/box: "))
    assert "Not ranked: evil/box: option_1 (no memory) is missing." in lines[:first]
    assert "evil" not in "".join(lines[first:])
    order = [line.split()[1] for line in lines if re.match(r"  [12]  ", line)]
    assert order == ["acme/box", "duff/box", "duff/box", "acme/box"], "option 1, option 2"
    assert "option_1, no memory: ranked by decode_read_gib_s, summed over ranks, mean of trials" in lines
    assert "option_2, some memory: ranked by storage_tok_s, summed over ranks, mean of trials" in lines
    told = json.loads(call("submission", "compare", *places, "--json").stdout)
    assert {name: one["problems"] == [] for name, one in told["packages"].items()} == {
        "duff/box": True, "acme/box": True, "evil/box": False,
    }  # fmt: skip
    first, second = told["options"]
    assert [[one["package"] for one in option["ranking"]] for option in (first, second)] == [
        ["acme/box", "duff/box"],
        ["duff/box", "acme/box"],
    ]
    claimed = json.loads((find_packages(rivals["duff"])[0].runs[0] / "summary.json").read_text())["options"]["option_1"]
    assert first["ranking"][1]["decode_read_gib_s"] == claimed["decode_read_gib_s"]
    (ratio,) = first["ratios"]
    assert (first["cut"], ratio["a"], ratio["b"], ratio["verdict"]) == (True, "acme/box", "duff/box", "apart")
    assert ratio["ratio"] == pytest.approx(7 / 4, rel=1e-5), "decode reads among the 20 and the 12 ops until the cut"


def kind(package: Package, place: Path, **names: str) -> Package:
    """Copy a package, with other names in its manifest."""
    shutil.copytree(package.top.parents[1], place)
    (path,) = place.glob("*/acme/results/box/manifest.json")
    for name, value in names.items():
        edited(path, name, value)
    (found,) = find_packages(path.parent)
    return found


UNLIKE = {
    "divisions": (
        {"division": "open"},
        "the packages are of different kinds (closed tiny, open tiny); compare packages of one",
    ),
    "scales": (
        {"scale": "smoke"},
        "the packages are of different kinds (closed smoke, closed tiny); compare packages of one",
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_packages_of_different_kinds_are_not_ranked(fresh: Open, tmp_path: Path, name: str) -> None:
    package = fresh("alone")
    names, told = UNLIKE[name]
    with pytest.raises(InputError, match=re.escape(told)):
        rank_packages([package, kind(package, tmp_path / "other", **names)])


def test_a_json_object_with_a_repeated_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"options": {"x": 1}, "options": {"x": 2}}')
    with pytest.raises(InputError, match="an object has two values of one name"):
        read_json(tmp_path / "a.json")


def test_counters_with_scaled_times_are_reported(tmp_path: Path) -> None:
    """Halve the times of a run: it then has a sample every half second."""
    path = clean().save(tmp_path / "run") / "device.parquet"
    assert list(check_samples("run", path)) == []
    table = pl.read_parquet(path)
    table.with_columns(pl.col("interval_ns", "time_ns") // 2).write_parquet(path)
    assert list(check_samples("run", path)) == [
        "run/device.parquet has a sample every 0.50 s; the replayer takes one each second"
    ]


@pytest.mark.parametrize("late_s", [0, 100])
def test_ranks_that_ran_one_by_one_are_reported(late_s: int) -> None:
    born = 1_800_000_000 * SECOND
    provenance = replace(
        summary_of().provenance,
        zero_ns=[born, born + late_s * SECOND],
        ended_ns=[born + 9 * SECOND, born + (late_s + 9) * SECOND],
    )
    info = SimpleNamespace(payload_nonce=None)
    trial: Any = SimpleNamespace(
        summary=replace(summary_of(), provenance=provenance), infos=[info, info], path=Path("option_1/trial_1")
    )
    told = ["the ranks of option_1/trial_1 did not run at the same time: one began after another ended"]
    assert list(check_separation([trial])) == (told if late_s else [])


def test_one_package_cannot_be_ranked(rivals: dict[str, Path]) -> None:
    (acme,), (evil,) = find_packages(rivals["acme"]), find_packages(rivals["evil"])
    with pytest.raises(InputError, match=r"two valid packages, not 1 \(acme/box is the only package\)"):
        rank_packages([acme])
    with pytest.raises(InputError, match=r"two valid packages, not 1 \(evil/box: .* is missing"):
        rank_packages([acme, evil])
    with pytest.raises(InputError, match=r"results/box: named twice; name each package once"):
        rank_packages([acme, acme])
