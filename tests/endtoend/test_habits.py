"""What people name, ask and paste: directories of series, other tools' words, live runs, names that are commands."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from analysis.commands.directories import find_runs
from analysis.summary import glossary
from analysis.summary.run_summary import is_thin
from tests.support import traces
from tests.support.command_line import here
from tests.support.crafted_runs import clean
from tests.support.doubts import call
from tests.support.run_json import edit
from tracegen.console.command_line import Refused
from tracegen.errors import InputError, escape_controls
from tracegen.schema import METADATA_KEY

pytestmark = pytest.mark.usefixtures("latencies_once")


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid run."""
    return clean(5).save(tmp_path_factory.mktemp("one") / "run")


def changed(run: Path, place: Path, **changes: Any) -> Path:
    """A copy of a run with other fields."""
    shutil.copytree(run, place)
    edit(place / "run.json", changes)
    return place


# Directories of series


@pytest.fixture
def sweep(one: Path, tmp_path: Path) -> Path:
    """As a sweep leaves it: two cases of trials, a log beside each, one that failed put aside, one not begun."""
    for case, trials in (("b", (1, 2, 10)), ("a", (1, 2, 3))):
        for number in trials:
            clock = {"zero_ns": number + 100 * ord(case)}
            changed(one, tmp_path / "sweep" / case / f"trial_{number}", **{"clock": clock, "conditions.model": case})
            (tmp_path / "sweep" / case / f"log-trial_{number}.txt").write_text("$ replayer run")
    shutil.copytree(one, tmp_path / "sweep" / "a" / "failed-1-trial_3")
    (tmp_path / "sweep" / "traces").mkdir()
    (tmp_path / "sweep" / "series.json").write_text("{}")
    (tmp_path / "sweep" / "self").symlink_to(tmp_path / "sweep")
    rank = tmp_path / "sweep" / "a" / "trial_1" / "rank_0"  # part of a run, not a run
    rank.mkdir()
    (rank / "run.json").write_text("{}")
    return tmp_path / "sweep"


ORDER = ["a/trial_1", "a/trial_2", "a/trial_3", "b/trial_1", "b/trial_2", "b/trial_10"]


def test_a_series_stands_for_its_runs_in_order(sweep: Path) -> None:
    assert [str(run.relative_to(sweep)) for run in find_runs([sweep])] == ORDER
    assert find_runs([sweep / "b" / "trial_2", sweep / "a"])[0] == sweep / "b" / "trial_2"
    assert [run.name for run in find_runs([sweep / "b"])] == ["trial_1", "trial_2", "trial_10"]


def test_every_command_takes_a_series(sweep: Path) -> None:
    shown = call("check", sweep / "b").stdout
    assert shown.splitlines()[-1].startswith("VALID: 3 runs, same work: ")
    assert len(json.loads(call("assess", sweep / "b", "--json").stdout)) == 3
    assert "\ntrial_10," in call("report", sweep / "b", "--format", "csv").stdout
    told = json.loads(call("compare", sweep / "a", "--against", sweep / "b", "--vary", "model", "--json").stdout)
    assert (told["baseline"], [one["system"] for one in told["systems"]]) == ("b", ["a"])
    assert [len(runs) for runs in told["runs"].values()] == [3, 3]


# Percentiles of few samples


def test_percentiles_of_few_samples_are_in_brackets() -> None:
    for metric, counts, is_few in (
        ("nvme_read_p95_ms", {"nvme_reads": 99}, True),
        ("nvme_read_p95_ms", {"nvme_reads": 100}, False),
        ("batch_ttfb_p95_ms", {"requests": 1000, "batch_requests": 20}, True),
    ):
        assert is_thin(metric, counts | {metric: 12.3}) == is_few


# Other tools' words


def test_aliases_name_metrics() -> None:
    for alias, name in glossary.ALIASES.items():
        (family,) = glossary.find_families([alias.upper()])
        assert name in (family.name, *(metric.name for metric in family.expand()))


