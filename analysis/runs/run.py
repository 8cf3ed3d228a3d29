"""An opened run: the run.json of each rank, and their logs as one."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import polars as pl
import pyarrow.parquet as pq
from polars import col

from analysis.log.cells import sum_by_cell
from analysis.log.columns import KEPT, SIDES, SIZE, STAMPS
from analysis.log.counted import bound_requests
from analysis.log.log import Log
from analysis.log.steadiness import find_steadiness
from analysis.log.targets import Targets
from analysis.runs.reading import explain_unreadable, load_stretches, scan
from analysis.runs.samples import Moved, place_samples, pool_samples, read_samples
from replayer.schema import LOG_ENUMS, Conditions, Machine, RanksInfo, RunInfo, Status, causes_of, counters, parts
from tracegen.errors import InputError


@dataclass(frozen=True)
class Doubt:
    """A reason not to trust a run's numbers, or to trust them less.

    Attributes:
        kind: one or two words; docs/doubts.md lists all kinds.
        text: the finding, with its figures.
        advice: the remedy.
        invalidates: whether the run's numbers must not be published.
    """

    kind: str
    text: str
    advice: str
    invalidates: bool = False


@dataclass(frozen=True)
class RankDirectory:
    """The run directory of one process.

    Attributes:
        info: its run.json.
        path: the directory.
        is_running: whether its process is still at work.
        siblings: the number of ranks of its run, which share the memory for rows.
        shift_ns: the time 0 of its log on the clock of the earliest rank.
    """

    info: RunInfo
    path: Path
    is_running: bool
    siblings: int = 1
    shift_ns: int = 0

    @cached_property
    def files(self) -> list[Path]:
        """The parts of its log.

        Raises:
            InputError: a part is missing, damaged or not of a log.
        """
        if self.is_running and not any((self.path / "moves").glob("part-*.parquet")):
            problem = "the run is still running and has logged nothing yet"
            raise InputError(problem, "try again in a few seconds", subject=self.path)
        return parts(self.path)

    @cached_property
    def rows(self) -> list[pl.LazyFrame]:
        """Its rows on its own clock, in stretches, with the columns KEPT."""
        words = [col(name).cast(pl.Enum(known)) for name, known in LOG_ENUMS.items()]
        rows = scan(self.files).with_columns(words).select("warmup", *KEPT)
        count = sum(pq.read_metadata(part.absolute()).num_rows for part in self.files)
        with explain_unreadable(self.path):
            return load_stretches(rows, count, self.siblings)

    @cached_property
    def cells(self) -> pl.DataFrame:
        """The cells of its rows, on its own clock."""
        with explain_unreadable(self.path):
            return sum_by_cell(pl.concat(self.rows), self.info.executed_ops)

    @cached_property
    def last_ns(self) -> int | None:
        """The last end of a move on its own clock; None for a log without rows."""
        last: int | None = self.cells.select(col("end_ns").max()).item()
        return last

    @cached_property
    def samples(self) -> pl.DataFrame | None:
        """Its device.parquet; None if it has none.

        Raises:
            InputError: the file is damaged, or is no device.parquet.
        """
        path = counters(self.path)
        return None if path is None else read_samples(path)

    @property
    def uncounted_ns(self) -> int | None:
        """The end of the last sample if moves went on after it, as counters of a killed run end before its log."""
        if self.samples is None or self.samples.is_empty():
            return None
        sampled_ns: int = self.samples.select(col("time_ns").max()).item()
        return sampled_ns if sampled_ns < (self.last_ns or 0) else None


@dataclass(frozen=True)
class Run:
    """A run of one process or of several ranks.

    Attributes:
        path: the directory that the user named.
        ranks: the directories of the ranks that left a log.
        doubts: doubts about the directory itself.
        above: the run.json above those of the ranks; None for one process.
    """

    path: Path
    ranks: list[RankDirectory]
    doubts: list[Doubt]
    above: RanksInfo | None = None

    @property
    def expected(self) -> int:
        """The number of ranks that there should be."""
        return 1 if self.above is None else self.above.ranks

    @property
    def infos(self) -> list[RunInfo]:
        """The run.json of each rank."""
        return [rank.info for rank in self.ranks]

    @property
    def conditions(self) -> Conditions:
        """The conditions that all ranks share, with the number of ranks."""
        conditions = self.infos[0].conditions
        return msgspec.structs.replace(conditions, ranks=max(self.expected, conditions.ranks or 1))

    @property
    def ended_ns(self) -> list[int | None]:
        """The end of each rank's last move, on the clock of `zero_ns`; None if it is not known."""
        return [
            None if rank.info.zero_ns is None or rank.last_ns is None else rank.info.zero_ns + rank.last_ns
            for rank in self.ranks
        ]

    @property
    def users(self) -> int | None:
        """The number of users; None if run.json does not name it."""
        return self.conditions.users or (self.infos[0].trace.counts or {}).get("users")

    @property
    def status(self) -> Status:
        """The first status of a rank that is not complete; else the one above them."""
        for info in self.infos:
            if info.status != "complete":
                return info.status
        if len(self.ranks) < self.expected:
            return "failed"
        return "complete" if self.above is None else self.above.status

    @property
    def executed_ops(self) -> int | None:
        """The position below which all ops were executed; of several ranks the number of ops."""
        if self.expected == 1:
            return self.infos[0].executed_ops
        return sum(info.executed.ops for info in self.infos if info.executed is not None)

    @property
    def trace_fingerprint(self) -> str | None:
        """The fingerprint of the trace; if ranks have several, the SHA-256 of theirs together."""
        return _common_fingerprint([info.trace.fingerprint for info in self.infos])

    @property
    def executed_fingerprint(self) -> str | None:
        """The plan fingerprint of what was executed; of several, the SHA-256 of them together."""
        return _common_fingerprint([info.executed_fingerprint for info in self.infos])

    def count_causes(self) -> dict[str, int]:
        """Count the failed moves by cause, from the log's column `error`.

        Raises:
            InputError: a log cannot be read.
        """
        causes = Counter[str]()
        for rank in self.ranks:
            with explain_unreadable(rank.path):
                errors = scan(rank.files).select(col("error").drop_nulls().cast(pl.String)).collect()["error"]
            causes.update(causes_of(errors))
        return dict(causes)

    def sum_moved(self) -> Moved:
        """Sum the bytes that the nvme tier read and wrote, by the log, up to the last sample.

        If a run was killed, or its disk was full, the samples end before the log does.

        Raises:
            InputError: a log cannot be read.
        """
        sums = []
        for rank in self.ranks:
            moves = rank.cells.lazy()
            if rank.uncounted_ns is not None:
                moves = pl.concat(rank.rows).filter(col("end_ns") <= rank.uncounted_ns)
            own = moves.select(
                read_bytes=SIZE.filter(SIDES["nvme_read"]).sum(),
                written_bytes=SIZE.filter(SIDES["nvme_write"]).sum(),
                steady_read_bytes=SIZE.filter(SIDES["nvme_read"] & ~col("warmup")).sum(),
            )
            with explain_unreadable(rank.path):
                sums.append(own.collect(engine="streaming"))
        return Moved(**pl.concat(sums).sum().row(0, named=True))

    def sum_counted(self, *, by_process: bool) -> Moved | None:
        """Sum the bytes that the kernel's counters count; None if they do not count them.

        Args:
            by_process: True: bytes that devices moved for the replayer's processes; False: all
                bytes that the devices under the cache directories moved.
        """
        start = "process_" if by_process else ""
        names = [f"{start}read_bytes", f"{start}written_bytes"]
        counting = self.device
        if by_process:
            is_everyone = counting["rank"].n_unique() == len(self.ranks)
            is_known = is_everyone and not sum(counting.select(names).null_count().row(0))
        else:
            counting = counting.filter(~col("shared"))
            is_known = counting["read_bytes"].count() > 0
        if not is_known:
            return None
        # The interval that contains the end of the warm-up counts as after it.
        since_ns = min((rank.info.warmup_end_ns or 0) + rank.shift_ns for rank in self.ranks)
        read, written = counting.select(names).sum().row(0)
        steady = counting.filter(col("time_ns") > since_ns).select(names[0])
        return Moved(read, written, steady.sum().item())

    @cached_property
    def steady_ns(self) -> int | None:
        """The time from which the run was steady, if its window begins then."""
        if not self.conditions.begins_steady:
            return None
        rows, cells = self.shifted_rows(), self._shifted_cells()
        warm_end_ns, cut_ns = self._recorded_bounds_ns
        found = find_steadiness(Log(rows, warm_end_ns=warm_end_ns, cut_ns=cut_ns, known_cells=cells))
        return None if found is None or found.begin_s is None else round(found.begin_s * 1e9)

    def make_log(self, targets: Targets | None = None) -> Log:
        """Make the log of all ranks, on the clock of the earliest one.

        Raises:
            InputError: a part is missing, damaged or not of a log, or the ranks' clocks are days
                apart.
        """
        warm_end_ns, cut_ns = self.bounds_ns
        rows = self.shifted_rows()
        if self.steady_ns is not None:  # the replayer could not know yet where the warm-up would end
            rows = [stretch.with_columns(warmup=col("start_ns") < warm_end_ns) for stretch in rows]
        return Log(
            rows,
            token_ns=round((self.conditions.token_ms or 0) * 1e6),
            warm_end_ns=warm_end_ns,
            cut_ns=cut_ns,
            request_bounds=bound_requests(self.infos, [rank.shift_ns for rank in self.ranks], warm_end_ns, cut_ns),
            workers=sum(info.conditions.workers for info in self.infos),
            device=self.device.lazy(),
            cores=sum({machine.host: machine.cores or 1 for machine in self._machines}.values()),
            host_cores=self.host_cores,
            targets=targets or Targets(),
            known_cells=self._shifted_cells() if self.steady_ns is None else None,
        )

    def shifted_rows(self) -> list[pl.LazyFrame]:
        """Return the rows of all ranks on the common clock, in stretches."""
        return [  # numbered, so that ranks stay apart if one is missing
            stretch.with_columns(pl.lit(number, pl.Int32).alias("rank"), col(STAMPS) + rank.shift_ns)
            for number, rank in enumerate(self.ranks)
            for stretch in rank.rows
        ]

    def _shifted_cells(self) -> pl.DataFrame:
        """Return the cells of all ranks on the common clock."""
        stamps = col("start_ns", "last_start_ns", "end_ns")
        return pl.concat(rank.cells.with_columns(stamps + rank.shift_ns) for rank in self.ranks)

    @property
    def bounds_ns(self) -> tuple[int | None, int | None]:
        """The end of the warm-up and the first cut, in ns on the common clock."""
        warm_end_ns, cut_ns = self._recorded_bounds_ns
        return warm_end_ns if self.steady_ns is None else self.steady_ns, cut_ns

    @property
    def _recorded_bounds_ns(self) -> tuple[int | None, int | None]:
        """The last end of a warm-up that run.json records, and the first cut."""
        shifted = [(rank.info, rank.shift_ns) for rank in self.ranks]
        warm_ends = (info.warmup_end_ns + shift for info, shift in shifted if info.warmup_end_ns is not None)
        cuts = (round(info.cut_s * 1e9) + shift for info, shift in shifted if info.cut_s is not None)
        return max(warm_ends, default=None), min(cuts, default=None)

    @property
    def has_warmup(self) -> bool:
        """Whether metrics leave out a start of the run."""
        warmup = self.conditions.warmup
        return self.steady_ns is not None or (warmup is not None and bool(warmup.ops or warmup.s))

    @cached_property
    def device(self) -> pl.DataFrame:
        """The samples of all ranks on the common clock, with DEVICE_COLUMNS."""
        return pool_samples(
            [
                place_samples(rank.samples, rank.info, number, rank.shift_ns)
                for number, rank in enumerate(self.ranks)
                if rank.samples is not None
            ]
        )

    @property
    def host_cores(self) -> int | None:
        """The cores of all hosts; None if run.json does not name them."""
        cores_of = {machine.host: machine.host_cores for machine in self._machines}
        known = [int(cores) for cores in cores_of.values() if cores is not None]
        return sum(known) if len(known) == len(cores_of) else None

    @property
    def _machines(self) -> list[Machine]:
        return [info.machine for info in self.infos]


def _common_fingerprint(fingerprints: list[str | None]) -> str | None:
    """Return the fingerprint that ranks share, or the SHA-256 of theirs together."""
    if len(set(fingerprints)) == 1:
        return fingerprints[0]
    return hashlib.sha256("".join(map(str, fingerprints)).encode()).hexdigest()
