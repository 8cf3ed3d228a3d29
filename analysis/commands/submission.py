"""`analysis submission`: begin, package, validate, compare."""

import json
import textwrap
from pathlib import Path
from typing import Any

import click

from analysis.commands.terminal import echo
from analysis.submission import begin as beginning
from analysis.submission import package as packaging
from analysis.submission import ranking
from analysis.submission import validate as validation
from analysis.submission.package_tree import DIVISIONS, About, Package, packages
from analysis.submission.rules import RULES
from tracegen.errors import InputError, format_count


@click.group()
def submission() -> None:
    """Make packages by MLPerf Storage's rules for the KV cache, check and rank them (docs/submitting.md)."""


@submission.command(
    epilog="Example: analysis submission begin work --org acme --system nvme-1 --cache-dir /mnt/nvme --results results"
)
@click.argument("work", type=click.Path(path_type=Path))
@click.option("--org", "organisation", required=True, help="Whose; names a directory.")
@click.option("--system", required=True, help="What is measured; names directories.")
@click.option("--division", type=click.Choice(DIVISIONS), default="closed", show_default=True)
@click.option("--scale", type=click.Choice(list(RULES)), default="full", show_default=True, help="smoke: in small.")
@click.option("--trials", type=click.IntRange(1, 1000), default=3, show_default=True, help="Of each option.")
@click.option("--cache-dir", type=click.Path(path_type=Path), required=True, help="On the system under test.")
@click.option("--results", type=click.Path(path_type=Path), required=True, help="On another file system.")
def begin(work: Path, cache_dir: Path, results: Path, trials: int, **names: Any) -> None:
    """Check what was asked for against the rules and write what is known of the system, before anything runs."""
    about = About(**names)
    left = beginning.begin(work, about, cache_dir, results, trials)
    rules = about.rules
    seconds = sum(trials * option.duration_s for option in rules.options) + rules.pause_s * (len(rules.options) - 1)
    echo(
        f"{format_count(len(rules.options), 'option')}, {format_count(trials, 'trial')} each:"
        f" {format_count(round(seconds / 60), 'minute')}, and what drains after them"
    )
    if left:
        fields = ", ".join(name.removeprefix("system_under_test.") for name in left)
        echo(f"{work}/system.yaml: {format_count(len(left), 'field')}, null there, for you to fill in, now or later:")
        echo(textwrap.fill(fields, 118, initial_indent="  ", subsequent_indent="  ", break_long_words=False))


@submission.command(epilog="Example: analysis submission package work --results results")
@click.argument("work", type=click.Path(path_type=Path))
@click.option("--results", type=click.Path(path_type=Path), required=True, help="Where the tree of packages stands.")
def package(work: Path, results: Path) -> None:
    """Make the package of a submission whose replays are complete.

    Made again after system.yaml was filled in, it replaces the one made before, unless somebody changed that.
    """
    made = packaging.package(work, results)
    size = sum(path.stat().st_size for path in made.files())
    echo(f"{made.top}: {size / 2**20:.1f} MiB, {made.manifest.relative_to(made.top)} lists every file")


@submission.command(epilog="Example: analysis submission validate results/closed/acme")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="OPTION=FILE",
    help="The trace of an option of OPEN that cannot be made anew; {rank} in its name is the number of the rank.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an array with an object for each system.")
@click.pass_context
def validate(ctx: click.Context, directory: Path, traces: tuple[str, ...], as_json: bool) -> None:
    """Check a package: files, runs, traces, conditions, claims.

    Needs nothing but the package; computes every metric again from its logs, makes traces and plans anew and compares
    every row with them. Exit 1 where anything is wrong.
    """
    given = dict(map(_given, traces))
    found = [(one, validation.validate(one, given)) for one in packages(directory)]
    if as_json:
        told = [
            {
                "system": one.about.system,
                "valid": not verdict.problems,
                "submittable": not verdict.problems and not validation.left(one),
                "problems": verdict.problems,
                "notes": [] if verdict.problems else validation.notes(one, verdict.untied),
            }
            for one, verdict in found
        ]
        echo(json.dumps(told, indent=2))
    else:
        for one, verdict in found:
            echo("\n".join(_judged(one, verdict)))
    ctx.exit(1 if any(verdict.problems for _, verdict in found) else 0)


def _given(text: str) -> tuple[str, Path]:
    option, equals, file = text.partition("=")
    if not equals or not file:
        raise InputError(f"--trace {text}: write it as OPTION=FILE, e.g. option_1=trace.parquet.")
    return option, Path(file)


def _judged(package: Package, verdict: validation.Verdict) -> list[str]:
    where, wrong = f"{package.top}, system {package.about.system}", verdict.problems
    if wrong:
        return [*(f"{text}." for text in wrong), f"NOT VALID: {where}: {format_count(len(wrong), 'problem')}."]
    runs = sum(map(len, verdict.trials.values()))
    judged = f"{format_count(len(verdict.trials), 'option')}, {format_count(runs, 'trial')}"
    return [
        *(f"Note: {text}." for text in validation.notes(package, verdict.untied)),
        f"VALID: {where}: {judged}; every file, row and metric is as claimed.",
    ]


@submission.command(epilog="Example: analysis submission compare results/closed/acme others/closed/duff")
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object.")
def compare(directories: tuple[Path, ...], as_json: bool) -> None:
    """Rank packages.

    Option by option, by what they claim and by the work that all of them did; packages that are not valid are named and
    not ranked.
    """
    entries, rankings = ranking.ranked([one for directory in directories for one in packages(directory)])
    if as_json:
        echo(json.dumps(ranking.as_json(entries, rankings), indent=2))
    else:
        echo(ranking.render(entries, rankings))
