"""Opening of run directories: of one process, or of several ranks that belong together."""

import fcntl
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from analysis.log.columns import MAX_NS
from analysis.runs.run import Doubt, RankDirectory, Run
from replayer.schema import Clock, RanksInfo, RunInfo, parts, read_info, read_run
from tracegen.errors import InputError, format_count

MOST_MISSING: Final = 100  # doubts about ranks; a run.json may claim a million ranks


def open_run(path: Path) -> Run:
    """Open the run directory of one process, or one that holds those of several ranks.

    Raises:
        InputError: it is missing or damaged, no rank left a log, or the ranks' clocks are days apart.
    """
    above = read_info(path)
    if isinstance(above, RunInfo):
        return _open_single(path)
    size = above.ranks
    ranks, doubts = _open_ranks(path, size)
    expected = {f"rank_{number}" for number in range(size)}
    if surplus := sorted(place.name for place in path.glob("rank_*") if place.name not in expected):
        ranks_of_run = format_count(size, "rank")
        doubts.append(_doubt_ranks(f"{surplus[0]} does not belong to this run of {ranks_of_run}"))
    if not ranks:
        raise InputError(f"its {size} ranks left no log", "replay it", subject=path)
    doubts += _compare_above(above, [rank.info for rank in ranks])
    return Run(path, _put_on_one_clock(path, ranks), doubts, above)


def _put_on_one_clock(path: Path, ranks: list[RankDirectory]) -> list[RankDirectory]:
    """Shift the logs to the clock of the earliest one; a rank that died before its time 0 stays as it is."""
    zeros = [rank.info.zero_ns for rank in ranks if rank.info.zero_ns is not None]
    first = min(zeros, default=0)
    if zeros and max(zeros) - first > MAX_NS:
        remedy = "copy all ranks of one run together"
        raise InputError("the clocks of its ranks are days apart", remedy, subject=path)
    return [replace(rank, siblings=len(ranks), shift_ns=(rank.info.zero_ns or first) - first) for rank in ranks]


def _open_single(path: Path) -> Run:
    """Open the run directory of one process, which may be one rank of a run."""
    rank = _open_rank(path)
    size = rank.info.conditions.ranks or 1
    doubts = [] if size == 1 else [_doubt_ranks(f"this is one of {size} ranks; the others are left out")]
    return Run(path, [rank], doubts)


def _open_ranks(path: Path, size: int) -> tuple[list[RankDirectory], list[Doubt]]:
    """Open the directories of all ranks; a rank that is missing or of another run is a doubt."""
    ranks = list[RankDirectory]()
    doubts = list[Doubt]()
    for number in range(size):
        if len(doubts) == MOST_MISSING:
            doubts.append(
                _doubt_ranks(f"ranks from {number:,} to {size - 1:,} were not looked for: too many are missing")
            )
            break
        place = path / f"rank_{number}"
        try:
            rank = _open_rank(place)
            parts(place)
        except InputError as error:
            doubts.append(_doubt_ranks(f"rank {number} of {size} is missing: {_describe(error)}"))
            continue
        ranks.append(rank)
        if (rank.info.rank, rank.info.conditions.ranks or size) != (number, size):
            doubts.append(_doubt_ranks(f"{place.name} is not rank {number} of {size}: it comes from another run"))
    return ranks, doubts


def _describe(error: InputError) -> str:
    """Return the subject and the problem of an error."""
    problem = error.problem.removesuffix(".")
    return problem if error.subject is None else f"{error.subject}: {problem}"


def _open_rank(path: Path) -> RankDirectory:
    info = read_run(path)
    return RankDirectory(info, path, is_running=info.status == "running" and _is_locked(path))


def _is_locked(place: Path) -> bool:
    """Return whether a replayer holds the lock of the run directory, as while it writes there."""
    try:
        folder = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Shared, so that two analyses do not take each other for a replayer.
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        finally:
            os.close(folder)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    return False


def _compare_above(above: RanksInfo, infos: list[RunInfo]) -> Iterator[Doubt]:
    """Compare the run.json above the ranks with theirs."""
    if above.status != "complete" and all(info.status == "complete" for info in infos):
        text = f"the run is {above.status}: {above.reason or 'a rank was killed, or is still running'}"
        yield Doubt("incomplete", text, "replay it to its end", invalidates=True)
    executed = [info.executed.ops for info in infos if info.executed is not None]
    is_whole = len(infos) == len(executed) == above.ranks
    if is_whole and above.executed_ops not in (None, sum(executed)):
        yield _doubt_ranks(f"the ranks executed {sum(executed):,} ops, the run {above.executed_ops:,}")
    clocks = tuple(info.clock or Clock() for info in infos)
    if is_whole and above.clocks is not None and above.clocks != clocks:
        yield _doubt_ranks("the clocks of the ranks differ from those at the start of the run")


def _doubt_ranks(text: str) -> Doubt:
    return Doubt("ranks", text, "copy all ranks of one run together, or replay it", invalidates=True)