# Live runs


@pytest.fixture
def live(one: Path, tmp_path: Path) -> Iterator[Path]:
    """A run whose replayer is at work: it holds the directory."""
    place = changed(one, tmp_path / "live", status="running")
    lock = os.open(place, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield place
    os.close(lock)


def test_a_live_run_is_told_from_a_killed_one(live: Path, one: Path, tmp_path: Path) -> None:
    shown = call("summary", live).stdout
    assert "INVALID: still running: figures so far; " in shown
    assert "killed" not in shown
    assert "still running" in call("check", live, code=1).stdout
    killed = changed(one, tmp_path / "killed", status="running")
    assert "INVALID: incomplete: the run is incomplete: it was killed" in call("summary", killed).stdout


def test_a_live_run_that_has_logged_nothing_yet(live: Path) -> None:
    for part in (live / "moves").iterdir():
        part.rename(part.with_name(f"{part.name}.partial"))
    assert "has logged nothing yet" in call("summary", live, code=2).stderr


# Names that are commands to a terminal or a spreadsheet

ESCAPES = "\x1b]0;owned\x07\x9b31m\r"


def test_control_characters_are_shown() -> None:
    assert escape_controls("a\x1b[31m\x07\x9b\r\n\tb\udcff") == "a\\x1b[31m\\x07\\x9b\\x0d\n\tb\\udcff"
    assert escape_controls("TTFT … 3 µs — naïve 数") == "TTFT … 3 µs — naïve 数"
    assert Refused(InputError("no \x1b[31m"), {}).format_message() == "no \\x1b[31m."


@pytest.fixture(scope="module")
def hostile(one: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with escape codes in every text of run.json that may be any, and in its name."""
    place = tmp_path_factory.mktemp("hostile") / f"={ESCAPES}"
    words = {"host": f"h{ESCAPES}", "cpu": f"c{ESCAPES}", "storage": {"device": f"d{ESCAPES}"}}
    trace = {"fingerprint": "t", "path": ESCAPES, "generator": ESCAPES, "recipe": {ESCAPES: ESCAPES}}
    texts = {
        "conditions.model": f"m{ESCAPES}",
        "warnings": [{"kind": "note", "text": ESCAPES}],
        "reason": ESCAPES,
        "machine": words,
    }
    return changed(one, place, status="failed", trace=trace, executed_fingerprint=ESCAPES, **texts)


@pytest.mark.parametrize(
    "command",
    ["summary", "check", "assess", "compare", "report --format md", "summary --json"],
)
def test_no_text_of_a_run_reaches_the_terminal_as_a_command(hostile: Path, command: str) -> None:
    done = here("analysis", *command.split(), hostile)
    told = done.stdout + done.stderr
    assert done.returncode in (0, 1, 2)
    assert len(told) > 20
    assert not set(told) & {"\x1b", "\x07", "\x9b", "\r"}
    assert "x1b" in told or "u001b" in told


def test_a_run_called_like_a_formula_is_text_in_csv(one: Path, tmp_path: Path) -> None:
    shutil.copytree(one, tmp_path / "=1+1")
    assert call("report", tmp_path / "=1+1", "--format", "csv").stdout.splitlines()[1].startswith("'=1+1,")


def test_no_text_of_a_trace_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    columns = traces.columns([("w", 0, 5), ("r", 0, 5)])
    traces.write(path, columns)
    table = pq.read_table(path)
    about = json.loads(pq.read_metadata(path).metadata[METADATA_KEY])
    about |= {"generator": ESCAPES, "recipe": {ESCAPES: ESCAPES}, "sources": [{"name": ESCAPES, "licence": ESCAPES}]}
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(about)}), path)
    for command in (["info", path], ["validate", path], ["diff", path, path]):
        done = here("tracegen", *command)
        assert done.stdout
        assert not set(done.stdout + done.stderr) & {"\x1b", "\x07", "\x9b", "\r"}
