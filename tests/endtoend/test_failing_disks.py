"""Files that vanish and disks that fill up or turn read-only: every failure is a row of the log."""

import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

from tests.support import traces
from tests.support.command_line import Run, sentence
from tests.support.going_runs import READS, USERS, Going, going, info, log_of, replayed
from tests.support.mounts import ext4, tmpfs
from tests.support.run_json import run_json


def failed_rows(started: Going, words: str) -> pl.DataFrame:
    """The run has failed, as it should; its rows of errors."""
    code, said = started.end()
    assert code == 1, said
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if line.startswith("Error: ")]
    found = info(started.output)
    assert found["status"] == "failed"
    assert "moves failed" in found["reason"]
    log = log_of(started.output)
    errors = log.filter(pl.col("status") == "error")
    assert len(errors)
    assert all(words in error for error in errors["error"]), set(errors["error"])
    assert log.filter(pl.col("status") == "ok")["error"].null_count() == len(log.filter(pl.col("status") == "ok"))
    return errors


def test_files_that_vanish_are_rows(endless: Path, tmp_path: Path) -> None:
    with going(endless, tmp_path) as started:
        started.wait_for(lambda: len(list(tmp_path.glob("cache/*/*.kv"))) == USERS)
        time.sleep(0.1)
        for file in tmp_path.glob("cache/*/*.kv"):
            file.unlink()
        errors = failed_rows(started, "No such file or directory")
    assert sorted(errors["key"]) == list(range(USERS)), "one each; what follows is upstream"
    assert info(started.output)["executed_ops"] == USERS * (READS + 1)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_disk_that_fills_up_is_rows(storing: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "96m") as disk:
        with going(storing, tmp_path, "--throttle", "nvme=16", cache=disk / "cache") as started:
            started.wait_for(lambda: len(list(disk.glob("cache/*/*.kv"))) >= 20)
            with (disk / "filler").open("wb", buffering=0) as filler:
                try:
                    while filler.write(bytes(1 << 20)):
                        pass
                except OSError:
                    pass
                errors = failed_rows(started, "No space left on device")
        assert set(errors["move"]) == {"store"}
        assert log_of(started.output).filter(pl.col("status") == "ok").height > 0
        assert list((disk / "cache").iterdir()) == []


def test_a_disk_that_turns_read_only_is_rows(storing: Path, tmp_path: Path) -> None:
    """As ext4 does after an error of its device: the kernel does it when asked to abort."""
    with ext4(tmp_path) as disk:
        with going(storing, tmp_path, "--throttle", "nvme=16", cache=disk / "cache") as started:
            started.wait_for(lambda: len(list(disk.glob("cache/*/*.kv"))) >= 20)
            if subprocess.run(["mount", "-o", "remount,abort", disk], check=False).returncode:
                pytest.skip("the kernel does not abort")
            code, said = started.end()
        assert code == 1, said
        assert "Traceback" not in said
        assert "is left behind: Read-only file system" in said
        found = run_json(started.output)
        assert found["status"] == "failed"
        errors = log_of(started.output).filter(pl.col("status") == "error")
        assert len(errors) > 0
        assert all("Read-only file system" in error or "Input/output" in error for error in errors["error"])


@pytest.mark.parametrize("key", [-1, 7, 2**62])
def test_keys_that_are_no_keys_never_reach_the_disk(tmp_path: Path, run: Run, key: int) -> None:
    batch = traces.columns([("w", 0, 5), ("d", 0, 5)], [0, 0], key=[key, key])
    trace = traces.write(tmp_path / "t.parquet", batch).path
    sentence(replayed(run, trace, tmp_path, "--set", "keep_cache=true", ok=False), "t.parquet", "key")
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]
