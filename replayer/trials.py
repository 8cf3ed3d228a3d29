"""What stands around one replay: trials of the same, and the ranks of a run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from replayer.opening import Settings
from replayer.plan import PlanOptions
from replayer.ranks import Ranks
from replayer.run import replay
from replayer.schema import RunDirectory
from tracegen.schema import InputError, Trace


@dataclass(frozen=True)
class Trial:
    """One replay to be done; where there are ranks, this one's part in it."""

    trace: Trace
    model: str
    options: PlanOptions
    settings: Settings
    output: Path
    ranks: Ranks


def replay_trials(trial: Trial, repeat: int) -> Iterator[tuple[dict[str, Any], Path]]:
    """Replay so many times; each trial's run.json, and its directory: the output, or siblings of it where several.

    Raises:
        InputError: as `replay`.
        KeyboardInterrupt: after the trial has been closed as incomplete.
    """
    places = [trial.output]
    if repeat > 1:
        places = [trial.output.with_name(f"{trial.output.name}-{number}") for number in range(1, repeat + 1)]
        taken = [place for place in places if place.exists()]
        if taken and not trial.settings.force:
            raise InputError(f"{taken[0]} exists; name another run directory with -o, or pass --force.")
    for place in places:
        yield _replay(replace(trial, output=place)), place


def _replay(trial: Trial) -> dict[str, Any]:
    ranks, directory = trial.ranks, None
    if ranks.comm is not None:
        directory = _top(trial)
    info: dict[str, Any] = {"ranks": ranks.size, "status": "running", "reason": "a rank has not ended, or was killed"}
    if directory is not None:
        directory.save(info)
    try:
        mine = replay(trial.trace, trial.model, trial.options, trial.settings, ranks.directory(trial.output), ranks)
    except KeyboardInterrupt as stopped:
        if directory is not None:
            directory.save(info | {"status": "incomplete", "reason": str(stopped) or "interrupted"})
        raise
    if ranks.comm is None:
        return mine
    ends = ranks.gather({name: mine[name] for name in ("rank", "status", "reason", "executed_ops", "clock")})
    info |= {"status": "complete", "reason": None, "executed_ops": sum(end["executed_ops"] for end in ends)}
    info["clocks"] = [end["clock"] for end in ends]
    if failed := [end for end in ends if end["status"] != "complete"]:
        info |= {"status": "failed", "reason": f"rank {failed[0]['rank']}: {failed[0]['reason']}"}
    if directory is not None:
        directory.save(info)
    return info


def _top(trial: Trial) -> RunDirectory | None:
    """The directory above the ranks' own, made and written by rank 0."""
    directory, problem = None, None
    if trial.ranks.rank == 0:
        try:
            directory = RunDirectory(trial.output, force=trial.settings.force, parts=False)
        except InputError as error:
            problem = error.message
    trial.ranks.agree(problem)
    return directory
