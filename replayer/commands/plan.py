"""`replayer plan`: simulate a replay without I/O, and print its hits, bytes and footprint."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from replayer.commands.resolving import resolve_options, resolve_time
from replayer.flags.plan_flags import PlanFlags, plan_options
from replayer.planning import offered_load
from replayer.planning.like_run import options_like
from replayer.planning.pace import Span, Window
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.plan_table import PlannedMoves
from replayer.record.columns import TIERS
from replayer.run.opening import NVME
from replayer.run.preflight import needs, takes
from tracegen.errors import InputError, format_count
from tracegen.schema import Trace


@click.command(epilog="Example: replayer plan trace.parquet --model llama3.1-8b --cpu-mem-gb 4")
@plan_options
@click.option(
    "--like",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Plan the trace as this run directory's run was planned.",
)
@click.option(
    "--moves",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write every move to this Parquet file.",
)
def plan(trace: Path, as_json: bool, like: Path | None, moves: Path | None, **flags: Any) -> None:
    """Simulate a replay without any I/O: hits, bytes and the peak footprint per tier."""
    opened = Trace(trace)
    if like is None:
        model, options = resolve_options(opened, PlanFlags(**flags))
    else:
        _refuse_plan_flags(list(flags))
        model, options = options_like(like, opened)
    options.usable()  # refuses bad capacities before any planning
    made, summary = _simulate(opened, options, moves)
    time = None if like is not None else Span(*resolve_time(opened, None))
    if as_json:
        click.echo(json.dumps(summary, indent=2))
        return
    bytes_per_token = f"{options.bytes_per_token.per_token:,} bytes per token"
    title = f"{trace} for {model}, {bytes_per_token}{_describe_order(options)}"
    click.echo("\n".join([title, *_render(made, summary, time)]))


def _refuse_plan_flags(names: list[str]) -> None:
    """Refuse flags that decide a plan next to --like, which decides all of it."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise InputError("that run decides how to plan", f"leave out `{name}`", setting="like")


def _simulate(trace: Trace, options: PlanOptions, moves: Path | None) -> tuple[Plan, dict[str, Any]]:
    """Plan a trace under a progress bar; return the plan and what `--json` prints of it.

    Args:
        trace: what is planned.
        options: of the plan.
        moves: the file to write its moves to; None: they are not written.
    """
    bar = tqdm(desc="planning", total=trace.ops, unit="op", unit_scale=True, disable=None, leave=False)
    with bar:
        made = Plan(trace, options)
        load = offered_load.OfferedLoad(made.workload)
        with PlannedMoves(moves, made) if moves is not None else nullcontext() as table:
            listeners: list[Callable[..., object]] = [load.add]
            if table is not None:
                listeners.append(table.add)
            summary = made.simulate(bar.update, listeners)
    del summary["plan_checkpoints"]
    return made, summary | {
        "trace_fingerprint": trace.metadata.fingerprint,
        "order": options.order.described(),
        "offered": load.summary(options),
    }


def _describe_order(options: PlanOptions) -> str:
    """Describe the order of a plan, with the load it depends on."""
    order = options.order
    if order.kind == "trace":
        return "; in trace order"
    if order.kind != "reference":
        return f"; in the order of {order.name}"
    workers = format_count(options.demand.workers, "worker")
    return f"; by reference {order.name}: pace {options.demand.pace.kind}, {workers}"


def _render(made: Plan, summary: dict[str, Any], time: Span | None) -> list[str]:
    """Render a plan as lines for a terminal.

    Args:
        made: the plan, simulated.
        summary: what `_simulate` returned.
        time: how long a run of it may take; None: not shown.
    """
    needed = []
    if made.options.usable()[NVME] != 0:
        needed.append(f"  {needs(made, summary, Window.of(made.options.demand.pace))}")
    if time is not None:
        needed.append(f"  {takes(made, time)}")
    return [
        *offered_load.rooms(made.options),
        *_render_totals(summary),
        "",
        *_render_tiers(summary),
        "",
        *offered_load.lines(summary["offered"]),
        "",
        *needed,
        f"  plan fingerprint {summary['plan_fingerprint']}",
    ]


def _render_totals(summary: dict[str, Any]) -> list[str]:
    hits = sum(summary["hits"].values())
    rate = "no reads"
    if summary["reads"]:
        of_reads = f"{hits / summary['reads']:.1%} of reads"
        of_ops = f"{hits / summary['ops']:.1%} of ops, with first writes as misses"
        rate = f"{of_reads}; {of_ops}"
    counts = ", ".join(
        [
            f"{format_count(hits, 'hit')} ({rate})",
            format_count(summary["misses"], "miss", "misses"),
            f"{format_count(summary['recomputed_tokens'], 'token')} recomputed",
        ]
    )
    others = ", ".join(f"{summary[name]:,} {name}" for name in ("promotions", "drops", "bypasses"))
    demotions = ", ".join(f"{way} {count:,}" for way, count in summary["demotions"].items())
    return [
        f"  {summary['ops']:,} ops, {summary['reads']:,} reads: {counts}",
        f"  {others}; demotions {demotions}",
    ]


def _render_tiers(summary: dict[str, Any]) -> list[str]:
    lines = [f"  {'tier':6}{'hits':>14}{'stores':>14}{'read GiB':>14}{'written GiB':>14}{'peak GiB':>14}"]
    for tier in TIERS:
        counts = "".join(f"{summary[name][tier]:>14,}" for name in ("hits", "stores"))
        sizes = "".join(
            f"{summary[name][tier] / 2**30:>14,.3f}" for name in ("read_bytes", "write_bytes", "peak_bytes")
        )
        lines.append(f"  {tier:6}{counts}{sizes}")
    return lines
