"""Sweeps as a user types them: grids of cases, what is refused, and going on after whatever ended one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer import series
from replayer import sweep as sweeps
from replayer.schema import read_above, read_run
from replayer.series import Series
from tests.support import traces
from tests.support.command_line import Run, sentence
from tests.support.paths import ROOT
from tracegen.schema import Trace

RECIPE = ROOT / "tracegen" / "recipes" / "mlperf_option_1.toml"
READS = 18


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """quick.parquet, of two users and four ops; slow.parquet, whose 57 MiB take most of a second behind 64 MiB/s."""
    place = tmp_path_factory.mktemp("traces")
    quick = traces.columns([("w", 0, 2), ("d", 0, 2), ("w", 1, 2), ("d", 1, 2)], [0, 0, 1, 1])
    traces.write(place / "quick.parquet", quick, counts={"users": 2})
    steps = [(op, key, 32) for key in range(4) for op in ["w"] + ["d"] * READS]
    traces.write(place / "slow.parquet", traces.columns(steps, np.repeat(np.arange(4), READS + 1)))
    return place


def grid(place: Path, text: str) -> Path:
    path = place / "grid.toml"
    path.write_text(text)
    return path


def content(folder: Path) -> dict[str, Any]:
    """What lies there, and since when."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def words(grid: Path, cache: Path, output: Path, *flags: object) -> list[object]:
    return ["sweep", grid, "--make-cache-dir", "--cache-dir", cache, *flags, "-o", output]


def swept(run: Run, grid: Path, *flags: object, ok: bool = True) -> subprocess.CompletedProcess[str]:
    place = grid.parent
    return run("replayer", *words(grid, place / "cache", place / "sweep", *flags), ok=ok)


# Grids

GRID = f"""
trials = 2
pause_s = 1.5
[[case]]
name = "a"
trace = "quick.parquet"
model = "tiny-1b"
workers = [1, 2]
layout = ["files", "slab"]
verify = "full"
[[case]]
recipe = "{RECIPE}"
promote = true
fsync = ["none"]
[case.set]
users = 2
"personas.coding.weight" = 0
"""


