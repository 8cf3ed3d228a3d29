"""A series: a directory of replays, each a `replayer run` or `predict` in its own process."""

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from replayer.experiments import children
from replayer.experiments.children import PYTHON, ChildFailedError
from replayer.experiments.prediction import Predictor
from replayer.flags.progress_flags import PROGRESS_TO_PROGRAMS
from replayer.live.agenda import Agenda
from replayer.live.figures import Figures, Screen
from replayer.record.reading import read_ranks, read_run
from replayer.record.run_info import RanksInfo, RunInfo
from replayer.tiers.cache_dir import check_parent
from tracegen.errors import InputError, format_count
from tracegen.schema import Trace

SERIES_FILE: Final = "series.json"
TRACES_FOLDER: Final = "traces"
RANK_FIELD: Final = "{rank}"


@dataclass(frozen=True)
class Cache:
    """The cache directory of every replay of a series; None: no replay needs one.

    Attributes:
        make: make the directory if it does not exist.
    """

    directory: Path | None = None
    make: bool = False

    def check(self) -> None:
        """Refuse a directory that does not exist and is not to be made.

        Raises:
            InputError: it does not exist, or is not a directory.
        """
        if self.directory is not None:
            check_parent(self.directory, make=self.make)

    def flags(self) -> list[str]:
        """Return the flags of `replayer run` for it."""
        if self.directory is None:
            return []
        make = ["--make-cache-dir"] if self.make else []
        return ["--cache-dir", str(self.directory), "--clean", *make]


@dataclass(frozen=True)
class RankProcesses:
    """The processes of every replay of a series.

    Attributes:
        count: 1: no MPI.
        mpirun: the command that starts several, with its flags.
    """

    count: int = 1
    mpirun: str = "mpirun"

    def check(self) -> None:
        """Refuse several processes that cannot be started.

        Raises:
            InputError: mpirun is not installed.
        """
        if self.count == 1:
            return
        program = (shlex.split(self.mpirun) or [""])[0]
        if not shutil.which(program):
            problem = f"{self.mpirun!r} is not an installed command"
            raise InputError(problem, "install MPI, or pass `mpirun`", setting="ranks", subject=self.count)

    def wrap(self, command: list[str]) -> list[str]:
        """Return the command that starts a `replayer run` in every process."""
        if self.count == 1:
            return command
        return [*shlex.split(self.mpirun), "-n", str(self.count), *command, "--ranks", "replicate"]


