"""Ranking packages, and packages that cannot be ranked."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.comparison.equal_work import measuring
from analysis.comparison.equal_work.work import Unit, Work
from analysis.runs.run import Run
from analysis.submission import ranking
from analysis.submission.package_tree import Package, Submission, find_packages, read_json
from analysis.submission.ranking import rank_packages
from analysis.submission.system import check_separation
from tests.analysis.comparison.crafting import even_work
from tests.support.crafted_runs import SECOND
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


def worked(run: Run, _unit: Unit) -> Work:
    """The work of a run: duff does as much in a quarter less time than acme, at both options."""
    return even_work(1.5 if "duff" in run.path.parts else 2.0)


def test_packages_are_ranked_by_equal_work(rivals: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rules' own figures acme is the better one at option 1, and so the baseline: 2.0 ÷ 1.5 = 1.33."""
    places = [rivals["duff"], rivals["acme"], rivals["evil"]]
    monkeypatch.setattr(measuring, "read_work", worked)
    found = rank_packages([package for place in places for package in find_packages(place)])
    monkeypatch.setattr(ranking, "rank_packages", lambda *_: found)  # it takes seconds
    lines = call("submission", "compare", *places).stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("Not ranked: evil/box: "))
    assert "Not ranked: evil/box: option_1 (no memory) is missing." in lines[:first]
    assert "evil" not in "".join(lines[first:])
    order = [line.split()[1:4] for line in lines if re.match(r"  [12]  ", line)]
    assert order == [
        *(["duff/box", "1.333", "×"], ["acme/box", "1", "×"]),
        *(["duff/box", "1", "×"], ["acme/box", "0.750", "×"]),
    ], "option 1, option 2"
    assert (
        "option_1, no memory: ranked by equal work per second, against acme/box;"
        " then the rules' figures, each over the run's own window"
    ) in lines
    told = json.loads(call("submission", "compare", *places, "--json").stdout)
    assert {name: one["problems"] == [] for name, one in told["packages"].items()} == {
        "duff/box": True, "acme/box": True, "evil/box": False,
    }  # fmt: skip
    first, second = told["options"]
    assert [[one["package"] for one in option["ranking"]] for option in (first, second)] == [
        ["duff/box", "acme/box"],
        ["duff/box", "acme/box"],
    ]
    assert [one["place"] for one in first["ranking"]] == [1, 2]
    claimed = json.loads((find_packages(rivals["duff"])[0].runs[0] / "summary.json").read_text())["options"]["option_1"]
    assert first["ranking"][0]["decode_read_gib_s"] == claimed["decode_read_gib_s"]
    (pair,) = first["comparison"]["systems"]
    assert (pair["system"], pair["ratios"]["equal_work"]["winner"]) == ("duff/box", "duff/box")
    assert pair["ratios"]["equal_work"]["ratio"] == pytest.approx(4 / 3)


def test_packages_that_cannot_be_compared_have_no_place(rivals: dict[str, Path]) -> None:
    """Their drives had nothing to do for a while: the load limited them, and both were cut."""
    lines = call("submission", "compare", rivals["duff"], rivals["acme"]).stdout.splitlines()
    assert lines[0].startswith("option_1, no memory: not ranked, as no two can be compared; the rules' figures")
    assert [line.split()[:4] for line in lines[2:4]] == [["–", "acme/box", "–", "–"], ["–", "duff/box", "–", "–"]]
    assert lines[4].startswith("  duff/box is not compared with acme/box: the load limits, not the drive")
    assert sum("is not compared" in line for line in lines) == 2, "once for each option"


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
