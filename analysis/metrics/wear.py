"""Amplification and wear: bytes that tiers and devices move for each byte asked for."""

from typing import Final

import polars as pl
from polars import col

from analysis.log.columns import OK, SIDES, SIZE, STORED
from analysis.log.log import Log
from analysis.metrics.machine import clip_interval_ns
from analysis.metrics.metric import Declared, Metric, divide

_DAY_S = 86_400


def amplification(log: Log) -> pl.LazyFrame:
    """Bytes and tokens moved for each one asked for, including evictions, and the wear of a drive.

    read_amplification: Σ tokens that nvme read / tokens_generated: the tokens that storage reads
        for each generated token, as the papers on kv-cache.py use the word.
    nvme_write_amplification: Σ bytes written to nvme / Σ bytes of stores.
    nvme_write_bytes_per_day: Σ bytes written to nvme / elapsed_s × 86,400: at the pace of the
        replay, which is that of the workload only under pace open at speed-up 1.
    drive_writes_per_day: nvme_write_bytes_per_day / (`drive_tb` × 10^12), the drive's DWPD at that
        pace; null if the drive's capacity is not given.
    endurance_years: `tbw` × 10^12 / (nvme_write_bytes_per_day × 365.25); null if the drive's TBW is
        not given.
    """
    stored = SIZE.filter(OK & STORED).sum()
    nvme = SIZE.filter(SIDES["nvme_write"]).sum()
    per_day = nvme / log.elapsed_s * _DAY_S
    life = pl.lit(log.targets.tbw, pl.Float64) * 1e12
    drive = pl.lit(log.targets.drive_tb, pl.Float64) * 1e12
    tokens = col("tokens").filter(SIDES["nvme_read"]).sum()
    generated = col("new_tokens").sum()
    totals = log.cells.select(
        read_amplification=divide(tokens, generated), nvme_write_amplification=divide(nvme, stored)
    )
    rates = log.rated.select(
        nvme_write_bytes_per_day=per_day,
        drive_writes_per_day=per_day / drive,
        endurance_years=divide(life, per_day * 365.25),
    )
    return pl.concat([totals, rates], how="horizontal")


def device(log: Log) -> pl.LazyFrame:
    """Counters of the kernel, from device.parquet, without the warm-up; null without counters.

    device_utilisation: share of the time with at least one request in flight, in a cut run until
        the cut.
    cpu_share: cores that the replayer kept busy / all cores, during the same time.
    system_cpu_share: cores of the host that any process kept busy, including the replayer / all
        cores of the host, during the same time.
    """
    is_own = ~col("shared")  # a device that another rank samples, too, counts once
    is_known = col("read_bytes").filter(is_own).count() > 0
    measured_ns = clip_interval_ns(log)
    total_ns = measured_ns.sum()
    in_use = (col("utilisation") * measured_ns).filter(is_own).sum()
    in_use_ns = measured_ns.filter(is_own & col("utilisation").is_not_null()).sum()
    process = (col("process_cpu") * measured_ns).sum()
    system = (col("system_cpu") / col("host_cores") * measured_ns).sum()
    ranks = col("rank").n_unique()
    return log.device.select(
        device_utilisation=in_use / pl.when(is_known).then(in_use_ns),
        cpu_share=divide(process, total_ns) * ranks / log.cores,
        system_cpu_share=divide(system, total_ns),
    )


METRICS: Final[Declared] = {
    amplification: (
        Metric("read_amplification", "ratio", "work", "tokens read from nvme per token generated", "lower"),
        Metric(
            "nvme_write_amplification", "ratio", "work", "bytes written to nvme per byte stored", "lower", tier="nvme"
        ),
        Metric("nvme_write_bytes_per_day", "bytes/day", "wear", "written to nvme at the replay's pace", tier="nvme"),
        Metric("drive_writes_per_day", "per day", "wear", "drive writes (DWPD) at the replay's pace"),
        Metric("endurance_years", "years", "wear", "endurance of the drive at the replay's pace", "higher"),
    ),
    device: (
        Metric("device_utilisation", "share", "machine", "time in which the device was busy"),
        Metric("cpu_share", "share", "machine", "cores that the replayer kept busy"),
        Metric("system_cpu_share", "share", "machine", "cores that any process kept busy"),
    ),
}
