"""Replays one after the other, each a `replayer run` in a process of its own; those that are finished are kept."""

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from replayer.record.reading import read_ranks, read_run
from replayer.record.run_info import RanksInfo, RunInfo
from replayer.tiers.cache_dir import check_parent
from tracegen.errors import InputError, format_count
from tracegen.schema import Trace

ASKED: Final = "series.json"
TRACES: Final = "traces"
RANK: Final = "{rank}"
PYTHON: Final = (sys.executable, "-P", "-m")
"""Starts a command of ours: with -P, an analysis.py of the user's in the working directory is not taken for it."""


class Series:
    """A directory of replays: traces/, and a run directory per replay with what it printed beside it.

    Args:
        place: the directory; made, or gone on with where it was made for the same.
        asked: what the replays follow from; another series is not mixed with it.
        cache_dir: of every replay.
        make_cache_dir: make it where it does not exist.
        ranks: processes of every replay.
        mpirun: the command that starts them, where there are several.

    Raises:
        InputError: the directory holds something else, or another process is at work there.
    """

    def __init__(
        self,
        place: Path,
        asked: dict[str, Any],
        cache_dir: Path | None,
        ranks: int = 1,
        mpirun: str = "mpirun",
        *,
        make_cache_dir: bool = False,
    ) -> None:
        if cache_dir is not None and ranks == 1:  # that of ranks may be on other hosts
            check_parent(cache_dir, make=make_cache_dir)
        self.make_cache_dir = make_cache_dir
        self.place, self._cache_dir, self._ranks, self._mpirun = place, cache_dir, ranks, shlex.split(mpirun)
        if ranks > 1 and not shutil.which(self._mpirun[0] if self._mpirun else ""):
            raise InputError(
                f"--ranks {ranks} needs {mpirun!r}, which is not to be found; install MPI or pass --mpirun."
            )
        asked = json.loads(json.dumps(asked | {"ranks": ranks}, default=str))
        try:
            place.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._claim(asked)
        except BlockingIOError:
            raise InputError(f"{place}: another process is at work there; wait for it, or name another.") from None
        except OSError as error:
            raise InputError(f"{place}: cannot be written ({error.strerror}); name another directory.") from None

    def _claim(self, asked: dict[str, Any]) -> None:
        known = self.place / ASKED
        self._new = not known.exists()
        if self._new:
            partial = known.with_suffix(".partial")  # of a process that was killed while it wrote it
            if left := sorted(one.name for one in self.place.iterdir() if one != partial):
                raise InputError(f"{self.place} holds {left[0]}, which is none of a series'; name a new directory.")
            partial.write_text(json.dumps(asked, indent=1))
            partial.replace(known)
            return
        try:
            before = json.loads(known.read_text())
        except ValueError:
            before = None
        if before != asked:
            unlike = [name for name in asked if not isinstance(before, dict) or before.get(name) != asked[name]]
            raise InputError(
                f"{self.place} was begun with other settings ({', '.join(unlike) or 'fewer now'}); name a new directory"
                " with -o, or repeat the command it was begun with."
            )

    def abandon(self) -> None:
        """Remove what has been made, where nothing was before and nothing has been replayed."""
        if self._new:
            shutil.rmtree(self.place / TRACES, ignore_errors=True)
            (self.place / ASKED).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.place.rmdir()

    def rested_s(self) -> float:
        """Since the last replay ended."""
        ends = [file.stat().st_mtime_ns for file in self.place.glob("**/run.json")]
        return (time.time_ns() - max(ends)) / 1e9 if ends else float("inf")

    def close(self) -> None:
        """Let others work here."""
        os.close(self._lock)

    def __enter__(self) -> "Series":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def trace(self, name: str, recipe: str | None, settings: Sequence[str] = ()) -> Path:
        """Make a trace, one per rank with the seed of the recipe + rank; named with {rank} where there are several.

        Args:
            name: of the file.
            recipe: a file, or the name of a shipped one; None where the settings say it all.
            settings: KEY=VALUE, as `tracegen generate --set` takes them.

        Raises:
            click.exceptions.Exit: tracegen refused, and has said why.
        """
        folder = self.place / TRACES
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}{f'-{RANK}' if self._ranks > 1 else ''}.parquet"
        base = [*([recipe] if recipe else []), *(f"--set={setting}" for setting in settings)]
        seed = 0
        for rank in range(self._ranks):
            target = of_rank(path, rank)
            if not target.exists():
                seeded = ["--seed", str(seed + rank)] if rank else []
                command = [*PYTHON, "tracegen", "generate", *base, *seeded, "-o", str(target)]
                if code := _logged(command, folder / f"{target.stem}.log"):
                    raise click.exceptions.Exit(code)
                known = Trace(target)
                shown = f"{format_count(known.ops, 'op')}, fingerprint {known.metadata.fingerprint}"
                click.echo(f"{target.relative_to(self.place)}: {shown}", err=True)
            if rank == 0:
                seed = Trace(target).metadata.seed
        return path

    def replay(self, name: str, trace: Path, flags: Sequence[str]) -> Path:
        """Replay a trace into the run directory of this name, unless that is complete.

        A replay that was interrupted is replaced; one that failed is put aside.

        Raises:
            click.exceptions.Exit: it failed or was refused, and has said why.
        """
        place = self.place / name
        status = _status(place)
        if status == "complete":
            return place
        place.parent.mkdir(parents=True, exist_ok=True)
        log = place.with_name(f"log-{place.name}.txt")
        if status == "failed":
            number = next(
                n for n in range(1, 10_000) if not (aside := place.with_name(f"failed-{n}-{place.name}")).exists()
            )
            place.rename(aside)
            if log.exists():
                log.rename(aside.with_name(f"log-failed-{number}-{place.name}.txt"))
            click.secho(f"{place} had failed; it lies in {aside.name} now.", err=True, bold=True)
        make = ["--make-cache-dir"] if self.make_cache_dir else []
        cache = ["--cache-dir", str(self._cache_dir), "--clean", *make] if self._cache_dir else []
        force = ["--force"] if status else []
        command = [*PYTHON, "replayer", "run", str(trace), *flags, *cache, *force, "-o", str(place)]
        if self._ranks > 1:
            command = [*self._mpirun, "-n", str(self._ranks), *command, "--ranks", "replicate"]
        if code := _logged(command, log):
            if _status(place) == "failed":
                why = str(_info(place).reason).rstrip(".")
                remedy = "what is complete stays: mend it, then repeat the command."
                click.echo(f"{place} failed: {why}; {remedy}", err=True)
            raise click.exceptions.Exit(code)
        info = _info(place)
        click.echo(f"{name}: {info.status}, {format_count(info.ops_executed or 0, 'op')}", err=True)
        return place


