"""The command line of replayer."""

import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from replayer import model as models
from replayer.engine import Window
from replayer.plan import Plan, PlanOptions, simulate
from replayer.run import Settings, replay
from replayer.schema import TIERS
from tracegen.schema import InputError, Trace


class Commands(click.Group):
    """A command group that ends with exit code 130 on Ctrl-C, after what was open has been closed."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nInterrupted.", err=True)
            ctx.exit(130)


UNLIMITED = Decimal("inf")


class Number(click.ParamType[Decimal]):
    """An exact decimal number: capacities never pass through binary floats."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Parse the number."""
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            self.fail(f"{value!r} is not a number.", param, ctx)
        if not number.is_finite() or number.adjusted() > 15:
            self.fail(f"{value!r} is not a number below 1e16.", param, ctx)
        return number


class Capacity(Number):
    """GiB, or the word unlimited."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Parse the capacity; unlimited is infinity."""
        return UNLIMITED if value in ("unlimited", UNLIMITED) else super().convert(value, param, ctx)


PLAN_FLAGS = (
    click.argument("trace", type=click.Path(path_type=Path)),
    click.option(
        "--model",
        metavar="NAME|FILE",
        help=f"A Hugging Face config.json, or one of {', '.join(models.MODELS)}.  [default: the trace's]",
    ),
    click.option(
        "--kv-dtype",
        type=click.Choice(list(models.DTYPE_BYTES)),
        default="fp16",
        show_default=True,
        help="Of keys and values.",
    ),
    click.option("--tensor-parallel", type=int, default=1, show_default=True, help="Ranks that share the KV heads."),
    click.option(
        "--gpu-mem-gb",
        type=Number(),
        metavar="GIB",
        help="GPU memory for KV, 0: no such tier.  [default: the trace's]",
    ),
    click.option(
        "--cpu-mem-gb",
        "--cpu-memory-gb",
        type=Number(),
        metavar="GIB",
        help="Host memory for KV, 0: no such tier.  [default: the trace's]",
    ),
    click.option(
        "--storage-capacity-gb",
        type=Capacity(),
        metavar="GIB|unlimited",
        help="Room on NVMe, 0: no such tier.  [default: the trace's, else unlimited]",
    ),
    click.option("--headroom", type=Number(), default="0.8", show_default=True, help="Usable share of gpu and cpu."),
    click.option("--promote", is_flag=True, help="Move an object that is read to the fastest tier that can hold it."),
    click.option(
        "--lookup",
        type=click.Choice(["independent", "contiguous"]),
        help="Whether a miss ends a request's prefix.  [default: the trace's]",
    ),
    click.option(
        "--decode",
        type=click.Choice(["reread", "once", "none"]),
        default="reread",
        show_default=True,
        help="Decode reads: all, each request's first, none.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that decide a plan."""
    for flag in reversed(PLAN_FLAGS):
        command = flag(command)
    return command


def resolve(trace: Trace, flags: dict[str, Any]) -> tuple[str, PlanOptions]:
    """The model's name and the plan's options: flags first, then the recipe that the trace carries."""
    recipe = trace.metadata.recipe.get("replay") or {}
    sizes = ("gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb")
    kinds: dict[str, Any] = {"model": str | None, **dict.fromkeys(sizes, int | float | None)}
    for key, kind in kinds.items():
        if not isinstance(recipe, dict) or not isinstance(recipe.get(key), kind):
            flag = f"--{key.replace('_', '-')}"
            raise InputError(
                f"{trace.path}: replay.{key} of its recipe is not what {flag} takes; write the trace anew."
            )
    name = flags["model"] or recipe.get("model")
    if not name:
        raise InputError(f"{trace.path} names no model; pass --model, one of {', '.join(models.MODELS)}.")
    model = models.find(name)

    def gib(flag: str) -> Decimal | None:
        given = flags[flag] if flags[flag] is not None else recipe.get(flag)
        return None if given is None or given == UNLIMITED else Decimal(str(given))

    return model.name, PlanOptions(
        bytes_per_token=model.sizes(flags["kv_dtype"], flags["tensor_parallel"]),
        capacity_gib=(gib("gpu_mem_gb") or Decimal(0), gib("cpu_mem_gb") or Decimal(0), gib("storage_capacity_gb")),
        headroom=flags["headroom"],
        promote=flags["promote"],
        lookup=flags["lookup"],
        decode=flags["decode"],
    )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kv-tier-bench")
def main() -> None:
    """Replay traces on a waterfall of KV-cache tiers."""


@main.command(
    epilog="Example: replayer plan trace.parquet --model llama3.1-8b --cpu-mem-gb 4 --storage-capacity-gb 100"
)
@plan_options
def plan(trace: Path, as_json: bool, **flags: Any) -> None:
    """Simulate a replay without any I/O: hits, bytes and the peak footprint per tier."""
    opened = Trace(trace)
    model, options = resolve(opened, flags)
    options.usable()
    opened.check()
    with tqdm(desc="planning", total=opened.ops, unit="op", unit_scale=True, disable=None, leave=False) as bar:
        planned = simulate(Plan(opened, options), bar.update)
    del planned["plan_checkpoints"]
    planned["trace_fingerprint"] = opened.metadata.fingerprint
    if as_json:
        click.echo(json.dumps(planned, indent=2))
    else:
        click.echo(_render(planned, f"{trace} for {model}, {options.bytes_per_token.per_token:,} bytes per token"))


def _render(planned: dict[str, Any], title: str) -> str:
    hits = sum(planned["hits"].values())
    rate = f"{hits / planned['reads']:.1%} of reads" if planned["reads"] else "no reads"
    lines = [
        title,
        f"  {planned['ops']:,} ops, {planned['reads']:,} reads: {hits:,} hits ({rate}), {planned['misses']:,} misses,"
        f" {planned['recomputed_tokens']:,} tokens recomputed",
        "  "
        + ", ".join(f"{planned[name]:,} {name}" for name in ("promotions", "drops", "bypasses"))
        + "; demotions "
        + ", ".join(f"{way} {count:,}" for way, count in planned["demotions"].items()),
        "",
        f"  {'tier':6}{'hits':>14}{'stores':>14}{'read GiB':>14}{'written GiB':>14}{'peak GiB':>14}",
    ]
    for tier in TIERS:
        counts = f"{planned['hits'][tier]:>14,}{planned['stores'][tier]:>14,}"
        sizes = (planned[name][tier] / 2**30 for name in ("read_bytes", "write_bytes", "peak_bytes"))
        lines.append(f"  {tier:6}{counts}" + "".join(f"{size:>14,.3f}" for size in sizes))
    return "\n".join([*lines, "", f"  plan fingerprint {planned['plan_fingerprint']}"])


@main.command(epilog="Example: replayer run trace.parquet --cpu-mem-gb 4 --cache-dir /mnt/nvme -o run1")
@plan_options
@click.option("--cache-dir", type=click.Path(path_type=Path), help="Where the nvme tier keeps its files.")
@click.option("--workers", type=int, help="Moves in flight.  [default: the trace's users, at most 500]")
@click.option("--pace", type=click.Choice(["asap"]), default="asap", show_default=True, help="When requests may start.")
@click.option(
    "--verify",
    type=click.Choice(["off", "stamps", "full"]),
    default="stamps",
    show_default=True,
    help="Of what is read: nothing, each sector's stamp, each byte.",
)
@click.option(
    "--layout",
    type=click.Choice(["files", "null"]),
    default="files",
    show_default=True,
    help="Of the nvme tier: a file per object; nothing, to time the replayer.",
)
@click.option("--window", type=int, default=4096, show_default=True, help="Ops planned ahead of the lowest unfinished.")
@click.option("--window-gb", type=Number(), default="64", show_default=True, metavar="GIB", help="Bytes planned ahead.")
@click.option("--keep-cache", is_flag=True, help="Leave the run's cache files.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The run directory to make.")
def run(trace: Path, as_json: bool, output: Path, **flags: Any) -> None:
    """Execute a trace on real tiers and log every move."""
    opened = Trace(trace)
    model, options = resolve(opened, flags)
    for flag in ("workers", "window"):
        if flags[flag] is not None and flags[flag] < 1:
            raise InputError(f"--{flag} {flags[flag]} must be at least 1.")
    if not flags["window_gb"] > 0:
        raise InputError(f"--window-gb {flags['window_gb']} must be more than 0.")
    settings = Settings(
        workers=flags["workers"] or min(int(opened.metadata.counts.get("users") or 1), 500),
        cache_dir=flags["cache_dir"],
        layout=flags["layout"],
        pace=flags["pace"],
        verify=flags["verify"],
        window=Window(flags["window"], int(flags["window_gb"] * 2**30)),
        keep_cache=flags["keep_cache"],
    )
    info = replay(opened, model, options, settings, output)
    if as_json:
        click.echo(json.dumps(info, indent=2))
    else:
        click.echo(f"{output}: {info['status']}, {info['executed_ops']:,} ops; `analysis summary {output}` judges it")
    if info["status"] != "complete":
        click.secho(f"Error: {output}: {info['reason']}.", err=True, bold=True)
        raise click.exceptions.Exit(1)
