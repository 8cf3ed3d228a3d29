"""What a run leaves behind, however it ends: real processes, real signals, real disks, several ranks."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from replayer import machine
from replayer.counters import Sampler
from replayer.engine import POLL_S
from replayer.ranks import combined
from replayer.run_directory import RunDirectory
from replayer.schema import DEVICE_SCHEMA, parts, read_run
from replayer.tiers.cache_dir import MARKER
from tests.replayer import waterfall_oracle
from tests.support import traces
from tests.support.command_line import Run, here, sentence
from tests.support.mounts import tmpfs
from tests.support.paths import ROOT
from tracegen.schema import InputError, Trace

MODEL = ("--model", "tiny-1b")
CACHE = ("--make-cache-dir", "--cache-dir")
SLOW = ("--throttle", "nvme=64", "--workers", "4")
USERS, READS = 4, 5000
TIMES = ("_ns", "worker", "rank", "waited_for")


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four users who write 0.75 MiB each and read it again: four minutes behind SLOW's throttle."""
    small = traces.columns([(op, key, 32) for key in range(USERS) for op in "wd"], np.repeat(np.arange(USERS), 2))
    rows = np.concatenate([[2 * key] + [2 * key + 1] * READS for key in range(USERS)])
    batch = {name: column[rows] for name, column in small.items()}
    batch |= {"op_id": np.arange(len(rows)), "time_ns": np.arange(len(rows))}
    batch["step"] = np.tile(np.arange(READS + 1, dtype=np.int32), USERS)
    return traces.write(tmp_path_factory.mktemp("endless") / "t.parquet", batch).path


@pytest.fixture(scope="module")
def storing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,200 requests, each of which writes 48 KiB and reads it: 56 MiB."""
    steps = [(op, key, 2) for key in range(1200) for op in "wd"]
    batch = traces.columns(steps, np.repeat(np.arange(1200), 2))
    return traces.write(tmp_path_factory.mktemp("storing") / "t.parquet", batch).path


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 requests of as many sessions; objects of 24 to 120 KiB, each read again by later requests."""
    steps: list[traces.Step] = []
    requests: list[int] = []
    for request in range(12):
        earlier = [("r", key, 1 + key % 5) for key in range(max(0, request - 3), request)]
        ops: list[traces.Step] = [*earlier, ("w", request, 1 + request % 5), ("d", request, 1 + request % 5)]
        steps, requests = steps + ops, requests + [request] * len(ops)
    return traces.write(tmp_path_factory.mktemp("short") / "t.parquet", traces.columns(steps, requests)).path


