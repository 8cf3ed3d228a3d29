"""A run directory opened: what its ranks say of themselves, and their logs as one."""

import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow.parquet as pq

from analysis.doubts.doubt import Doubt, Moved
from analysis.doubts.integrity import MAX_NS, Facts, examine, readable
from analysis.log.cells import added_up
from analysis.log.columns import KEPT, SIDES, SIZE
from analysis.log.log import Log, Targets, held, scan
from analysis.runs.samples import counted, pooled, read_samples
from replayer.schema import LOG_ENUMS, causes_of, counters, parts, read_above, read_run
from tracegen.errors import InputError

Info = dict[str, Any]
MOST_MISSING: Final = 100  # ranks; a run.json may claim a million


@dataclass(frozen=True)
class Run:
    """A run of one process or of many ranks.

    Attributes:
        path: what the user named.
        ranks: run.json by directory, of the ranks that left a log.
        expected: how many ranks there should be.
        doubts: what is wrong with the directory itself.
        above: the run.json above those of ranks.
    """

    path: Path
    ranks: dict[Path, Info]
    expected: int
    doubts: list[Doubt]
    above: Info = field(default_factory=dict)

    @property
    def infos(self) -> list[Info]:
        """run.json of each rank."""
        return list(self.ranks.values())

    @property
    def conditions(self) -> Info:
        """What all ranks ran under."""
        conditions: Info = self.infos[0]["conditions"]
        return conditions | {"ranks": max(self.expected, conditions.get("ranks") or 1)}

    @property
    def ended_ns(self) -> list[int | None]:
        """When the last move of each rank ended, on the clock of `zero_ns`; None where that is not known."""
        zeros = [(info.get("clock") or {}).get("zero_ns") for info in self.infos]
        ends = [facts["last_end_ns"] for facts in self.facts]
        return [None if None in pair else sum(pair) for pair in zip(zeros, ends, strict=True)]

    @property
    def users(self) -> int | None:
        """How many there were; None where run.json does not say."""
        users: int | None = self.conditions.get("users") or (self.infos[0]["trace"].get("counts") or {}).get("users")
        return users

    @property
    def status(self) -> str:
        """The first status of a rank that is not complete; else the one above them."""
        unlike = [info["status"] for info in self.infos if info["status"] != "complete"]
        missing = ["failed"] if len(self.ranks) < self.expected else []
        return str([*unlike, *missing, self.above.get("status", "complete")][0])

    @property
    def cuts(self) -> list[float | None]:
        """When each rank was cut, since its start; None: it went on to its last op."""
        return [(info.get("window") or {}).get("cut_s") for info in self.infos]

    @property
    def executed_ops(self) -> int | None:
        """All positions of the plan below this one were executed; with ranks, how many ops were."""
        if self.expected == 1:
            executed: int | None = self.infos[0].get("executed_ops")
            return executed
        return sum(int((info.get("executed") or {}).get("ops") or 0) for info in self.infos)

    def fingerprint(self, what: str) -> str | None:
        """Of `trace`, the whole `plan` or what was `executed`: one, where ranks agree, else SHA-256 over theirs."""
        found: list[str | None] = [_FINGERPRINTS[what](info) for info in self.infos]
        if len(set(found)) == 1:
            return found[0]
        return hashlib.sha256("".join(map(str, found)).encode()).hexdigest()

    @cached_property
    def facts(self) -> list[Facts]:
        """What `audit.examine` finds in the log of each rank, and `sampled_ns`, how long its counters went on.

        Raises:
            InputError: one cannot be read, or holds rows that no replay writes.
        """
        ends = {place: samples["time_ns"].max() for place, samples in self.samples.items()}
        return [
            examine(place, self.files[place], self.cells[place], info) | {"sampled_ns": ends.get(place)}
            for place, info in self.ranks.items()
        ]

    @cached_property
    def cells(self) -> dict[Path, pl.DataFrame]:
        """The rows of each rank added up, on its own clock.

        Raises:
            InputError: a log cannot be read.
        """
        found = {}
        for place, rows in self.rows.items():
            with readable(place):
                found[place] = added_up(pl.concat(rows), self.ranks[place].get("executed_ops"))
        return found

    @cached_property
    def files(self) -> dict[Path, list[Path]]:
        """The parts of each rank's log.

        Raises:
            InputError: one is missing, damaged or of something else.
        """
        for place, info in self.ranks.items():
            if info["goes_on"] and not any((place / "moves").glob("part-*.parquet")):
                raise InputError(f"{place} is still running and has logged nothing yet; ask again in some seconds.")
        return {place: parts(place) for place in self.ranks}

    @cached_property
    def rows(self) -> dict[Path, list[pl.LazyFrame]]:
        """The rows of each rank on its own clock, in stretches, with the columns KEPT.

        Raises:
            InputError: a log cannot be read.
        """
        found = {}
        counts = {
            place: sum(pq.read_metadata(part.absolute()).num_rows for part in files)
            for place, files in self.files.items()
        }
        for place, files in self.files.items():
            words = [pl.col(name).cast(pl.Enum(known)) for name, known in LOG_ENUMS.items()]
            rows = scan(files).with_columns(words).select("warmup", *KEPT)
            with readable(place):
                found[place] = held(rows, counts[place], sum(counts.values()))
        return found

    @cached_property
    def samples(self) -> dict[Path, pl.DataFrame]:
        """device.parquet of the ranks that have one.

        Raises:
            InputError: one is damaged, or of something else.
        """
        found = {place: path for place in self.ranks if (path := counters(place)) is not None}
        return {place: read_samples(path) for place, path in found.items()}

    def causes(self) -> dict[str, int]:
        """Why moves failed, by the log's column `error`; how many.

        Raises:
            InputError: a log cannot be read.
        """
        found = Counter[str]()
        for place, files in self.files.items():
            with readable(place):
                errors = scan(files).select(pl.col("error").drop_nulls().cast(pl.String)).collect()["error"]
            found.update(causes_of(errors))
        return dict(found)

    def moved(self) -> Moved:
        """What the nvme tier read and wrote by the log: moves that ended before the last look at the counters.

        Those of a run that was killed, or whose disk was full, end before its log does.
        """
        sums = [0, 0, 0]
        for place, facts in zip(self.ranks, self.facts, strict=True):
            whole = facts["sampled_ns"] is None or facts["sampled_ns"] >= (facts["last_end_ns"] or 0)
            rows = self.cells[place].lazy() if whole else pl.concat(self.rows[place])
            seen = rows if whole else rows.filter(pl.col("end_ns") <= facts["sampled_ns"])
            with readable(place):
                found = seen.select(
                    read=SIZE.filter(SIDES["nvme_read"]).sum(),
                    written=SIZE.filter(SIDES["nvme_write"]).sum(),
                    steady=SIZE.filter(SIDES["nvme_read"] & ~pl.col("warmup")).sum(),
                ).collect(engine="streaming")
            sums = [one + more for one, more in zip(sums, found.row(0), strict=True)]
        return Moved(*sums)

    def counted(self, *, by_process: bool) -> Moved | None:
        """What the devices under the caches did, or the kernel did on devices for the replayer; None: not counted."""
        ends = [(info.get("warmup") or {}).get("end_ns") or 0 for info in self.infos]
        since_ns = min(end + shift for end, shift in zip(ends, self.shifts.values(), strict=True))
        return counted(self._sampled(), since_ns, len(self.ranks) if by_process else None)

    def log(self, targets: Targets | None = None) -> Log:
        """The log of all ranks on the first one's clock, opened.

        Args:
            targets: what to hold the run against.

        Raises:
            InputError: a part is missing, damaged or of something else, or the ranks' clocks are days apart.
        """
        shifts = self.shifts
        rows = [
            _shifted(stretch, rank, shifts[place])
            for rank, (place, stretches) in enumerate(self.rows.items())
            for stretch in stretches
        ]
        known = pl.concat(
            cells.with_columns(pl.col("start_ns", "last_start_ns", "end_ns") + shifts[place])
            for place, cells in self.cells.items()
        )
        ends = [(info.get("warmup") or {}).get("end_ns") for info in self.infos]
        warm_ends = [end + shift for end, shift in zip(ends, shifts.values(), strict=True) if end is not None]
        cuts = [
            round(cut_s * 1e9) + shift
            for cut_s, shift in zip(self.cuts, shifts.values(), strict=True)
            if cut_s is not None
        ]
        return Log(
            rows,
            token_ns=round((self.conditions.get("token_ms") or 0) * 1e6),
            bounds_ns=(max(warm_ends, default=None), min(cuts, default=None)),
            timed=self.conditions["pace"] != "asap",
            workers=sum(info["conditions"]["workers"] for info in self.infos),
            device=pl.concat(sampled).lazy() if (sampled := self._sampled()) else None,
            ranks=len(self.ranks),
            cores=(
                sum({machine.get("host"): machine.get("cores") or 1 for machine in self._machines}.values()),
                self.host_cores,
            ),
            targets=targets,
            cells=known,
        )

    @cached_property
    def shifts(self) -> dict[Path, int]:
        """Where each log's time 0 lies on the earliest one's clock; 0 for a rank that died before it could say.

        Raises:
            InputError: the clocks are days apart.
        """
        zeros = [(info.get("clock") or {}).get("zero_ns") for info in self.infos]
        first = min((zero for zero in zeros if zero is not None), default=0)
        shifts = [0 if zero is None else zero - first for zero in zeros]
        if max(shifts) > MAX_NS:
            raise InputError(
                f"{self.path}: the clocks of its ranks are days apart: copy all ranks of one run together."
            )
        return dict(zip(self.ranks, shifts, strict=True))

    def _sampled(self) -> list[pl.DataFrame]:
        return pooled(self.ranks, self.samples, self.shifts)

    @property
    def host_cores(self) -> int | None:
        """All that the hosts have; None where run.json does not say."""
        found = {machine.get("host"): machine.get("host_cores") for machine in self._machines}
        known = [int(cores) for cores in found.values() if cores is not None]
        return sum(known) if len(known) == len(found) else None

    @property
    def _machines(self) -> list[Info]:
        return [info.get("machine") or {} for info in self.infos]


