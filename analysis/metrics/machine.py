"""Load on the machine from other processes, and times in which the run was held up."""

from typing import Final

import polars as pl
from polars import col

from analysis.log.log import Log
from analysis.metrics.metric import Declared, Metric, divide

# Time between two samples of the counters.
SAMPLE_S: Final = 1.0
# A longer time between two samples is a pause of the process.
PAUSE_S: Final = 2.0


def clip_interval_ns(log: Log) -> pl.Expr:
    """Return the part of each sample's interval between the warm-up and the cut, if any."""
    late = pl.lit(0.0)
    if log.cut_ns is not None:
        late = (col("time_ns") - log.cut_ns) / col("interval_ns")
    return col("interval_ns") * (share_after_warm_up(log) - late.clip(0, 1)).clip(0)


def share_after_warm_up(log: Log) -> pl.Expr:
    """Return the share of each sample's interval after the warm-up."""
    begin = log.warm_end_ns if log.warm_end_ns is not None else 0
    return ((col("time_ns") - begin) / col("interval_ns")).clip(0, 1)


def machine(log: Log) -> pl.LazyFrame:
    """Load from other processes and waits of workers, after the warm-up; null if not measured.

    foreign_cpu: mean cores that other processes kept busy: all busy cores − those of the replayer's
        processes.
    steal_cpu: mean cores that the hypervisor gave to other machines while this one wanted them.
    foreign_cpu_share: (foreign_cpu + steal_cpu) / cores of the hosts.
    run_delay_s: Σ time in which workers were ready to run and waited for a CPU
        (/proc/self/task/*/schedstat).
    run_delay_share: run_delay_s / Σ (read_ns + write_ns) of moves, in a cut run inside elapsed_s.
    throttled_s: time in which a CPU quota stopped the replayer's cgroup, summed over cores
        (cpu.stat); of several ranks the longest.
    longest_gap_s: longest interval between two samples, which are taken every second.
    paused_s: Σ (interval − 1 s) over intervals between samples above 2 s, without the time in which
        the sampling thread waited for a CPU or a quota stopped it: the process was stopped; of
        several ranks the longest.
    foreign_io_share: bytes that the device moved beyond those of the replayer's processes
        (/proc/self/io) / all bytes that it moved.
    """
    io_time = log.rated.select(io_ns=(col("read_ns") + col("write_ns")).sum())
    taken = col("foreign_cpu") + col("steal_cpu").fill_null(0)
    return (
        pl.concat([_cpu(log), _waits(log), io_time, _bytes(log)], how="horizontal")
        .with_columns(
            foreign_cpu_share=taken / pl.lit(log.host_cores, pl.Float64),
            run_delay_share=divide(col("run_delay_s") * 1e9, col("io_ns")),
        )
        .drop("io_ns")
    )


def _cpu(log: Log) -> pl.LazyFrame:
    """Sum over hosts the cores that other processes kept busy, and the stolen cores."""
    names = ("system_cpu", "process_cpu", "steal_cpu")
    measured_ns = clip_interval_ns(log)
    ranks = log.device.group_by("host", "rank").agg(
        measured_ns.sum().alias("ns"),
        *((col(name) * measured_ns).sum() / measured_ns.sum() for name in names),
        _is_known("steal_cpu").alias("is_known"),
    )
    hosts = (
        ranks.filter(col("ns") > 0)
        .group_by("host")
        .agg(
            foreign_cpu=(col("system_cpu").mean() - col("process_cpu").sum()).clip(0),
            steal_cpu=pl.when(col("is_known").all()).then(col("steal_cpu").mean()),
        )
    )
    return hosts.select(pl.when(col(name).count() > 0).then(col(name).sum()) for name in ("foreign_cpu", "steal_cpu"))


def _is_known(name: str) -> pl.Expr:
    """Return whether every sample has a counter."""
    return (col(name).null_count() == 0) & (pl.len() > 0)


def _waits(log: Log) -> pl.LazyFrame:
    """Compute how long workers waited for a CPU, quotas applied, and the process was stopped."""
    interval = col("interval_ns")
    measured_ns = clip_interval_ns(log)
    share = measured_ns / interval
    delays = col("sampler_delay_ns").fill_null(0) + col("throttled_ns").fill_null(0)
    gap = interval - delays
    ranks = log.device.group_by("rank").agg(
        *(
            pl.when(_is_known(f"{name}_ns")).then((col(f"{name}_ns") * share).sum() / 1e9).alias(f"{name}_s")
            for name in ("run_delay", "throttled")
        ),
        longest_gap_s=interval.filter(measured_ns > 0).max() / 1e9,
        paused_s=((gap / 1e9 - SAMPLE_S) * share).filter(gap > PAUSE_S * 1e9).sum(),
    )
    run_delay = col("run_delay_s")
    return ranks.select(
        pl.when(run_delay.count() > 0).then(run_delay.sum()), col("throttled_s", "longest_gap_s", "paused_s").max()
    )


def _bytes(log: Log) -> pl.LazyFrame:
    """Compare the bytes that devices moved, each device once, with those of the replayer."""
    names = ("read_bytes", "written_bytes")
    weight = share_after_warm_up(log)
    once = ~col("shared")  # ranks on one device each count all that it moves
    counted = {name: (col(name).filter(once).count() > 0, (col(name) * weight).filter(once)) for name in names}
    for name in (f"process_{name}" for name in names):
        counted[name] = _is_known(name), col(name) * weight
    totals = log.device.select(pl.when(known).then(value.sum()).alias(name) for name, (known, value) in counted.items())
    moved = pl.sum_horizontal(names, ignore_nulls=False)
    foreign = pl.sum_horizontal(((col(name) - col(f"process_{name}")).clip(0) for name in names), ignore_nulls=False)
    return totals.select(foreign_io_share=divide(foreign, moved))


METRICS: Final[Declared] = {
    machine: (
        Metric("foreign_cpu", "cores", "machine", "cores that other processes kept busy"),
        Metric("steal_cpu", "cores", "machine", "cores that the hypervisor took away"),
        Metric("foreign_cpu_share", "share", "machine", "cores busy or taken elsewhere"),
        Metric("run_delay_s", "s", "machine", "workers' wait for a CPU"),
        Metric("run_delay_share", "share", "machine", "workers' wait for a CPU, share of I/O time"),
        Metric("throttled_s", "s", "machine", "stopped by a CPU quota"),
        Metric("longest_gap_s", "s", "machine", "longest interval between two samples"),
        Metric("paused_s", "s", "machine", "process stopped"),
        Metric("foreign_io_share", "share", "machine", "device I/O for other processes"),
    )
}
