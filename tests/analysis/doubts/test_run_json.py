"""Fields of run.json that are missing or have another type are refused in one sentence."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from analysis.summary.summary import check_run, summarise
from replayer.schema import read_ranks, read_run
from tests.support.crafted_runs import clean
from tests.support.doubts import drop, edit, put, rank_runs, refusal
from tracegen.errors import InputError

pytestmark = pytest.mark.usefixtures("latencies_once")
PRESENT = [
    "plan",
    "conditions.model",
    "conditions.direct",
    "plan.demotions.cpu>nvme",
    "executed.hits.gpu",
    "run_version",
]


WRONG: list[tuple[str, Any]] = [
    ("plan.ops", -1),
    ("executed.ops", 1 << 63),
    ("clock.zero_ns", 1 << 70),
    ("window.cut_s", float("nan")),
    ("conditions.token_ms", 1e7),
    ("conditions.usable_bytes.cpu", "1"),
    ("conditions.part", [2, 2]),
    ("conditions.ranks", 1 << 20),
    ("conditions.throttle", {"disk": {}}),
    ("conditions.decode", "thrice"),
    ("trace.sources", [{"name": 5}]),
    ("machine.storage", []),
    ("status", "done"),
    ("run_version", True),
]
"""A value for each kind of limit that the types state."""


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


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{name}={str(value)[:12]}" for name, value in WRONG])
def test_fields_of_wrong_types_are_refused(plain: Path, plain_info: dict[str, Any], name: str, value: Any) -> None:
    put(plain_info, name, value)
    (plain / "run.json").write_text(json.dumps(plain_info))
    with pytest.raises(InputError) as caught:
        read_run(plain)
    message = str(caught.value)
    assert "\n" not in message
    assert str(plain) in message
    assert name.rpartition(".")[2] in message or name == "run_version"


@pytest.mark.parametrize("name", PRESENT)
def test_missing_required_fields_are_refused(plain: Path, plain_info: dict[str, Any], name: str) -> None:
    drop(plain_info, name)
    (plain / "run.json").write_text(json.dumps(plain_info))
    assert name.partition(".")[0] in refusal(plain)


def test_fields_that_older_releases_lack_may_be_missing(plain: Path, plain_info: dict[str, Any]) -> None:
    whole = set(plain_info) - {"run_version", "status", "reason", "warnings", "trace", "plan", "conditions"}
    kept = "model bytes_per_token usable_bytes workers pace direct verify".split()
    paths = [*whole, *(f"conditions.{name}" for name in set(plain_info["conditions"]) - set(kept)), "plan.reads",
             "plan.peak_bytes", "plan.plan_fingerprint", "plan.plan_checkpoints", "trace.counts", "trace.ops", "trace.path"]  # fmt: skip
    for change in (drop, lambda info, path: put(info, path, None)):
        for some in [*([path] for path in whole), [path for path in paths if path not in whole], paths]:
            info = deepcopy(plain_info)
            for path in some:
                change(info, path)
            (plain / "run.json").write_text(json.dumps(info))
            read_run(plain)
            if change is drop or some is paths:
                summary = summarise(plain).to_json()
                assert summary["valid"], (some, summary["findings"])
    assert check_run(plain).is_valid


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "5", "{}", '{"run_version": 1}', "[" * 100_000, '{"a":' * 100_000, "\udcff", "{'run_version': 1}", '{"run_version": 9' * 9],
    ids=lambda text: repr(text)[:20],
)  # fmt: skip
def test_files_that_are_not_run_json_are_refused(plain: Path, plain_info: dict[str, Any], text: str) -> None:
    (plain / "run.json").write_text(text, errors="surrogateescape")
    refusal(plain)


def test_numbers_of_thousands_of_digits(plain: Path, plain_info: dict[str, Any]) -> None:
    for digits in (50, 400, 5_000):
        text = json.dumps(plain_info | {"more": "HUGE"}).replace('"HUGE"', "9" * digits)
        (plain / "run.json").write_text(text)
        assert f"is damaged or incomplete: a number has {digits:,} digits" in refusal(plain)


@pytest.mark.parametrize(("version", "remedy"), [(1, "replay it anew"), (4, "upgrade it")])
def test_a_run_of_another_format_is_named_before_its_fields(plain: Path, version: int, remedy: str) -> None:
    (plain / "run.json").write_text(json.dumps({"run_version": version, "ranks": "many"}))
    assert f"is of run format {version}, this release reads 2 and 3; {remedy}." in refusal(plain)


@pytest.mark.parametrize(
    "above",
    [
        {"ranks": 0},
        {"ranks": 1 << 20},
        {"status": "fine"},
        {"executed_ops": -1},
        {"clocks": [5]},
        {"run_version": None},
    ],
    ids=str,
)
def test_run_json_above_the_ranks_is_typed(tmp_path: Path, above: dict[str, Any]) -> None:
    place = rank_runs(tmp_path / "run", 1)
    ranks = read_ranks(place)
    assert ranks is not None
    assert ranks.ranks == 1
    edit(place, **above)
    assert next(iter(above)) in refusal(place)
