"""Samples of the kernel's counters (device.parquet): read, moved to one clock, and summed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
from polars import col

from analysis.log.log import DEVICE_COLUMNS
from replayer.schema import DEVICE_SCHEMA, RunInfo
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
    numbers = col(DEVICE_SCHEMA.names)
    wrong = [
        ((numbers < 0) | (numbers > _MOST)).any(),
        col([field.name for field in DEVICE_SCHEMA if not field.nullable]).is_null().any().name.suffix(" missing"),
        (col("time_ns").diff() <= 0).any().alias("back"),
        (col("interval_ns") <= 0).any().alias("no time"),
    ]
    if any(samples.select(wrong).row(0)):
        problem = "holds counters that run backwards or are impossible: it was altered or damaged"
        raise InputError(problem, "copy the run again", subject=path)
    return samples


_PLACED: Final = pl.Schema({**DEVICE_COLUMNS, "device": pl.String(), "last_ns": pl.Int64()})


def place_samples(samples: pl.DataFrame, info: RunInfo, rank: int, shift_ns: int) -> pl.DataFrame:
    """Move the samples of a rank to the common clock, and add its number, host and device."""
    machine = info.machine
    own = samples.with_columns(
        col("time_ns") + shift_ns,
        rank=pl.lit(rank),
        host=pl.lit(machine.host),
        host_cores=pl.lit(machine.host_cores or machine.cores or 1),
        device=pl.lit(info.device),
        shared=pl.lit(value=False),
    )
    return own.with_columns(last_ns=col("time_ns").max()).select(*_PLACED).cast(_PLACED)


def pool_samples(placed: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Join the samples of all ranks, from `place_samples`.

    Returns:
        A table with DEVICE_COLUMNS; `shared` says whether another rank of the host counted the same
        device for longer.
    """
    # Every rank on a device counts all that it moves. The one that went on longest counts for it.
    longest = col("rank").sort_by("last_ns", "rank", descending=[True, False]).first().over("host", "device")
    pooled = pl.concat([pl.DataFrame(schema=_PLACED), *placed])
    return pooled.with_columns(shared=col("rank") != longest).select(*DEVICE_COLUMNS)
