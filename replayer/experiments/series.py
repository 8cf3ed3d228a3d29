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

import msgspec

from replayer.experiments import children
from replayer.experiments.children import PYTHON, ChildFailedError
from replayer.options.command_line import PROGRESS_TO_PROGRAMS, option_words, parse_words, profile_words
from replayer.options.groups import PLAN_GROUPS
from replayer.options.run_groups import SpanOptions
from replayer.options.types import list_options
from replayer.record.reading import read_info
from replayer.run.figures import Agenda, Figures, Screen
from replayer.run.predicted import AssumedSystem
from replayer.tiers.cache_dir import check_parent
from tracegen.errors import InputError, format_count
from tracegen.schema import Trace

SERIES_FILE: Final = "series.json"
TRACES_FOLDER: Final = "traces"
RANK_FIELD: Final = "{rank}"
# Options that `replayer predict` takes as `replayer run` does
_PREDICTABLE: Final = frozenset(list_options(*PLAN_GROUPS, SpanOptions))


@dataclass(frozen=True)
class ReplayMeans:
    """The means by which a series makes its replays: on tiers, by several ranks, or from a profile.

    Attributes:
        cache_dir: of every replay; None: no replay needs one.
        ranks: processes of every replay; 1: no MPI.
        mpirun: the command that starts several, with its flags.
        profile: name or file of the profile from which replays are predicted; None: they are made.
        system: the content of that profile, with the speeds of tiers.

    Raises:
        InputError: they do not work.
    """

    cache_dir: Path | None = None
    ranks: int = 1
    mpirun: str = "mpirun"
    profile: str | None = None
    system: AssumedSystem | None = None

    def __post_init__(self) -> None:
        if self.ranks > 1:
            if not shutil.which((shlex.split(self.mpirun) or [""])[0]):
                problem = f"{self.mpirun!r} is not an installed command"
                raise InputError(problem, "install MPI, or pass `mpirun`", setting="ranks", subject=self.ranks)
        elif self.cache_dir is not None:  # a directory of several ranks may be on other hosts
            if self.system is not None:
                problem = "predictions need no directory"
                raise InputError(problem, "leave it out", subject=self.cache_dir, setting="cache_dir")
            check_parent(self.cache_dir)

    def check_flags(self, words: Sequence[str]) -> None:
        """Refuse flags of `replayer run` whose values are the profile's in a prediction."""
        given = parse_words(words) if self.system is not None else ()
        if setting := next((one for one in given if one not in _PREDICTABLE), None):
            problem = "predictions are made under the conditions of their profile"
            raise InputError(problem, "leave it out", setting=setting)

    def record(self) -> dict[str, object]:
        """Return what series.json holds: where the replays are made does not decide them."""
        recorded: dict[str, object] = {"ranks": self.ranks}
        if self.system is not None:
            recorded["prediction"] = msgspec.to_builtins(self.system.describe())
        return recorded

    def compose_command(self, words: list[str]) -> list[str]:
        """Return the command of a replay with these words."""
        if self.profile is not None and self.system is not None:
            return [*PYTHON, "replayer", "predict", *words, *profile_words(self.profile, self.system.speeds)]
        command = [*PYTHON, "replayer", "run", *words]
        if self.cache_dir is not None:
            command += [*option_words("cache_dir", self.cache_dir), *option_words("clean", True)]
        if self.ranks == 1:
            return command
        return [*shlex.split(self.mpirun), "-n", str(self.ranks), *command, "--ranks", "replicate"]


