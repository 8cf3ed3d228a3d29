"""Crafted runs that analysis doubts: what it says of them, and changes that make it say so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from analysis.cli import main
from analysis.runs.run import Doubt
from analysis.summary.summary import summarise
from tests.support.crafted_runs import Crafted, clean, sampled, save_ranks

Change = Callable[[Crafted], object]


def found(run: Crafted, place: Path) -> dict[str, list[Doubt]]:
    """What `analysis summary` doubts, by kind."""
    kinds: dict[str, list[Doubt]] = {}
    for doubt in summarise(run.save(place / "run")).doubts:
        kinds.setdefault(doubt.kind, []).append(doubt)
    return kinds


def call(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def counted(run: Crafted, read: float = 1.0, written: float = 1.0) -> None:
    run.samples = sampled(run.rows, read, written)


def each_sample(run: Crafted, **values: Any) -> None:
    assert run.samples is not None
    run.samples = [sample | values for sample in run.samples]


def conditions(run: Crafted, **values: Any) -> None:
    run.info["conditions"] |= values


def queued(run: Crafted, share: float) -> None:
    """Moves that wait for a worker for this share of the time from ready to end."""
    io = run.rows["end_ns"] - run.rows["start_ns"]
    run.rows["ready_ns"] = run.rows["start_ns"] - (io * share / (1 - share)).astype(np.int64)
    early = -min(0, int(run.rows["ready_ns"].min()))
    for name in ("ready_ns", "start_ns", "end_ns"):
        run.rows[name] = run.rows[name] + early
    run.rows["due_ns"] = run.rows["ready_ns"].copy()
    run.settle()
    each_sample(run, utilisation=0.49)


def rank_runs(
    place: Path, count: int = 2, change: Callable[[int, Crafted], object] | None = None, requests: int = 30
) -> Path:
    """A run of ranks, each of which replayed all of the trace."""
    runs = [clean(requests) for _ in range(count)]
    for rank, run in enumerate(runs):
        run.info |= {"rank": rank}
        conditions(run, ranks=count)
        run.rows["rank"][:] = rank
        run.info["machine"] = run.info["machine"] | {"host": f"host{rank}"}
        if change:
            change(rank, run)
    return save_ranks(place, runs)


def refusal(place: Path) -> str:
    """The one sentence with which a run is refused; nothing is printed otherwise."""
    for command in ("summary", "check"):
        done = call(command, place, code=2)
        assert done.stdout == ""
        (line,) = done.stderr.strip().splitlines()
        assert line.startswith("Error: ")
        assert str(place) in line
        assert len(line) < 500
    return line