def of_rank(path: Path, rank: int) -> Path:
    """The trace of a rank, where the name has a place for it."""
    return Path(str(path).replace(RANK, str(rank)))


def pause(seconds: float, what: str) -> None:
    """Let the device come to rest."""
    if seconds > 0:
        click.echo(f"{seconds:.0f} s of pause before {what}", err=True)
        time.sleep(seconds)


def analysis(*arguments: str) -> str:
    """What an `analysis` command prints.

    Raises:
        click.exceptions.Exit: it refused, and has said why.
    """
    done = subprocess.run([*PYTHON, "analysis", *arguments], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise click.exceptions.Exit(done.returncode)
    return done.stdout


def _status(place: Path) -> str | None:
    """Of the run in a directory; None where there is none, incomplete where it was killed."""
    if not os.path.lexists(place):
        return None
    if not (place / "run.json").exists():
        return "incomplete"
    info = _info(place)
    return "incomplete" if info.status == "running" else info.status


def _info(place: Path) -> RunInfo | RanksInfo:
    """What run.json says of all ranks together."""
    return read_ranks(place) or read_run(place)


def _logged(command: Sequence[str], log: Path) -> int:
    """Run a command; what it prints goes to the end of a file, what it warns of and its bars to the terminal, too.

    It is told to end where this process is killed, and interrupted where this process is.
    """
    terminal = sys.stderr.isatty()
    reader, writer = os.openpty() if terminal else os.pipe()
    if terminal:
        termios.tcsetwinsize(writer, termios.tcgetwinsize(sys.stderr.fileno()))
    tied = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    with log.open("a") as kept, os.fdopen(reader, "rb", buffering=0) as output:
        kept.write(f"$ {shlex.join(command)}\n")
        kept.flush()
        child = subprocess.Popen([*tied, *command], stdout=kept, stderr=writer, stdin=subprocess.DEVNULL)
        os.close(writer)
        try:
            kept.writelines(_shown(output))
            code = child.wait()
        except KeyboardInterrupt as stopped:
            # No matter whether it has had it from the terminal: the first one counts.
            child.send_signal(getattr(stopped, "exit_code", 128 + signal.SIGINT) - 128)
            kept.writelines(_shown(output))
            child.wait()
            raise
        kept.write(f"exit {code}\n")
    return code if code >= 0 else 128 - code


def _shown(output: Any) -> Iterator[str]:
    """Show what comes; its whole lines as they would stand on paper."""
    rest = ""
    with contextlib.suppress(OSError):  # how a terminal says that its other end is closed
        while block := output.read(1 << 16):
            text = block.decode(errors="replace")
            sys.stderr.write(text)
            sys.stderr.flush()
            *lines, rest = (rest + text).split("\n")
            yield from _on_paper(lines)
    yield from _on_paper([rest] if rest else [])


def _on_paper(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        last = click.unstyle(line.rstrip("\r").rpartition("\r")[2])
        if last.strip() or not line.strip():
            yield last + "\n"
