"""Ranking packages, and packages that cannot be ranked."""

import json
import shutil
from pathlib import Path

import pytest

from analysis.comparison import ratios
from analysis.comparison.work import Unit, Work
from analysis.runs.run import Run
from analysis.submission.package_tree import find_packages
from analysis.submission.ranking import rank_packages
from tests.analysis.comparison.crafting import even_work
from tests.support.doubts import call
from tests.support.run_json import edit
from tests.support.submissions import Open, begun, named, packed
from tracegen.errors import InputError
from views.exports import render_json

pytestmark = pytest.mark.usefixtures("tiny")


@pytest.fixture(scope="module")
def rivals(pristine: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make packages: duff is slower than acme at option 1 and faster at option 2; evil has no runs."""
    place = tmp_path_factory.mktemp("duff")
    work = begun(place, named(organisation="duff"), slower=lambda option, *_: SLOWER[option.name])
    duff = packed(work, place / "results").top
    evil = shutil.copytree(duff, duff.with_name("evil"))
    shutil.rmtree(evil / "results" / "box" / "kv_cache")
    edit(evil / "results" / "box" / "manifest.json", {"organisation": "evil"})
    return {"acme": pristine["alone"] / "closed" / "acme", "duff": duff, "evil": evil}


SLOWER = {"option_1": 1.6, "option_2": 0.8}


def worked(run: Run, _unit: Unit) -> Work:
    """The work of a run: duff does as much in a quarter less time than acme, at both options."""
    return even_work(1.5 if "duff" in run.path.parts else 2.0)


def test_packages_are_ranked_by_equal_work(rivals: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rules' own figures acme is the better one at option 1, and so the baseline: 2.0 ÷ 1.5 = 1.33."""
    places = [rivals["duff"], rivals["acme"], rivals["evil"]]
    monkeypatch.setattr(ratios, "read_work", worked)
    packages = [package for place in places for package in find_packages(place)]
    told = json.loads(render_json(rank_packages(packages)))
    assert told["packages"] == {"duff/box": True, "acme/box": True, "evil/box": False}
    assert "option_1 (no memory) has no trial" in told["doubts"][0]["text"]
    assert [one["runs"] for one in told["doubts"]] == ["evil/box"] * len(told["doubts"])
    first, second = ([tuple(row.values())[:3] for row in table["rows"]] for table in told["tables"])
    assert first == [("duff/box", 1, "1.333 ×"), ("acme/box", 2, "1 ×")]
    assert second == [("duff/box", 1, "1 ×"), ("acme/box", 2, "0.750 ×")]
    claimed = json.loads((find_packages(rivals["duff"])[0].runs[0] / "summary.json").read_text())["options"]["option_1"]
    assert told["tables"][0]["rows"][0]["decode reads, GiB/s"] == claimed["decode_read_gib_s"]


def test_packages_that_cannot_be_compared_have_no_place(rivals: dict[str, Path]) -> None:
    """Their drives had nothing to do for a while: the load limited them, and both were cut."""
    told = call("submission", "compare", rivals["duff"], rivals["acme"], "--json").stdout
    for table in json.loads(told)["tables"]:
        assert {row["system"]: row["place"] for row in table["rows"]} == {"acme/box": None, "duff/box": None}


def test_packages_of_different_kinds_are_not_ranked(fresh: Open, tmp_path: Path) -> None:
    package = fresh("alone")
    shutil.copytree(package.top.parents[1], tmp_path / "other")
    (manifest,) = (tmp_path / "other").glob("*/acme/results/box/manifest.json")
    edit(manifest, {"division": "open"})
    with pytest.raises(InputError, match=r"different kinds \(closed tiny, open tiny\)"):
        rank_packages([package, *find_packages(manifest.parent)])


def test_one_package_cannot_be_ranked(rivals: dict[str, Path]) -> None:
    (acme,), (evil,) = find_packages(rivals["acme"]), find_packages(rivals["evil"])
    with pytest.raises(InputError, match=r"two valid packages, not 1 \(acme/box is the only package\)"):
        rank_packages([acme])
    with pytest.raises(InputError, match=r"two valid packages, not 1 \(evil/box: .* has no trial"):
        rank_packages([acme, evil])
    with pytest.raises(InputError, match=r"results/box: named twice; name each package once"):
        rank_packages([acme, acme])