def test_lists_of_values_make_a_grid(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    done = swept(run, grid(tmp_path, GRID), "--dry-run")
    quick = f"trace {tmp_path}/quick.parquet; --model tiny-1b"
    assert done.stdout.splitlines() == [
        "2 trials of each, 1.5 s of pause before another case",
        "at most 0.1 minutes for --duration, --drain and pauses, and as long as 5 cases without --duration take",
        f"  a-workers=1-layout=files: {quick} --workers 1 --layout files --verify full",
        f"  a-workers=1-layout=slab: {quick} --workers 1 --layout slab --verify full",
        f"  a-workers=2-layout=files: {quick} --workers 2 --layout files --verify full",
        f"  a-workers=2-layout=slab: {quick} --workers 2 --layout slab --verify full",
        f"  case_2: recipe {RECIPE} with users=2, personas.coding.weight=0; --promote --fsync none",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid.toml", "quick.parquet"], "nothing is written"


def test_sweeps_are_found_by_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no checkout, too; a file of the user's own wins over a name."""
    monkeypatch.chdir(tmp_path)
    shown = run("replayer", "sweep", "drive", "--dry-run", "-o", "sweep", cwd=tmp_path).stdout
    assert "chat-users=25-cpu_mem_gb=0: recipe chat" in shown
    assert "at most 27.9 minutes for --duration, --drain and pauses\n" in shown, "4 x 3 x 132 s + 3 x 30 s"
    sentence(
        run("replayer", "sweep", "drives", "-o", "sweep", ok=False, cwd=tmp_path),
        "drives: no file and no sweep has this name; name a TOML file or one of drive, submission-full, submission-smoke.",
    )
    Path("drive").write_text("nonsense = 1")
    sentence(run("replayer", "sweep", "drive", "-o", "sweep", ok=False, cwd=tmp_path), "nonsense is not known")


def test_flags_go_before_the_files(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    flags = ["--flag", "workers=7", "--flag", "storage-capacity-gb=0.5", "--trials", 5, "--dry-run", "--json"]
    found = json.loads(swept(run, grid(tmp_path, GRID), *flags).stdout)
    assert {one["case"]: len(one["runs"]) for one in found} == {"a-layout=files": 5, "a-layout=slab": 5, "case_2": 5}
    assert found[2]["runs"][4] == str(tmp_path / "sweep" / "case_2" / "trial_5")
    plain = swept(run, tmp_path / "grid.toml", *flags[:-1]).stdout.splitlines()
    assert plain[4].endswith("--promote --fsync none --workers 7 --storage-capacity-gb 0.5")


CASE = '[[case]]\nname = "a"\ntrace = "quick.parquet"\nmodel = "tiny-1b"\n'

REFUSED = {
    "no TOML": ("trials = [", "grid.toml is not TOML: "),
    "a key": (f"trails = 2\n{CASE}", "grid.toml: trails is not known; did you mean trials?"),
    "a flag": (f"{CASE}wokers = 2\n", "grid.toml, case a: wokers is not known; did you mean workers?"),
    "the sweep's own flag": (f"{CASE}cache_dir = '/mnt'\n", "grid.toml, case a: cache_dir is not known; known are "),
    "a number": (
        f"{CASE}workers = [1, 'many']\n",
        "grid.toml, case a: Invalid value for '--workers': --workers 'many'",
    ),
    "a choice": (f"{CASE}pace = 'fast'\n", "grid.toml, case a: Invalid value for '--pace': 'fast' is not one of "),
    "no case": (
        "trials = 2\n",
        "grid.toml has no [[case]]; each names a recipe or a trace, and flags of replayer run.",
    ),
    "no table": ("case = 3\n", "grid.toml has no [[case]]; each names"),
    "two of a name": (CASE + CASE, "grid.toml: two cases are called a; give each a name of its own."),
    "two of a value": (f"{CASE}workers = [1, 1]\n", "grid.toml: two cases are called a-workers=1; give each a name"),
    "no recipe": ('[[case]]\nrecipe = "x.toml"\n', "grid.toml, case case_1: there is no {place}/x.toml; paths are"),
    "no such name": ('[[case]]\nrecipe = "x"\n', "case case_1: x is neither a file beside it nor a name"),
    "no trace": ('[[case]]\ntrace = "x.parquet"\n', "grid.toml, case case_1: there is no {place}/x.parquet; paths are"),
    "neither": ('[[case]]\nmodel = "tiny-1b"\n', "grid.toml, case case_1 must name either a recipe or a trace."),
    "both": (f'{CASE}recipe = "quick.parquet"\n', "grid.toml, case a must name either a recipe or a trace."),
    "a path": (CASE.replace('"a"', '"../a"'), "grid.toml, case ../a: name = '../a' must be of letters, digits and"),
    "no trials": (f"trials = 0\n{CASE}", "grid.toml: trials = 0 must be from 1 to 1,000."),
    "true trials": (f"trials = true\n{CASE}", "grid.toml: trials = True must be from 1 to 1,000."),
    "a pause": (f"pause_s = -1\n{CASE}", "grid.toml: pause_s = -1 must be from 0 to 86,400 seconds."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_first(run: Run, place: Path, tmp_path: Path, name: str) -> None:
    text, told = REFUSED[name]
    shutil.copy(place / "quick.parquet", tmp_path)
    done = swept(run, grid(tmp_path, text), ok=False)
    sentence(done, told.format(place=tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid.toml", "quick.parquet"]


def test_what_is_typed_wrong_is_refused_first(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    path = grid(tmp_path, CASE)
    for flags, told in (
        (["--flag", "workers"], "--flag workers: write it as NAME=VALUE."),
        (["--flag", "workers=0x"], "grid.toml, case a: Invalid value for '--workers': --workers '0x'"),
        (["--trials", 0], "--trials 0 must be from 1 to 1,000."),
        (
            ["--ranks", 2, "--mpirun", "mpirun-of-nobody"],
            "--ranks 2 needs 'mpirun-of-nobody', which is not to be found",
        ),
    ):
        sentence(swept(run, path, *flags, ok=False), told)
    sentence(
        run("replayer", "sweep", tmp_path / "no.toml", "-o", tmp_path / "sweep", ok=False), "no.toml: No such file"
    )
    assert sorted(one.name for one in tmp_path.iterdir()) == ["grid.toml", "quick.parquet"]


def test_more_users_than_there_are_are_refused(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    done = swept(run, grid(tmp_path, f"{CASE}users = [2, 3]\n"), ok=False)
    sentence(done, f"case a-users=3: users = 3, but {tmp_path}/quick.parquet has 2; ask for fewer.")
    assert not list(tmp_path.glob("**/run.json")), "before the case that could be replayed"


# Traces of sweeps


class Recorded:
    """A series that makes and replays nothing, and keeps what it was asked for."""

    def __init__(self, place: Path, trace: Path) -> None:
        self.place, self.made, self.replayed = place, dict[str, Sequence[str]](), list[tuple[str, Path]]()
        self._trace = trace

    def trace(self, name: str, _recipe: Path | None, settings: Sequence[str] = ()) -> Path:
        assert self.made.setdefault(name, settings) == settings, "two traces of one name"
        path = self.place / f"{name}.parquet"
        shutil.copy(self._trace, path)
        return path

    def replay(self, name: str, trace: Path, _flags: Sequence[str]) -> None:
        self.replayed.append((name, trace))

    def rested_s(self) -> float:
        return 0.0


SHARED = f"""
trials = 1
[[case]]
name = "chat"
recipe = "{RECIPE}"
users = [1, 2]
workers = [1, 2]
[[case]]
name = "more"
recipe = "{RECIPE}"
promote = true
[[case]]
name = "short"
recipe = "{RECIPE}"
[case.set]
users = 2
[[case]]
name = "chat"
recipe = "{RECIPE}"
verify = ["off", "full"]
[case.set]
users = 3
"""


def test_cases_that_differ_in_flags_share_a_trace(place: Path, tmp_path: Path) -> None:
    found = sweeps.load(grid(tmp_path, SHARED))
    series: Any = Recorded(tmp_path, place / "quick.parquet")
    sweeps.run(found, series)
    assert series.made == {"chat": (), "short": ("users=2",), "chat-verify=off": ("users=3",)}
    used = {name.split("/")[0]: path.stem for name, path in series.replayed}
    grids = {f"chat-users={users}-workers={workers}": "chat" for users in (1, 2) for workers in (1, 2)}
    others = {f"chat-verify={verify}": "chat-verify=off" for verify in ("off", "full")}
    assert used == grids | {"more": "chat", "short": "short"} | others


@pytest.mark.usefixtures("series_here")
def test_the_ops_that_are_told_were_executed(run: Run, place: Path, tmp_path: Path) -> None:
    """Of one user alone, and not to the end: executed_ops is a position, below which others' ops lie, too."""
    steps = [("w", 0, 2), ("w", 1, 2), ("d", 1, 2), ("d", 0, 2), ("d", 0, 2)]
    columns = traces.columns(steps, range(5), user_id=[0, 1, 1, 0, 0])
    traces.write(tmp_path / "quick.parquet", columns, counts={"users": 2})
    done = swept(run, grid(tmp_path, f"trials = 1\n{CASE}users = 1\nops = 2\norder = 'trace'\n"))
    found = read_run(tmp_path / "sweep" / "a" / "trial_1")
    assert (found["executed_ops"], found["executed"]["ops"]) == (4, 2)
    assert "a/trial_1: complete, 2 ops" in done.stderr


def test_files_of_the_user_do_not_stand_in_for_ours(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules called as our packages are, in the folder in which a sweep or a search is started."""
    for name in ("analysis", "tracegen", "replayer"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the user')\n")
    monkeypatch.chdir(tmp_path)
    assert series.analysis("metrics", "hit_rate").startswith("hit_rate: ")
    with Series(tmp_path / "sweep", {}, tmp_path / "cache", make_cache_dir=True) as own:
        flags = ["--model", "tiny-1b", "--duration", "100"]
        place = own.replay("a/trial_1", place / "quick.parquet", flags)
        settings = ("users=1", "requests=2", "mix.personas=1")
        assert own.trace("made", None, settings).exists()
    assert read_run(place)["status"] == "complete"


# Finished sweeps

FINISHED = f"""
trials = 1
[[case]]
name = "a"
trace = "quick.parquet"
model = "tiny-1b"
workers = [1, 2]
[[case]]
name = "b"
recipe = "{RECIPE}"
model = "tiny-1b"
pace = "asap"
duration = "unlimited"
[case.set]
users = 2
duration_s = 1
"personas.coding.weight" = 0
"personas.document.weight" = 0
"personas.chatbot.context" = [64, 128]
"""


@pytest.fixture(scope="module")
def finished(run: Run, place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the grid, its trace, and its sweep, in which nothing is left to do."""
    folder = tmp_path_factory.mktemp("finished")
    shutil.copy(place / "quick.parquet", folder)
    done = swept(run, grid(folder, FINISHED))
    assert done.stdout == f"{folder}/sweep: 3 cases, 1 trial each, complete\n"
    assert [line for line in done.stderr.splitlines() if "trial" in line] == [
        "a-workers=1/trial_1: complete, 4 ops",
        "a-workers=2/trial_1: complete, 4 ops",
        f"b/trial_1: complete, {Trace(folder / 'sweep' / 'traces' / 'b.parquet').ops} ops",
    ]
    return folder


def test_a_sweep_leaves_its_runs_and_what_they_printed(finished: Path) -> None:
    sweep = finished / "sweep"
    assert sorted(one.name for one in sweep.iterdir()) == ["a-workers=1", "a-workers=2", "b", "series.json", "traces"]
    assert sorted(one.name for one in (sweep / "b").iterdir()) == ["log-trial_1.txt", "trial_1"]
    assert sorted(one.name for one in (sweep / "traces").iterdir()) == ["b.log", "b.parquet"]
    found = {name: read_run(sweep / name / "trial_1") for name in ("a-workers=1", "a-workers=2", "b")}
    assert {name: one["status"] for name, one in found.items()} == dict.fromkeys(found, "complete")
    assert [one["conditions"]["workers"] for one in found.values()] == [1, 2, 2]
    assert found["b"]["trace"]["recipe"]["users"] == 2
    first, *_, last = (sweep / "b" / "log-trial_1.txt").read_text().splitlines()
    assert first == (
        f"$ {sys.executable} -P -m replayer run {sweep}/traces/b.parquet"
        f" --model tiny-1b --pace asap --duration unlimited --cache-dir {finished}/cache --clean --make-cache-dir -o {sweep}/b/trial_1"
    )
    assert last == "exit 0"
    assert list((finished / "cache").iterdir()) == []


def test_a_finished_sweep_is_not_run_again(run: Run, finished: Path) -> None:
    before = content(finished)
    told = json.loads(swept(run, finished / "grid.toml", "--json").stdout)
    assert content(finished) == before
    names = ["a-workers=1", "a-workers=2", "b"]
    assert told == [{"case": name, "runs": [f"{finished}/sweep/{name}/trial_1"]} for name in names]


@pytest.mark.usefixtures("series_here")
def test_another_sweep_in_its_place_is_refused(run: Run, finished: Path, tmp_path: Path) -> None:
    before = content(finished / "sweep")
    other = grid(tmp_path, f"trials = 1\n{CASE}".replace("quick", f"{finished}/quick"))
    done = run("replayer", "sweep", other, "-o", finished / "sweep", ok=False)
    sentence(done, f"{finished}/sweep was begun with other settings (cases); name a new directory with -o")
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "series.partial").write_text("{")
    run("replayer", *words(finished / "grid.toml", tmp_path / "c", tmp_path / "killed"))
    assert not (tmp_path / "killed" / "series.partial").exists(), "what a killed process had begun is gone on with"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    done = run("replayer", "sweep", other, "-o", tmp_path / "mine", ok=False)
    sentence(done, f"{tmp_path}/mine holds thesis.tex, which is none of a series'; name a new directory.")
    assert content(finished / "sweep") == before
    assert [one.name for one in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


@pytest.mark.usefixtures("series_here")
def test_a_trial_that_failed_is_put_aside(run: Run, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "sweep", tmp_path / "sweep")
    trial = tmp_path / "sweep" / "a-workers=2" / "trial_1"
    for number in (1, 2):
        path = trial / "run.json"
        path.write_text(json.dumps(read_run(trial) | {"status": "failed", "reason": f"disk {number}"}))
        before = content(tmp_path / "sweep")
        done = run("replayer", *words(finished / "grid.toml", tmp_path / "c", tmp_path / "sweep"))
        assert f"{trial} had failed; it lies in failed-{number}-trial_1 now." in done.stderr
        aside = trial.with_name(f"failed-{number}-trial_1")
        assert read_run(aside)["reason"] == f"disk {number}"
        assert read_run(trial)["status"] == "complete"
        kept = {name: one for name, one in before.items() if not name.startswith(f"{trial.parent.name}/")}
        assert {name: one for name, one in content(tmp_path / "sweep").items() if name in kept} == kept
    logs = ["log-failed-1-trial_1.txt", "log-failed-2-trial_1.txt", "log-trial_1.txt"]
    assert sorted(one.name for one in trial.parent.glob("log*")) == logs


def test_a_trial_that_fails_ends_the_sweep(run: Run, place: Path, tmp_path: Path) -> None:
    """No op is issued within a nanosecond; the next case is not tried."""
    shutil.copy(place / "quick.parquet", tmp_path)
    path = grid(tmp_path, f"trials = 2\n{CASE}duration = [1e-9, 100]\n")
    done = swept(run, path, ok=False)
    trial = tmp_path / "sweep" / "a-duration=1e-09" / "trial_1"
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"Error: {trial}: no op was executed before --duration was over." in done.stderr
    reason = "no op was executed before --duration was over"
    told = f"{trial} failed: {reason}; what is complete stays: mend it, then repeat the command.\n"
    assert done.stderr.endswith(told), "the trial's own reason"
    assert done.stdout == ""
    assert (trial.parent / "log-trial_1.txt").read_text().endswith("exit 1\n")
    assert sorted(one.name for one in (tmp_path / "sweep").iterdir()) == [trial.parent.name, "series.json"]


# Sweeps that are ended


@contextmanager
def going(path: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A sweep that runs while the test goes on; what it started ends with it."""
    place = path.parent
    command = [
        sys.executable,
        "-m",
        "replayer",
        *words(path, place / "cache", place / "sweep"),
    ]
    with (place / "said").open("w") as said:
        started = subprocess.Popen([*map(str, command)], cwd=ROOT, text=True, stdout=said, stderr=said)
    try:
        yield started
    finally:
        below = children(started.pid)
        for pid in [started.pid, *below] if started.poll() is None else below:
            os.kill(pid, signal.SIGKILL)
        started.wait()


def children(pid: int) -> list[int]:
    """Processes below one that lives."""
    found = [int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]
    return [*found, *(other for one in found for other in children(one))]


def lives(pid: int) -> bool:
    """Whether it does, and is not only waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(what: Callable[[], object], started: subprocess.Popen[str] | None = None) -> None:
    for _ in range(2000):
        if what():
            return
        assert started is None or started.poll() is None, "it ended before"
        time.sleep(0.01)
    pytest.fail("it never came so far")


def ended(started: subprocess.Popen[str], number: signal.Signals) -> int:
    """Send a signal to the sweep alone; its exit code, when all that it started has ended, too."""
    below = children(started.pid)
    started.send_signal(number)
    code = started.wait(timeout=20)
    wait_for(lambda: not any(map(lives, below)))
    return code


def going_on(run: Path) -> bool:
    """Whether it has begun to move data."""
    try:
        return "zero_ns" in json.loads((run / "run.json").read_text()).get("clock", {})
    except OSError:
        return False


SIGNALS = [
    (signal.SIGINT, 130, "interrupted"),
    (signal.SIGTERM, 143, "terminated"),
    (signal.SIGKILL, -9, "terminated"),
]


@pytest.mark.usefixtures("series_here")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv")
def test_a_sweep_goes_on_after_whatever_ended_it(run: Run, place: Path, tmp_path: Path) -> None:
    """Each trial is ended once, by a signal to the sweep alone, and replayed when it is begun again."""
    shutil.copy(place / "slow.parquet", tmp_path)
    path = grid(tmp_path, f"trials = 3\n{CASE}throttle = 'nvme=64'\nworkers = 4\n".replace("quick", "slow"))
    trials = [tmp_path / "sweep" / "a" / f"trial_{number}" for number in (1, 2, 3)]
    done: dict[Path, dict[str, Any]] = {}
    for trial, (number, code, reason) in zip(trials, SIGNALS, strict=True):
        with going(path) as started:
            wait_for(lambda trial=trial: going_on(trial), started)
            done = {one: content(one) for one in trials[: trials.index(trial)]}
            assert ended(started, number) == code
        found = read_run(trial)
        assert (found["status"], found["reason"]) == ("incomplete", reason)
        assert list((tmp_path / "cache").iterdir()) == []
        assert "Traceback" not in (tmp_path / "said").read_text()
    swept(run, path)
    infos = [read_run(trial) for trial in trials]
    assert [one["status"] for one in infos] == ["complete"] * 3
    assert len({one["plan"]["plan_fingerprint"] for one in infos} | {one["executed_fingerprint"] for one in infos}) == 1
    assert [one.name for one in done] == ["trial_1", "trial_2"]
    assert {one: content(one) for one in done} == done, "what was complete is untouched"


@pytest.mark.usefixtures("series_here")
def test_a_sweep_goes_on_where_its_traces_are_half_made(run: Run, finished: Path, tmp_path: Path) -> None:
    shutil.copy(finished / "quick.parquet", tmp_path)
    path = grid(tmp_path, FINISHED)
    for number, code, _ in SIGNALS:
        with going(path) as started:
            wait_for(lambda: list(tmp_path.glob("sweep/traces/*")) and children(started.pid), started)
            assert ended(started, number) == code
    swept(run, path)
    for name in ("a-workers=1", "a-workers=2", "b"):
        one, other = (read_run(folder / "sweep" / name / "trial_1") for folder in (tmp_path, finished))
        assert one["plan"] == other["plan"]
        assert one["executed_fingerprint"] == other["executed_fingerprint"]


def test_a_sweep_that_is_ended_while_it_rests(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    path = grid(tmp_path, f"trials = 1\npause_s = 60\n{CASE}workers = [1, 2]\n")
    with going(path) as started:
        wait_for(lambda: " s of pause before a-workers=2" in (tmp_path / "said").read_text(), started)
        told = f"{tmp_path}/sweep: another process is at work there; wait for it, or name another."
        sentence(swept(run, path, ok=False), told)
        assert ended(started, signal.SIGTERM) == 143
    assert (tmp_path / "said").read_text().endswith("\nTerminated. To continue, run the same command again.\n")
    assert read_run(tmp_path / "sweep" / "a-workers=1" / "trial_1")["status"] == "complete"
    assert not (tmp_path / "sweep" / "a-workers=2").exists()


# Ranks


def test_ranks_have_traces_of_their_own(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    if not shutil.which("mpirun"):
        pytest.skip("needs mpirun")
    path = grid(tmp_path, "trials = 1\n" + FINISHED[FINISHED.rindex("[[case]]") :])
    ranks = ["--ranks", 2, "--mpirun", "mpirun --allow-run-as-root --oversubscribe"]
    swept(run, path, *ranks)
    trial, folder = tmp_path / "sweep" / "b" / "trial_1", tmp_path / "sweep" / "traces"
    above, infos = read_above(trial), [read_run(trial / f"rank_{rank}") for rank in (0, 1)]
    assert above is not None
    assert (above["status"], above["ranks"]) == ("complete", 2)
    assert [one["trace"]["seed"] for one in infos] == [42, 43]
    assert [one["conditions"]["part"] for one in infos] == [[0, 1]] * 2, "each replays all of its own"
    made = [Trace(folder / f"b-{rank}.parquet").metadata.fingerprint for rank in (0, 1)]
    assert [one["trace"]["fingerprint"] for one in infos] == made
    assert made[0] != made[1]
    before = content(tmp_path / "sweep")
    swept(run, path, *ranks)
    assert content(tmp_path / "sweep") == before
    sentence(swept(run, path, ok=False), "was begun with other settings (ranks); name a new directory with -o")
