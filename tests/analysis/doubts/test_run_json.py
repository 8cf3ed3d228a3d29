"""Fields of run.json that are missing or have another type are refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from replayer.schema import read_run
from tests.support.crafted_runs import clean
from tests.support.doubts import rank_runs, refusal
from tests.support.run_json import edit, put
from tracegen.errors import InputError

pytestmark = pytest.mark.usefixtures("latencies_once")
WRONG: dict[str, Any] = {
    "plan.ops": 1 << 63, "window.cut_s": float("inf"), "conditions.workers": 0, "conditions.part": [2, 2],
    "run_version": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = clean(5)
    run.info["precondition"] = {"gib": 1.0, "s": 1.0}
    return run.save(tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture
def plain_info(plain: Path) -> Any:
    """Its run.json, to be changed; as it was afterwards."""
    kept = (plain / "run.json").read_text()
    yield json.loads(kept)
    (plain / "run.json").write_text(kept)


@pytest.mark.parametrize("name", WRONG)
def test_fields_of_wrong_types_are_refused(plain: Path, plain_info: dict[str, Any], name: str) -> None:
    put(plain_info, name, WRONG[name])
    (plain / "run.json").write_text(json.dumps(plain_info))
    with pytest.raises(InputError) as caught:
        read_run(plain)
    message = str(caught.value)
    assert "\n" not in message
    assert str(plain) in message
    assert name.rpartition(".")[2] in message or name == "run_version"


@pytest.mark.parametrize("name", ["plan", "run_version"])
def test_missing_required_fields_are_refused(plain: Path, plain_info: dict[str, Any], name: str) -> None:
    del plain_info[name]
    (plain / "run.json").write_text(json.dumps(plain_info))
    assert name in refusal(plain)


@pytest.mark.parametrize("text", ["", "[" * 100_000, "\udcff", '{"run_version": ' + "9" * 5_000 + "}"], ids=range(4))
def test_files_that_are_not_run_json_are_refused(plain: Path, plain_info: dict[str, Any], text: str) -> None:
    (plain / "run.json").write_text(text, errors="surrogateescape")
    refusal(plain)


@pytest.mark.parametrize(("version", "remedy"), [(1, "replay it anew"), (4, "upgrade it")])
def test_a_run_of_another_format_is_named_before_its_fields(plain: Path, version: int, remedy: str) -> None:
    (plain / "run.json").write_text(json.dumps({"run_version": version, "ranks": "many"}))
    assert f"is of run format {version}, this release reads 2 and 3; {remedy}." in refusal(plain)


ABOVE: dict[str, Any] = {"ranks": 1 << 20, "clocks": [5]}


@pytest.mark.parametrize("name", ABOVE)
def test_run_json_above_the_ranks_is_typed(tmp_path: Path, name: str) -> None:
    place = rank_runs(tmp_path / "run", 1)
    edit(place / "run.json", {name: ABOVE[name]})
    assert name in refusal(place)
