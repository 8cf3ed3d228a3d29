"""The command line of analysis."""

import json
import sys
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from analysis.assessment import criteria as assessment
from analysis.assessment import other_tools as reference
from analysis.commands.directories import runs_in
from analysis.commands.submission import submission
from analysis.commands.target_options import target_options
from analysis.commands.terminal import echo
from analysis.comparison.compare import compare as compared
from analysis.comparison.text import as_json as compared_json
from analysis.comparison.text import render as compared_text
from analysis.log.log import Targets
from analysis.report import export
from analysis.report.data import gather
from analysis.sql.queries import FORMATS, execute
from analysis.summary import glossary
from analysis.summary.across_runs import together
from analysis.summary.summary import checked, summarise
from analysis.summary.text import doubts, render, verdict
from tracegen.console.command_line import Commands
from tracegen.errors import InputError


class Judging(Commands):
    """The commands; an error of the system is a sentence."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click's to handle: the reader has gone
        except OSError as error:  # of a path or an output that no check of ours met
            raise InputError(f"{error.filename or 'the output'}: {error.strerror or error}; name another.") from None


@click.group(cls=Judging, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kv-tier-bench")
def main() -> None:
    """Judge replays from their logs."""


@main.command(epilog="Example: analysis summary run1 run2")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object for one run, an array for several.")
@target_options
def summary(runs: tuple[Path, ...], as_json: bool, targets: Targets) -> None:
    """Print metrics of runs side by side.

    Doubts and advice first, verdicts last; --json has every metric.
    """
    summaries = together([summarise(run, targets=targets) for run in runs_in(runs)])
    if as_json:
        flat = [one.to_json() for one in summaries]
        echo(json.dumps(flat[0] if len(flat) == 1 else flat, indent=2))
    else:
        echo(render(summaries))


@main.command(epilog="Example: analysis check run1 --trace trace.parquet")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="Plan this trace anew and compare every row with it; {rank} in its name is the number of the rank.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object for one run, an array for several.")
@click.pass_context
def check(ctx: click.Context, runs: tuple[Path, ...], trace: Path | None, as_json: bool) -> None:
    """Look for what speaks against runs.

    Every row of the log is looked at, and the plan's fingerprint computed from them; exit 1 where a run is not valid.
    With --trace rows are compared with the plan of that trace, which runs of no other can be.
    """
    summaries = together([checked(run, trace) for run in runs_in(runs)])
    if as_json:
        flat = [one.to_json() for one in summaries]
        told = [{name: found[name] for name in ("run", "valid", "doubts")} for found in flat]
        echo(json.dumps(told[0] if len(told) == 1 else told, indent=2))
    else:
        echo("\n".join([*doubts(summaries), *verdict(summaries)]))
    ctx.exit(0 if all(found.is_valid for found in summaries) else 1)


@main.command(epilog="Example: analysis metrics hit_rate")
@click.argument("names", nargs=-1)
@click.option("--markdown", "as_markdown", is_flag=True, help="As docs/metrics.md shows them.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an array of names with their definition.")
def metrics(names: tuple[str, ...], as_markdown: bool, as_json: bool) -> None:
    """Print names and formulas of metrics.

    All, or those of the metrics named.
    """
    found = glossary.chosen(names)
    if as_json:
        echo(json.dumps([term.described() for term in found], indent=2, ensure_ascii=False))
    else:
        echo(glossary.markdown(found) if as_markdown else glossary.text(found))


@main.command(epilog="Example: analysis assess run1 --threshold nvme_read_p95_ms=50 --reference vllm.json")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--profile", type=click.Choice(list(assessment.PROFILES)), default="latency", show_default=True)
@click.option("--threshold", "thresholds", multiple=True, metavar="NAME=VALUE", help="Judge a criterion by VALUE.")
@click.option(
    "--reference",
    "references",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Put a result of a vLLM or LMCache benchmark beside each run.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object for one run, an array for several.")
def assess(
    runs: tuple[Path, ...], profile: str, thresholds: tuple[str, ...], references: tuple[Path, ...], as_json: bool
) -> None:
    """Judge runs by kv-cache.py's criteria.

    A diagnostic, not part of a submission.
    """
    criteria = assessment.criteria_of(profile, thresholds)
    others = [result for path in references for result in reference.read_references(path)]
    found = [assessment.assess(summarise(run), profile, criteria, others) for run in runs_in(runs)]
    if as_json:
        flat = [one.to_json() for one in found]
        echo(json.dumps(flat[0] if len(flat) == 1 else flat, indent=2))
    else:
        echo(assessment.render(found))


_AGAINST = "\x1f--against"  # no run is called that


class Sets(click.Command):
    """A command whose runs come in sets: each --against begins another, which click's options cannot say."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put a mark among the runs where a set begins."""
        pairs = (("--against", *arg.split("=", 1)[1:]) if arg.startswith("--against=") else (arg,) for arg in args)
        return super().parse_args(ctx, [_AGAINST if arg == "--against" else arg for pair in pairs for arg in pair])


