"""The flags that decide how `replayer run` executes a plan."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Self, cast, get_args

import click

from replayer.flags.flag_types import (
    EXACT_GIB,
    IoSize,
    ReservedSpace,
    TierThrottle,
    UnlimitedOr,
    WarmUp,
    WholeNumber,
)
from replayer.flags.plan_flags import add_options
from replayer.machine.reserve import Reserve
from replayer.planning.plan_settings import PlanSettings
from replayer.record.options import Direct, Fsync, GpuRead, IoEngine, Layout, Placement, Verify
from replayer.record.run_info import Tier
from replayer.tiers.throttled import Throttle
from tracegen.console.command_line import GIB, SECONDS, Quantity


@dataclass(frozen=True, kw_only=True)
class LoadFlags:
    """The values of the flags that a replay and its prediction share; None: not passed.

    Attributes:
        plan: the flags that decide the plan.
        duration: seconds; UNLIMITED, or None for what the trace's recipe says.
        drain: seconds, or UNLIMITED.
        warmup: ops, seconds, and whether it ends when the run is steady; at most one is not 0.
        window: ops.
        window_gb: GiB, or UNLIMITED.
    """

    plan: PlanSettings
    duration: float | Decimal | None
    drain: float | Decimal | None
    ops: int | None
    warmup: tuple[int, float, bool]
    window: int | None
    window_gb: Decimal
    force: bool

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Take the values of all flags, by name; those that `PlanSettings` names are the plan's."""
        names = PlanSettings.__annotations__
        plan = {name: value for name, value in values.items() if name in names}
        others = {name: value for name, value in values.items() if name not in plan}
        return cls(plan=cast("PlanSettings", plan), **others)


@dataclass(frozen=True, kw_only=True)
class TierFlags:
    """The values of the flags that say how tiers are reached; None: not passed.

    Attributes:
        io_size: bytes.
        throttle: tiers to slow down.
    """

    cache_dir: Path | None
    make_cache_dir: bool
    verify: Verify
    layout: Layout
    io_size: int | None
    io_depth: int
    io_engine: IoEngine
    direct: Direct
    fsync: Fsync
    throttle: tuple[tuple[Tier, Throttle], ...]
    gpu_device: str
    gpu_read: GpuRead


@dataclass(frozen=True, kw_only=True)
class RunFlags(LoadFlags, TierFlags):
    """The values of all flags of `replayer run`; None: not passed.

    Attributes:
        precondition: GiB.
    """

    reserve: Reserve
    precondition: float
    gds: bool
    max_errors: int
    keep_cache: bool
    clean: bool


CACHE_OPTIONS: Final = (
    click.option(
        "--cache-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Directory for the files of the nvme tier.",
    ),
    click.option("--make-cache-dir", is_flag=True, help="Make --cache-dir if it does not exist."),
)

GPU_DEVICE_OPTION: Final = click.option(
    "--gpu-device",
    default="cuda",
    show_default=True,
    metavar="DEVICE",
    help="GPU by PyTorch's name for it; cpu emulates one, for tests.",
)

_SPAN_OPTIONS: Final = (
    click.option(
        "--duration",
        type=UnlimitedOr(Quantity(SECONDS)),
        metavar="S|unlimited",
        help="Time limit: start nothing new after it, in seconds or with a unit: 90s, 5m, 1h."
        "  [default: the trace's, else unlimited]",
    ),
    click.option(
        "--drain",
        type=UnlimitedOr(Quantity(SECONDS)),
        metavar="S|unlimited",
        help="Time that ops already issued get to end after --duration, in seconds or with a unit."
        "  [default: a tenth of --duration]",
    ),
    click.option(
        "--ops",
        type=WholeNumber(1),
        metavar="N",
        help="Replay only the plan's first N ops: the same work on every system.",
    ),
    click.option(
        "--placement",
        type=click.Choice(get_args(Placement)),
        default="planned",
        show_default=True,
        help="What decides where objects go. planned: the plan. live: the state of the tiers when"
        " an op is dispatched; --order RUN repeats it.",
    ),
    click.option(
        "--warmup",
        type=WarmUp(),
        default=(0, 0.0, False),
        metavar="TIME|OPS|steady",
        help="Start of the run that metrics leave out: a time with its unit, a number of ops, or"
        " steady: until throughput and P95 are (docs/doubts.md).",
    ),
)

