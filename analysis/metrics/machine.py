"""What else the machine did while the run went, and what the run waited for."""

from typing import Final

import polars as pl

from analysis.log.log import Log

SAMPLE_S: Final = 1.0
PAUSE_S: Final = 2.0


def judged_ns(log: Log) -> pl.Expr:
    """The part of a sample's interval after the warm-up, of a cut run until the cut."""
    late = pl.lit(0.0) if log.cut_ns is None else (pl.col("time_ns") - log.cut_ns) / pl.col("interval_ns")
    return pl.col("interval_ns") * (after_warm_up(log) - late.clip(0, 1)).clip(0)


def after_warm_up(log: Log) -> pl.Expr:
    """The share of a sample's interval after the warm-up."""
    begin = log.warm_end_ns if log.warm_end_ns is not None else 0
    return ((pl.col("time_ns") - begin) / pl.col("interval_ns")).clip(0, 1)


def machine(log: Log) -> pl.LazyFrame:
    """What else the machine did in the time that cpu_share is of, and what workers waited for; null: not measured.

    foreign_cpu: cores that other processes kept busy, mean: all that were, less those of the replayer's processes.
    steal_cpu: cores that the hypervisor gave to other machines while this one wanted them, mean.
    foreign_cpu_share: (foreign_cpu + steal_cpu) / cores of the hosts.
    run_delay_s: Σ time that workers were ready to run and waited for a CPU (/proc/self/task/*/schedstat).
    run_delay_share: run_delay_s / Σ (read_ns + write_ns) of moves, of a cut run inside elapsed_s.
    throttled_s: time that a CPU quota held the replayer's cgroup up, over all cores (cpu.stat); of ranks the longest.
    longest_gap_s: the longest time between two samples, which are taken every second.
    paused_s: Σ (that time − 1 s), where it is above 2 s without what the sampling thread waited for a CPU or a quota
        held it up, which are left out: the process was stopped; of ranks the longest.
    process_read_bytes, process_written_bytes: what devices read and wrote for the replayer's processes
        (/proc/self/io), without the warm-up.
    foreign_io_share: bytes that the device moved beyond those / all bytes that it moved.
    """
    io = log.rated.select(io_ns=(pl.col("read_ns") + pl.col("write_ns")).sum())
    taken = pl.col("foreign_cpu") + pl.col("steal_cpu").fill_null(0)
    return (
        pl.concat([_cpu(log), _waits(log), io, _bytes(log)], how="horizontal")
        .with_columns(
            foreign_cpu_share=taken / pl.lit(log.host_cores, pl.Float64),
            run_delay_share=pl.when(pl.col("io_ns") > 0).then(pl.col("run_delay_s") * 1e9 / pl.col("io_ns")),
        )
        .drop("io_ns")
    )


def _cpu(log: Log) -> pl.LazyFrame:
    """Each host's cores less those of all its ranks."""
    names = ("system_cpu", "process_cpu", "steal_cpu")
    judged = judged_ns(log)
    ranks = log.device.group_by("host", "rank").agg(
        judged.sum().alias("ns"), *((pl.col(name) * judged).sum() / judged.sum() for name in names), _known("steal_cpu")
    )
    hosts = (
        ranks.filter(pl.col("ns") > 0)
        .group_by("host")
        .agg(
            foreign_cpu=(pl.col("system_cpu").mean() - pl.col("process_cpu").sum()).clip(0),
            steal_cpu=pl.when(pl.col("known").all()).then(pl.col("steal_cpu").mean()),
        )
    )
    return hosts.select(
        pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()) for name in ("foreign_cpu", "steal_cpu")
    )


def _known(name: str) -> pl.Expr:
    """Whether every sample has a counter."""
    return ((pl.col(name).null_count() == 0) & (pl.len() > 0)).alias("known")


def _waits(log: Log) -> pl.LazyFrame:
    """How long workers, quotas and stops took."""
    interval, share = pl.col("interval_ns"), judged_ns(log) / pl.col("interval_ns")
    held = pl.col("sampler_delay_ns").fill_null(0) + pl.col("throttled_ns").fill_null(0)
    gap = interval - held
    ranks = log.device.group_by("rank").agg(
        *(
            pl.when(_known(f"{name}_ns")).then((pl.col(f"{name}_ns") * share).sum() / 1e9).alias(f"{name}_s")
            for name in ("run_delay", "throttled")
        ),
        longest_gap_s=interval.filter(judged_ns(log) > 0).max() / 1e9,
        paused_s=((gap / 1e9 - SAMPLE_S) * share).filter(gap > PAUSE_S * 1e9).sum(),
    )
    run_delay = pl.col("run_delay_s")
    return ranks.select(
        pl.when(run_delay.count() > 0).then(run_delay.sum()), pl.col("throttled_s", "longest_gap_s", "paused_s").max()
    )


def _bytes(log: Log) -> pl.LazyFrame:
    """What devices moved, each counted once, and how much of it for the replayer's processes."""
    names, weight, once = ("read_bytes", "written_bytes"), after_warm_up(log), ~pl.col("shared")
    sums = {name: (pl.col(name) * weight).filter(once).sum() for name in names}
    sums |= {f"process_{name}": (pl.col(f"process_{name}") * weight).sum() for name in names}
    known = {name: pl.col(name).filter(once).count() > 0 for name in names}
    known |= {f"process_{name}": _known(f"process_{name}") for name in names}
    counted = log.device.select(pl.when(known[name]).then(value).alias(name) for name, value in sums.items())
    moved = pl.col("read_bytes") + pl.col("written_bytes")
    foreign = sum(((pl.col(name) - pl.col(f"process_{name}")).clip(0) for name in names), pl.lit(0.0))
    return counted.select(
        *(pl.col(f"process_{name}").round().cast(pl.Int64) for name in names),
        foreign_io_share=pl.when(moved > 0).then(foreign / moved),
    )
