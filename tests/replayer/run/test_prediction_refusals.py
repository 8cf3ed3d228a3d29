"""Predictions that are refused in one sentence, or doubted, and those that are interrupted."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.replayer.run.predictions import DRIVE, MODEL, log_of, make_trace, predict
from tests.replayer.run.replays import _many
from tests.support import traces
from tests.support.command_line import here
from tests.support.paths import ROOT

LOAD = ("--cpu-mem-gb", "0.05", "--pace", "asap")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_trace(tmp_path_factory.mktemp("trace") / "chat.parquet")


def without_cpu(text: str) -> str:
    """A profile whose [cpu] has no tier."""
    begin, end = text.index("writes_on_reads"), text.index("[nvme]")
    return text[:begin] + text[end:]


CASES: dict[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    "a tier is missing": (without_cpu, ()),
    "objects are far larger": (lambda text: text.replace("largest_bytes = 67_108_864", "largest_bytes = 20_000"), ()),
    "far more workers": (str, ("--workers", "49")),
    "a speed of no tier of the profile": (str, ("--speed", "gpu=2")),
    "a speed of no tier": (str, ("--speed", "disk=2")),
    "a speed of 0": (str, ("--speed", "nvme=0")),
    "a speed twice": (str, ("--speed", "nvme=2,nvme=3")),
    "a warm-up of all": (str, ("--warmup", "1000000ops")),
    "a drain without a duration": (str, ("--set", "drain=1s")),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_predicted_is_refused_in_one_sentence(chat: Path, tmp_path: Path, case: str) -> None:
    change, flags = CASES[case]
    profile = tmp_path / "drive.toml"
    profile.write_text(change(DRIVE.read_text()))
    done = here("replayer", "predict", chat, *MODEL, *LOAD, "--profile", profile, *flags, "-o", tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr.count("Error: ") == 1
    assert not (tmp_path / "run").exists()


def test_an_unknown_profile_and_a_full_directory_are_refused(chat: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("x")
    words = ("replayer", "predict", chat, *MODEL, *LOAD, "-o", tmp_path / "run", "--profile")
    assert "cannot be read" in here(*words, "nowhere.toml").stderr
    done = here(*words, DRIVE, "--force")
    assert done.returncode == 2
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]


def doubts_of(chat: Path, run: Path, text: str, *flags: str) -> list[str]:
    """The kinds of the warnings of a prediction from a profile of this text."""
    profile = run.with_suffix(".toml")
    profile.write_text(text)
    return [one["kind"] for one in predict(chat, run, *LOAD, *flags, profile=profile)["warnings"]]


def test_what_is_a_little_outside_is_doubted(chat: Path, tmp_path: Path) -> None:
    text = DRIVE.read_text()
    assert doubts_of(chat, tmp_path / "inside", text, "--workers", "13") == []
    assert doubts_of(chat, tmp_path / "workers", text, "--workers", "14") == ["outside the profile"]
    largest = log_of(tmp_path / "inside")["size_bytes"].max()
    smaller = text.replace("largest_bytes = 67_108_864", f"largest_bytes = {largest - 1}")  # type: ignore[operator]
    assert doubts_of(chat, tmp_path / "large", smaller) == ["outside the profile"] * 2
    larger = text.replace("smallest_bytes = 16_384", "smallest_bytes = 10_000_000")
    assert set(doubts_of(chat, tmp_path / "small", larger)) == {"outside the profile"}


def test_a_data_sheet_is_doubted_and_has_no_limit_of_workers(chat: Path, tmp_path: Path) -> None:
    text = DRIVE.read_text()
    text = text.replace('kind = "measured"', 'kind = "data sheet"').replace('source = ""', 'source = "a page"')
    begin, end = text.index("[conditions]"), text.index("[cpu]")
    profile = tmp_path / "sheet.toml"
    profile.write_text(text[:begin] + text[end:])
    info = predict(chat, tmp_path / "run", *LOAD, "--workers", "200", profile=profile)
    (warning,) = info["warnings"]
    assert warning["kind"] == "data sheet"
    assert (info["prediction"]["kind"], info["prediction"]["source"]) == ("data sheet", "a page")
    assert (info["conditions"]["layout"], info["conditions"]["io_bytes"]) == ("files", 1 << 20)


def test_what_a_shipped_drive_predicts_is_called_estimated(chat: Path, tmp_path: Path) -> None:
    info = predict(chat, tmp_path / "run", *LOAD, profile="micron-9550")
    (warning,) = info["warnings"]
    assert (warning["kind"], info["prediction"]["kind"]) == ("data sheet", "estimated")
    here("analysis", "report", tmp_path / "run", "-o", tmp_path / "run.md")
    assert "PREDICTED" in (tmp_path / "run.md").read_text()


def test_ctrl_c_closes_the_run_as_incomplete(tmp_path: Path) -> None:
    # A part has 131,072 rows; the signal is seen before the flush that follows, of 65,536.
    steps: list[traces.Step] = [("w", 0, 64), *[("d", 0, 64)] * 200_000]
    trace = traces.write(tmp_path / "long.parquet", traces.columns([("w", 0, 64), ("d", 0, 64)]) | _many(steps))
    run = tmp_path / "run"
    command = ["replayer", "predict", trace.path, *MODEL, "--workers", "2", "--profile", DRIVE, "-o", run]
    case = [signal.SIGINT, ["replayer.run.log_writer", "LogWriter", "write"], "before", list(map(str, command))]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.signalled_commands"],
        input=json.dumps([case]), cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    ((code, errors),) = json.loads(done.stdout)
    assert code == 130, errors
    assert errors.endswith(f"\nInterrupted. {run} holds what was done; `analysis summary {run}` reads it.\n")
    info = json.loads((run / "run.json").read_text())
    assert (info["status"], info["reason"]) == ("incomplete", "interrupted")
    assert 0 < info["executed_ops"] < len(steps)