class Series:
    """A directory of replays: traces/, and each replay's run directory with a log of its output.

    Args:
        directory: made, or continued if an equal series was begun in it.
        settings: what decides the replays, for series.json; anything that JSON or str() can hold.
        means: of every replay.
        screen: where progress is reported.

    Attributes:
        directory, screen: as passed.
        agenda: of the replays; whoever knows them all replaces it.

    Raises:
        InputError: the directory holds something else, or another process works there.
    """

    def __init__(self, directory: Path, settings: Mapping[str, object], means: ReplayMeans, screen: Screen) -> None:
        self.directory = directory
        self.screen = screen
        self.agenda = Agenda()
        self._said = set[str]()
        self._means = means
        recorded = json.loads(json.dumps({**settings, **self._means.record()}, default=str))
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however it ends
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
            self._compare(settings)
            return False
        partial = path.with_suffix(".partial")  # left by a process killed while it wrote the file
        others = sorted(entry.name for entry in self.directory.iterdir() if entry != partial)
        if others:
            problem = f"the directory holds {others[0]}, and is not a series"
            raise InputError(problem, "name a new directory", subject=self.directory)
        partial.write_text(json.dumps(settings, indent=1))
        partial.replace(path)
        return True

    def _compare(self, settings: Mapping[str, object]) -> None:
        """Refuse to continue a series that was begun with other settings."""
        recorded = read_series(self.directory)
        if recorded == settings:
            return
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Let other processes work in the directory."""
        os.close(self._lock)

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
        suffix = f"-{RANK_FIELD}" if self._means.ranks > 1 else ""
        path = folder / f"{name}{suffix}.parquet"
        words = [*([recipe] if recipe else []), *(f"--set={setting}" for setting in settings)]
        first = path_of_rank(path, 0)
        self._generate(first, words)
        for rank in range(1, self._means.ranks):
            # Each rank stands for users of its own: with one seed all would ask at the same moments.
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
        if code := children.run_logged(command, log, self.screen.say):
            raise _make_failure("`tracegen generate`", code, log, path)
        trace = Trace(path)
        self.screen.say(f"{name}: {format_count(trace.ops, 'op')}, fingerprint {trace.metadata.fingerprint}")

    def replay(self, name: str, trace: Path, flags: Sequence[str], pause_s: float = 0) -> Path:
        """Replay a trace into a run directory of the series, unless that run is complete.

        A run that was interrupted is replaced; one that failed is moved aside.

        Args:
            name: of the run directory, relative to the series.
            trace: to replay.
            flags: of `replayer run`, or of `predict`.
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
        # After the status: a series that continues does not pause before trials it has.
        self._rest(pause_s, name)
        directory.parent.mkdir(parents=True, exist_ok=True)
        log = directory.with_name(f"log-{directory.name}.txt")
        if status == "failed":
            self._move_aside(directory, log)
        force = ["--force"] if status else []
        # As JSON: `run_logged` takes the figures from its stderr.
        words = [str(trace), *flags, *force, "-o", str(directory), *PROGRESS_TO_PROGRAMS]
        self.agenda.begin(name)
        self._show(Figures("starting"))
        if code := children.run_logged(self._means.compose_command(words), log, self._say_once, self._show):
            raise _make_failure("the replay", code, log, directory)
        info = read_info(directory)
        origin = "" if self._means.system is None else "predicted, "
        self.screen.say(f"{name}: {origin}{info.status}, {format_count(info.ops_executed or 0, 'op')}")
        return directory

    def _rest(self, seconds: float, name: str) -> None:
        """Wait until the last replay ended this long ago; without one there is no wait."""
        # By the files' times: whoever continues a series has not seen its last replay end.
        ends_ns = [file.stat().st_mtime_ns for file in self.directory.glob("**/run.json")]
        until_ns = max(ends_ns, default=0) + int(seconds * 1e9)
        if (left := (until_ns - time.time_ns()) / 1e9) > 0:
            self.screen.say(f"{left:.0f} s of pause before {name}")
        while left > 0:
            self._show(Figures("pausing", "s", seconds - left, seconds, left))
            time.sleep(min(1, left))
            left = (until_ns - time.time_ns()) / 1e9

    def _say_once(self, line: str) -> None:
        """Say a line of a replay, unless another replay has said the same."""
        if line not in self._said:
            self._said.add(line)
            self.screen.say(line)

    def _show(self, figures: Figures) -> None:
        self.screen.show(self.agenda.place(figures))

    def _move_aside(self, directory: Path, log: Path) -> None:
        """Rename the directory and the log of a failed run to the first free names."""
        number = 1
        while (aside := directory.with_name(f"failed-{number}-{directory.name}")).exists():
            number += 1
        directory.rename(aside)
        if log.exists():
            log.rename(aside.with_name(f"log-failed-{number}-{directory.name}.txt"))
        self.screen.warn(f"{directory} had failed; it is in {aside.name} now.")


def read_series(directory: Path) -> dict[str, object]:
    """Return the settings of the series that was begun in a directory; empty: there is none."""
    try:
        content = json.loads((directory / SERIES_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _make_failure(command: str, code: int, log: Path, subject: Path) -> ChildFailedError:
    """Return the error of a child that ended with an exit code other than 0."""
    remedy = f"mend what {log} ends with, then repeat the command: complete trials stay"
    return ChildFailedError(f"{command} ended with exit code {code}", remedy, subject=subject, exit_code=code)


def path_of_rank(path: Path, rank: int) -> Path:
    """Return the path with the rank's number in place of {rank}."""
    return Path(str(path).replace(RANK_FIELD, str(rank)))


def _read_status(directory: Path) -> str | None:
    """Return a run's status; None: there is no run; incomplete also if it was killed."""
    if not os.path.lexists(directory):
        return None
    if not (directory / "run.json").exists():
        return "incomplete"
    status = read_info(directory).status
    return "incomplete" if status == "running" else status
