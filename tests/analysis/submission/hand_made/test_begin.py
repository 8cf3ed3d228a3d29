"""Beginning a submission: settings that the rules refuse, and files that a second call keeps."""

import json
import platform
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from analysis.submission import begin as beginning
from analysis.submission.package_tree import Begun
from tests.support.doubts import call
from tests.support.run_json import read_files
from tests.support.submissions import TRIALS, named
from tracegen.errors import InputError

pytestmark = pytest.mark.usefixtures("tiny")
REFUSED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "trials": ({"trials": 3}, "trials 3: CLOSED requires 2 trials"),
    "one file system": ({"cache": "."}, "but the rules require two"),
    "path as organisation": ({"organisation": "../acme"}, "organisation '../acme': not a name for a directory"),
    "scale": ({"scale": "huge"}, "scale 'huge': unknown scale; choose one of full, smoke, tiny."),
}


def begin(place: Path, *, trials: int = TRIALS, cache: str = "/proc", **names: str) -> list[str]:
    asked = Begun(**named(**names).names, trials=trials)
    return beginning.begin(place / "work", asked, place / cache, place / "results")


@pytest.mark.parametrize("name", REFUSED)
def test_begin_refuses_settings_that_break_the_rules(tmp_path: Path, name: str) -> None:
    ways, told = REFUSED[name]
    with pytest.raises(InputError, match=re.escape(told)):
        begin(tmp_path, **ways)
    assert list(tmp_path.iterdir()) == []


def test_open_allows_settings_that_closed_forbids(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    begin(tmp_path, division="open", trials=5, cache="cache")
    assert json.loads((tmp_path / "work" / "submission.json").read_text())["trials"] == 5


def test_begin_continues_a_submission_with_equal_settings(tmp_path: Path) -> None:
    left = begin(tmp_path)
    before = read_files(tmp_path)
    described = yaml.safe_load(before["work/system.yaml"])["system_under_test"]
    assert described["solution"]["submission_name"] == "box"
    assert "solution.architecture.product_API" in [name.removeprefix("system_under_test.") for name in left]
    text = (tmp_path / "work" / "system.yaml").read_text().replace("product_API: null", "product_API: none")
    (tmp_path / "work" / "system.yaml").write_text(text)
    assert len(begin(tmp_path)) == len(left) - 1, "filled-in fields are kept"
    for changed in ({"system": "other"}, {"organisation": "duff"}, {"division": "open"}):
        with pytest.raises(InputError, match="begun for another submission"):
            begin(tmp_path, **changed)
    assert read_files(tmp_path) == before | {"work/system.yaml": text.encode()}


def test_begin_prints_the_expected_time_and_the_empty_fields(tmp_path: Path) -> None:
    command = ["submission", "begin", tmp_path / "work", "--org", "acme", "--system", "box"]
    command += ["--results", tmp_path / "results", "--cache-dir"]
    shown = call(*command, "/proc").stdout
    assert "3 options, 3 trials each: 57 minutes" in shown
    assert "solution.nodes" in shown
    call(*command, tmp_path / "none", code=2)
    call(*command, tmp_path, code=2)  # the results' own file system
    environment = json.loads((tmp_path / "work" / "environment.json").read_text())
    assert environment["host"] == platform.node()
    assert environment["file_systems"]["cache"] != environment["file_systems"]["results"]
