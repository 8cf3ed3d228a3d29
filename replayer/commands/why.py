"""`replayer why`: name the reasons why a tier brings little."""

import json
from pathlib import Path
from typing import Any

import click

from replayer.arrangements.loading import describe_arrangement
from replayer.commands.shared.findings import render_findings, tabulate_findings
from replayer.commands.shared.series_options import json_option
from replayer.diagnosis.diagnose import diagnose
from replayer.diagnosis.evidence import Observation, PlanEvidence
from replayer.options.command_line import config_options, plan_options
from replayer.options.resolving import overlay_recipe, resolve_plan
from replayer.planning.plan import Plan
from replayer.record.columns import TIERS
from replayer.record.options import DECODE_WORDS
from tracegen.console.commands import command, option_group
from tracegen.console.progress_bars import show_progress
from tracegen.errors import format_count
from tracegen.schema import Trace


@command(epilog="Example: replayer why trace.parquet --model llama3.1-8b --cpu-mem-gb 4")
@click.argument("trace", type=click.Path(path_type=Path))
@plan_options()
@config_options
@option_group("Output", "--json", json_option("hits by tier, and the findings with their counts"))
def why(trace: Path, as_json: bool, **flags: Any) -> None:
    """Name the reasons why a tier brings little.

    Each has its counts and a remedy. Plans the trace without any I/O, and again without each rule
    that may cost hits.
    """
    opened = Trace(trace)
    model, options = resolve_plan(opened, overlay_recipe(opened, flags))
    plan = Plan(opened, options)
    observation = Observation(plan.workload)
    with show_progress("planning", "op", opened.ops) as advance:
        summary = plan.simulate(advance, [observation.add])
        evidence = PlanEvidence(plan, summary, observation, advance)
        findings = diagnose(evidence)
    hits = {tier: evidence.count(f"hits_{tier}") for tier in TIERS}
    if as_json:
        shown = {
            "trace_fingerprint": opened.metadata.fingerprint,
            "plan_fingerprint": summary.plan_fingerprint,
            "reads": evidence.reads,
            "hits": hits,
            "hit_rate_tokens": evidence.cell["hit_rate_tokens"],
            "findings": tabulate_findings(findings),
        }
        click.echo(json.dumps(shown, indent=2))
        return
    each = ", ".join(f"{hits[tier]:,} in {tier}" for tier in evidence.tiers())
    rate = evidence.cell["hit_rate_tokens"]
    decode = DECODE_WORDS[options.selection.decode]
    tokens = [] if rate is None else [f"  {rate:.1%} of prompt tokens hit, {decode}"]
    lines = [
        f"{trace} for {model}; arrangement {describe_arrangement(options.arrangement)}",
        f"  {evidence.reads:,} reads: {format_count(sum(hits.values()), 'hit')} ({each})",
        *tokens,
        *render_findings(findings),
    ]
    if not findings:
        lines.append("  no check finds a reason why a tier brings little")
    click.echo("\n".join(lines))
