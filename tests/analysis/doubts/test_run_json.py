"""Fields of run.json that are missing or have another type are refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from replayer.schema import read_ranks, read_run
from tests.support.crafted_runs import clean
from tests.support.doubts import drop, edit, put, rank_runs, refusal
from tracegen.errors import InputError

pytestmark = pytest.mark.usefixtures("latencies_once")
PRESENT = ["status", "trace", "plan", "conditions", "trace.fingerprint", "conditions.model", "plan.ops", "run_version"]
WRONG: list[tuple[str, Any]] = [
    *[("plan.ops", value) for value in ("5", -1, True, 1.5, 1 << 63, None)],
    *[("window.cut_s", value) for value in ("5", -1, float("nan"), float("inf"), 1e18)],
    *[(name, []) for name in ("trace", "plan", "conditions", "window", "warmup", "clock", "machine", "machine.storage")],
    ("clock.zero_ns", 1 << 70), ("executed_fingerprint", 5), ("status", "done"), ("warnings", [1]),
    ("conditions.workers", 0), ("conditions.pace", "brisk"), ("conditions.layout", "tape"),
    ("conditions.throttle", {"disk": {}}), ("conditions.part", [2, 2]), ("conditions.ranks", 1 << 20),
    ("conditions.speedup", 1e300), ("trace.counts", {"x": "y"}), ("trace.sources", [5]), ("run_version", True),
]  # fmt: skip


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


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "[" * 100_000, "\udcff", "{'run_version': 1}"],
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