@main.command(cls=Sets, epilog="Example: analysis compare fast-1 fast-2 fast-3 --against slow-1 slow-2 slow-3")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--against", multiple=True, metavar="RUNS…", expose_value=False, help="Begin another set of runs.")
@click.option("--vary", multiple=True, metavar="NAME", help="A condition that differs between sets on purpose.")
@click.option("--by", type=click.Choice(["workload"]), help="Sets are unlike workloads: side by side, without ratios.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Compare this; else those that matter most.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object.")
def compare(
    runs: tuple[Path, ...], vary: tuple[str, ...], by: str | None, metrics: tuple[str, ...], as_json: bool
) -> None:
    """Compare trials or systems.

    Statistics of one set; with --against ratios and verdicts, of runs matched by trace, plan and conditions.
    """
    sets: list[list[Path]] = [[]]
    for run in runs:
        if str(run) == _AGAINST:
            sets.append([])
        else:
            sets[-1] += runs_in([run])
    if not all(sets):
        raise InputError("--against needs runs before it and after it: compare a1 a2 --against b1 b2.")
    with tqdm(total=sum(map(len, sets)), desc="reading logs", unit="run", delay=1, disable=None, leave=False) as bar:
        found = compared(sets, vary, metrics, workloads=by is not None, advance=bar.update)
    echo(json.dumps(compared_json(found), indent=2, allow_nan=False) if as_json else compared_text(found))


@main.command(epilog="Example: analysis report run1 run2 -o report.html")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write this file, in the format of its suffix.")
@click.option("--format", "form", type=click.Choice(list(export.FORMATS)), help="Write this format.")
@click.option("--baseline", type=click.Path(path_type=Path), metavar="RUN", help="Rank all against this one of them.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@target_options
def report(
    runs: tuple[Path, ...],
    output: Path | None,
    form: str | None,
    baseline: Path | None,
    force: bool,
    targets: Targets,
) -> None:
    """Write a page of charts, or other formats.

    The page is one file that needs neither network nor script.

    Runs of one configuration on one machine are trials; others stand side by side. md, csv and json go to the terminal
    without -o.
    """
    found = runs_in(runs)
    form = export.choose_format(form, output, found, force=force)
    data = gather(found, targets, baseline)
    if form == "html":
        with tqdm(desc="drawing", unit="chart", delay=1, disable=None, leave=False) as bar:
            content = export.as_html(data, bar.update)
    else:
        content = export.FORMATS[form](data)
    if output is None:
        echo(content.decode(), nl=False)
    else:
        export.write(output, content)
        echo(f"{output}: {len(content):,} bytes", err=True)


@main.command(epilog='Example: analysis sql run1 "select move, count(*) from moves group by move"')
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("statement", nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)
@click.option("--rows", type=click.IntRange(min=1), help="Print at most so many rows: 50 in a table, else all.")
def sql(run: Path, statement: tuple[str, ...], form: str, rows: int | None) -> None:
    """Query a run's log in SQL.

    In Polars' dialect; tables are moves and, where it was sampled, device. It reads nothing else, and changes nothing.
    """
    execute(run, " ".join(statement), form, rows, sys.stdout.buffer)


main.add_command(submission)
