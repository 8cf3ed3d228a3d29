"""`analysis assess`: runs judged by kv-cache.py's criteria."""

from pathlib import Path

import click

from analysis.commands.directories import PATH, find_runs, runs_argument
from tracegen.console.answers import json_option, show_text
from tracegen.console.commands import Word, command
from tracegen.console.progress_bars import show_progress


@command(
    epilog="Example: analysis assess run1 --threshold nvme_read_p95_ms=50 --reference vllm.json",
)
@runs_argument
@click.option(
    "--profile",
    type=Word(["latency", "throughput"]),  # those of criteria.py, which takes time to import
    default="latency",
    show_default=True,
    help="Set of criteria.",
)
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="NAME=VALUE",
    help="Replace the threshold of a criterion.",
)
@click.option(
    "--reference",
    "references",
    multiple=True,
    type=PATH,
    help="Show a result of a vLLM or LMCache benchmark next to each run.",
)
@json_option("an object for one run, an array for several")
def assess(
    runs: tuple[Path, ...],
    profile: str,
    thresholds: tuple[str, ...],
    references: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Judge runs by kv-cache.py's criteria.

    A diagnostic, not part of a submission.
    """
    from analysis.assessment import criteria, other_tools
    from analysis.summary.summary import summarise
    from views.exports import render_json
    from views.text import render_text

    chosen = criteria.criteria_of(profile, thresholds)
    others = [result for path in references for result in other_tools.read_references(path)]
    summaries = [summarise(run, progress=show_progress) for run in find_runs(runs)]
    answers = [criteria.assess(summary, profile, chosen, others) for summary in summaries]
    if as_json:
        objects = list(map(render_json, answers))
        show_text(objects[0] if len(objects) == 1 else f"[{', '.join(objects)}]")
    else:
        show_text("\n".join(map(render_text, answers)))
