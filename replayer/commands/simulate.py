"""`replayer simulate`: plan a grid of settings without I/O, and write a row per cell."""

import os
from collections.abc import Mapping, MutableMapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from replayer.commands.shared.prediction_options import load_system, profile_options
from replayer.options.command_line import config_options, plan_options
from replayer.options.types import whole_number
from tracegen.console.answers import AnswerOutput, answer_options
from tracegen.console.commands import command
from tracegen.console.progress_bars import show_progress
from tracegen.errors import InputError, format_count
from tracegen.outputs import check_output

if TYPE_CHECKING:
    from replayer.questions.cells import GridCell
    from replayer.record.simulation import Cell, SimulationInfo
    from replayer.run.predicted import AssumedSystem
    from tracegen.schema import Trace

# Settings of a plan that may have several values, from the slowest axis to the fastest.
AXES: Final = (
    *("model", "gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb"),
    *("arrangement", "policy", "ttl", "chunk_tokens"),
)


@command(
    epilog="Example: replayer simulate trace.parquet --model llama3.1-8b --cpu-mem-gb 16,32,64"
    " --storage-capacity-gb 0,500,2000 -o grid.parquet"
)
@click.argument("trace", type=click.Path(path_type=Path))
@plan_options(lists=AXES)
@config_options
@profile_options("Also predict each cell's times from this profile (docs/predicting.md).")
@answer_options(
    click.option(
        "--sort",
        metavar="COLUMN",
        help="Column by which the table is sorted, best cells first.  [default: as the lists say]",
    ),
    click.option(
        "--rows",
        type=whole_number(1),
        default=50,
        show_default=True,
        metavar="N",
        help="Rows of the table on the terminal at most; the file has them all.",
    ),
    click.option(
        "--threads", type=whole_number(1, 1024), metavar="N", help="Cells planned at a time.  [default: the CPU cores]"
    ),
    content="the settings, and a row per cell",
    heading="Table",
    example="--sort hit_rate --rows 10 -o grid.parquet",
    table="a row per cell, as .parquet",
)
def simulate(trace: Path, output: AnswerOutput, sort: str | None, rows: int, threads: int | None, **flags: Any) -> None:
    """Plan a trace for every combination of settings.

    --model, --gpu-mem-gb, --cpu-mem-gb, --storage-capacity-gb, --arrangement and --policy, and ttl
    and chunk_tokens of --set, take lists of values separated by commas; inside one --policy, write
    + for the comma. Each cell is what `replayer plan` counts with the same settings, without any I/O.
    """
    from replayer.questions.cells import make_grid
    from replayer.questions.simulate import answer_simulation, find_column, sort_cells
    from replayer.record.simulation import write_simulation
    from tracegen.schema import Trace

    opened = Trace(trace)
    if output.table is not None:
        # --force would replace the trace itself.
        if trace.resolve() in (output.table.resolve(), *output.table.resolve().parents):
            problem = "belongs to the trace, which must not change"
            raise InputError(problem, "name a file elsewhere", subject=output.table, setting="output")
        check_output(output.table, force=output.force)
    system = load_system(flags.pop("profile"), flags.pop("speed"))
    if sort is not None:
        sort = find_column(sort, has_times=system is not None)
    # The cores that this process may use: a container often has fewer than the machine.
    threads = threads or len(os.sched_getaffinity(0))
    axes = _take_axes(flags)
    grid = make_grid(opened, axes, flags)
    cells, span_s = _plan(opened, grid, threads, system)
    info = _describe_grid(opened, grid, cells, flags, span_s)
    if system is not None:
        info = msgspec.structs.replace(info, prediction=system.describe())
    shown = cells if sort is None else sort_cells(cells, sort)
    answer = answer_simulation(shown, info, rows)
    output.show(answer)
    if output.table is not None:  # after the text, which is not lost if the disk is full
        write_simulation(cells, info, output.table)
        if not output.as_json:
            click.echo(f"{output.table}: {format_count(len(cells), 'cell')}")


def _take_axes(flags: MutableMapping[str, Any]) -> dict[str, Sequence[object]]:
    """Take the values of the axes out of the flags; None stands for what the trace says."""
    from replayer.questions.cells import find_arrangements

    axes: dict[str, Sequence[object]] = {name: flags.pop(name) or (None,) for name in AXES}
    names = [str(name) for name in axes["arrangement"] if name is not None]
    axes["arrangement"] = find_arrangements(names)
    axes["policy"] = [policy and str(policy).replace("+", ",") for policy in axes["policy"]]
    return axes


def _plan(
    trace: "Trace", grid: "Sequence[GridCell]", threads: int, system: "AssumedSystem | None"
) -> "tuple[list[Cell], float]":
    """Plan the cells under a progress bar; return their rows, and the seconds the trace spans."""
    from replayer.questions.cells import CellPlanner

    profile = None if system is None else system.times()
    planner = CellPlanner(trace, grid, threads, profile=profile)
    for text in planner.list_warnings():
        click.secho(f"Warning: {text}", err=True, bold=True)
    task = f"planning {format_count(len(grid), 'cell')}"
    with show_progress(task, "op", planner.total_ops) as advance:
        cells = planner.plan_all(advance)
    return cells, planner.minutes.span_s


def _describe_grid(
    trace: "Trace", grid: "Sequence[GridCell]", cells: "Sequence[Cell]", flags: Mapping[str, object], span_s: float
) -> "SimulationInfo":
    """Return what the table records about itself."""
    from replayer.record.simulation import SIMULATION_VERSION, SimulationInfo, find_axes

    return SimulationInfo(
        version=SIMULATION_VERSION,
        release=version("kv-tier-bench"),
        trace=str(trace.path),
        trace_fingerprint=trace.metadata.fingerprint,
        ops=int(cells[0]["ops"] or 0),
        span_s=span_s,
        order=grid[0].options.order.to_info(),
        axes=find_axes(cells),
        settings={name: str(value) for name, value in flags.items() if value is not None}
        | {"decode": grid[0].options.selection.decode},
    )
