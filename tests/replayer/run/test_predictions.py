"""`replayer predict` as a user types it: what it writes, that it is the run's own plan, and that it is deterministic."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replayer.prediction.profile_file import load_profile
from tests.replayer.run.predictions import DRIVE, GOLDEN, LOADS, MODEL, digest_of, log_of, make_trace, predict
from tests.replayer.run.replays import _many
from tests.support import traces
from tests.support.command_line import here
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_trace(tmp_path_factory.mktemp("trace") / "chat.parquet")


def test_a_prediction_is_a_run_directory_and_says_what_it_is(chat: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    info = predict(chat, run, *LOADS["closed"], "--speed", "nvme=2,cpu=1.5")
    assert (info["run_version"], info["status"]) == (3, "complete")
    assert info["prediction"] == {
        "profile": "hand-written", "kind": "measured", "source": None, "profile_sha256": load_profile(DRIVE).digest,
        "speeds": {"nvme": 2.0, "cpu": 1.5},
    }  # fmt: skip
    assert info["payload_nonce"] is None
    assert info["clock"]["zero_ns"] is None
    assert info["machine"]["storage"] is None
    conditions = {"layout": "files", "direct": True, "io_bytes": 1 << 20, "io_depth": 1, "io_engine": "psync"}
    conditions |= {"fsync": "none", "verify": "stamps", "throttle": {}, "workers": 4, "gpu_device": None}
    assert conditions.items() <= info["conditions"].items()
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert files == {"run.json", "moves/part-00000.parquet"}


@pytest.mark.parametrize("name", LOADS)
def test_the_log_is_the_plan_and_as_it_was_recorded(chat: Path, tmp_path: Path, name: str) -> None:
    """On any machine. To renew the record: `python -m tests.replayer.run.test_predictions`."""
    info = predict(chat, tmp_path / "run", *LOADS[name])
    planned = json.loads(here("replayer", "plan", chat, *MODEL, *LOADS[name], "--json").stdout)
    assert info["executed_fingerprint"] == info["plan"]["plan_fingerprint"] == planned["plan_fingerprint"]
    assert info["executed"]["read_bytes"] == planned["read_bytes"]
    done = here("analysis", "check", tmp_path / "run", "--trace", chat)
    assert done.returncode == 0, done.stdout + done.stderr
    assert digest_of(tmp_path / "run") == json.loads(GOLDEN.read_text())[name]


def test_the_order_of_a_live_prediction_is_followed_move_by_move(chat: Path, tmp_path: Path) -> None:
    load = ("--cpu-mem-gb", "0.05", "--pace", "asap", "--workers", "4")
    live = predict(chat, tmp_path / "live", *load, "--placement", "live")
    assert live["conditions"]["placement"] == "live"
    assert live["plan"]["plan_fingerprint"]
    again = predict(chat, tmp_path / "again", *load, "--order", tmp_path / "live")
    assert again["executed_fingerprint"] == live["executed_fingerprint"]
    assert again["conditions"]["order"]["kind"] == "run"


def test_the_order_of_a_measured_run_is_followed_move_by_move(chat: Path, tmp_path: Path) -> None:
    load = (*MODEL, "--cpu-mem-gb", "0.05", "--pace", "asap", "--workers", "4")
    command = ("replayer", "run", chat, *load, "--placement", "live", "--layout", "null", "--cache-dir", tmp_path)
    done = here(*command, "-o", tmp_path / "measured", "--json")
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert (measured["run_version"], "prediction" in measured) == (2, False)
    info = predict(chat, tmp_path / "run", *load[2:], "--order", tmp_path / "measured")
    assert info["executed_fingerprint"] == info["plan"]["plan_fingerprint"]
    for name in ("hits", "stores", "read_bytes", "write_bytes", "misses"):
        assert info["executed"][name] == measured["executed"][name]


def test_a_prediction_may_be_cut(chat: Path, tmp_path: Path) -> None:
    load = ("--cpu-mem-gb", "0.05", "--pace", "asap", "--workers", "2", "--warmup", "0.01s")
    info = predict(chat, tmp_path / "run", *load, "--duration", "0.05", "--set", "drain=0.001")
    assert info["status"] == "complete"
    assert None not in (info["window"]["cut_s"], info["window"]["stopped_s"])
    assert 0 < info["executed_ops"] < info["trace"]["ops"]
    assert info["warmup"]["end_ns"] >= 10_000_000
    done = here("analysis", "check", tmp_path / "run", "--trace", chat)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_prediction_may_have_a_number_of_ops(chat: Path, tmp_path: Path) -> None:
    info = predict(chat, tmp_path / "run", *LOADS["asap"], "--ops", "100")
    assert info["executed"]["ops"] == 100
    assert log_of(tmp_path / "run")["position"].max() == 99


LOAD = ("--cpu-mem-gb", "0.05", "--pace", "asap")


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
    "a speed that is no number": (str, ("--speed", "nvme=nan")),
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


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        trace = make_trace(Path(folder) / "chat.parquet")
        golden = {}
        for load in LOADS:
            predict(trace, Path(folder) / load, *LOADS[load])
            golden[load] = digest_of(Path(folder) / load)
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")
