"""Opening a run directory: of one process, or of several ranks that belong together."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from analysis.doubts.doubt import Doubt
from analysis.runs.run import RankDirectory, Run
from replayer.schema import Clock, RanksInfo, RunInfo, parts, read_ranks, read_run
from tracegen.errors import InputError

MOST_MISSING: Final = 100  # ranks; a run.json may claim a million


def open_run(path: Path) -> Run:
    """Open the run directory of one process, or one that holds those of several ranks.

    Raises:
        InputError: it is missing or damaged, or no rank left a log.
    """
    above = read_ranks(path)
    if above is None:
        rank = _open_rank(path)
        several = rank.info.conditions.ranks or 1
        alone = [_of_ranks(f"this is one of {several} ranks; the others are left out")] if several > 1 else []
        return Run(path, [rank], 1, alone)
    size, ranks, doubts = above.ranks, list[RankDirectory](), list[Doubt]()
    expected = [path / f"rank_{number}" for number in range(size)]
    for number, place in enumerate(expected):
        if len(doubts) == MOST_MISSING:
            text = f"ranks from {number:,} to {size - 1:,} were not looked for, as so many are missing"
            doubts.append(_of_ranks(text))
            break
        try:
            rank = _open_rank(place)
            parts(place)
        except InputError as error:
            doubts.append(_of_ranks(f"rank {number} of {size} is missing: {str(error).removesuffix('.')}"))
            continue
        ranks.append(rank)
        if (rank.info.rank, rank.info.conditions.ranks or size) != (number, size):
            doubts.append(_of_ranks(f"{place.name} is not rank {number} of {size}: it comes from another run"))
    if surplus := sorted(place.name for place in path.glob("rank_*") if place not in expected):
        doubts.append(_of_ranks(f"{surplus[0]} is none of the {size} ranks of this run"))
    if not ranks:
        raise InputError(f"{path}: none of its {size} ranks left a log", "replay it anew")
    return Run(path, ranks, size, [*doubts, *_of_above(above, [rank.info for rank in ranks])], above)


def _open_rank(path: Path) -> RankDirectory:
    info = read_run(path)
    return RankDirectory(info, path, is_running=info.status == "running" and _is_locked(path))


def _is_locked(place: Path) -> bool:
    """Whether a replayer holds the run directory, as it does for as long as it writes there."""
    try:
        folder = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        finally:
            os.close(folder)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    return False


def _of_above(above: RanksInfo, infos: list[RunInfo]) -> Iterator[Doubt]:
    """Compare the run.json above those of the ranks with theirs."""
    if above.status != "complete" and all(info.status == "complete" for info in infos):
        text = f"the run is {above.status}: {above.reason or 'a rank was killed, or still goes on'}"
        yield Doubt("incomplete", text, "replay it to its end", invalidates=True)
    executed = [info.executed.ops for info in infos if info.executed is not None]
    is_whole = len(infos) == len(executed) == above.ranks
    if is_whole and above.executed_ops not in (None, sum(executed)):
        yield _of_ranks(f"the ranks executed {sum(executed):,} ops, the run {above.executed_ops:,}")
    clocks = tuple(info.clock or Clock() for info in infos)
    if is_whole and above.clocks is not None and above.clocks != clocks:
        yield _of_ranks("the clocks of the ranks are not those that the run began with")


def _of_ranks(text: str) -> Doubt:
    return Doubt("ranks", text, "copy all ranks of one run together, or replay it", invalidates=True)
