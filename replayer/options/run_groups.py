"""The options that decide how a plan is executed, each declared once."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replayer.machine.reserve import Reserve
from replayer.options.types import (
    UNLIMITED,
    OptionTable,
    Parsed,
    one_of,
    option,
    parse_io_size,
    parse_reserve,
    parse_throttle,
    parse_warmup,
    unlimited_or,
    whole_number,
)
from replayer.record.conditions import Tier
from replayer.record.options import Direct, Fsync, GpuRead, IoEngine, Layout, Verify
from tracegen.console.command_line import GIB, SECONDS, Quantity

if TYPE_CHECKING:  # replayer.tiers loads every backend
    from replayer.tiers.throttled import Throttle


@dataclass(frozen=True, kw_only=True)
class SpanOptions(OptionTable):
    """The part of the plan that is executed, and the part of that which is measured."""

    heading = "Length"
    example = "--duration 5m --warmup 30s"

    duration: float | Decimal = option(
        UNLIMITED,
        "Time limit: start nothing new after it, in seconds or with a unit: 90s, 5m, 1h.",
        unlimited_or(Quantity(SECONDS, low=1e-9, high=1e9)),
        "S|unlimited",
        shown="the trace's, else unlimited",
    )
    drain: float | Decimal | None = option(
        None,
        "Time that ops already issued get to end after `duration`, in seconds or with a unit.",
        unlimited_or(Quantity(SECONDS, low=0, high=1e9)),
        "S|unlimited",
        shown="a tenth of `duration`",
        rare=True,
    )
    ops: int | None = option(
        None, "Replay only the plan's first N ops: the same work on every system.", whole_number(1), "N"
    )
    warmup: tuple[int, float, bool] = option(
        (0, 0.0, False),
        "Start of the run that metrics leave out: 30s, 5000ops, or steady: until throughput and"
        " P95 are (docs/doubts.md).",
        Parsed("warmup", parse_warmup),
        "TIME|OPS|steady",
        shown="none",
    )
    window: int | None = option(
        None,
        "Ops that the plan runs ahead of the lowest unfinished one.",
        whole_number(1),
        "OPS",
        shown="4096; 65536 if pace is closed or open",
        rare=True,
    )
    window_gb: Decimal = option(
        UNLIMITED,
        "Bytes that these ops together may write to tiers, in GiB or with a unit.",
        unlimited_or(Quantity(GIB, Decimal, low=1e-9)),
        "GIB|unlimited",
        shown="unlimited",
        rare=True,
    )


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(OptionTable):
    """The ways in which tiers are reached."""

    heading = "Tiers and I/O"
    example = "--cache-dir /mnt/nvme --io-depth 8 --throttle nvme=470,80us"

    cache_dir: Path | None = option(
        None,
        "Directory for the files of the nvme tier; made if only its last part is missing.",
        click.Path(path_type=Path),
        "DIR",
    )
    verify: Verify = option(
        "stamps", "What to check of bytes read. off: nothing. stamps: sectors' stamps. full: each byte.", one_of(Verify)
    )
    layout: Layout = option(
        "files",
        "How the nvme tier stores objects. files: a file each. slab: extents in large files."
        " null: store nothing; measures the replayer's own overhead.",
        one_of(Layout),
    )
    io_size: int | None = option(
        None,
        "Largest I/O request, in bytes or with a unit: 128K, 1M; larger objects take several.",
        Parsed("size", parse_io_size),
        "BYTES",
        shown="1M; less with many workers",
        rare=True,
    )
    io_depth: int = option(1, "I/O requests of one object in flight at most.", whole_number(1, 64), "N")
    io_engine: IoEngine = option(
        "auto",
        "How I/O requests are made. auto: uring if `io_depth` is more than 1, else psync."
        " psync: one at a time. uring: by io_uring.",
        one_of(IoEngine),
        rare=True,
    )
    direct: Direct = option(
        "auto",
        "Whether to use O_DIRECT. on: refuse to run without it. off: use the page cache. auto:"
        " use it if the file system supports it.",
        one_of(Direct),
    )
    fsync: Fsync = option(
        "none", "When a write ends. none: when the system has the data. data: when the device has it.", one_of(Fsync)
    )
    throttle: "tuple[tuple[Tier, Throttle], ...]" = option(
        (),
        "Limit a tier's bandwidth and add latency: nvme=470,80us; nvme=2GB/s; for reads"
        " and writes separately, nvme=r7000/w4000.",
        Parsed("throttle", parse_throttle),
        "TIER=MIB_PER_S[,LATENCY]",
    )
    gpu_device: str = option(
        "cuda", "GPU by PyTorch's name for it; cpu emulates one, for tests.", click.STRING, "DEVICE"
    )
    gpu_read: GpuRead = option(
        "host",
        "Where reads from the gpu tier go: to host memory, or elsewhere in device memory.",
        one_of(GpuRead),
        rare=True,
    )
    gds: bool = option(False, "Move data between the nvme tier's files and GPU memory by GPUDirect Storage.", rare=True)


@dataclass(frozen=True, kw_only=True)
class ControlOptions(OptionTable):
    """The steps before a run, at errors and after it."""

    heading = "Cache directory and errors"
    example = "--precondition 100G --set reserve=10%"

    precondition: float = option(
        0.0,
        "Write this much to the nvme tier before the run, in GiB or with a unit: 100G, 1T.",
        Quantity(GIB, low=0, high=1e9),
        "GIB",
        shown="0",
    )
    reserve: Reserve = option(
        Reserve(),
        "Space on the cache directory's file system that new objects leave free, in GiB or as a"
        " share; 0: they may fill it.",
        Parsed("reserve", parse_reserve),
        "GIB|SHARE%",
        shown="5%",
        rare=True,
    )
    max_errors: int = option(
        100, "Failed moves that a run survives; one more stops it.", whole_number(0), "N", rare=True
    )
    keep_cache: bool = option(False, "Keep the run's cache files.", rare=True)
    clean: bool = option(False, "Remove what killed runs left in the cache directory.", rare=True)
    force: bool = option(False, "Replace the run directory if it exists.")