_WINDOW_OPTIONS: Final = (
    click.option(
        "--window",
        type=WholeNumber(1),
        metavar="OPS",
        help="Ops that the plan runs ahead of the lowest unfinished one."
        "  [default: 4096; 65536 if pace is closed or open]",
    ),
    click.option(
        "--window-gb",
        type=UnlimitedOr(EXACT_GIB),
        default="unlimited",
        show_default=True,
        metavar="GIB|unlimited",
        help="Bytes that these ops together may write to tiers, in GiB or with a unit.",
    ),
)

_FORCE_OPTION: Final = click.option(
    "--force",
    is_flag=True,
    help="Replace the run directory if it exists.",
)

LOAD_OPTIONS: Final = (*_SPAN_OPTIONS, *_WINDOW_OPTIONS, _FORCE_OPTION)
"""The flags that `LoadFlags` holds besides those of the plan."""

TIER_OPTIONS: Final = (
    click.option(
        "--verify",
        type=click.Choice(get_args(Verify)),
        default="stamps",
        show_default=True,
        help="What to check of bytes read. off: nothing. stamps: sectors' stamps. full: each byte.",
    ),
    click.option(
        "--layout",
        type=click.Choice(get_args(Layout)),
        default="files",
        show_default=True,
        help="How the nvme tier stores objects. files: a file each. slab: extents in large files."
        " null: not at all, to time the replayer itself.",
    ),
    click.option(
        "--io-size",
        type=IoSize(),
        metavar="BYTES",
        help="Largest I/O request, in bytes or with a unit: 128K, 1M; larger objects take several."
        "  [default: 1M; less with many workers]",
    ),
    click.option(
        "--io-depth",
        type=WholeNumber(1, 64),
        default=1,
        show_default=True,
        metavar="N",
        help="I/O requests of one object in flight at most.",
    ),
    click.option(
        "--io-engine",
        type=click.Choice(get_args(IoEngine)),
        default="auto",
        show_default=True,
        help="How I/O requests are made. auto: uring if --io-depth is more than 1, else psync."
        " psync: one at a time. uring: by io_uring.",
    ),
    click.option(
        "--direct",
        type=click.Choice(get_args(Direct)),
        default="auto",
        show_default=True,
        help="Whether to use O_DIRECT. on: refuse to run without it. off: use the page cache. auto:"
        " use it if the file system supports it.",
    ),
    click.option(
        "--fsync",
        type=click.Choice(get_args(Fsync)),
        default="none",
        show_default=True,
        help="When a write ends. none: when the system has the data. data: when the device has it.",
    ),
    click.option(
        "--throttle",
        type=TierThrottle(),
        multiple=True,
        metavar="TIER=MIB_PER_S[,LATENCY]",
        help="Limit a tier's bandwidth and add latency: nvme=470,80us; nvme=2GB/s; for reads"
        " and writes separately, nvme=r7000/w4000.",
    ),
    GPU_DEVICE_OPTION,
    click.option(
        "--gpu-read",
        type=click.Choice(get_args(GpuRead)),
        default="host",
        show_default=True,
        help="Where reads from the gpu tier go: to host memory, or elsewhere in device memory.",
    ),
)
"""The flags that say how tiers are reached, apart from the directory."""

RUN_OPTIONS: Final = (
    *CACHE_OPTIONS,
    click.option(
        "--reserve",
        type=ReservedSpace(),
        default="5%",
        show_default=True,
        metavar="GIB|SHARE%",
        help="Space on --cache-dir's file system that new objects leave free, in GiB or as a share;"
        " 0: they may fill it.",
    ),
    *_SPAN_OPTIONS,
    click.option(
        "--precondition",
        type=Quantity(GIB),
        default=0,
        metavar="GIB",
        help="Write this much to the nvme tier before the run, in GiB or with a unit: 100G, 1T.",
    ),
    *TIER_OPTIONS,
    click.option(
        "--gds",
        is_flag=True,
        help="Move data between the nvme tier's files and GPU memory by GPUDirect Storage.",
    ),
    click.option(
        "--max-errors",
        type=WholeNumber(0),
        default=100,
        show_default=True,
        metavar="N",
        help="Stop the run after more than N failed moves.",
    ),
    *_WINDOW_OPTIONS,
    click.option("--keep-cache", is_flag=True, help="Keep the run's cache files."),
    click.option("--clean", is_flag=True, help="Remove what killed runs left in --cache-dir."),
    _FORCE_OPTION,
)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that decide how a plan is executed to a command."""
    return add_options(RUN_OPTIONS, command)
