"""Predictions that are refused in one sentence, or doubted, and those that are interrupted."""

import json
import signal
import subprocess
import sys
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


CASES = {
    "a tier is missing": (
        without_cpu, (), "the plan uses the cpu tier, and the profile has nvme only; measure cpu with"
    ),
    "objects are far larger": (
        lambda text: text.replace("largest_bytes = 67_108_864", "largest_bytes = 20_000"),
        (),
        "the profile is for objects of up to 20,000 bytes in cpu; pass a smaller",
    ),
    "far more workers": (
        None, ("--workers", "49"),
        "--workers 49: outside the profile hand-written: the profile is for 12 moves in flight at most in cpu;"
        " pass at most 48.",
    ),
    "a speed of no tier": (None, ("--speed", "gpu=2"), "the profile hand-written has no tier gpu; name cpu or nvme"),
    "a speed of 0": (None, ("--speed", "nvme=0"), "--speed nvme=0: is not a speed from 0.000001"),
    "no speed": (None, ("--speed", "nvme"), "'nvme' is no speed; write nvme=2 for twice as fast"),
    "no tier": (None, ("--speed", "disk=2"), "'disk' is not a tier; write nvme=2"),
    "a speed twice": (None, ("--speed", "nvme=2,nvme=3"), "names nvme twice"),
    "an unknown key": (lambda text: "drives = 5\n" + text, (), "drives is unknown"),
    "a warm-up of all": (None, ("--warmup", "1000000ops"), "so nothing would be measured"),
    "a drain without a duration": (None, ("--set", "drain=1s"), "there is no --duration after which to drain"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_predicted_is_refused_in_one_sentence(chat: Path, tmp_path: Path, case: str) -> None:
    change, flags, words = CASES[case]
    profile = tmp_path / "drive.toml"
    profile.write_text(change(DRIVE.read_text()) if change else DRIVE.read_text())
    done = here("replayer", "predict", chat, *MODEL, *LOAD, "--profile", profile, *flags, "-o", tmp_path / "run")
    assert done.returncode == 2
    assert words in done.stderr
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


@pytest.mark.parametrize(
    ("old", "new", "flags", "words"),
    [
        ("", "", (), []),
        ("", "", ("--workers", "13"), []),
        ("", "", ("--users", "2"), []),
        ("", "", ("--workers", "14"), ["there are 14 workers; the profile is for 12 moves in flight at most in cpu."]),
        ("largest_bytes = 67_108_864", "largest_bytes = LARGEST", (), ["an object has", "an object has"]),
        (
            "smallest_bytes = 16_384", "smallest_bytes = 10_000_000", (),
            ["objects are smaller; the profile is for objects from 10,000,000 bytes in cpu."],
        ),
    ],
)  # fmt: skip
def test_what_is_a_little_outside_is_doubted(
    chat: Path, tmp_path: Path, old: str, new: str, flags: tuple[str, ...], words: list[str]
) -> None:
    profile = tmp_path / "drive.toml"
    predict(chat, tmp_path / "first", *LOAD)
    largest = log_of(tmp_path / "first")["size_bytes"].max()
    assert isinstance(largest, int)
    text = DRIVE.read_text()
    profile.write_text(text.replace(old, new.replace("LARGEST", str(largest - 1))) if old else text)
    info = predict(chat, tmp_path / "run", *LOAD, *flags, profile=profile)
    found = info["warnings"]
    assert {one["kind"] for one in found} == ({"outside the profile"} if words else set())
    assert len(found) >= len(words)
    assert all(text in one["text"] for text, one in zip(words, found, strict=False))


def test_a_data_sheet_is_doubted_and_has_no_limit_of_workers(chat: Path, tmp_path: Path) -> None:
    text = DRIVE.read_text()
    text = text.replace('kind = "measured"', 'kind = "data sheet"').replace('source = ""', 'source = "a page"')
    begin, end = text.index("[conditions]"), text.index("[cpu]")
    profile = tmp_path / "sheet.toml"
    profile.write_text(text[:begin] + text[end:])
    info = predict(chat, tmp_path / "run", *LOAD, "--workers", "200", profile=profile)
    (warning,) = info["warnings"]
    assert warning["kind"] == "data sheet"
    assert "from its data sheet, not measured; assumed are files" in warning["text"]
    assert (info["prediction"]["kind"], info["prediction"]["source"]) == ("data sheet", "a page")
    assert (info["conditions"]["layout"], info["conditions"]["io_bytes"]) == ("files", 1 << 20)


def test_what_a_shipped_drive_predicts_is_called_estimated(chat: Path, tmp_path: Path) -> None:
    info = predict(chat, tmp_path / "run", *LOAD, profile="micron-9550")
    (warning,) = info["warnings"]
    assert warning["text"].startswith("the profile micron-9550 is estimated from published figures, not measured; ")
    shown = here("analysis", "report", tmp_path / "run", "-o", tmp_path / "run.md").stdout
    text = (tmp_path / "run.md").read_text() + shown
    assert "PREDICTED, not measured, with the profile micron-9550 (estimated: " in text
    assert "the profile micron-9550 is estimated from what others published (" in text


def test_ctrl_c_closes_the_run_as_incomplete(tmp_path: Path) -> None:
    steps: list[traces.Step] = [("w", 0, 64), *[("d", 0, 64)] * 300_000]
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
    assert 0 < info["executed_ops"] < 300_001
