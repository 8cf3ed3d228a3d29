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

    read_amplification: Σ tokens that nvme read / tokens_generated: the tokens that storage reads for each generated
        token, as the papers on kv-cache.py use the word.
    read_bytes_ratio: Σ bytes read from all tiers / Σ bytes of hits.
    write_amplification: Σ bytes written to all tiers / Σ bytes of stores.
    nvme_write_amplification: Σ bytes written to nvme / Σ bytes of stores.
    nvme_write_bytes_per_day: Σ bytes written to nvme / elapsed_s × 86,400: at the pace of the replay, which is that of
        the workload only under pace open at speed-up 1.
    drive_writes_per_day: nvme_write_bytes_per_day / (`drive_tb` × 10^12), the drive's DWPD at that pace; null if the
        drive's capacity is not given.
    endurance_years: `tbw` × 10^12 / (nvme_write_bytes_per_day × 365.25); null if the drive's TBW is not given.
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
    """Counters of the kernel during the run, from device.parquet, without the warm-up; null without counters.

    device_read_bytes, device_written_bytes: bytes read from and written to the block device under the cache.
    device_read_ratio: device_read_bytes / nvme_read_bytes; below 0.9 a cache served reads.
    device_write_ratio: device_written_bytes / nvme_write_bytes.
    device_utilisation: share of the time with at least one request in flight, in a cut run until the cut.
    cpu_share: cores that the replayer kept busy / all cores, during the same time.
    system_cpu_share: cores of the host that any process kept busy, including the replayer / all cores of the host,
        during the same time.
    """
    weight = share_after_warm_up(log)
    measured_ns = clip_interval_ns(log)
    total_ns = measured_ns.sum()
    own = ~pl.col("shared")
    known = pl.col("read_bytes").filter(own).count() > 0
    read = (pl.col("read_bytes") * weight).filter(own).sum()
    written = (pl.col("written_bytes") * weight).filter(own).sum()
    in_use = (pl.col("utilisation") * measured_ns).filter(own).sum()
    in_use_ns = measured_ns.filter(own & pl.col("utilisation").is_not_null()).sum()
    process = (pl.col("process_cpu") * measured_ns).sum()
    system = (pl.col("system_cpu") / pl.col("host_cores") * measured_ns).sum()
    counters = log.device.select(
        device_read_bytes=pl.when(known).then(read.round().cast(pl.Int64)),
        device_written_bytes=pl.when(known).then(written.round().cast(pl.Int64)),
        device_utilisation=in_use / pl.when(known).then(in_use_ns),
        cpu_share=pl.when(total_ns > 0).then(process / total_ns * pl.col("rank").n_unique() / log.cores),
        system_cpu_share=pl.when(total_ns > 0).then(system / total_ns),
    )
    logical = log.cells.select(
        pl.col("size_bytes").filter(SIDES[f"nvme_{direction}"]).sum().alias(direction) for direction in TOUCHES
    )
    ratios = {
        "device_read_ratio": pl.col("device_read_bytes") / pl.col("read"),
        "device_write_ratio": pl.col("device_written_bytes") / pl.col("write"),
    }
    return (
        pl.concat([counters, logical], how="horizontal")
        .with_columns(
            device_read_ratio=pl.when(pl.col("read") > 0).then(ratios["device_read_ratio"]),
            device_write_ratio=pl.when(pl.col("write") > 0).then(ratios["device_write_ratio"]),
        )
        .drop("read", "write")
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
        Metric("drive_writes_per_day", "per day", "wear", "drive writes (DWPD) at the replay's pace"),
        Metric("endurance_years", "years", "wear", "endurance of the drive at the replay's pace", "higher"),
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
