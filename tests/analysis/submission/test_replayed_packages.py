"""Packages of real replays: rows are tied to their trace, which is made and planned again."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow.parquet as pq
import pytest

from analysis.doubts import against_trace as replanned
from analysis.doubts.integrity import count_moves, fingerprint_rows
from analysis.log.cells import sum_by_cell
from analysis.runs.reading import scan
from analysis.submission import begin as beginning
from analysis.submission import package as packaging
from analysis.submission import rules as ruling
from analysis.submission import trial_checks as remade
from analysis.submission import validate as validation
from analysis.submission.package_tree import Begun, Package, Submission, find_packages
from analysis.submission.rules import RULES, Option, Rules
from replayer.schema import LOG_ENUMS, LOG_SCHEMA, ORDERED_PLAN_VERSION, parts
from tests.support.command_line import child_here, here
from tests.support.doubts import call, refusal
from tests.support.run_json import edit, run_json
from tests.support.submissions import forge, packed, problems, trial_of
from tracegen.schema import Trace

OPTION: Final = Option("option_1", "real", "tiny-1b", 24576, users=3, cpu_bytes=0, allocs=16, duration_s=1)
SETTINGS: Final = (
    "duration_s=4",
    "personas.coding.weight=0",
    "personas.document.weight=0",
    "personas.chatbot.context=[256, 512]",
)
NAMES: Final = {"organisation": "acme", "system": "box", "division": "closed", "scale": "real"}
PLACES: Final = tuple(f"option_1/trial_{trial}/rank_0" for trial in (1, 2))
MADE: Final = remade.generate


def generate_trace(place: Path, *settings: str) -> Trace:
    words = [word for setting in (*SETTINGS, *settings) for word in ("--set", setting)]
    assert here("tracegen", "generate", "mlperf_option_1", *words, "--users", 3, "-o", place).returncode == 0
    return Trace(place)


def replay(trace: Trace, place: Path, *flags: object) -> None:
    fixed = "--model tiny-1b --duration 1 --cache-dir".split()
    cache = place.parent / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    words = [*fixed, cache, *flags, "-o", place]
    assert here("replayer", "run", trace.path, *words).returncode == 0


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a tree of results with a package of two real trials."""
    place = tmp_path_factory.mktemp("replayed")
    trace, work = generate_trace(place / "trace.parquet"), place / "work"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES, "real", Rules((OPTION,), 2, pause_s=0, submittable=False, settings=SETTINGS))
        patch.setattr(ruling, "read_pins", lambda: {"real": {"option_1": [trace.metadata.fingerprint]}})
        patch.setattr(replanned, "run_child", child_here)
        patch.setattr(remade, "generate", lambda *_: trace.path)
        beginning.begin(work, Begun(**NAMES, trials=2), Path("/proc"), place / "results")
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


@pytest.fixture
def run_of(package: Package, real: Path) -> tuple[Path, Path]:
    return trial_of(package, PLACES[1]), real.with_name("trace.parquet")


def test_an_honest_package_is_valid(package: Package) -> None:
    assert problems(package) == []


# Rows that are not those of the trace


Change = Callable[[Package], object]


def read_log(place: Path) -> pl.DataFrame:
    return pl.read_parquet(parts(place))


def rewrite_log(place: Path, rows: pl.DataFrame) -> None:
    """Replace a log by these rows; make run.json agree: fingerprint, counts and window."""
    for part in parts(place):
        part.unlink()
    table = rows.with_columns(pl.col(*LOG_ENUMS).cast(pl.String)).to_arrow().select(LOG_SCHEMA.names)
    pq.write_table(table.cast(LOG_SCHEMA), place / "moves" / "part-00000.parquet")
    info = json.loads((place / "run.json").read_text())
    said = scan(parts(place)).with_columns(pl.col(name).cast(pl.Enum(words)) for name, words in LOG_ENUMS.items())
    cells = sum_by_cell(said, info["executed_ops"])
    for name, count in count_moves(cells.filter(~pl.col("beyond"))).items():
        group, _, tier = name.partition(".")
        info["executed"] |= {group: info["executed"][group] | {tier: count} if tier else count}
    info["executed_fingerprint"] = fingerprint_rows(said, info["executed_ops"], 1, ORDERED_PLAN_VERSION)[0]
    last_ns = cells.select(pl.col("last_start_ns", "end_ns").max()).row(0)
    info["window"] |= {"issued_s": last_ns[0] / 1e9, "drain_s": max(0.0, last_ns[1] / 1e9 - 1)}
    (place / "run.json").write_text(json.dumps(info))


def change_log(*changes: pl.Expr, of: tuple[str, ...] = PLACES[1:]) -> Change:
    """Change columns of trials' logs."""

    def changed(package: Package) -> None:
        for run in of:
            place = trial_of(package, run)
            rewrite_log(place, read_log(place).with_columns(*changes))

    return changed


def replay_otherwise(*flags: object, settings: tuple[str, ...] = ()) -> Change:
    """Replay the second trial in another way, under the names that CLOSED requires."""

    def changed(package: Package) -> None:
        place, fresh = trial_of(package, PLACES[1]), package.top.parents[1] / "other"
        known = run_json(place)
        replay(generate_trace(fresh.with_suffix(".parquet"), *settings), fresh, *flags)
        shutil.rmtree(place)
        shutil.copytree(fresh, place)
        for name in ("trace", "conditions", "plan"):
            edit(place / "run.json", {name: known[name]})

    return changed