_FINGERPRINTS: Final = {
    "trace": lambda info: info["trace"]["fingerprint"],
    "plan": lambda info: info["plan"].get("plan_fingerprint"),
    "executed": lambda info: info.get("executed_fingerprint"),
}


def _shifted(rows: pl.LazyFrame, rank: int, shift_ns: int) -> pl.LazyFrame:
    """On another clock, and under one number, so that ranks stay apart where one is missing."""
    own = rows.with_columns(pl.lit(rank, pl.Int32).alias("rank"))
    return own.with_columns(pl.col("due_ns", "ready_ns", "start_ns", "end_ns") + shift_ns) if shift_ns else own


def open_run(path: Path) -> Run:
    """A run directory, or one that holds those of ranks.

    Raises:
        InputError: it is missing or damaged, or no rank left a log.
    """
    if (above := read_above(path)) is None:
        info = _read(path)
        several = info["conditions"].get("ranks") or 1
        alone = [_of_ranks(f"this is one of {several} ranks; the others are left out")] if several > 1 else []
        return Run(path, {path: info}, 1, alone)
    size, ranks, doubts = above["ranks"], dict[Path, Info](), list[Doubt]()
    expected = [path / f"rank_{rank}" for rank in range(size)]
    for rank, place in enumerate(expected):
        if len(doubts) == MOST_MISSING:
            doubts.append(_of_ranks(f"ranks from {rank:,} to {size - 1:,} were not looked for, as so many are missing"))
            break
        try:
            info = _read(place)
            parts(place)
        except InputError as error:
            doubts.append(_of_ranks(f"rank {rank} of {size} is missing: {str(error).removesuffix('.')}"))
            continue
        ranks[place] = info
        if (info.get("rank"), info["conditions"].get("ranks") or size) != (rank, size):
            doubts.append(_of_ranks(f"{place.name} is not rank {rank} of {size}: it comes from another run"))
    if surplus := sorted(place.name for place in path.glob("rank_*") if place not in expected):
        doubts.append(_of_ranks(f"{surplus[0]} is none of the {size} ranks of this run"))
    if not ranks:
        raise InputError(f"{path}: none of its {size} ranks left a log; replay it anew.")
    return Run(path, ranks, size, [*doubts, *_of_above(above, ranks)], above)


