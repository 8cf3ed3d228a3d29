"""The commands of replayer that make many replays."""

import json
from pathlib import Path
from typing import Any

import click

from replayer import sweep as sweeps
from replayer.flag_types import Count
from replayer.series import Series


@click.command(epilog="Example: replayer sweep grid.toml --cache-dir /mnt/nvme -o sweep")
@click.argument("grid", type=click.Path(path_type=Path))
@click.option("--cache-dir", type=click.Path(path_type=Path), help="Where the nvme tier keeps its files.")
@click.option("--trials", type=Count(1, 1000), help="Replays of each case.  [default: the file's, else 3]")
@click.option(
    "--flag", "overrides", multiple=True, metavar="NAME=VALUE", help="A flag of `replayer run` for all cases."
)
@click.option(
    "--ranks", type=Count(1, 100_000), default=1, show_default=True, help="Clients of each replay, under MPI."
)
@click.option("--mpirun", default="mpirun", show_default=True, help="What starts them, with its hosts.")
@click.option("--dry-run", is_flag=True, help="Only say what would be replayed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an array of run directories by case.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The directory to make or go on with."
)
def sweep(
    grid: Path,
    cache_dir: Path | None,
    trials: int | None,
    overrides: tuple[str, ...],
    ranks: int,
    mpirun: str,
    *,
    dry_run: bool,
    as_json: bool,
    output: Path,
) -> None:
    """Replay the cases of a TOML file, each in several trials (docs/sweeps.md).

    Interrupted or killed, the same command goes on where it was; what is complete is not run again.
    """
    found = sweeps.load(grid, trials, overrides)
    if not dry_run:
        with Series(output, sweeps.asked(found), cache_dir, ranks, mpirun) as series:
            for _ in sweeps.run(found, series):
                pass
    runs = {case.name: [f"{output}/{case.name}/trial_{n}" for n in range(1, found.trials + 1)] for case in found.cases}
    if as_json:
        click.echo(json.dumps([{"case": name, "runs": places} for name, places in runs.items()], indent=2))
    elif dry_run:
        click.echo("\n".join(_planned(found)))
    else:
        click.echo(f"{output}: {len(found.cases)} cases, {found.trials} trials each, complete")


def _planned(found: sweeps.Sweep) -> list[str]:
    lines = [f"{found.trials} trials of each, {found.pause_s:g} s of pause before another case"]
    for case in found.cases:
        made: Any = f"recipe {case.recipe}" if case.recipe else f"trace {case.trace}"
        changed = f" with {', '.join(case.settings)}" if case.settings else ""
        lines.append(f"  {case.name}: {made}{changed}; {' '.join(case.flags) or 'flags of its recipe'}")
    return lines
