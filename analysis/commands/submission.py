"""`analysis submission`: begin, package, validate and compare."""

import textwrap
from pathlib import Path
from typing import Any

import click

from analysis.commands.directories import PATH
from analysis.submission.rules import DIVISIONS, RULES
from tracegen.console.answers import AnswerOutput, answer_options, json_option, show_text
from tracegen.console.commands import Command, Word
from tracegen.console.progress_bars import show_progress
from tracegen.errors import format_count


@click.group()
def submission() -> None:
    """Make, check and rank packages for MLPerf Storage.

    docs/submitting.md explains the steps of a submission for the KV cache.
    """


@submission.command(
    cls=Command, epilog="Example: analysis submission begin work --org acme --system s1 --cache-dir /mnt/s1 --results r"
)
@click.argument("work", type=PATH)
@click.option("--org", "organisation", required=True, help="Organisation; names a directory of the package.")
@click.option("--system", required=True, help="System under test; names directories.")
@click.option(
    "--division", type=Word(DIVISIONS), default="closed", show_default=True, help="CLOSED fixes every condition."
)
@click.option(
    "--scale", type=Word(list(RULES)), default="full", show_default=True, help="smoke: a rehearsal on a small scale."
)
@click.option(
    "--trials", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of trials of each option."
)
@click.option("--cache-dir", type=PATH, required=True, help="Existing directory on the system under test.")
@click.option("--results", type=PATH, required=True, help="Root of the tree of packages, on another file system.")
def begin(work: Path, cache_dir: Path, results: Path, **asked: Any) -> None:
    """Check settings against the rules; describe the system."""
    from analysis.submission import begin as beginning
    from analysis.submission.package_tree import Begun

    submission = Begun(**asked)
    empty = beginning.begin(work, submission, cache_dir, results)
    rules = submission.rules
    count = submission.trials * len(rules.options)
    seconds = sum(submission.trials * option.duration_s for option in rules.options) + rules.pause_s * (count - 1)
    options, trials = format_count(len(rules.options), "option"), format_count(submission.trials, "trial")
    show_text(f"{options}, {trials} each: {format_count(round(seconds / 60), 'minute')}, plus the time to drain")
    if empty:
        fields = ", ".join(name.removeprefix("system_under_test.") for name in empty)
        show_text(f"{work}/system.yaml has {format_count(len(empty), 'empty field')}; fill them in now or later:")
        show_text(textwrap.fill(fields, 118, initial_indent="  ", subsequent_indent="  ", break_long_words=False))


@submission.command(cls=Command, epilog="Example: analysis submission package work --results results")
@click.argument("work", type=PATH)
@click.option("--results", type=PATH, required=True, help="Root of the tree of packages.")
def package(work: Path, results: Path) -> None:
    """Make the package of a submission whose replays are complete.

    Run it again after you have edited system.yaml: it replaces its own package, unless somebody
    changed that.
    """
    from analysis.submission import package as packaging

    made = packaging.make_package(work, results)
    mib = sum(path.stat().st_size for path in made.list_files()) / 2**20
    show_text(f"{made.top}: {mib:.1f} MiB, {made.manifest.relative_to(made.top)} lists every file")


@submission.command(cls=Command, epilog="Example: analysis submission validate results/closed/acme")
@click.argument("directory", type=PATH)
@json_option("an array with an object for each system")
@click.pass_context
def validate(ctx: click.Context, directory: Path, as_json: bool) -> None:
    """Check files, runs, traces, conditions and claims of a package.

    Needs only the package: computes every metric again from its logs, makes traces and plans
    again and compares every row with them. Exits 1 if it finds a problem.
    """
    from analysis.submission import validate as validation
    from analysis.submission.package_tree import find_packages
    from views.exports import render_json
    from views.text import render_text

    packages = find_packages(directory)
    verdicts = [validation.validate(package, show_progress) for package in packages]
    answers = list(map(validation.answer_verdict, verdicts))
    if as_json:
        show_text(f"[{', '.join(map(render_json, answers))}]")
    else:
        show_text("\n".join(map(render_text, answers)))
    ctx.exit(1 if any(verdict.problems for verdict in verdicts) else 0)


@submission.command(cls=Command, epilog="Example: analysis submission compare results/closed/acme others/closed/duff")
@click.argument("directories", nargs=-1, required=True, type=PATH)
@answer_options(example="-o ranking.html")
def compare(directories: tuple[Path, ...], output: AnswerOutput) -> None:
    """Rank packages, option by option.

    Ranks them by the time that they took for equal work, from their logs. Packages that are not
    valid are named but not ranked.
    """
    from analysis.submission import ranking
    from analysis.submission.package_tree import find_packages

    packages = [package for directory in directories for package in find_packages(directory)]
    output.show(ranking.rank_packages(packages, show_progress))