def add_rows(*changes: pl.Expr) -> Change:
    """Repeat the hits of a log, changed."""

    def changed(package: Package) -> None:
        place = trial_of(package, PLACES[1])
        rows = read_log(place)
        hits = rows.filter(pl.col("move").cast(pl.String) == "hit").with_columns(*changes)
        rewrite_log(place, pl.concat([rows, hits]))

    return changed


BEYOND: Final = (pl.col("position") + 10**6, pl.lit(1, pl.Int64).alias("op_id"))
DIFFERENT: Final[dict[str, tuple[Change, str]]] = {
    "objects under other names": (change_log(pl.col("key").replace({0: 1, 1: 0}), of=PLACES), "another key"),
    "tokens of another op": (change_log(pl.col("new_tokens").reverse()), "another new_tokens"),
    "rows beyond the prefix": (add_rows(*BEYOND), "rows are not a move of it"),
    "a replay with memory": (replay_otherwise("--cpu-mem-gb", 0.05), "another from_tier"),
    "another trace": (replay_otherwise(settings=("seed=43",)), "does not follow its trace"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_rows_of_other_work_are_reported(package: Package, name: str) -> None:
    change, problem = DIFFERENT[name]
    change(package)
    forge(package, claims=False)
    found = problems(package)
    assert [text for text in found if problem in text and "trial_2" in text], found


# Files that are no files


def test_a_pipe_in_a_package_is_reported_and_not_read(package: Package) -> None:
    os.mkfifo(trial_of(package, PLACES[1]) / "moves" / "part-00009.parquet")
    assert [text for text in problems(package) if "part-00009.parquet is not a regular file" in text]
    package.manifest.unlink()
    os.mkfifo(package.manifest)
    assert "manifest.json is not a regular file" in call("submission", "validate", package.top, code=2).stderr


def test_a_run_with_a_pipe_in_it_is_refused(run_of: tuple[Path, Path]) -> None:
    place, name = run_of[0], "moves/part-00000.parquet"
    (place / name).unlink()
    os.mkfifo(place / name)
    assert f"{name} is not a regular file" in refusal(place)


def test_files_larger_than_any_replay_writes_are_refused(run_of: tuple[Path, Path]) -> None:
    part, *_ = parts(run_of[0])
    os.truncate(part, 1 << 31)
    assert "part-00000.parquet has 2,147,483,648 bytes" in refusal(run_of[0])


def test_a_million_missing_ranks_are_reported_quickly(package: Package) -> None:
    place = trial_of(package, "option_1/trial_2")
    above = {"run_version": 2, "ranks": 1_000_000, "status": "complete", "reason": None, "clocks": []}
    (place / "run.json").write_text(json.dumps(above))
    assert "ranks from 100 to 999,999 were not looked for" in call("summary", place).stdout


# A run compared with its trace


def test_check_plans_in_a_separate_process(run_of: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    place, trace = run_of
    call("check", place, "--trace", trace)


def test_check_compares_a_run_with_its_trace(run_of: tuple[Path, Path], tmp_path: Path) -> None:
    place, trace = run_of
    other = generate_trace(tmp_path / "other.parquet", "seed=43")
    assert "replayed the trace" in call("check", place, "--trace", other.path, code=2).stderr
    rewrite_log(place, read_log(place).with_columns(pl.col("step") + 1))
    call("check", place)
    assert "rows have another step" in call("check", place, "--trace", trace, code=1).stdout


ODD: Final = "--cpu-mem-gb 0.013 --set headroom=0.37 --set promote=true --storage-capacity-gb 0.031"
WAYS: Final = ["--order trace --users 2 --set cycles=2 --decode once", "--placement live", ODD]


@pytest.mark.parametrize("way", WAYS)
def test_check_plans_runs_of_any_kind_again(real: Path, tmp_path: Path, way: str) -> None:
    trace = Trace(real.with_name("trace.parquet"))
    replay(trace, tmp_path / "run", *way.split())
    call("check", tmp_path / "run", "--trace", trace.path)
    rewrite_log(tmp_path / "run", read_log(tmp_path / "run").with_columns(pl.col("tokens") + 1))
    assert "rows have another tokens" in call("check", tmp_path / "run", "--trace", trace.path, code=1).stdout


# Packages of OPEN, whose traces nobody has pinned


def opened(real: Path, place: Path, recipe: dict[str, Any] | None) -> Package:
    """The package as one of OPEN, with this recipe of its trace; None: the one that is recorded."""
    shutil.copytree(real, place / "results")
    (place / "results" / "closed").rename(place / "results" / "open")
    package = Package(place / "results" / "open" / "acme", Submission(**NAMES | {"division": "open"}))
    edit(package.manifest, {"division": "open"})
    (package.top / "submission.yaml").write_text(packaging.render_submission_yaml(package.submission))
    for run in PLACES if recipe is not None else ():
        edit(trial_of(package, run) / "run.json", {"trace.recipe": recipe})
    edit(package.runs[0] / "summary.json", {"division": "open"})
    forge(package, claims=False)
    return package


def test_a_trace_of_open_is_generated_from_its_recorded_recipe(
    real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remade, "generate", MADE)
    package = opened(real, tmp_path, None)
    found = validation.validate(package)
    assert (found.problems, found.untied) == ([], {})


def test_validate_says_that_it_cannot_generate_a_trace_of_open(real: Path, tmp_path: Path) -> None:
    package = opened(real, tmp_path, {})
    (told,) = json.loads(call("submission", "validate", package.top, "--json").stdout)
    assert (told["valid"], "no trace" in [doubt["headline"] for doubt in told["doubts"]]) == (True, True)
