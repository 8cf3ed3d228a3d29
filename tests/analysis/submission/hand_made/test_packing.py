"""Packaging a submission: equal packages, packages that are not replaced, refusals."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from replayer.schema import PREDICTED_RUN_VERSION
from tests.analysis.submission.hand_made.changes import flip_bit, set_environment
from tests.support.predicted_runs import PROFILE
from tests.support.run_json import edit, read_files
from tests.support.submissions import Change, Open, packed
from tracegen.errors import InputError

pytestmark = pytest.mark.usefixtures("tiny")


def test_packages_of_one_submission_are_equal(work: Path, tmp_path: Path) -> None:
    packed(work, tmp_path / "results")
    first = read_files(tmp_path / "results")
    packed(work, tmp_path / "results")
    assert read_files(tmp_path / "results") == first, "replaced by an equal package"
    packed(work, tmp_path / "elsewhere")
    assert read_files(tmp_path / "elsewhere") == first


CHANGES: Final[dict[str, Change]] = {
    "environment.json": set_environment("host", "elsewhere"),
    "report.html": lambda package: (package.results / "report.html").write_text(""),
    "notes.txt": lambda package: (package.results / "notes.txt").write_text("of somebody"),
    "manifest.json": lambda package: package.manifest.unlink(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_package_that_was_changed_is_not_replaced(fresh: Open, pristine: dict[str, Path], name: str) -> None:
    package = fresh("alone")
    CHANGES[name](package)
    before = read_files(package.top)
    with pytest.raises(InputError, match=r"changed since it was packaged|not a package that this tool made") as refused:
        packed(pristine["alone"].with_name("work"), package.top.parents[1])
    assert name == "manifest.json" or name in str(refused.value)
    assert read_files(package.top) == before


PREDICTED: Final = {"run_version": PREDICTED_RUN_VERSION, "prediction": PROFILE}
UNREADY: Final[dict[str, Callable[[Path], object]]] = {
    "missing": shutil.rmtree,
    "not complete but running": lambda trial: edit(trial / "run.json", {"status": "running"}),
    "predicted": lambda trial: [edit(trial / "run.json", {name: value}) for name, value in PREDICTED.items()],
    "damaged": lambda trial: flip_bit(trial / "run.json", 0),
}


@pytest.mark.parametrize("name", UNREADY)
def test_an_incomplete_submission_is_refused(work: Path, tmp_path: Path, name: str) -> None:
    UNREADY[name](work / "replays" / "option_2" / "trial_1")
    with pytest.raises(InputError, match=f"option_2/trial_1.*{name}"):
        packed(work, tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "submission.json").write_text('{"schema": "another"}')
    with pytest.raises(InputError, match=r"submission\.json: not a file of kv-tier-bench-submission/1"):
        packed(tmp_path, tmp_path / "results")
