"""What a killed run leaves, and what the next run removes."""

import json
import signal
import time
from pathlib import Path

from replayer.tiers.cache_dir import MARKER
from tests.support.command_line import Run, sentence
from tests.support.going_runs import going, log_of, replayed
from tests.support.run_json import run_json


def test_what_a_killed_run_leaves(endless: Path, short: Path, tmp_path: Path, run: Run) -> None:
    cache = tmp_path / "cache"
    (tmp_path / "killed").mkdir()
    (tmp_path / "alive").mkdir()
    with going(endless, tmp_path / "killed", cache=cache) as killed:
        killed.wait_for(lambda: list(killed.output.glob("moves/part-*.parquet")))
        killed.process.kill()
        killed.process.communicate()
    assert run_json(killed.output)["status"] == "running"
    summary = json.loads(run("analysis", "summary", killed.output, "--json").stdout)
    assert summary["hits"] > 0, "the log of a run that was killed can be read"
    assert summary["valid"] is False
    (dead,) = cache.iterdir()
    assert list(dead.glob("*.kv"))
    (cache / "precious").write_text("x")
    (cache / f"{MARKER}-mine").mkdir()
    (cache / f"{MARKER}-mine" / "0000002a.kv").write_text("x")  # no lock: nobody's run
    with going(endless, tmp_path / "alive", cache=cache) as alive:
        (living,) = set(cache.glob(f"{MARKER}-*-{alive.process.pid}"))
        told = replayed(run, short, tmp_path)
        (warned,) = [line for line in told.stderr.splitlines() if "killed run" in line]
        assert str(dead) in warned
        assert "clean=true" in warned
        assert list(dead.glob("*.kv")), "only named"
        told = replayed(run, short, tmp_path, "--set", "clean=true", "--force")
        assert "killed run" not in told.stderr
        assert not dead.exists()
        assert list(living.glob("*.kv")), "another's that is alive is never touched"
        assert {path.name for path in cache.iterdir()} == {"precious", f"{MARKER}-mine", living.name}
        assert (cache / f"{MARKER}-mine" / "0000002a.kv").exists()
        time.sleep(0.2)
        alive.process.send_signal(signal.SIGTERM)
        assert alive.end()[0] == 143
    assert set(log_of(alive.output)["status"]) == {"ok"}


def test_a_strangers_file_in_a_killed_runs_folder_stays(short: Path, tmp_path: Path, run: Run) -> None:
    dead = tmp_path / "cache" / f"{MARKER}-dead"
    dead.mkdir(parents=True)
    for name in ("lock", "00000001.kv", "thesis.tex"):
        (dead / name).write_text("x")
    sentence(replayed(run, short, tmp_path, "--set", "clean=true", ok=False), str(dead))
    assert (dead / "thesis.tex").read_text() == "x"
    assert not (tmp_path / "run").exists()
