"""Packages of real replays, changed by a thorough forger: validate reports each change."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.doubts import against_trace as replanned
from analysis.submission import begin as beginning
from analysis.submission import package as packaging
from analysis.submission import rules as ruling
from analysis.submission import traces as tracing
from analysis.submission import validate as validation
from analysis.submission.package_tree import Package, Submission, find_packages
from analysis.submission.rules import RULES, Rules
from replayer.schema import LOG_SCHEMA, parts
from tests.analysis.submission.replayed_forgeries import (
    CHATS,
    FORGERIES,
    OPTION,
    PLACES,
    SETTINGS,
    change_log,
    generate_trace,
    read_log,
    replace_by_pipe,
    replay,
    rewrite_log,
    set_field,
)
from tests.support.command_line import child_here
from tests.support.doubts import call
from tests.support.run_json import run_json
from tests.support.submissions import edited, forge, packed, trial_of
from tracegen.schema import Trace


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a tree of results with a package of two real trials."""
    place = tmp_path_factory.mktemp("forged")
    trace, work = generate_trace(place / "trace.parquet", CHATS), place / "work"
    rules = Rules("real", (OPTION,), 2, pause_s=0, submittable=False, settings=(*SETTINGS, CHATS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES, "real", rules)
        patch.setattr(ruling, "_read_pins", lambda: {"real": {"option_1": [trace.metadata.fingerprint]}})
        patch.setattr(replanned, "run_child", child_here)
        patch.setattr(tracing, "_generate", lambda *_: trace)
        beginning.begin(work, Submission("acme", "box", "closed", "real"), Path("/proc"), place / "results", 2)
        for trial in (1, 2):
            run = work / "replays" / "option_1" / f"trial_{trial}"
            replay(trace, run)
            run.with_name(f"log-{run.name}.txt").write_text("what was printed\n")
        if not run_json(run)["conditions"]["direct"]:
            pytest.skip("this disk refuses O_DIRECT")
        packed(work, place / "results")
        yield place / "results"


@pytest.fixture
def package(real: Path, tmp_path: Path) -> Package:
    shutil.copytree(real, tmp_path / "results")
    (found,) = find_packages(tmp_path / "results" / "closed" / "acme")
    return found


def test_an_honest_package_is_valid(package: Package) -> None:
    assert validation.validate(package).problems == []


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_reported(package: Package, name: str) -> None:
    forgery = FORGERIES[name]
    forgery.change(package)
    if forgery.manifest:
        forge(package, claims=False)
    began = time.monotonic()
    found = validation.validate(Package(package.top, package.submission)).problems
    assert [text for text in found if forgery.problem in text], found
    assert forgery.manifest or time.monotonic() - began < 5


def test_a_manifest_that_is_a_pipe_is_refused(package: Package) -> None:
    package.manifest.unlink()
    os.mkfifo(package.manifest)
    assert "manifest.json is not a regular file" in call("submission", "validate", package.top, code=2).stderr


def test_traces_are_accepted_for_options_of_open_only(package: Package) -> None:
    told = {
        "option_1=t.parquet": "leave it out",
        "option_9=t": "unknown option",
        "t.parquet": "not OPTION=FILE",
    }
    for given, sentence in told.items():
        assert sentence in call("submission", "validate", package.top, "--trace", given, code=2).stderr


# A run compared with its trace


@pytest.fixture
def run_of(package: Package, real: Path) -> tuple[Path, Path]:
    return trial_of(package, PLACES[1]), real.with_name("trace.parquet")


def test_check_plans_in_a_separate_process(run_of: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    place, trace = run_of
    call("check", place, "--trace", trace)


def test_check_compares_a_run_with_its_trace(run_of: tuple[Path, Path], tmp_path: Path) -> None:
    place, trace = run_of
    other = generate_trace(tmp_path / "other.parquet", CHATS, "seed=43")
    assert "replayed the trace" in call("check", place, "--trace", other.path, code=2).stderr
    rewrite_log(place, read_log(place).with_columns(pl.col("step") + 1))
    call("check", place)
    assert "rows have another step" in call("check", place, "--trace", trace, code=1).stdout


WAYS: Final = {
    "in the trace's order": ("--order", "trace", "--users", 2, "--cycles", 2, "--decode", "once"),
    "placed live": ("--placement", "live"),
    "with odd memory": ("--cpu-mem-gb", "0.013", "--headroom", "0.37", "--promote", "--storage-capacity-gb", "0.031"),
}


@pytest.mark.parametrize("way", WAYS)
def test_check_plans_runs_of_any_kind_again(real: Path, tmp_path: Path, way: str) -> None:
    trace = Trace(real.with_name("trace.parquet"))
    replay(trace, tmp_path / "run", *WAYS[way])
    call("check", tmp_path / "run", "--trace", trace.path)
    rows = read_log(tmp_path / "run")
    rewrite_log(tmp_path / "run", rows.with_columns(pl.col("tokens") + 1))
    found = call("check", tmp_path / "run", "--trace", trace.path, code=1).stdout
    assert "rows have another tokens" in found


# Packages of OPEN, whose traces nobody has pinned


def opened(real: Path, place: Path, recipe: dict[str, Any] | None) -> Package:
    """The package as one of OPEN, with this recipe of its trace; None: the one that is recorded."""
    shutil.copytree(real, place / "results")
    (place / "results" / "closed").rename(place / "results" / "open")
    package = Package(place / "results" / "open" / "acme", Submission("acme", "box", "open", "real"))
    edited(package.manifest, "division", "open")
    (package.top / "submission.yaml").write_text(packaging.render_submission_yaml(package.submission))
    if recipe is not None:
        set_field("trace.recipe", recipe)(package)
    edited(package.runs[0] / "summary.json", "division", "open")
    forge(package, claims=False)
    return package


def test_a_trace_of_open_is_generated_from_its_recorded_recipe(
    real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_generate", MADE)
    package = opened(real, tmp_path, None)
    found = validation.validate(package)
    assert (found.problems, found.untied) == ([], {})
    change_log(pl.col("step") + 1)(package)
    forge(package, claims=False)
    found = validation.validate(Package(package.top, package.submission))
    assert [text for text in found.problems if "rows have another step" in text], found.problems


MADE: Final = tracing._generate


def test_validate_asks_for_a_trace_of_open_that_it_cannot_generate(real: Path, tmp_path: Path) -> None:
    package = opened(real, tmp_path, {})
    told = "Note: nothing ties the rows of option_1 to its trace (no recipe is recorded): a reviewer who has the trace passes"
    assert f"{told} --trace option_1=FILE." in call("submission", "validate", package.top).stdout
    given = f"option_1={real.with_name('trace.parquet')}"
    done = call("submission", "validate", package.top, "--trace", given)
    assert "nothing ties" not in done.stdout
    change_log(pl.col("step") + 1)(package)
    forge(package, claims=False)
    done = call("submission", "validate", package.top, "--trace", given, code=1)
    assert "rows have another step" in done.stdout


# Run directories that hold no files


@pytest.mark.parametrize("name", ["run.json", "device.parquet", "moves/part-00000.parquet"])
def test_a_run_with_a_pipe_in_it_is_refused(package: Package, name: str) -> None:
    replace_by_pipe(name)(package)
    place = trial_of(package, PLACES[1])
    for command in ("summary", "check"):
        assert f"{name} is not a regular file; copy the run anew." in call(command, place, code=2).stderr


def test_files_larger_than_any_replay_writes_are_refused(package: Package) -> None:
    place = trial_of(package, PLACES[1])
    part, *_ = parts(place)
    content = part.read_bytes()
    table = pq.read_table(part)
    many = pa.table({name: pa.repeat(table[name][0], 1_000_000) for name in table.column_names})
    pq.write_table(many.cast(LOG_SCHEMA), part, compression="zstd")
    assert "part-00000.parquet claims 1,000,000 rows in " in call("check", place, code=2).stderr
    part.write_bytes(content)
    os.truncate(part, 1 << 31)
    assert "part-00000.parquet has 2,147,483,648 bytes, more than any honest one" in call("check", place, code=2).stderr


def test_a_million_missing_ranks_are_reported_quickly(package: Package) -> None:
    place = trial_of(package, "option_1/trial_2")
    above = {"run_version": 2, "ranks": 1_000_000, "status": "complete", "reason": None, "clocks": []}
    (place / "run.json").write_text(json.dumps(above))
    found = call("summary", place).stdout
    assert "rank 99 of 1000000 is missing" in found
    assert "ranks from 100 to 999,999 were not looked for" in found
