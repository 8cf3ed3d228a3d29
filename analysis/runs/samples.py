"""Samples of the kernel's counters (device.parquet): read, put on one clock, and added up."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from analysis.doubts.doubt import Moved
from analysis.log.log import DEVICE_COLUMNS
from replayer.schema import DEVICE_ADDED, DEVICE_SCHEMA, Machine, RunInfo
from tracegen.errors import InputError

_MOST: Final = 1 << 56  # bytes, ns and requests of an interval: their sums stay below 2^63


def read_samples(path: Path) -> pl.DataFrame:
    """A device.parquet that counts forwards; what its release did not measure is null.

    Raises:
        InputError: it is damaged, or counts backwards.
    """
    try:
        samples = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = (str(error).strip().splitlines() or ["?"])[0]
        raise InputError(f"{path} cannot be read ({reason}); copy the run anew.") from None
    samples = samples.with_columns(make_null_columns(samples.columns))
    backwards = [((pl.col(name) < 0) | (pl.col(name) > _MOST)).any() for name in DEVICE_SCHEMA.names]
    times = (pl.col("time_ns").diff() <= 0).any() | (pl.col("interval_ns") <= 0).any()
    missing = pl.any_horizontal(pl.col(one.name).is_null() for one in DEVICE_SCHEMA if not one.nullable).any()
    if samples.select(pl.any_horizontal(*backwards, times, missing)).item():
        wrong = "holds counters that run backwards or are impossible"
        raise InputError(f"{path} {wrong}: it was altered or damaged; copy the run anew.")
    return samples


def make_null_columns(columns: Iterable[str]) -> list[pl.Expr]:
    """Null, for each column that an older release did not measure."""
    lacking = [name for name in DEVICE_ADDED if name not in set(columns)]
    return [pl.lit(None, DEVICE_COLUMNS[name]).alias(name) for name in lacking]


def pool_samples(
    ranks: Mapping[Path, RunInfo], sampled: dict[Path, pl.DataFrame], shifts: dict[Path, int]
) -> list[pl.DataFrame]:
    """The samples of each rank on one clock, with `rank`, the number of its `host` and the cores of that.

    `shared`: a rank of the host that went on longer counted the same device.

    Args:
        ranks: run.json by directory.
        sampled: device.parquet of those that have one.
        shifts: by directory, where its time 0 lies on that clock.
    """
    found = []
    devices: dict[tuple[int, str | None], tuple[int, int]] = {}
    hosts: dict[str | None, int] = {}
    for rank, (place, info) in enumerate(ranks.items()):
        if place not in sampled:
            continue
        machine = info.machine or Machine()
        host = hosts.setdefault(machine.host, len(hosts))
        device = (host, info.device)
        samples = sampled[place].with_columns(pl.col("time_ns") + shifts[place])
        last_ns = int(samples["time_ns"].max() or 0)  # type: ignore[arg-type]
        cores = machine.host_cores or machine.cores or 1
        found.append((rank, device, cores, samples))
        devices[device] = max(devices.get(device, (last_ns, -rank)), (last_ns, -rank))
    return [
        samples.with_columns(
            pl.lit(rank, pl.Int64).alias("rank"),
            pl.lit(device[0], pl.Int64).alias("host"),
            pl.lit(devices[device][1] != -rank).alias("shared"),
            pl.lit(cores, pl.Int64).alias("host_cores"),
        ).select(*DEVICE_COLUMNS)
        for rank, device, cores, samples in found
    ]


def sum_samples(parts: list[pl.DataFrame], since_ns: int, processes: int | None = None) -> Moved | None:
    """What was read and written by the counters of all ranks; None where nothing counted it.

    Args:
        parts: samples as `pooled` gives them.
        since_ns: when the warm-up ended; the whole interval that it lies in counts as later.
        processes: how many ranks there are, for the kernel's counts of each process, all of them or none; None: for
            those of devices, each once.
    """
    prefix = "" if processes is None else "process_"
    read, written = f"{prefix}read_bytes", f"{prefix}written_bytes"
    chosen = [part if processes is not None else part.filter(~pl.col("shared")) for part in parts]
    known = [len(part) > 0 and part[read].null_count() == part[written].null_count() == 0 for part in chosen]
    if processes is not None and not (all(known) and len(chosen) == processes):
        return None
    if not any(part[read].count() for part in chosen):
        return None
    late = [part.filter(pl.col("time_ns") > since_ns) for part in chosen]
    return Moved(
        sum(int(part[read].sum()) for part in chosen),
        sum(int(part[written].sum()) for part in chosen),
        sum(int(part[read].sum()) for part in late),
    )
