"""`analysis summary` and `analysis check`: metrics, doubts and verdicts of runs."""

from pathlib import Path

import click

from analysis.commands.directories import find_runs
from analysis.commands.target_options import target_options
from analysis.commands.terminal import choose_output, echo_json, output_options, show_progress
from analysis.log.log import Targets
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.answer import answer_runs
from analysis.summary.summary import check_run, summarise
from tracegen.console.commands import command


@command(epilog="Example: analysis summary run1 run2")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: an object for one run, an array for several.",
)
@output_options
@target_options
def summary(runs: tuple[Path, ...], as_json: bool, output: Path | None, force: bool, targets: Targets) -> None:
    """Print metrics of runs in columns.

    Doubts and verdicts come last; --json prints every metric.
    """
    paths = find_runs(runs)
    deliver = choose_output(output, paths, force=force)
    summaries = add_shared_doubts([summarise(run, targets, show_progress) for run in paths])
    if as_json:
        echo_json([summary.to_json() for summary in summaries])
    else:
        deliver(answer_runs(summaries))


@command(epilog="Example: analysis check run1 --trace trace.parquet")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="Plan this trace again and compare every row; {rank} in its name is the rank's number.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: an object for one run, an array for several.",
)
@output_options
@click.pass_context
def check(
    ctx: click.Context,
    runs: tuple[Path, ...],
    trace: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Search runs for doubts.

    Reads every row of the log and computes the plan's fingerprint from them; exits 1 if a run is
    not valid. --trace also compares the rows with the plan of the trace that the runs replayed.
    """
    paths = find_runs(runs)
    deliver = choose_output(output, paths, force=force)
    summaries = add_shared_doubts([check_run(run, trace, show_progress) for run in paths])
    if as_json:
        contents = [summary.to_json() for summary in summaries]
        names = ("run", "valid", "predicted", "doubts")
        echo_json([{name: content[name] for name in names} for content in contents])
    else:
        deliver(answer_runs(summaries, has_metrics=False))
    ctx.exit(0 if all(summary.is_valid for summary in summaries) else 1)
