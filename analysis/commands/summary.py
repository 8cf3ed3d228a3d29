"""`analysis summary`, `check` and `metrics`: metrics, doubts and verdicts of runs, and what metrics mean."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.commands.directories import PATH, find_runs, runs_argument
from analysis.commands.target_options import target_options
from tracegen.console.answers import AnswerOutput, answer_options
from tracegen.console.commands import command
from tracegen.console.progress_bars import show_progress

if TYPE_CHECKING:
    from analysis.log.targets import Targets

_OBJECTS = "an object for one run, an array for several"


@command(epilog="Example: analysis summary run1 run2")
@runs_argument
@answer_options(example="-o summary.html", content=_OBJECTS)
@target_options
def summary(runs: tuple[Path, ...], output: AnswerOutput, targets: "Targets") -> None:
    """Print metrics of runs in columns.

    Doubts and verdicts come last; --json prints every metric.
    """
    from analysis.summary.across_runs import add_shared_doubts
    from analysis.summary.answer import answer_runs
    from analysis.summary.summary import summarise

    summaries = add_shared_doubts([summarise(run, targets, show_progress) for run in find_runs(runs)])
    objects = [summary.to_json() for summary in summaries]
    output.show(answer_runs(summaries), content=objects[0] if len(objects) == 1 else objects)


@command(epilog="Example: analysis check run1 --trace trace.parquet")
@runs_argument
@click.option(
    "--trace", type=PATH, help="Plan this trace again and compare every row; {rank} in its name is the rank's number."
)
@answer_options(example="-o check.md", content=_OBJECTS)
@click.pass_context
def check(ctx: click.Context, runs: tuple[Path, ...], trace: Path | None, output: AnswerOutput) -> None:
    """Search runs for doubts.

    Reads every row of the log and computes the plan's fingerprint from them; exits 1 if a run is
    not valid. --trace also compares the rows with the plan of the trace that the runs replayed.
    """
    from analysis.summary.across_runs import add_shared_doubts
    from analysis.summary.answer import answer_runs
    from analysis.summary.summary import check_run

    summaries = add_shared_doubts([check_run(run, trace, show_progress) for run in find_runs(runs)])
    names = ("run", "valid", "predicted", "doubts")
    contents = [summary.to_json() for summary in summaries]
    objects = [{name: content[name] for name in names} for content in contents]
    output.show(answer_runs(summaries, has_metrics=False), content=objects[0] if len(objects) == 1 else objects)
    # Scripts go by the exit code: a run with doubts alone is valid.
    ctx.exit(0 if all(summary.is_valid for summary in summaries) else 1)


@command(epilog="Example: analysis metrics hit_rate")
@click.argument("names", nargs=-1)
@answer_options(example="-o metrics.html", content="an array of names with their definitions")
def metrics(names: tuple[str, ...], output: AnswerOutput) -> None:
    """Print names and formulas of metrics.

    Prints all metrics and tables, or the metrics named.
    """
    from analysis.summary import glossary

    families = glossary.find_families(names)
    output.show(glossary.answer_families(families, has_tables=not names), content=glossary.as_json(families))
