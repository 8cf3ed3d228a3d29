"""Amplification and wear: bytes that tiers and devices move for each byte asked for."""

from typing import Final

import polars as pl

from analysis.log.columns import OK, SERVED, SIDES, SIZE, STORED, TOUCHES
from analysis.log.log import Log
from analysis.metrics.machine import clip_interval_ns, share_after_warm_up
from analysis.metrics.metric import Declared, Metric
from replayer.schema import TIERS

_DAY_S = 86_400


def amplification(log: Log) -> pl.LazyFrame:
    """Bytes and tokens moved for each one asked for, including evictions, and the wear of a drive.

    read_amplification: Σ tokens that nvme read / tokens_generated: the tokens that storage reads
        for each generated token, as the papers on kv-cache.py use the word.
    read_bytes_ratio: Σ bytes read from all tiers / Σ bytes of hits.
    write_amplification: Σ bytes written to all tiers / Σ bytes of stores.
    nvme_write_amplification: Σ bytes written to nvme / Σ bytes of stores.
    nvme_write_bytes_per_day: Σ bytes written to nvme / elapsed_s × 86,400: at the pace of the
        replay, which is that of the workload only under pace open at speed-up 1.
    drive_writes_per_day: nvme_write_bytes_per_day / (`drive_tb` × 10^12), the drive's DWPD at that
        pace; null if the drive's capacity is not given.
    endurance_years: `tbw` × 10^12 / (nvme_write_bytes_per_day × 365.25); null if the drive's TBW is
        not given.
    """
    read, written = (
        pl.sum_horizontal(SIZE.filter(SIDES[f"{tier}_{direction}"]).sum() for tier in TIERS) for direction in TOUCHES
    )
    hits = SIZE.filter(OK & SERVED).sum()
    stored = SIZE.filter(OK & STORED).sum()
    nvme = SIZE.filter(SIDES["nvme_write"]).sum()
    per_day = nvme / log.elapsed_s * _DAY_S
    life = pl.lit(log.targets.tbw, pl.Float64) * 1e12
    drive = pl.lit(log.targets.drive_tb, pl.Float64) * 1e12
    tokens = pl.col("tokens").filter(SIDES["nvme_read"]).sum()
    generated = pl.col("new_tokens").sum()
    totals = log.cells.select(
        read_amplification=pl.when(generated > 0).then(tokens / generated),
        read_bytes_ratio=pl.when(hits > 0).then(read / hits),
        write_amplification=pl.when(stored > 0).then(written / stored),
        nvme_write_amplification=pl.when(stored > 0).then(nvme / stored),
    )
    rates = log.rated.select(
        nvme_write_bytes_per_day=per_day,
        drive_writes_per_day=per_day / drive,
        endurance_years=pl.when(per_day > 0).then(life / (per_day * 365.25)),
    )
    return pl.concat([totals, rates], how="horizontal")


def device(log: Log) -> pl.LazyFrame:
    """Counters of the kernel, from device.parquet, without the warm-up; null without counters.

    device_read_bytes, device_written_bytes: bytes read from and written to the block device under
        the cache.
    device_read_ratio: device_read_bytes / nvme_read_bytes; below 0.9 a cache served reads.
    device_write_ratio: device_written_bytes / nvme_write_bytes.
    device_utilisation: share of the time with at least one request in flight, in a cut run until
        the cut.
    cpu_share: cores that the replayer kept busy / all cores, during the same time.
    system_cpu_share: cores of the host that any process kept busy, including the replayer / all
        cores of the host, during the same time.
    """
    bytes_moved = log.cells.select(
        pl.col("size_bytes").filter(SIDES[f"nvme_{direction}"]).sum().alias(direction) for direction in TOUCHES
    )
    ratios = {
        "device_read_ratio": ("device_read_bytes", "read"),
        "device_write_ratio": ("device_written_bytes", "write"),
    }
    return (
        pl.concat([_device_bytes(log), _shares_busy(log), bytes_moved], how="horizontal")
        .with_columns(
            pl.when(pl.col(moved) > 0).then(pl.col(counted) / pl.col(moved)).alias(name)
            for name, (counted, moved) in ratios.items()
        )
        .drop("read", "write")
    )


_OWN: Final = ~pl.col("shared")
"""Samples of a device that another rank samples, too, do not count."""
_KNOWN: Final = pl.col("read_bytes").filter(_OWN).count() > 0
"""Whether any device was counted."""


def _device_bytes(log: Log) -> pl.LazyFrame:
    """Add up the bytes of the block devices."""
    weight = share_after_warm_up(log)
    return log.device.select(
        pl.when(_KNOWN)
        .then((pl.col(column) * weight).filter(_OWN).sum().round().cast(pl.Int64))
        .alias(f"device_{column}")
        for column in ("read_bytes", "written_bytes")
    )


def _shares_busy(log: Log) -> pl.LazyFrame:
    """Compute the shares of the time in which devices and cores were busy."""
    measured_ns = clip_interval_ns(log)
    total_ns = measured_ns.sum()
    in_use = (pl.col("utilisation") * measured_ns).filter(_OWN).sum()
    in_use_ns = measured_ns.filter(_OWN & pl.col("utilisation").is_not_null()).sum()
    process = (pl.col("process_cpu") * measured_ns).sum()
    system = (pl.col("system_cpu") / pl.col("host_cores") * measured_ns).sum()
    ranks = pl.col("rank").n_unique()
    return log.device.select(
        device_utilisation=in_use / pl.when(_KNOWN).then(in_use_ns),
        cpu_share=pl.when(total_ns > 0).then(process / total_ns * ranks / log.cores),
        system_cpu_share=pl.when(total_ns > 0).then(system / total_ns),
    )


METRICS: Final[Declared] = {
    amplification: (
        Metric(
            "read_amplification",
            "ratio",
            "work",
            "tokens read from nvme per token generated",
            "lower",
        ),
        Metric("read_bytes_ratio", "ratio", "work", "bytes read per byte of hits"),
        Metric("write_amplification", "ratio", "work", "bytes written per byte stored", "lower"),
        Metric(
            "nvme_write_amplification",
            "ratio",
            "work",
            "bytes written to nvme per byte stored",
            "lower",
            tier="nvme",
        ),
        Metric(
            "nvme_write_bytes_per_day",
            "bytes/day",
            "wear",
            "written to nvme at the replay's pace",
            tier="nvme",
        ),
        Metric(
            "drive_writes_per_day",
            "per day",
            "wear",
            "drive writes (DWPD) at the replay's pace",
        ),
        Metric(
            "endurance_years",
            "years",
            "wear",
            "endurance of the drive at the replay's pace",
            "higher",
        ),
    ),
    device: (
        Metric("device_read_bytes", "bytes", "machine", "device reads"),
        Metric("device_written_bytes", "bytes", "machine", "device writes"),
        Metric("device_read_ratio", "ratio", "machine", "device reads / nvme reads"),
        Metric("device_write_ratio", "ratio", "machine", "device writes / nvme writes"),
        Metric("device_utilisation", "share", "machine", "time in which the device was busy"),
        Metric("cpu_share", "share", "machine", "cores that the replayer kept busy"),
        Metric("system_cpu_share", "share", "machine", "cores that any process kept busy"),
    ),
}
