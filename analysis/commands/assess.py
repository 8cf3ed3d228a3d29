"""`analysis assess` and `engine`: runs judged by kv-cache.py's criteria, a server by a plan."""

from pathlib import Path
from typing import Final

import click

from analysis.commands.directories import PATH, find_runs, runs_argument
from tracegen.console.answers import AnswerOutput, answer_options, json_option, show_text
from tracegen.console.commands import Word, command
from tracegen.console.progress_bars import show_progress

# Settings of `replayer plan` that remedies name
_FLAGS: Final = {
    "arrangement": "--engine",
    "cpu_mem_gb": "--cpu-mem-gb",
    "gpu_mem_gb": "--gpu-mem-gb",
    "headroom": "--set headroom",
    "order": "--order",
    "storage_capacity_gb": "--storage-capacity-gb",
}


@command(epilog="Example: analysis assess run1 --threshold nvme_read_p95_ms=50")
@runs_argument
@click.option(
    "--profile",
    type=Word(["latency", "throughput"]),  # those of criteria.py, which takes time to import
    default="latency",
    show_default=True,
    help="Set of criteria.",
)
@click.option(
    "--threshold", "thresholds", multiple=True, metavar="NAME=VALUE", help="Replace the threshold of a criterion."
)
@json_option("an object for one run, an array for several")
def assess(runs: tuple[Path, ...], profile: str, thresholds: tuple[str, ...], as_json: bool) -> None:
    """Judge runs by kv-cache.py's criteria.

    A diagnostic, not part of a submission.
    """
    from analysis.assessment import criteria
    from analysis.summary.summary import summarise
    from views.exports import render_json
    from views.text import render_text

    chosen = criteria.criteria_of(profile, thresholds)
    summaries = [summarise(run, progress=show_progress) for run in find_runs(runs)]
    answers = [criteria.assess(summary, profile, chosen) for summary in summaries]
    if as_json:
        objects = list(map(render_json, answers))
        show_text(objects[0] if len(objects) == 1 else f"[{', '.join(objects)}]")
    else:
        show_text("\n".join(map(render_text, answers)))


@command(epilog="Example: analysis engine plan.json before.prom during.prom after.prom")
@click.argument("plan", type=PATH)
@click.argument("metrics", nargs=-1, required=True, type=PATH)
@answer_options(example="-o engine.html")
def engine(plan: Path, metrics: tuple[Path, ...], output: AnswerOutput) -> None:
    """Compare what a server hit with a plan, tier by tier.

    PLAN is what `replayer plan ... -o plan.json` wrote. METRICS are scrapes of /metrics of vLLM or
    SGLang, as Prometheus text or JSON, in their order. One counts since the server's start; of
    several, counters count from the first to the last, and gauges count by their most. Names what
    makes the difference: wrong capacity, held blocks, lost ids, dropped stores.
    """
    from analysis.assessment.server_hits import answer_engine, read_plan

    output.show(answer_engine(read_plan(plan), metrics, _FLAGS))
