"""Files that vanish and disks that turn read-only: every failure is a row of the log."""

import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

from tests.support.going_runs import READS, USERS, going, info, log_of
from tests.support.mounts import ext4
from tests.support.run_json import run_json


def test_files_that_vanish_are_rows(endless: Path, tmp_path: Path) -> None:
    with going(endless, tmp_path, "--json") as started:
        started.wait_for(lambda: len(list(tmp_path.glob("cache/*/*.kv"))) == USERS)
        time.sleep(0.1)
        for file in tmp_path.glob("cache/*/*.kv"):
            file.unlink()
        code, said = started.end()
    assert code == 1, said
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if line.startswith("Error: ")]
    found, log = info(started.output), log_of(started.output)
    assert found["status"] == "failed"
    assert "moves failed" in found["reason"]
    errors = log.filter(pl.col("status") == "error")
    assert all("No such file or directory" in error for error in errors["error"])
    assert sorted(errors["key"]) == list(range(USERS)), "one each; what follows is upstream"
    assert log.filter(pl.col("status") == "ok")["error"].drop_nulls().is_empty()
    assert found["executed_ops"] == USERS * (READS + 1)
    assert list((tmp_path / "cache").iterdir()) == []


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
