"""`replayer predict` as a user types it: what it writes, that it is the run's own plan, and that it is deterministic."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from replayer.prediction.profile_file import load_profile
from tests.replayer.run.predictions import DRIVE, GOLDEN, LOADS, MODEL, digest_of, log_of, make_trace, predict
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


def test_times_by_hand(tmp_path: Path, chat: Path) -> None:
    """One worker and no spread: each read and write takes open + latency + bytes ÷ bandwidth at load 1."""
    plain = tmp_path / "plain.toml"
    text = DRIVE.read_text()
    begin, end = text.index("spread = ["), text.index("[nvme.write]")
    plain.write_text(text[:begin] + text[end:])
    predict(chat, tmp_path / "run", "--storage-capacity-gb", "unlimited", "--workers", "1", profile=plain)
    log = log_of(tmp_path / "run").with_columns(pl.col("move").cast(pl.String))
    reads = log.filter(pl.col("move") == "hit")
    stores = log.filter(pl.col("move") == "store")
    assert len(reads) > 100
    assert len(stores) > 100
    off = (reads["read_ns"] - (5_100 + 80_000 + reads["size_bytes"] / 1.2)).abs().max()
    assert off is not None
    assert off <= 3
    off = (stores["write_ns"] - (15_100 + 20_000 + stores["size_bytes"] / 1.5)).abs().max()
    assert off is not None
    assert off <= 3
    assert (reads["read_ns"] - reads["device_read_ns"]).to_list() == [5_100] * len(reads)


def test_two_processes_write_the_same_bytes_on_one_core_and_on_two(chat: Path, tmp_path: Path) -> None:
    contents = []
    cores = sorted(os.sched_getaffinity(0))
    for number, allowed in enumerate([cores[:1], cores[:2]]):
        run = tmp_path / str(number)
        command = [sys.executable, "-m", "replayer", "predict", chat, *MODEL, "--profile", DRIVE, *LOADS["closed"]]
        command += ["-o", run]
        tied = ["taskset", "-c", ",".join(map(str, allowed))] if shutil.which("taskset") else []
        done = subprocess.run([*tied, *map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        contents.append({str(one.relative_to(run)): one.read_bytes() for one in run.rglob("*.parquet")})
    assert contents[0] == contents[1]
    assert len(contents[0]) == 1


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


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        trace = make_trace(Path(folder) / "chat.parquet")
        golden = {}
        for load in LOADS:
            predict(trace, Path(folder) / load, *LOADS[load])
            golden[load] = digest_of(Path(folder) / load)
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")
