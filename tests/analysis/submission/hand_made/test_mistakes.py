"""An untouched package is valid; what went wrong in any other is reported."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from analysis.submission.package_tree import find_packages
from analysis.submission.rules import find_pin
from replayer.schema import read_run, to_plain
from tests.analysis.submission.hand_made.changes import (
    ONE,
    TWO,
    begin_too_soon,
    copy,
    flip,
    flip_bit,
    remove,
    replace_by_link,
    replay_otherwise,
    set_claim,
    set_description,
    set_environment,
    set_info,
    swap_parts,
)
from tests.support.doubts import call
from tests.support.predicted_runs import mark
from tests.support.run_json import edit
from tests.support.submissions import BASES, OPTIONS, Change, Open, forge, manifest, problems, trial_of

pytestmark = pytest.mark.usefixtures("tiny")
TRIAL: Final = "kv_cache/*/run/*/option_1/trial_2"


@pytest.mark.parametrize("name", BASES)
def test_a_package_is_valid(fresh: Open, name: str) -> None:
    package = fresh(name)
    (told,) = json.loads(call("submission", "validate", package.results, "--json").stdout)
    assert (told["system"], told["valid"], told["submittable"], told["doubts"]) == ("box", True, True, [])


def test_exit_codes(fresh: Open, tmp_path: Path) -> None:
    package = fresh("alone")
    (package.results / "report.html").write_text("")
    (told,) = json.loads(call("submission", "validate", package.top, "--json", code=1).stdout)
    assert (told["valid"], told["submittable"], len(told["doubts"])) == (False, False, 1)
    for place in (tmp_path, tmp_path / "nowhere", package.top / "submission.yaml"):
        call("submission", "validate", place, code=2)
    package.manifest.write_text("{}")
    assert "manifest.json" in call("submission", "validate", package.top, code=2).stderr


@dataclass(frozen=True)
class Mistake:
    """A change to a package, and the problem that is reported though manifest and claims were computed again.

    Attributes:
        base: name of the package that is changed.
        claims: whether summary.json is computed again.
    """

    change: Change
    problem: str
    base: str = "alone"
    claims: bool = True


INVALID: Final = "option_1/trial_2 is not valid: "
MISTAKES: Final[dict[str, Mistake]] = {
    # files
    "a byte of a log": Mistake(flip("rank_0/moves/part-00000.parquet", -1), "part-00000.parquet is not readable"),
    "a part of another trial": Mistake(swap_parts, INVALID),
    "counters removed": Mistake(remove(f"{TRIAL}/rank_0/device.parquet"), "trial_2/rank_0 has no samples"),
    "a link in the place of a file": Mistake(replace_by_link, "environment.json is not a regular file"),
    # claims
    "a metric raised": Mistake(
        set_claim("options.option_1.decode_read_gib_s", 99.5),
        "summary.json: options.option_1.decode_read_gib_s is 99.5, but its logs give ", claims=False,
    ),
    "the claims removed": Mistake(remove("kv_cache/*/run/*/summary.json"), "summary.json: No such file", claims=False),
    # what there must be
    "an option removed": Mistake(remove("kv_cache/*/run/*/option_2"), "option_2 (some memory) has no trial"),
    "a trial twice": Mistake(copy(ONE, "trial_2"), "2 of these are one run, named or copied more than once"),
    "a rank twice": Mistake(copy(f"{TWO}/rank_0", "rank_1"), f"{INVALID}rank_1 is not rank 1 of 2", "ranks"),
    # which work was done
    "another trace": Mistake(
        replay_otherwise(
            lambda run: run.info.update(rank=0) or run.rows.update(rank=run.rows["rank"] * 0), rank=1
        ), 'option_1/trial_2/rank_0 ran with trace_fingerprint = "{other}"; CLOSED fixes "{pin}"',
    ),
    "in OPEN a trial of another trace": Mistake(
        set_info(f"{TWO}/rank_0", "trace.fingerprint", "f" * 64), 'ran with trace_fingerprint = "ffff', "open",
    ),
    # how it was done
    "a prediction": Mistake(replay_otherwise(mark), "option_1/trial_2 did not measure the system: it was predicted"),
    "a throttle": Mistake(
        set_info(f"{TWO}/rank_0", "conditions.throttle", {"nvme": {"gib_s": 1.0}}),
        'option_1/trial_2/rank_0 ran with throttle = {{"nvme": {{"gib_s": 1.0}}}}; CLOSED fixes {{}}',
    ),
    "in OPEN a trial of other conditions": Mistake(
        set_info(f"{TWO}/rank_0", "conditions.fsync", "none"),
        'option_1/trial_2/rank_0 ran with fsync = "none"; the first trial has "data"', "open",
    ),
    "a pause too short": Mistake(
        begin_too_soon, "option_2 began 29 s after the end of option_1; the rules require 30 s",
    ),
    "another device": Mistake(
        set_info(f"{TWO}/rank_0", "machine.storage.device_model", "punched tape"),
        "devices below the cache or releases of this tool: ",
    ),
    # whose it is
    "the system's description removed": Mistake(
        lambda package: package.description.unlink(), "systems/box.yaml: cannot be read",
    ),
    "a description that is not filled in": Mistake(
        set_description("system_under_test.clients.0.chassis.model_name", None),
        "system_under_test.clients.0.chassis.model_name is not filled in",
    ),
    "a manifest of another organisation": Mistake(
        manifest("organisation", "duff"), "manifest.json names the organisation duff, but its directory is acme",
    ),
    "the environment of another host": Mistake(set_environment("host", "elsewhere"), "environment.json is from elsewhere"),
    "a model of another name": Mistake(
        lambda package: (package.results / "kv_cache" / "hand-made").rename(package.results / "kv_cache" / "gpt-9"),
        "option_1 is in the directory of model gpt-9, but its model is hand-made",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported(fresh: Open, name: str) -> None:
    mistake = MISTAKES[name]
    package = fresh(mistake.base)
    mistake.change(package)
    forge(package, claims=mistake.claims)
    (package,) = find_packages(package.top)
    found = problems(package)
    pin, other = (find_pin("tiny", "option_1", rank) for rank in (0, 1))
    assert [text for text in found if mistake.problem.format(pin=pin, other=other) in text], found
    assert not [text for text in found if "manifest.json lists" in text or "sha256" in text]


def test_every_file_is_listed(fresh: Open) -> None:
    """Flip a bit in every file at once, except those of a trial that loses one and gets one."""
    package = fresh("ranks")
    files = [path for path in package.list_files() if "trial_2" not in str(path)]
    assert len(files) == 2 + 3 + 2 * (2 + 2 * 4), "yaml twice; summary, report, environment; per option runs and logs"
    for path in files:
        flip_bit(path, path.stat().st_size // 2)
    removed = trial_of(package, TWO) / "run.json"
    removed.rename(removed.with_name("added.json"))
    found = problems(package)
    for path in files:
        assert f"{path.relative_to(package.top)} was changed: its size or sha256 differs from manifest.json" in found
    assert f"{removed.relative_to(package.top)} is missing, though manifest.json lists it" in found
    assert f"{removed.with_name('added.json').relative_to(package.top)} is not listed in manifest.json" in found


SETTINGS: Final[dict[str, Any]] = {
    "model": "other", "usable_bytes": {"gpu": 0, "cpu": 5, "nvme": None}, "headroom": "0.9", "promote": True,
    "rules": {"cpu": {"policy": "fifo"}}, "duration_s": 1.0, "warmup": {"ops": 5, "s": 0.0}, "direct": False, "a new one": 1,
}  # fmt: skip


def test_closed_fixes_every_setting(fresh: Open) -> None:
    package, closed = fresh("alone"), OPTIONS[0].closed
    place = trial_of(package, TWO) / "rank_0"
    assert {*to_plain(read_run(place).conditions)} - {"ranks"} <= {*closed, "rules"}
    for name, value in SETTINGS.items():
        edit(place / "run.json", {f"conditions.{name}": value})
    set_info(f"{ONE}/rank_0", "conditions.io_depth", ...)(package)
    found = problems(package)
    for name, value in SETTINGS.items():
        fixed = json.dumps(closed[name]) if name in closed else "nothing"
        assert f"option_1/trial_2/rank_0 ran with {name} = {json.dumps(value)}; CLOSED fixes {fixed}" in found
    assert "option_1/trial_1/rank_0 ran with io_depth = null; CLOSED fixes 1" in found
