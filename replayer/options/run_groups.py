"""The options that decide how a plan is executed, each declared once."""

from decimal import Decimal
from pathlib import Path
from typing import Annotated

import click

from replayer.machine.reserve import Reserve
from replayer.options.declaring import OptionTable, declare, one_of
from replayer.options.types import (
    UNLIMITED,
    Parsed,
    parse_io_size,
    parse_reserve,
    parse_throttle,
    parse_warmup,
    unlimited_or,
    whole_number,
)
from replayer.record.conditions import Tier
from replayer.record.options import Direct, Fsync, GpuRead, IoEngine, Layout, Verify
from replayer.tiers.throttled import Throttle
from tracegen.console.command_line import GIB, SECONDS, Quantity


class SpanOptions(OptionTable, frozen=True, kw_only=True):
    """The part of the plan that is executed, and the part of that which is measured."""

    heading = "Length"
    example = "--duration 5m --warmup 30s"

    duration: Annotated[
        float | Decimal,
        declare(
            "Time limit: start nothing new after it, in seconds or with a unit: 90s, 5m, 1h.",
            unlimited_or(Quantity(SECONDS, low=1e-9, high=1e9)),
            "S|unlimited",
            default="the trace's, else unlimited",
            conditions="duration_s",
        ),
    ] = UNLIMITED
    drain: Annotated[
        float | Decimal | None,
        declare(
            "Time that ops already issued get to end after `duration`, in seconds or with a unit.",
            unlimited_or(Quantity(SECONDS, low=0, high=1e9)),
            "S|unlimited",
            default="a tenth of `duration`",
            rare=True,
            conditions="drain_s",
        ),
    ] = None
    ops: Annotated[
        int | None,
        declare(
            "Replay only the plan's first N ops: the same work on every system.",
            whole_number(1),
            "N",
            conditions="ops",
        ),
    ] = None
    warmup: Annotated[
        tuple[int, float, bool],
        declare(
            "Start of the run that metrics leave out: 30s, 5000ops, or steady: until throughput and"
            " P95 are (docs/doubts.md).",
            Parsed("warmup", parse_warmup),
            "TIME|OPS|steady",
            default="none",
            conditions="warmup",
        ),
    ] = (0, 0.0, False)
    window: Annotated[
        int | None,
        declare(
            "Ops that the plan runs ahead of the lowest unfinished one.",
            whole_number(1),
            "OPS",
            default="4096; 65536 if pace is closed or open",
            rare=True,
            conditions="window_ops",
        ),
    ] = None
    window_gb: Annotated[
        Decimal,
        declare(
            "Bytes that these ops together may write to tiers, in GiB or with a unit.",
            unlimited_or(Quantity(GIB, Decimal, low=1e-9)),
            "GIB|unlimited",
            default="unlimited",
            rare=True,
            conditions="window_bytes",
        ),
    ] = UNLIMITED


class DeviceOptions(OptionTable, frozen=True, kw_only=True):
    """The ways in which tiers are reached."""

    heading = "Tiers and I/O"
    example = "--cache-dir /mnt/nvme --io-depth 8 --throttle nvme=470,80us"

    cache_dir: Annotated[
        Path | None,
        declare(
            "Directory for the files of the nvme tier; made if only its last part is missing.",
            click.Path(path_type=Path),
            "DIR",
        ),
    ] = None
    verify: Annotated[
        Verify,
        declare(
            "What to check of bytes read. off: nothing. stamps: sectors' stamps. full: each byte.",
            one_of(Verify),
            conditions="verify",
        ),
    ] = "stamps"
    layout: Annotated[
        Layout,
        declare(
            "How the nvme tier stores objects. files: a file each. slab: extents in large files."
            " null: store nothing; measures the replayer's own overhead.",
            one_of(Layout),
            conditions="layout",
        ),
    ] = "files"
    io_size: Annotated[
        int | None,
        declare(
            "Largest I/O request, in bytes or with a unit: 128K, 1M; larger objects take several.",
            Parsed("size", parse_io_size),
            "BYTES",
            default="1M; less with many workers",
            rare=True,
            conditions="io_bytes",
        ),
    ] = None
    io_depth: Annotated[
        int,
        declare(
            "I/O requests of one object in flight at most.",
            whole_number(1, 64),
            "N",
            conditions="io_depth",
        ),
    ] = 1
    io_engine: Annotated[
        IoEngine,
        declare(
            "How I/O requests are made. auto: uring if `io_depth` is more than 1, else psync."
            " psync: one at a time. uring: by io_uring.",
            one_of(IoEngine),
            rare=True,
            conditions="io_engine",
        ),
    ] = "auto"
    direct: Annotated[
        Direct,
        declare(
            "Whether to use O_DIRECT. on: refuse to run without it. off: use the page cache. auto:"
            " use it if the file system supports it.",
            one_of(Direct),
            conditions="direct",
        ),
    ] = "auto"
    fsync: Annotated[
        Fsync,
        declare(
            "When a write ends. none: when the system has the data. data: when the device has it.",
            one_of(Fsync),
            conditions="fsync",
        ),
    ] = "none"
    throttle: Annotated[
        tuple[tuple[Tier, Throttle], ...],
        declare(
            "Limit a tier's bandwidth and add latency: nvme=470,80us; nvme=2GB/s; for reads"
            " and writes separately, nvme=r7000/w4000.",
            Parsed("throttle", parse_throttle),
            "TIER=MIB_PER_S[,LATENCY]",
            conditions="throttle",
        ),
    ] = ()
    gpu_device: Annotated[
        str,
        declare(
            "GPU by PyTorch's name for it; cpu emulates one, for tests.",
            click.STRING,
            "DEVICE",
            conditions="gpu_device",
        ),
    ] = "cuda"
    gpu_read: Annotated[
        GpuRead,
        declare(
            "Where reads from the gpu tier go: to host memory, or elsewhere in device memory.",
            one_of(GpuRead),
            rare=True,
            conditions="gpu_read",
        ),
    ] = "host"
    gds: Annotated[
        bool,
        declare(
            "Move data between the nvme tier's files and GPU memory by GPUDirect Storage.",
            rare=True,
            conditions="gds",
        ),
    ] = False


class ControlOptions(OptionTable, frozen=True, kw_only=True):
    """The steps before a run, at errors and after it."""

    heading = "Cache directory and errors"
    example = "--precondition 100G --set reserve=10%"

    precondition: Annotated[
        float,
        declare(
            "Write this much to the nvme tier before the run, in GiB or with a unit: 100G, 1T.",
            Quantity(GIB, low=0, high=1e9),
            "GIB",
            default="0",
            conditions="precondition_gib",
        ),
    ] = 0.0
    reserve: Annotated[
        Reserve,
        declare(
            "Space on the cache directory's file system that new objects leave free, in GiB or as a"
            " share; 0: they may fill it.",
            Parsed("reserve", parse_reserve),
            "GIB|SHARE%",
            default="5%",
            rare=True,
        ),
    ] = Reserve()
    max_errors: Annotated[
        int,
        declare(
            "Failed moves that a run survives; one more stops it.",
            whole_number(0),
            "N",
            rare=True,
        ),
    ] = 100
    keep_cache: Annotated[bool, declare("Keep the run's cache files.", rare=True)] = False
    clean: Annotated[bool, declare("Remove what killed runs left in the cache directory.", rare=True)] = False
    force: Annotated[bool, declare("Replace the run directory if it exists.")] = False
