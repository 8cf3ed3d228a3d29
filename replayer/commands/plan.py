"""`replayer plan`: simulate a replay without I/O, and print its hits, bytes and footprint."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import msgspec

from replayer.arrangements.loading import describe_arrangement
from replayer.commands.shared.findings import render_findings, tabulate_findings
from replayer.commands.shared.series_options import json_option
from replayer.diagnosis.diagnose import diagnose
from replayer.diagnosis.evidence import Observation, PlanEvidence
from replayer.diagnosis.finding import Finding
from replayer.options.command_line import config_options, plan_options
from replayer.options.recorded import read_options
from replayer.options.resolving import overlay_recipe, resolve_plan, resolve_span
from replayer.planning import offered_load
from replayer.planning.moves import NVME
from replayer.planning.offered_load import Offered
from replayer.planning.pace import PlanWindow, Span
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.plan_table import PlannedMoves
from replayer.record.columns import TIERS
from replayer.record.options import DECODE_WORDS
from replayer.record.run_info import PairCounts, PlanInfo, TierCounts
from replayer.record.simulation import CellValue
from replayer.run.preflight import describe_disk_use, describe_time
from tracegen.console.commands import command, option_group
from tracegen.console.progress_bars import show_progress
from tracegen.errors import InputError, format_count
from tracegen.schema import Trace

_Simulated = tuple[PlanEvidence, Offered, list[Finding]]


@command(epilog="Example: replayer plan trace.parquet --model llama3.1-8b --cpu-mem-gb 4")
@click.argument("trace", type=click.Path(path_type=Path))
@plan_options()
@config_options
@option_group(
    "Another run, and output",
    "--like run1 --moves moves.parquet",
    click.option(
        "--like",
        type=click.Path(path_type=Path),
        metavar="RUN",
        help="Plan the trace as this run directory's run was planned.",
    ),
    click.option(
        "--moves",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Also write every move to this Parquet file.",
    ),
    json_option("the plan's counts, the load at the trace's times, and findings"),
)
def plan(trace: Path, as_json: bool, like: Path | None, moves: Path | None, **flags: Any) -> None:
    """Plan a replay: hits, bytes and the footprint per tier.

    Does no I/O. Ends with reasons why a tier brings little, if `replayer why` finds any.
    """
    opened = Trace(trace)
    time: Span | None = None
    if like is None:
        chosen = overlay_recipe(opened, flags)
        model, options = resolve_plan(opened, chosen)
        time = resolve_span(chosen)
    else:
        if given := [name for name, value in flags.items() if value is not None]:
            raise InputError("that run decides how to plan", f"leave out `{given[0]}`", setting="like")
        model, options = read_options(like, opened)
    options.usable()  # refuses bad capacities before any planning
    evidence, offered, findings = _simulate(opened, options, moves)
    if as_json:
        content = _to_json(evidence, offered, opened)
        click.echo(json.dumps(content | {"findings": tabulate_findings(findings)}, indent=2))
        return
    bytes_per_token = f"{options.bytes_per_token.per_token:,} bytes per token"
    rules = describe_arrangement(options.arrangement)
    order = f"{_describe_order(options)}; {DECODE_WORDS[options.selection.decode]}"
    title = f"{trace} for {model}, {bytes_per_token}; arrangement {rules}{order}"
    click.echo("\n".join([title, *_render(evidence, offered, time)]))
    if findings:
        click.echo("\n".join(["", "  why a tier brings little:", *render_findings(findings)]))


def _simulate(trace: Trace, options: PlanOptions, moves: Path | None) -> _Simulated:
    """Plan a trace under a progress bar, and find why tiers bring little.

    Args:
        trace: what is planned.
        options: of the plan.
        moves: the file to write its moves to; None: they are not written.
    """
    with show_progress("planning", "op", trace.ops) as advance:
        made = Plan(trace, options)
        observation = Observation(made.workload)
        with PlannedMoves(moves, made) if moves is not None else nullcontext() as table:
            listeners: list[Callable[..., object]] = [observation.add]
            if table is not None:
                listeners.append(table.add)
            summary = made.simulate(advance, listeners)
        evidence = PlanEvidence(made, summary, observation, advance)
        findings = diagnose(evidence)
    return evidence, observation.counts.load.summarise(options), findings


def _to_json(evidence: PlanEvidence, offered: Offered, trace: Trace) -> dict[str, Any]:
    """Return what `--json` prints of a plan."""
    content: dict[str, Any] = msgspec.to_builtins(evidence.summary.to_info())
    options = evidence.plan.options
    del content["plan_checkpoints"]
    arrangement = options.arrangement.to_record()
    return content | {
        "trace_fingerprint": trace.metadata.fingerprint,
        "arrangement": arrangement.name,
        "rules": arrangement.rules,
        "decode": options.selection.decode,
        "order": msgspec.to_builtins(options.order.to_info()),
        "hit_rate_tokens": evidence.cell["hit_rate_tokens"],
        "offered": msgspec.to_builtins(offered),
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


def _render(evidence: PlanEvidence, offered: Offered, time: Span | None) -> list[str]:
    """Render a plan as lines for a terminal.

    Args:
        evidence: the plan, simulated.
        offered: what the trace asks of the tiers at its own times.
        time: how long a run of it may take; None: not shown.
    """
    needed = []
    made, summary = evidence.plan, evidence.summary
    if made.options.usable()[NVME] != 0:
        window = PlanWindow.for_pace(made.options.demand.pace)
        needed.append(f"  {describe_disk_use(made, summary, window)}")
    if time is not None:
        needed.append(f"  {describe_time(made, time)}")
    totals = summary.to_info()
    return [
        *offered_load.format_usable(made.options),
        *_render_totals(totals, evidence.cell["hit_rate_tokens"]),
        "",
        *_render_tiers(totals),
        "",
        *offered_load.format_offered(offered),
        "",
        *needed,
        f"  plan fingerprint {totals.plan_fingerprint}",
    ]


def _render_totals(totals: PlanInfo, hit_rate: CellValue) -> list[str]:
    hits = totals.hits.gpu + totals.hits.cpu + totals.hits.nvme
    rate = "no reads"
    if totals.reads:
        of_tokens = "" if hit_rate is None else f"{hit_rate:.1%} of prompt tokens; "
        rate = f"{of_tokens}{hits / totals.reads:.1%} of reads"
    counts = ", ".join(
        [
            f"{format_count(hits, 'hit')} ({rate})",
            format_count(totals.misses, "miss", "misses"),
            f"{format_count(totals.recomputed_tokens, 'token')} recomputed",
        ]
    )
    others = f"{totals.promotions:,} promotions, {totals.drops:,} drops, {totals.bypasses:,} bypasses"
    copies = f"; copies {_render_pairs(totals.copies)}" if totals.copies else ""
    return [
        f"  {totals.ops:,} ops, {totals.reads or 0:,} reads: {counts}",
        f"  {others}; demotions {_render_pairs(totals.demotions)}{copies}",
    ]


def _render_pairs(counts: PairCounts) -> str:
    return ", ".join(f"{way} {count:,}" for way, count in msgspec.to_builtins(counts).items())


def _render_tiers(totals: PlanInfo) -> list[str]:
    names = ("hits", "stores", "read GiB", "written GiB", "peak GiB")
    lines = [f"  {'tier':6}{''.join(f'{name:>14}' for name in names)}"]
    counts = (totals.hits, totals.stores)
    sizes = (totals.read_bytes, totals.write_bytes, totals.peak_bytes or TierCounts(gpu=0, cpu=0, nvme=0))
    for tier in TIERS:
        cells = [f"{getattr(count, tier):>14,}" for count in counts]
        cells += [f"{(getattr(size, tier) or 0) / 2**30:>14,.3f}" for size in sizes]
        lines.append(f"  {tier:6}{''.join(cells)}")
    return lines