class Series:
    """A directory of replays: traces/, and each replay's run directory with a log of its output.

    Args:
        directory: made, or continued if an equal series was begun in it.
        settings: what decides the replays, for series.json; anything that JSON or str() can hold.
        cache: of every replay.
        ranks: of every replay.
        display: where progress is reported.

    Attributes:
        directory, cache, display: as passed.
        agenda: of the replays; whoever knows them all replaces it.

    Raises:
        InputError: the directory holds something else, or another process works there.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, object],
        cache: Cache | None = None,
        ranks: RankProcesses | None = None,
        display: Screen | None = None,
    ) -> None:
        self.directory = directory
        self.cache = cache or Cache()
        self.display = display or Screen()
        self.agenda = Agenda()
        self._said = set[str]()
        self._ranks = ranks or RankProcesses()
        if self._ranks.count == 1:  # a directory of several ranks may be on other hosts
            self.cache.check()
        self._ranks.check()
        recorded = json.loads(json.dumps({**settings, "ranks": self._ranks.count}, default=str))
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._is_new = self._begin(recorded)
        except BlockingIOError:
            problem = "another process works in this directory"
            raise InputError(problem, "wait for it, or name another directory", subject=directory) from None
        except OSError as error:
            problem = f"cannot be written ({error.strerror})"
            raise InputError(problem, "name another directory", subject=directory) from None

    def _begin(self, settings: Mapping[str, object]) -> bool:
        """Record the settings of a new series, or compare them; return whether it is new."""
        path = self.directory / SERIES_FILE
        if path.exists():
            self._compare(path, settings)
            return False
        partial = path.with_suffix(".partial")  # left by a process killed while it wrote the file
        others = sorted(entry.name for entry in self.directory.iterdir() if entry != partial)
        if others:
            problem = f"the directory holds {others[0]}, and is not a series"
            raise InputError(problem, "name a new directory", subject=self.directory)
        partial.write_text(json.dumps(settings, indent=1))
        partial.replace(path)
        return True

    def _compare(self, path: Path, settings: Mapping[str, object]) -> None:
        """Refuse to continue a series that was begun with other settings."""
        try:
            before = json.loads(path.read_text())
        except ValueError:
            before = None
        if before == settings:
            return
        recorded = before if isinstance(before, dict) else {}
        different = [name for name in settings if recorded.get(name, ...) != settings[name]]
        problem = f"was begun with other settings ({', '.join(different) or 'fewer now'})"
        remedy = "name a new directory with `output`, or repeat the command that began it"
        raise InputError(problem, remedy, subject=self.directory)

    def abandon(self) -> None:
        """Remove the traces and the directory if they are new and nothing was replayed."""
        if self._is_new:
            shutil.rmtree(self.directory / TRACES_FOLDER, ignore_errors=True)
            (self.directory / SERIES_FILE).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.directory.rmdir()

    def _rest(self, seconds: float, name: str) -> None:
        """Wait until the last replay ended this long ago; without one there is no wait."""
        ends = [file.stat().st_mtime_ns for file in self.directory.glob("**/run.json")]
        if not ends:
            return
        left = seconds - (time.time_ns() - max(ends)) / 1e9
        if left > 0:
            self.display.say(f"{left:.0f} s of pause before {name}")
        while left > 0:
            paused = Figures("pausing", "s", seconds - left, seconds, left)
            self.display.show(self.agenda.place(paused))
            time.sleep(min(1, left))
            left = seconds - (time.time_ns() - max(ends)) / 1e9

    def close(self) -> None:
        """Let other processes work in the directory."""
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def make_trace(self, name: str, recipe: str | None, settings: Sequence[str] = ()) -> Path:
        """Make a trace for each rank, with the recipe's seed + rank, unless it exists.

        Args:
            name: of the file.
            recipe: a file, or the name of a shipped one; None: the settings are the whole recipe.
            settings: KEY=VALUE, as `tracegen generate --set` takes them.

        Returns:
            The path; of several ranks, with {rank} in its name.

        Raises:
            ChildFailedError: tracegen failed.
        """
        folder = self.directory / TRACES_FOLDER
        folder.mkdir(exist_ok=True)
        suffix = f"-{RANK_FIELD}" if self._ranks.count > 1 else ""
        path = folder / f"{name}{suffix}.parquet"
        words = [*([recipe] if recipe else []), *(f"--set={setting}" for setting in settings)]
        first = path_of_rank(path, 0)
        self._generate(first, words)
        for rank in range(1, self._ranks.count):
            seed = Trace(first).metadata.seed + rank
            self._generate(path_of_rank(path, rank), [*words, "--seed", str(seed)])
        return path

    def _generate(self, path: Path, words: Sequence[str]) -> None:
        """Make one trace with `tracegen generate`, unless it exists."""
        if path.exists():
            return
        name = path.relative_to(self.directory)
        log = path.with_suffix(".log")
        command = [*PYTHON, "tracegen", "generate", *words, "-o", str(path)]
        self._show(Figures(f"making {name}"))
        if code := children.run_logged(command, log, self.display.say):
            raise ChildFailedError(
                f"`tracegen generate` ended with exit code {code}",
                f"mend what {log} ends with, then repeat the command",
                subject=path,
                exit_code=code,
            )
        trace = Trace(path)
        self.display.say(f"{name}: {format_count(trace.ops, 'op')}, fingerprint {trace.metadata.fingerprint}")

    def replay(
        self,
        name: str,
        trace: Path,
        flags: Sequence[str],
        predictor: Predictor | None = None,
        pause_s: float = 0,
    ) -> Path:
        """Replay a trace into a run directory of the series, unless that run is complete.

        A run that was interrupted is replaced; one that failed is moved aside.

        Args:
            name: of the run directory, relative to the series.
            trace: to replay.
            flags: of `replayer run`.
            predictor: predicts the replay instead; then the flags are also of `replayer predict`.
            pause_s: seconds since the end of the last replay, so that the device comes to rest.

        Returns:
            The run directory.

        Raises:
            ChildFailedError: the replay failed or was refused.
        """
        directory = self.directory / name
        status = _read_status(directory)
        if status == "complete":
            return directory
        self._rest(pause_s, name)
        directory.parent.mkdir(parents=True, exist_ok=True)
        log = directory.with_name(f"log-{directory.name}.txt")
        if status == "failed":
            self._move_aside(directory, log)
        force = ["--force"] if status else []
        words = [str(trace), *flags, *force, "-o", str(directory), *PROGRESS_TO_PROGRAMS]
        if predictor is not None:
            command = [*PYTHON, "replayer", "predict", *words, *predictor.flags()]
        else:
            run = [*PYTHON, "replayer", "run", *words, *self.cache.flags()]
            command = self._ranks.wrap(run)
        self.agenda.begin(name)
        self._show(Figures("starting"))
        if code := children.run_logged(command, log, self._say_once, self._show):
            raise _replay_failure(directory, log, code)
        self.agenda.end()
        info = _read_info(directory)
        origin = "" if predictor is None else "predicted, "
        ops = format_count(info.ops_executed or 0, "op")
        self.display.say(f"{name}: {origin}{info.status}, {ops}")
        return directory

    def _say_once(self, line: str) -> None:
        """Say a line of a replay, unless another replay has said the same."""
        if line not in self._said:
            self._said.add(line)
            self.display.say(line)

    def _show(self, figures: Figures) -> None:
        """Show the figures of the replay that goes on."""
        self.display.show(self.agenda.place(figures))

    def _move_aside(self, directory: Path, log: Path) -> None:
        """Rename the directory and the log of a failed run to the first free names."""
        number = 1
        while (aside := directory.with_name(f"failed-{number}-{directory.name}")).exists():
            number += 1
        directory.rename(aside)
        if log.exists():
            log.rename(aside.with_name(f"log-failed-{number}-{directory.name}.txt"))
        self.display.warn(f"{directory} had failed; it is in {aside.name} now.")


def _replay_failure(directory: Path, log: Path, code: int) -> ChildFailedError:
    """Return the error of a replay that ended with an exit code other than 0."""
    if _read_status(directory) == "failed":
        reason = str(_read_info(directory).reason).rstrip(".")
        remedy = "complete trials stay: mend the cause, then repeat the command"
        return ChildFailedError(f"the replay failed: {reason}", remedy, subject=directory, exit_code=code)
    problem = f"the replay ended with exit code {code}"
    remedy = f"mend what {log} ends with, then repeat the command"
    return ChildFailedError(problem, remedy, subject=directory, exit_code=code)


def path_of_rank(path: Path, rank: int) -> Path:
    """Return the path with the rank's number in place of {rank}."""
    return Path(str(path).replace(RANK_FIELD, str(rank)))


def _read_status(directory: Path) -> str | None:
    """Return a run's status; None: there is no run; incomplete also if it was killed."""
    if not os.path.lexists(directory):
        return None
    if not (directory / "run.json").exists():
        return "incomplete"
    status = _read_info(directory).status
    return "incomplete" if status == "running" else status


def _read_info(directory: Path) -> RunInfo | RanksInfo:
    """Return what run.json says about all ranks together."""
    return read_ranks(directory) or read_run(directory)
