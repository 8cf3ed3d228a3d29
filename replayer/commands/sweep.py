"""`replayer sweep`: replay the cases of a TOML file, each in several trials."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replayer.commands.shared.prediction_options import choose_means, prediction_options
from replayer.commands.shared.screens import choose_screen
from replayer.commands.shared.series_options import series_options
from replayer.options.types import whole_number
from tracegen.console.answers import AnswerOutput
from tracegen.console.commands import NAME_OR_FILE, command, option_group
from tracegen.errors import format_count
from views.answer import Answer, Column, Table
from views.numbers import format_value

if TYPE_CHECKING:
    from replayer.experiments.sweep import Case, Sweep


@command(epilog="Example: replayer sweep grid.toml --cache-dir /mnt/nvme -o sweep")
@click.argument("grid", type=NAME_OR_FILE)
@option_group(
    "Cases",
    "--case chat --trials 5 --flag duration=2m --dry-run",
    click.option(
        "--trials", type=whole_number(1, 1000), metavar="N", help="Replays of each case.  [default: the file's, else 3]"
    ),
    click.option(
        "--flag",
        "overrides",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of `replayer run` for all cases; overrides the file's.",
    ),
    click.option(
        "--case", "names", multiple=True, metavar="NAME", help="Only the cases of this [[case]]; may be repeated."
    ),
    click.option("--dry-run", is_flag=True, help="Only print the cases."),
)
@option_group(
    "Several processes",
    "--ranks 4 --mpirun 'mpirun -H a,b'",
    click.option(
        "--ranks",
        type=whole_number(1, 100_000),
        default=1,
        show_default=True,
        metavar="N",
        help="Processes of each replay; several are started under MPI.",
    ),
    click.option(
        "--mpirun",
        default="mpirun",
        show_default=True,
        metavar="COMMAND",
        help="The command that starts several processes, with its hosts.",
    ),
)
@prediction_options()
@series_options(content="the answer, with the run directories of each case")
def sweep(
    grid: str,
    trials: int | None,
    overrides: tuple[str, ...],
    names: tuple[str, ...],
    output: Path,
    *,
    dry_run: bool,
    as_json: bool,
    **means: Any,
) -> None:
    """Replay the cases of a TOML file, each in several trials.

    GRID is a file (docs/sweeps.md), or the name of one that ships: demo, drive, engines, load,
    scenarios, scenarios-gpu, submission-full, submission-smoke. After an interruption, the same command continues:
    complete trials are not replayed again.
    """
    from replayer.experiments.series import Series
    from replayer.experiments.sweep import find_sweep, load_sweep, run_sweep

    chosen = choose_means(means.pop("predict"), means.pop("speed"), **means)
    loaded = load_sweep(find_sweep(grid), 1 if chosen.system else trials, overrides, names)
    if chosen.system:  # a computed clock has no device that comes to rest
        loaded = replace(loaded, pause_s=0)
    # All of them before the first replay: the last case may be hours away.
    for case in loaded.cases:
        chosen.check_flags(case.flags)
    if not dry_run:
        with choose_screen() as screen, Series(output, loaded.settings(), chosen, screen) as series:
            run_sweep(loaded, series)
    AnswerOutput(as_json=as_json).show(_answer_sweep(loaded, output, is_planned=dry_run))


def _answer_sweep(sweep: "Sweep", output: Path, *, is_planned: bool) -> Answer:
    """Return the cases of a sweep."""
    made = f"{format_count(len(sweep.cases), 'case')}, {format_count(sweep.trials, 'trial')} each"
    rows = [[case.name, *_describe_case(case)] for case in sweep.cases]
    trials = range(1, sweep.trials + 1)
    cases = [
        {"case": case.name, "runs": [f"{output}/{case.name}/trial_{trial}" for trial in trials]} for case in sweep.cases
    ]
    heads = ("case", "trace", "settings and flags")
    return Answer(
        title=f"Sweep in {output}",
        subject=[f"trials interleaved, {sweep.pause_s:g} s of pause between replays"],
        sentence=f"{made}: {_describe_time(sweep)}." if is_planned else f"{output}: {made}, complete.",
        tables=[Table(title="Cases", name="cases", columns=[*map(Column, heads)], rows=rows)],
        next=[] if is_planned else [f"analysis report {output} -o report.html"],
        data={"cases": cases},
    )


def _describe_time(sweep: "Sweep") -> str:
    """Say how long a sweep takes at most."""
    limits = [case.time_limit_s() for case in sweep.cases]
    known = [limit for limit in limits if limit is not None]
    pauses_s = sweep.pause_s * (sweep.trials * len(limits) - 1)
    seconds = format_value(sweep.trials * sum(known) + pauses_s, "s")
    unlimited = format_count(len(limits) - len(known), "case")
    rest = f", and as long as {unlimited} without duration take" if len(known) < len(limits) else ""
    return f"at most {seconds} for duration, drain and pauses{rest}"


def _describe_case(case: "Case") -> tuple[str, str]:
    """Describe the source of a case's trace, and its settings and flags."""
    source = f"recipe {case.recipe}" if case.recipe else f"trace {case.trace}"
    return source, " ".join([*case.settings, *case.flags]) or "flags of its recipe"
