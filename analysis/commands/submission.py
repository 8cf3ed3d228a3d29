"""`analysis submission`: begin, package, validate and compare."""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from analysis.commands.terminal import echo, say, show_progress
from analysis.submission import begin as beginning
from analysis.submission import package as packaging
from analysis.submission import ranking
from analysis.submission import validate as validation
from analysis.submission.display import Display
from analysis.submission.package_tree import DIVISIONS, Package, Submission, find_packages
from analysis.submission.rules import RULES, Rules
from analysis.submission.validate import PackageVerdict
from tracegen.errors import InputError, format_count

_DISPLAY: Final = Display(say, show_progress)


@click.group()
def submission() -> None:
    """Make, check and rank packages for MLPerf Storage.

    docs/submitting.md explains the steps of a submission for the KV cache.
    """


@submission.command(
    epilog="Example: analysis submission begin work --org acme --system s1 --cache-dir /mnt/s1 --results r",
)
@click.argument("work", type=click.Path(path_type=Path))
@click.option(
    "--org",
    "organisation",
    required=True,
    help="Organisation; names a directory of the package.",
)
@click.option("--system", required=True, help="System under test; names directories.")
@click.option(
    "--division",
    type=click.Choice(DIVISIONS),
    default="closed",
    show_default=True,
    help="CLOSED fixes every condition.",
)
@click.option(
    "--scale",
    type=click.Choice(list(RULES)),
    default="full",
    show_default=True,
    help="smoke: a rehearsal on a small scale.",
)
@click.option(
    "--trials",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="Number of trials of each option.",
)
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path),
    required=True,
    help="Existing directory on the system under test.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    required=True,
    help="Root of the tree of packages, on another file system.",
)
def begin(work: Path, cache_dir: Path, results: Path, trials: int, **names: Any) -> None:
    """Check settings against the rules; describe the system."""
    asked = Submission(**names)
    empty = beginning.begin(work, asked, cache_dir, results, trials)
    echo(_phrase_time(asked.rules, trials))
    if empty:
        fields = ", ".join(name.removeprefix("system_under_test.") for name in empty)
        count = format_count(len(empty), "empty field")
        echo(f"{work}/system.yaml has {count}; fill them in now or later:")
        echo(_wrap(fields))


def _phrase_time(rules: Rules, trials: int) -> str:
    """Phrase the number of options and trials, and the time that they take."""
    seconds = sum(trials * option.duration_s for option in rules.options)
    seconds += rules.pause_s * (trials * len(rules.options) - 1)
    minutes = format_count(round(seconds / 60), "minute")
    options = format_count(len(rules.options), "option")
    return f"{options}, {format_count(trials, 'trial')} each: {minutes}, plus the time to drain"


def _wrap(text: str) -> str:
    indent = "  "
    return textwrap.fill(
        text,
        118,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
    )


@submission.command(epilog="Example: analysis submission package work --results results")
@click.argument("work", type=click.Path(path_type=Path))
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    required=True,
    help="Root of the tree of packages.",
)
def package(work: Path, results: Path) -> None:
    """Make the package of a submission whose replays are complete.

    Run it again after you have edited system.yaml: it replaces its own package, unless somebody
    changed that.
    """
    made = packaging.make_package(work, results)
    mib = sum(path.stat().st_size for path in made.list_files()) / 2**20
    echo(f"{made.top}: {mib:.1f} MiB, {made.manifest.relative_to(made.top)} lists every file")


@submission.command(epilog="Example: analysis submission validate results/closed/acme")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="OPTION=FILE",
    help="Trace of an option of OPEN that cannot be generated; {rank} stands for the rank's number.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: an array with an object for each system.",
)
@click.pass_context
def validate(ctx: click.Context, directory: Path, traces: tuple[str, ...], as_json: bool) -> None:
    """Check files, runs, traces, conditions and claims of a package.

    Needs only the package: computes every metric again from its logs, makes traces and plans
    again and compares every row with them. Exits 1 if it finds a problem.
    """
    given = dict(_parse_trace(text) for text in traces)
    packages = find_packages(directory)
    verdicts = [(package, validation.validate(package, given, _DISPLAY)) for package in packages]
    if as_json:
        echo(json.dumps([_verdict_to_json(*entry) for entry in verdicts], indent=2))
    else:
        for package, verdict in verdicts:
            echo("\n".join(_render_verdict(package, verdict)))
    ctx.exit(1 if any(verdict.problems for _, verdict in verdicts) else 0)


def _parse_trace(text: str) -> tuple[str, Path]:
    option, equals, file = text.partition("=")
    if not equals or not file:
        raise InputError(
            "not OPTION=FILE",
            "write for example option_1=trace.parquet",
            subject=text,
            setting="traces",
        )
    return option, Path(file)


def _verdict_to_json(package: Package, verdict: PackageVerdict) -> dict[str, Any]:
    is_valid = not verdict.problems
    return {
        "system": package.submission.system,
        "valid": is_valid,
        "submittable": is_valid and not validation.list_obstacles(package),
        "problems": verdict.problems,
        "notes": _list_notes(package, verdict) if is_valid else [],
    }


def _render_verdict(package: Package, verdict: PackageVerdict) -> list[str]:
    name = f"{package.top}, system {package.submission.system}"
    if verdict.problems:
        count = format_count(len(verdict.problems), "problem")
        return [*_end_lines(verdict.problems), f"NOT VALID: {name}: {count}."]
    notes = [f"Note: {line}" for line in _end_lines(_list_notes(package, verdict))]
    options = format_count(len(verdict.trials), "option")
    trials = format_count(sum(map(len, verdict.trials.values())), "trial")
    claim = "every file, row and metric is as claimed"
    return [*notes, f"VALID: {name}: {options}, {trials}; {claim}."]


def _end_lines(texts: Sequence[str]) -> list[str]:
    return [text if text.endswith(".") else f"{text}." for text in texts]


def _list_notes(package: Package, verdict: PackageVerdict) -> list[str]:
    """List the limits of a valid package: rows without a trace, obstacles to submitting it."""
    untied = [
        f"nothing ties the rows of {option} to its trace ({reason}):"
        f" a reviewer who has the trace passes --trace {option}=FILE"
        for option, reason in verdict.untied.items()
    ]
    return [*untied, *validation.list_obstacles(package)]


@submission.command(
    epilog="Example: analysis submission compare results/closed/acme others/closed/duff",
)
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object.")
def compare(directories: tuple[Path, ...], as_json: bool) -> None:
    """Rank packages, option by option.

    Ranks them by the time that they took for equal work, from their logs. Packages that are not
    valid are named but not ranked.
    """
    packages = [package for directory in directories for package in find_packages(directory)]
    entries, rankings = ranking.rank_packages(packages, _DISPLAY)
    if as_json:
        echo(json.dumps(ranking.rankings_to_json(entries, rankings), indent=2))
    else:
        echo(ranking.render_rankings(entries, rankings))