class Going:
    """A command that runs while the test goes on."""

    def __init__(self, command: list[object], output: Path) -> None:
        self.output = output
        self.process = subprocess.Popen(
            list(map(str, command)), cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def wait_for(self, what: Callable[[], object]) -> None:
        for _ in range(3000):
            if what():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        pytest.fail(f"it never came so far: {self.kill()}")

    def end(self, timeout: float = 30) -> tuple[int, str]:
        """Its exit code, and what it said on stderr."""
        try:
            _, errors = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it hangs: {self.kill()}")
        return self.process.returncode, errors

    def kill(self) -> tuple[str, str]:
        """End it and its ranks for certain; what it said."""
        for pid in ranks_under(self.process.pid).values():
            os.kill(pid, signal.SIGKILL)
        self.process.kill()
        return self.process.communicate()


def info(run: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((run / "run.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def is_written(file: Path) -> bool:
    """Slabs are there before anything is stored in them."""
    with file.open("rb") as opened:
        return any(opened.read(4096))


@contextmanager
def going(trace: Path, place: Path, *flags: object, cache: Path | None = None) -> Iterator[Going]:
    """A replay into place/run that is storing and reading."""
    cache, output = cache or place / "cache", place / "run"
    command: list[object] = [sys.executable, "-m", "replayer", "run", trace, *MODEL, *SLOW, *flags]
    started = Going([*command, *CACHE, cache, "-o", output], output)
    try:
        mine = f"{MARKER}-*-{started.process.pid}"
        started.wait_for(lambda: "clock" in info(output) and any(map(is_written, cache.glob(f"{mine}/*.kv"))))
        yield started
    finally:
        started.kill()


def replayed(run: Run, trace: Path, place: Path, *flags: object, ok: bool = True) -> Any:
    return run("replayer", "run", trace, *MODEL, *CACHE, place / "cache", *flags, "-o", place / "run", ok=ok)


def log_of(run: Path) -> pl.DataFrame:
    return pl.read_parquet(parts(run)).with_columns(pl.col("move", "status").cast(pl.String)).sort("op_id", "seq")


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


# Signals

SIGNALS = [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]


@pytest.mark.parametrize(("number", "code", "reason"), SIGNALS)
@pytest.mark.parametrize("layout", ["files", "slab"])
def test_a_signal_closes_the_run(
    endless: Path, tmp_path: Path, number: signal.Signals, code: int, reason: str, layout: str
) -> None:
    with going(endless, tmp_path, "--layout", layout) as started:
        time.sleep(0.2)
        started.process.send_signal(number)
        assert (ended := started.end())[0] == code, ended
    assert "Traceback" not in ended[1]
    found = read_run(started.output)
    assert (found["status"], found["reason"]) == ("incomplete", reason)
    assert list((tmp_path / "cache").iterdir()) == []
    log = log_of(started.output)
    assert set(log["status"]) == {"ok"}
    assert found["executed"]["ops"] <= len(log), "every move that was done is in the log"
    assert len(log) < USERS * READS
    assert pq.read_table(started.output / "device.parquet").num_rows > 0
    assert not list(started.output.rglob("*.partial"))


@pytest.mark.parametrize(("number", "code", "reason"), SIGNALS)
def test_more_signals_change_nothing(
    endless: Path, tmp_path: Path, number: signal.Signals, code: int, reason: str
) -> None:
    """An impatient user: both signals again and again while the moves in flight, 0.4 s each, are waited for."""
    with going(endless, tmp_path, "--throttle", "nvme=64,400000") as started:
        started.process.send_signal(number)
        time.sleep(2 * POLL_S)  # signals that wait together are handled by number
        while started.process.poll() is None and list(tmp_path.glob("cache/*")):
            for again in (signal.SIGINT, signal.SIGTERM):
                started.process.send_signal(again)
            time.sleep(0.002)
        ended = started.end()
    assert ended[0] == code, ended
    assert "Traceback" not in ended[1]
    assert (info(started.output)["status"], info(started.output)["reason"]) == ("incomplete", reason)


@pytest.mark.parametrize(("number", "code", "reason"), SIGNALS)
def test_signals_to_the_very_end_change_nothing(
    endless: Path, tmp_path: Path, number: signal.Signals, code: int, reason: str
) -> None:
    with going(endless, tmp_path) as started:
        started.process.send_signal(number)
        time.sleep(0.02)
        while started.process.poll() is None:
            started.process.send_signal(number)
            time.sleep(0.001)
        ended = started.end()
    assert info(started.output)["reason"] == reason
    assert ended[0] == code, ended
    assert "Traceback" not in ended[1]


def test_both_signals_at_once_are_one(endless: Path, tmp_path: Path) -> None:
    with going(endless, tmp_path) as started:
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            started.process.send_signal(number)
        code, said = started.end()
    assert code in (130, 143)
    assert "Traceback" not in said
    assert info(started.output)["status"] == "incomplete"
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_signal_before_the_run_leaves_nothing(endless: Path, tmp_path: Path) -> None:
    """While the nvme tier is filled beforehand: there is no run yet, and the cache is gone."""
    command = [sys.executable, "-m", "replayer", "run", endless, *MODEL, "--precondition", "500"]
    started = Going([*command, *CACHE, tmp_path / "cache", "-o", tmp_path / "run"], tmp_path / "run")
    started.wait_for(lambda: list(tmp_path.glob("cache/*/*.kv")))
    started.process.send_signal(signal.SIGTERM)
    assert (ended := started.end())[0] == 143, ended
    assert ended[1].endswith("\nTerminated.\n"), "there is nothing to read"
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.fixture(scope="module")
def overtaken(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """400 stores of 24 KiB that are in no hurry, and after them 400 that are, and go first."""
    batch = traces.columns([("w", key, 1) for key in range(800)], qos=[2] * 400 + [0] * 400)
    return traces.write(tmp_path_factory.mktemp("overtaken") / "t.parquet", batch)


DRAINED = ("--pace", "asap", "--order", "trace", "--throttle", "nvme=64,50000", "--workers", "2")


@pytest.mark.parametrize(("number", "code", "reason"), SIGNALS)
def test_a_signal_ends_a_drain(
    overtaken: Trace, tmp_path: Path, number: signal.Signals, code: int, reason: str
) -> None:
    """Ten seconds of stores are to be drained; half a second of them is waited for."""
    with going(overtaken.path, tmp_path, *DRAINED, "--duration", 0.5, "--drain", "unlimited") as started:
        time.sleep(1)
        started.process.send_signal(number)
        assert (ended := started.end())[0] == code, ended
    assert "Traceback" not in ended[1]
    found, log = read_run(started.output), log_of(started.output)
    assert (found["status"], found["reason"]) == ("incomplete", reason)
    assert found["window"]["cut_s"] >= 0.5
    assert found["window"]["stopped_s"] is None
    check_prefix(found, log)
    assert log.filter(pl.col("start_ns") > found["window"]["cut_s"] * 1e9)["position"].max() < 400, "the drain"
    assert list((tmp_path / "cache").iterdir()) == []


def check_prefix(found: dict[str, Any], log: pl.DataFrame) -> None:
    """Of `overtaken`: what counts is what came before the first op that is lacking; the log holds more than that."""
    executed, positions = found["executed_ops"], log["position"].to_list()
    assert 0 < executed < 400
    assert positions[:executed] == list(range(executed))
    assert 400 in positions
    assert executed not in positions
    assert set(log["status"]) == {"ok"}
    size = int(log["size_bytes"][0])
    rows: list[waterfall_oracle.Row] = [(key, 0, "store", key, -1, 2, size) for key in range(executed)]
    assert found["executed_fingerprint"] == waterfall_oracle.fingerprint(rows)
    assert found["executed"]["ops"] == executed


def test_a_drain_takes_a_tenth_of_the_duration(overtaken: Trace, tmp_path: Path, run: Run) -> None:
    """Unless --drain says otherwise; then nothing more starts, and the run is complete."""
    for name, flags, limit_s in (("default", [], 0.1), ("more", ["--drain", 0.6], 0.6)):
        (tmp_path / name).mkdir()
        replayed(run, overtaken.path, tmp_path / name, *DRAINED, "--duration", 1, *flags)
        found, log = read_run(tmp_path / name / "run"), log_of(tmp_path / name / "run")
        assert found["status"] == "complete"
        assert found["conditions"]["drain_s"] == found["window"]["drain_limit_s"] == limit_s
        assert 1 + limit_s <= found["window"]["stopped_s"] >= found["window"]["issued_s"]
        check_prefix(found, log)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--drain", 3], ("--drain", "--duration")),
        (["--drain", -1, "--duration", 5], ("--drain -1",)),
        (["--placement", "live", "--order", "trace"], ("--placement live", "--order")),
        (["--order", "sideways"], ("--order sideways", "reference")),
        (["--io-engine", "psync", "--io-depth", 2], ("--io-depth 2", "--io-engine uring")),
    ],
)
def test_flags_that_mean_nothing_are_refused(short: Path, tmp_path: Path, flags: list[object], words: Any) -> None:
    command = ["run", short, *MODEL, *CACHE, tmp_path / "cache", *flags, "-o", tmp_path / "run"]
    sentence(here("replayer", *command), *words)
    assert list(tmp_path.iterdir()) == []


def test_what_a_live_run_did_is_done_again(short: Path, tmp_path: Path, run: Run) -> None:
    """On another disk, by its run directory; so is what a run did that was cut short."""
    bounded = ["--cpu-mem-gb", "0.0002", "--storage-capacity-gb", "0.0003"]
    for name, flags in (("live", ["--placement", "live"]), ("some", ["--placement", "live", "--ops", 30])):
        (tmp_path / name / "again").mkdir(parents=True)
        replayed(run, short, tmp_path / name, *bounded, *flags, "--throttle", "nvme=32,3000")
        replayed(run, short, tmp_path / name / "again", *bounded, "--order", tmp_path / name / "run", "--workers", 2)
        found, again = (read_run(tmp_path / name / place) for place in ("run", "again/run"))
        assert (found["status"], again["status"]) == ("complete", "complete")
        assert found["executed_fingerprint"] == again["executed_fingerprint"] == again["plan"]["plan_fingerprint"]
        assert found["executed"] == again["executed"]
        assert found["executed_ops"] == again["executed_ops"] == (30 if name == "some" else Trace(short).ops)


# Killed runs


def test_what_a_killed_run_leaves(endless: Path, short: Path, tmp_path: Path, run: Run) -> None:
    cache = tmp_path / "cache"
    (tmp_path / "killed").mkdir()
    (tmp_path / "alive").mkdir()
    with going(endless, tmp_path / "killed", cache=cache) as killed:
        killed.process.kill()
        killed.process.communicate()
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
        assert "--clean" in warned
        assert list(dead.glob("*.kv")), "only named"
        told = replayed(run, short, tmp_path, "--clean", "--force")
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
    sentence(replayed(run, short, tmp_path, "--clean", ok=False), str(dead))
    assert (dead / "thesis.tex").read_text() == "x"
    assert not (tmp_path / "run").exists()


# Run directories


def test_force_replaces_a_run(short: Path, tmp_path: Path, run: Run) -> None:
    replayed(run, short, tmp_path)
    (tmp_path / "run" / "moves" / "part-00007.parquet").write_text("of the run before")
    before = read_run(tmp_path / "run")
    sentence(replayed(run, short, tmp_path, ok=False), str(tmp_path / "run"), "--force")
    assert read_run(tmp_path / "run") == before
    replayed(run, short, tmp_path, "--force", "--users", 3)
    assert read_run(tmp_path / "run")["conditions"]["users"] == 3
    assert [path.name for path in parts(tmp_path / "run")] == ["part-00000.parquet"]


@pytest.fixture(scope="module")
def made(short: Path, tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    place = tmp_path_factory.mktemp("made")
    replayed(run, short, place)
    return place / "run"


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a file": lambda run: (run / "thesis.tex").write_text("x"),
    "a file among the parts": lambda run: (run / "moves" / "thesis.tex").write_text("x"),
    "a file in a folder": lambda run: ((run / "notes").mkdir(), (run / "notes" / "run.json").write_text("{}")),
    "a hidden file": lambda run: (run / ".git").write_text("x"),
    "a name that nearly is ours": lambda run: (run / "moves" / "part-1.parquet.bak").write_text("x"),
    "a dangling link": lambda run: (run / "link").symlink_to("nowhere"),
    "no run.json": lambda run: (run / "run.json").unlink(),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_force_replaces_nothing_else(made: Path, short: Path, tmp_path: Path, name: str) -> None:
    refuses_to_replace(made, tmp_path, FOREIGN[name])


def refuses_to_replace(made: Path, place: Path, change: Callable[[Path], object]) -> None:
    shutil.copytree(made, place / "run")
    change(place / "run")
    before = snapshot(place)
    with pytest.raises(InputError) as refused:
        RunDirectory(place / "run", force=True)
    assert str(place / "run") in refused.value.message
    assert snapshot(place) == before


def test_a_run_that_may_not_replace_leaves_no_cache(made: Path, short: Path, tmp_path: Path, run: Run) -> None:
    shutil.copytree(made, tmp_path / "run")
    (tmp_path / "run" / "thesis.tex").write_text("x")
    before = snapshot(tmp_path / "run")
    sentence(replayed(run, short, tmp_path, "--force", ok=False), str(tmp_path / "run"), "thesis.tex", "--force")
    assert snapshot(tmp_path / "run") == before
    assert list(tmp_path.glob("cache/*")) == []


LINKED: dict[str, Callable[[Path], object]] = {
    "a link to a folder": lambda run: (run / "link").symlink_to(ROOT),
    "moves on another disk": lambda run: (
        (run / "moves").rename(run.parent / "elsewhere"),
        (run / "moves").symlink_to(run.parent / "elsewhere"),
    ),
    "an empty folder": lambda run: (run / "notes").mkdir(),
}


@pytest.mark.parametrize("name", LINKED)
def test_force_replaces_no_strange_folders(made: Path, tmp_path: Path, name: str) -> None:
    refuses_to_replace(made, tmp_path, LINKED[name])


def test_repeat_does_the_same_work_so_many_times(short: Path, tmp_path: Path, run: Run) -> None:
    bounded = ["--cpu-mem-gb", "0.0002", "--storage-capacity-gb", "0.0003"]
    replayed(run, short, tmp_path, *bounded, "--repeat", 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "run-1", "run-2", "run-3"]
    found = [read_run(tmp_path / f"run-{number}") for number in (1, 2, 3)]
    assert [one["status"] for one in found] == ["complete"] * 3
    for name in ("plan", "executed", "executed_fingerprint", "conditions"):
        assert found[0][name] == found[1][name] == found[2][name]
    assert found[0]["plan"]["drops"] > 0
    logs = [log_of(tmp_path / f"run-{number}") for number in (1, 2, 3)]
    kept = [name for name in logs[0].columns if not name.endswith(TIMES)]
    assert logs[0].select(kept).equals(logs[1].select(kept))
    assert logs[0].select(kept).equals(logs[2].select(kept))
    (tmp_path / "run-1").rename(tmp_path / "moved")
    before = snapshot(tmp_path)
    sentence(replayed(run, short, tmp_path, "--repeat", 3, ok=False), "run-2", "--force")
    assert snapshot(tmp_path) == before, "refused before the first trial"


def test_caches_of_all_trials_can_be_kept(short: Path, tmp_path: Path, run: Run) -> None:
    replayed(run, short, tmp_path, "--repeat", 4, "--keep-cache")
    assert len(list((tmp_path / "cache").iterdir())) == 4


# Ranks


@pytest.fixture(scope="module")
def mpirun() -> list[object]:
    if shutil.which("mpirun") is None:
        pytest.skip("needs mpirun")
    pytest.importorskip("mpi4py")
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 2, sys.executable, "-m", "replayer", "run"]


def ranked(mpirun: list[object], trace: object, place: Path, *flags: object, cache: Path | None = None) -> Going:
    command = [*mpirun, trace, *MODEL, *CACHE, cache or place / "cache", *flags, "-o", place / "run"]
    return Going(command, place / "run")


def errors_in(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("Error: ")]


@pytest.mark.parametrize("mode", ["replicate", "partition"])
def test_ranks_log_their_share(mpirun: list[object], short: Path, tmp_path: Path, mode: str) -> None:
    whole = Trace(short).ops
    code, said = ranked(mpirun, short, tmp_path, "--ranks", mode).end()
    assert code == 0, said
    assert "Traceback" not in said
    top = info(tmp_path / "run")
    assert (top["status"], top["ranks"], len(top["clocks"])) == ("complete", 2, 2)
    places = [tmp_path / "run" / f"rank_{rank}" for rank in (0, 1)]
    found, logs = [read_run(place) for place in places], [log_of(place) for place in places]
    assert [set(log["rank"]) for log in logs] == [{0}, {1}]
    assert all(one["status"] == "complete" and one["executed"]["ops"] == one["plan"]["ops"] for one in found)
    ops = [set(log["op_id"]) for log in logs]
    if mode == "replicate":
        assert [one["executed"]["ops"] for one in found] == [whole] * 2
        assert ops[0] == ops[1] == set(range(whole))
    else:
        assert sum(one["executed"]["ops"] for one in found) == whole
        assert ops[0] | ops[1] == set(range(whole))
        assert not ops[0] & ops[1]
        assert [set(log["session_id"] % 2) for log in logs] == [{0}, {1}]
    assert list((tmp_path / "cache").iterdir()) == []


def test_one_rank_that_fails_fails_the_run() -> None:
    ends = [
        {"rank": rank, "status": status, "reason": reason, "executed": {"ops": 7}, "clock": {"offset_ns": rank}}
        for rank, (status, reason) in enumerate([("complete", None), ("failed", "2 moves failed"), ("complete", None)])
    ]
    found = combined(ends)
    assert (found["status"], found["reason"]) == ("failed", "rank 1: 2 moves failed")
    assert found["executed_ops"] == 21
    assert combined([ends[0], ends[2]])["status"] == "complete"


@pytest.fixture
def pair(mpirun: list[object], endless: Path, tmp_path: Path) -> Iterator[tuple[Going, dict[int, int]]]:
    """Two ranks at work, and their process ids."""
    started = ranked(mpirun, endless, tmp_path, "--ranks", "partition", *SLOW)
    folders = [tmp_path / "run" / f"rank_{rank}" for rank in (0, 1)]
    try:
        started.wait_for(lambda: all("clock" in info(folder) for folder in folders))
        yield started, ranks_under(started.process.pid)
    finally:
        started.kill()


def ranks_under(mpirun: int) -> dict[int, int]:
    found = {}
    for task in Path(f"/proc/{mpirun}/task").glob("*/children"):
        for pid in map(int, task.read_text().split()):
            variables = Path(f"/proc/{pid}/environ").read_text()
            if rank := re.search(r"OMPI_COMM_WORLD_RANK=(\d+)", variables):
                found[int(rank[1])] = pid
    return found


def test_a_rank_that_is_killed_leaves_no_complete_run(pair: tuple[Going, dict[int, int]]) -> None:
    started, pids = pair
    os.kill(pids[1], signal.SIGKILL)
    code, said = started.end()
    assert code != 0
    assert "Traceback" not in said
    assert info(started.output)["status"] in ("running", "incomplete", "failed")
    for place in started.output.glob("rank_*"):
        assert info(place)["status"] != "complete"


def test_ctrl_c_ends_all_ranks(pair: tuple[Going, dict[int, int]], tmp_path: Path) -> None:
    started, _ = pair
    started.process.send_signal(signal.SIGINT)
    code, said = started.end()
    assert code != 0
    assert "Traceback" not in said
    assert info(started.output)["status"] in ("running", "incomplete")
    assert [info(place)["status"] for place in sorted(started.output.glob("rank_*"))] == ["incomplete"] * 2
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_signal_to_one_rank_ends_all(pair: tuple[Going, dict[int, int]]) -> None:
    started, pids = pair
    os.kill(pids[1], signal.SIGTERM)
    code, said = started.end(timeout=25)
    assert code != 0
    assert "Traceback" not in said
    assert info(started.output)["status"] != "complete"


def test_ranks_that_are_refused_end_with_one_sentence(mpirun: list[object], short: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    code, said = ranked(mpirun, short, tmp_path, "--ranks", "replicate", cache=tmp_path / "file").end()
    assert code == 2
    assert "Traceback" not in said
    (error,) = errors_in(said)
    assert str(tmp_path / "file") in error
    assert [path.name for path in tmp_path.iterdir()] == ["file"], "no run directory"


def test_one_rank_that_is_refused_ends_all(mpirun: list[object], short: Path, tmp_path: Path) -> None:
    """Only rank 1 has no trace."""
    shutil.copy(short, tmp_path / "t-0.parquet")
    code, said = ranked(mpirun, tmp_path / "t-{rank}.parquet", tmp_path, "--ranks", "replicate").end(timeout=30)
    assert code == 2, said
    assert "Traceback" not in said
    (error,) = errors_in(said)
    assert "t-1.parquet" in error
    assert not (tmp_path / "run").exists()


def test_ranks_need_an_output_that_is_free(mpirun: list[object], short: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("x")
    code, said = ranked(mpirun, short, tmp_path, "--ranks", "replicate", "--force").end()
    assert code == 2, said
    assert len(errors_in(said)) == 1, said
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]


def test_ranks_repeat(mpirun: list[object], short: Path, tmp_path: Path) -> None:
    code, said = ranked(mpirun, short, tmp_path, "--ranks", "partition", "--repeat", 2).end()
    assert code == 0, said
    assert [info(tmp_path / f"run-{number}")["status"] for number in (1, 2)] == ["complete"] * 2
    assert len({info(tmp_path / f"run-{number}")["executed_ops"] for number in (1, 2)}) == 1


def test_ranks_clean_up_together(mpirun: list[object], short: Path, tmp_path: Path) -> None:
    """All find the same folders of killed runs; each is removed once, and nobody stumbles."""
    for number in range(40):
        dead = tmp_path / "cache" / f"{MARKER}-dead{number}"
        dead.mkdir(parents=True)
        for name in ("lock", "00000001.kv", "00000002.kv"):
            (dead / name).write_text("x")
    code, said = ranked(mpirun, short, tmp_path, "--ranks", "replicate", "--clean").end(timeout=30)
    assert code == 0, said
    assert list((tmp_path / "cache").iterdir()) == []


# Disks that misbehave


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


def test_a_folder_that_vanishes_is_rows(endless: Path, tmp_path: Path) -> None:
    with going(endless, tmp_path) as started:
        started.wait_for(lambda: len(list(tmp_path.glob("cache/*/*.kv"))) == USERS)
        shutil.rmtree(tmp_path / "cache")
        failed_rows(started, "No such file or directory")


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


@contextmanager
def ext4(place: Path) -> Iterator[Path]:
    """An ext4 of 128 MiB in a file; the test is skipped where nobody may mount one."""
    image, disk = place / "image", place / "disk"
    disk.mkdir()
    image.touch()
    os.truncate(image, 128 << 20)
    for command in (["mkfs.ext4", "-q", "-F", image], ["mount", "-o", "loop", image, disk]):
        if shutil.which(str(command[0])) is None or subprocess.run(command, check=False).returncode:
            pytest.skip("needs the right to mount, and mkfs.ext4")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


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
        found = read_run(started.output)
        assert found["status"] == "failed"
        errors = log_of(started.output).filter(pl.col("status") == "error")
        assert len(errors) > 0
        assert all("Read-only file system" in error or "Input/output" in error for error in errors["error"])


@pytest.mark.parametrize("key", [-1, 7, 2**62])
def test_keys_that_are_no_keys_never_reach_the_disk(tmp_path: Path, run: Run, key: int) -> None:
    batch = traces.columns([("w", 0, 5), ("d", 0, 5)], [0, 0], key=[key, key])
    trace = traces.write(tmp_path / "t.parquet", batch).path
    sentence(replayed(run, trace, tmp_path, "--keep-cache", ok=False), "t.parquet", "key")
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


# What the kernel counted


def test_device_counters_are_as_documented(endless: Path, tmp_path: Path) -> None:
    with going(endless, tmp_path) as started:
        started.wait_for((started.output / "device.parquet").exists)
        started.process.send_signal(signal.SIGTERM)
        _, _, usage = os.wait4(started.process.pid, 0)
        started.process.returncode = 143  # it has been waited for
    table = pq.read_table(started.output / "device.parquet")
    assert table.schema.equals(DEVICE_SCHEMA)
    assert table.column_names == [
        "time_ns", "interval_ns", "read_bytes", "written_bytes", "read_requests", "write_requests", "queue",
        "utilisation", "process_cpu", "system_cpu", "steal_cpu", "process_read_bytes", "process_written_bytes",
        "run_delay_ns", "throttled_ns", "sampler_delay_ns",
    ]  # fmt: skip
    rows = table.to_pylist()
    ends = [row["time_ns"] for row in rows]
    assert ends == np.cumsum([row["interval_ns"] for row in rows]).tolist(), "the intervals leave no gap"
    assert len(rows) >= 2
    assert all(row["interval_ns"] >= 900_000_000 for row in rows[:-1])
    busy = sum(row["process_cpu"] * row["interval_ns"] for row in rows) / 1e9
    assert 0 < busy <= usage.ru_utime + usage.ru_stime + 0.05
    cores = os.cpu_count() or 1
    assert all(0 <= row["system_cpu"] <= cores * 1.1 for row in rows[:-1])
    counted = [row["read_bytes"] for row in rows]
    if machine.block_device(tmp_path) is None:
        assert set(counted) == {None}
    else:
        assert all(count >= 0 for count in counted)
        assert all(0 <= row["utilisation"] <= 1 and row["queue"] >= 0 for row in rows)


def test_cpu_use_is_what_the_process_used() -> None:
    before = time.process_time()
    with Sampler(None) as sampler:
        sampler.start(time.perf_counter_ns())
        while time.process_time() - before < 0.3:
            sum(range(10_000))
    used = sum(row["process_cpu"] * row["interval_ns"] for row in sampler.rows) / 1e9
    assert 0.25 <= used <= time.process_time() - before + 0.05
    assert sum(row["system_cpu"] * row["interval_ns"] for row in sampler.rows) / 1e9 >= used - 0.1


_NEIGHBOUR = """
import mmap, os, sys
block = mmap.mmap(-1, 1 << 20)
block.write(bytes(1 << 20))
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
os.pwritev(file, [block], 0)
while True:
    os.preadv(file, [block], 0)
"""


def test_reads_that_a_cache_served_are_told(storing: Path, tmp_path: Path, run: Run) -> None:
    """Though a neighbour reads more from that disk, in whose counters the run's own reads would drown."""
    with ext4(tmp_path) as disk:
        neighbour = subprocess.Popen([sys.executable, "-c", _NEIGHBOUR, disk / "neighbour"])
        try:
            told_of_the_cache(storing, tmp_path, run, ["--cache-dir", disk / "c"])
        finally:
            neighbour.kill()
            neighbour.wait()


def told_of_the_cache(storing: Path, tmp_path: Path, run: Run, place: list[object]) -> None:
    done = replayed(run, storing, tmp_path, "--direct", "off", *place)
    found = read_run(tmp_path / "run")
    (warning,) = [warning for warning in found["warnings"] if "a cache served reads" in warning]
    assert warning in done.stderr
    done = replayed(run, storing, tmp_path, "--direct", "on", "--force", *place, ok=False)
    if "refuses O_DIRECT" in done.stderr:
        pytest.skip("this disk refuses O_DIRECT")
    assert done.returncode == 0, done.stderr
    assert "a cache served" not in done.stderr
    found = read_run(tmp_path / "run")
    assert not [warning for warning in found["warnings"] if "cache served" in warning]
    rows = pq.read_table(tmp_path / "run" / "device.parquet").to_pylist()
    assert sum(row["read_bytes"] for row in rows) >= found["executed"]["read_bytes"]["nvme"] > 50 << 20
    assert sum(row["written_bytes"] for row in rows) >= found["executed"]["write_bytes"]["nvme"]
