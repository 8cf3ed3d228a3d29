"""Samples of the kernel's counters (device.parquet): read, moved to one clock, and summed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from analysis.log.log import DEVICE_COLUMNS
from replayer.schema import DEVICE_SCHEMA, Machine, RunInfo
from tracegen.errors import InputError

_MOST: Final = 1 << 56  # bytes, ns and requests of an interval: their sums stay below 2^63


@dataclass(frozen=True)
class Moved:
    """Bytes that were read and written, by the log or by counters.

    Counters end at their last sample; a run that was killed may have moves after it.

    Attributes:
        read_bytes: bytes read, warm-up included.
        written_bytes: bytes written, warm-up included.
        steady_read_bytes: bytes read after the warm-up; for counters, which do not know single
            reads, an upper bound.
    """

    read_bytes: int
    written_bytes: int
    steady_read_bytes: int


def read_samples(path: Path) -> pl.DataFrame:
    """Read a device.parquet.

    Raises:
        InputError: the file is damaged, or its counters run backwards.
    """
    try:
        samples = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = (str(error).strip().splitlines() or ["?"])[0]
        raise InputError(f"cannot be read ({reason})", "copy the run again", subject=path) from None
    backwards = [((pl.col(name) < 0) | (pl.col(name) > _MOST)).any() for name in DEVICE_SCHEMA.names]
    times = (pl.col("time_ns").diff() <= 0).any() | (pl.col("interval_ns") <= 0).any()
    required = [field.name for field in DEVICE_SCHEMA if not field.nullable]
    missing = pl.any_horizontal(pl.col(name).is_null() for name in required).any()
    if samples.select(pl.any_horizontal(*backwards, times, missing)).item():
        problem = "holds counters that run backwards or are impossible: it was altered or damaged"
        raise InputError(problem, "copy the run again", subject=path)
    return samples


@dataclass(frozen=True)
class _RankSamples:
    """The samples of a rank on the common clock, with the numbers that tell its host and device."""

    rank: int
    host: int
    device: tuple[int, str | None]
    host_cores: int
    samples: pl.DataFrame

    @property
    def end(self) -> tuple[int, int]:
        """The last sample in ns, and the rank: of ranks that end at once the first ends last."""
        last: int = self.samples.select(pl.col("time_ns").max()).item() or 0
        return last, -self.rank


def pool_samples(
    ranks: Mapping[Path, RunInfo], sampled: dict[Path, pl.DataFrame], shifts: dict[Path, int]
) -> list[pl.DataFrame]:
    """Move the samples of each rank to one clock.

    Args:
        ranks: run.json of each rank, by directory.
        sampled: device.parquet of each rank that has one, by directory.
        shifts: by directory, the ns to add to its times.

    Returns:
        One table per rank, with DEVICE_COLUMNS: also `rank`, the number of its `host`, that host's
        cores, and `shared`, whether another rank of the host counted the same device for longer.
    """
    hosts: dict[str | None, int] = {}
    pooled = []
    for rank, (place, info) in enumerate(ranks.items()):
        if place not in sampled:
            continue
        machine = info.machine or Machine()
        host = hosts.setdefault(machine.host, len(hosts))
        cores = machine.host_cores or machine.cores or 1
        samples = sampled[place].with_columns(pl.col("time_ns") + shifts[place])
        pooled.append(_RankSamples(rank, host, (host, info.device), cores, samples))
    longest: dict[tuple[int, str | None], tuple[int, int]] = {}
    for own in pooled:
        longest[own.device] = max(longest.get(own.device, own.end), own.end)
    return [
        own.samples.with_columns(
            pl.lit(own.rank, pl.Int64).alias("rank"),
            pl.lit(own.host, pl.Int64).alias("host"),
            pl.lit(longest[own.device][1] != -own.rank).alias("shared"),
            pl.lit(own.host_cores, pl.Int64).alias("host_cores"),
        ).select(*DEVICE_COLUMNS)
        for own in pooled
    ]


def sum_samples(samples: list[pl.DataFrame], since_ns: int, processes: int | None = None) -> Moved | None:
    """Sum the bytes that the counters of all ranks count; None if they do not count them.

    Args:
        samples: the samples of each rank, from `pool_samples`.
        since_ns: the end of the warm-up; the interval that contains it counts as after it.
        processes: the number of ranks, to sum the kernel's counts by process, which all ranks must
            have; None: sum the counts of devices, each device once.
    """
    prefix = "" if processes is None else "process_"
    read = f"{prefix}read_bytes"
    written = f"{prefix}written_bytes"
    counting = [table if processes is not None else table.filter(~pl.col("shared")) for table in samples]
    is_known = [len(table) > 0 and table[read].null_count() == table[written].null_count() == 0 for table in counting]
    if processes is not None and not (all(is_known) and len(counting) == processes):
        return None
    if not any(table[read].count() for table in counting):
        return None
    steady = [table.filter(pl.col("time_ns") > since_ns) for table in counting]
    return Moved(
        read_bytes=sum(int(table[read].sum()) for table in counting),
        written_bytes=sum(int(table[written].sum()) for table in counting),
        steady_read_bytes=sum(int(table[read].sum()) for table in steady),
    )