def _read(place: Path) -> Info:
    """A run.json; a live run has no plan until it has ended. `goes_on`: whether its process is at work."""
    info = read_run(place)
    return info | {"plan": info["plan"] or {}, "goes_on": info["status"] == "running" and _is_locked(place)}


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


def _of_above(above: Info, ranks: dict[Path, Info]) -> Iterator[Doubt]:
    """What the run.json above the ranks' own says, against theirs."""
    infos = list(ranks.values())
    if above["status"] != "complete" and all(info["status"] == "complete" for info in infos):
        text = f"the run is {above['status']}: {above.get('reason') or 'a rank was killed, or still goes on'}"
        yield Doubt("incomplete", text, "replay it to its end", invalidates=True)
    executed = [int((info.get("executed") or {"ops": -1})["ops"]) for info in infos]
    whole = len(infos) == above["ranks"] and -1 not in executed
    if whole and above.get("executed_ops") not in (None, sum(executed)):
        yield _of_ranks(f"the ranks executed {sum(executed):,} ops, the run {above['executed_ops']:,}")
    clocks = [info.get("clock") or {} for info in infos]
    if whole and above.get("clocks") is not None and above["clocks"] != clocks:
        yield _of_ranks("the clocks of the ranks are not those that the run began with")


def _of_ranks(text: str) -> Doubt:
    return Doubt("ranks", text, "copy all ranks of one run together, or replay it", invalidates=True)
