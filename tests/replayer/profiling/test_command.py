"""`replayer profile` as a user types it."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from replayer.prediction.profile_file import load_profile
from replayer.profiling import measuring, rounds
from replayer.profiling.station_fit import predict_us
from tests.support.command_line import here

MIB_S = 2**20 / 1e9
COMMAND = (sys.executable, "-P", "-m", "replayer", "profile")


def run(
    *flags: object, code: int = 0, most_error: float = math.inf, is_small: bool = False
) -> subprocess.CompletedProcess[str]:
    """Measure for seconds on a machine that may be busy: how far a fit may be off is the caller's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "_MOST_ERROR", most_error)
        patch.setattr(rounds, "WORKERS", (1, 4, 16))  # fewer cells, in the same order
        patch.setattr(rounds, "ROUNDS", 3)
        if is_small:
            patch.setattr(rounds, "SIZES", rounds.SIZES[:2])
            patch.setattr(measuring, "_MOST_ROOM", 128 << 20)  # a tier in memory is filled when it is opened
        done = here("replayer", "profile", *flags)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def throttled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The profile of a tier that is known: 300 MiB/s and 100 us for reads, 150 MiB/s for writes."""
    path = tmp_path_factory.mktemp("profile") / "known.toml"
    done = run("--tier", "nvme", "--layout", "null", "--throttle", "nvme=r300/w150,100us", "--set", "io_size=64M",
               "--budget", "4s", "-o", path)  # fmt: skip
    return path, done.stdout


def test_the_limits_of_a_throttled_tier_are_found(throttled: tuple[Path, str]) -> None:
    """Other work on the machine can only make a tier slower, and by less than one limit differs from the other."""
    profile = load_profile(throttled[0])
    nvme = profile.tiers["nvme"]
    for station, what, mib_s in ((nvme.read, "read", 300), (nvme.write, "write", 150)):
        (time_us,) = predict_us(station, 1 << 18, np.array([4.0]))
        assert 0.6 < 4 * (1 << 18) / time_us * 1e-3 / (mib_s * MIB_S) < 1.2
        (alone,) = (one for one in profile.cells if (one.what, one.bytes, one.workers) == (what, 1 << 16, 1))
        assert 0.9 < alone.low_us / (100 + (1 << 16) / 2**20 / mib_s * 1e6) < 1.6
    assert nvme.writes_on_reads < 0.5, "each direction has a limit of its own"


def test_the_file_says_under_which_conditions_it_was_measured(throttled: tuple[Path, str]) -> None:
    profile = load_profile(throttled[0])
    assert profile.name == "known"
    assert profile.conditions is not None
    assert (profile.conditions.layout, profile.conditions.io_bytes) == ("null", 64 << 20)
    assert profile.conditions.throttle == {"nvme": {"mib_s": 300, "latency_us": 100, "write_mib_s": 150}}
    assert profile.machine["nvme_sustained_read_gb_s"] > profile.machine["nvme_sustained_write_gb_s"] > 0
    assert profile.machine["cores"] == len(os.sched_getaffinity(0))
    assert profile.cells


def test_the_model_is_shown(throttled: tuple[Path, str]) -> None:
    path, shown = throttled
    lines = [line.strip() for line in shown.splitlines()]
    assert any(line.startswith("nvme, objects of 64 KiB to ") for line in lines)
    assert next(line.split()[:2] for line in lines if line.startswith(("read ", "write "))) == ["read", "1.0"]
    assert lines[-1] == f"{path}: `replayer predict … --profile {path}` uses it"


def test_a_fit_that_is_far_off_is_refused_and_not_written(tmp_path: Path) -> None:
    done = run("--tier", "nvme", "--layout", "null", "--throttle", "nvme=3000", "--budget", "2s", "-o", tmp_path / "x.toml",
               code=1, most_error=0.0, is_small=True)  # fmt: skip
    assert "Error: nvme: the fit is " in done.stderr
    assert done.stderr.endswith("measure on an idle machine, or with a larger --budget.\n")
    assert not (tmp_path / "x.toml").exists()


def test_files_are_measured_and_removed(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    done = run("--cache-dir", tmp_path / "cache", "--direct", "off", "--budget", 2, "--json", "-o", tmp_path / "x.toml",
               is_small=True)  # fmt: skip
    shown = json.loads(done.stdout)
    profile = load_profile(tmp_path / "x.toml")
    assert set(shown["tiers"]) == {"cpu", "nvme"}
    assert shown["sha256"] == profile.digest
    assert profile.cpu.make_ns_per_byte > 0
    assert profile.tiers["nvme"].write.remove_us[0] > 0
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_interrupted_measurement_leaves_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    command = [*COMMAND, "--tier", "nvme", "--cache-dir", str(cache), "--direct", "off", "-o", str(tmp_path / "x.toml")]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not list(cache.glob("*/*.kv")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert list(cache.iterdir()) == []
    assert not (tmp_path / "x.toml").exists()


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("-o", "there.toml"), "-o there.toml: exists already"),
        (("-o", "x.toml", "--tier", "nvme"), "the nvme tier needs a place; pass --cache-dir DIR."),
        (("-o", "x.toml", "--tier", "gpu", "--gpu-device", "cuda:99"), "leave gpu out of --tier."),
        (("-o", "x.toml", "--cache-dir", "none/none"), "no such directory"),
    ],
)
def test_what_cannot_work_is_refused_at_once(flags: tuple, problem: str, tmp_path: Path) -> None:
    (tmp_path / "there.toml").write_text("x")
    done = here("replayer", "profile", *flags, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert problem in done.stderr
    assert done.stderr.count("\n") <= 4
