"""The commands of replayer that make many replays."""

import json
from pathlib import Path
from typing import Any, Final

import click

from replayer.experiments import autoscale as scaling
from replayer.experiments import scenarios as suite
from replayer.experiments import sweep as sweeps
from replayer.experiments.autoscale import LATENCY, THROUGHPUT, Asked
from replayer.experiments.replay_series import Series
from replayer.experiments.steps import Step, stats
from replayer.experiments.user_search import NEAR_PEAK
from replayer.flags import forwarded_flags as passing
from replayer.flags.flag_types import Count
from replayer.flags.forwarded_flags import Passing
from replayer.tiers.cache_dir import check_parent
from tracegen.console.command_line import SECONDS, Quantity
from tracegen.errors import InputError, format_count
from tracegen.schema import Trace


@click.command(epilog="Example: replayer sweep grid.toml --cache-dir /mnt/nvme -o sweep")
@click.argument("grid")
@click.option("--cache-dir", type=click.Path(path_type=Path), help="Where the nvme tier keeps its files.")
@click.option("--make-cache-dir", is_flag=True, help="Make --cache-dir where it does not exist.")
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
    grid: str,
    cache_dir: Path | None,
    trials: int | None,
    overrides: tuple[str, ...],
    ranks: int,
    mpirun: str,
    *,
    make_cache_dir: bool,
    dry_run: bool,
    as_json: bool,
    output: Path,
) -> None:
    """Replay the cases of a TOML file, or of a sweep that comes with the package, each in several trials.

    GRID is a file (docs/sweeps.md), or one of drive, submission-full, submission-smoke.
    Interrupted or killed, the same command goes on where it was; what is complete is not run again.
    """
    found = sweeps.load(sweeps.find(grid), trials, overrides)
    if not dry_run:
        with Series(output, sweeps.asked(found), cache_dir, ranks, mpirun, make_cache_dir=make_cache_dir) as series:
            sweeps.run(found, series)
    runs = {case.name: [f"{output}/{case.name}/trial_{n}" for n in range(1, found.trials + 1)] for case in found.cases}
    if as_json:
        click.echo(json.dumps([{"case": name, "runs": places} for name, places in runs.items()], indent=2))
    elif dry_run:
        click.echo("\n".join(_planned(found)))
    else:
        click.echo(
            f"{output}: {format_count(len(found.cases), 'case')}, {format_count(found.trials, 'trial')} each, complete"
        )


def _planned(found: sweeps.Sweep) -> list[str]:
    lines = [f"{format_count(found.trials, 'trial')} of each, {found.pause_s:g} s of pause before another case"]
    known = [found.trials * seconds for case in found.cases if (seconds := case.most_s()) is not None]
    rest = format_count(len(found.cases) - len(known), "case")
    more = f", and as long as {rest} without --duration take" if len(known) < len(found.cases) else ""
    pauses = found.pause_s * (len(found.cases) - 1)
    lines.append(f"at most {(sum(known) + pauses) / 60:,.3g} minutes for --duration, --drain and pauses{more}")
    for case in found.cases:
        made: Any = f"recipe {case.recipe}" if case.recipe else f"trace {case.trace}"
        changed = f" with {', '.join(case.settings)}" if case.settings else ""
        lines.append(f"  {case.name}: {made}{changed}; {' '.join(case.flags) or 'flags of its recipe'}")
    return lines


@click.command(
    cls=Passing,
    without=("pace", "speedup"),
    epilog="Example: replayer autoscale trace.parquet --mode qos --target 100 --cache-dir /mnt/nvme -o scale",
)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--mode", type=click.Choice(["qos", "capacity"]), required=True, help="The most users under a target, or the peak."
)
@click.option(
    "--metric", metavar="NAME[+NAME]", help=f"To go by.  [default: {LATENCY} of qos, of capacity {THROUGHPUT}]"
)
@click.option(
    "--target", type=float, default=200, show_default=True, help="Of qos: at most; at least, where more is better."
)
@click.option(
    "--target-saturation",
    "near",
    type=click.FloatRange(0, 1, min_open=True),
    help=f"Of capacity: share of the peak that the fewest users must reach.  [default: {NEAR_PEAK}]",
)
@click.option("--users", type=Count(1), help="At most so many.  [default: all of the trace]")
@click.option(
    "--duration",
    type=Quantity(SECONDS, low=1e-3, high=1e9),
    default=30,
    show_default=True,
    metavar="S",
    help="Seconds of a replay, or 90s, 5m.",
)
@click.option("--warmup", metavar="TIME|OPS", help="Of each replay, left out.  [default: a fifth of --duration]")
@click.option("--trials", type=Count(1, 10), default=5, show_default=True, help="Of a step, at most.")
@click.option(
    "--precision",
    type=click.FloatRange(0, 1),
    default=0.02,
    show_default=True,
    help="Where bisection ends, as a share.",
)
@click.option("--cache-dir", type=click.Path(path_type=Path), help="Where the nvme tier keeps its files.")
@click.option("--make-cache-dir", is_flag=True, help="Make --cache-dir where it does not exist.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: what autoscale.json holds.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The directory to make or go on with."
)
def autoscale(
    trace: Path,
    cache_dir: Path | None,
    output: Path,
    flags: tuple[str, ...],
    *,
    make_cache_dir: bool,
    as_json: bool,
    **own: Any,
) -> None:
    """Find how many users a system carries (docs/sizing.md).

    Each step replays the trace's first users anew, in a closed loop, until its interval is tight enough. It takes the
    flags of `replayer run`, too. Interrupted, the same command goes on where it was.
    """
    asked = _asked(trace, flags, own)
    metric = scaling.described(asked)
    with Series(output, vars(asked), cache_dir, make_cache_dir=make_cache_dir) as series:
        click.echo(_HEAD, err=True)
        found = scaling.autoscale(asked, metric, series, lambda step: click.echo(_line(step), err=True))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for warning in found["warnings"]:
        click.secho(f"Warning: {warning}", err=True, bold=True)
    made = [str(path) for path in (output / "autoscale.json", output / "autoscale.svg") if path.exists()]
    click.echo(f"{', '.join(made)}\n{found['result']['text']}")


def _asked(trace: Path, flags: tuple[str, ...], own: dict[str, Any]) -> Asked:
    """What is searched for, known to be something that replays take."""
    duration, warmup, near = own.pop("duration"), own.pop("warmup"), own.pop("near")
    if near is not None and own["mode"] == "qos":
        raise InputError("--target-saturation is of --mode capacity; of qos name a --metric and its --target.")
    passed = ("--pace", "closed", *flags, "--warmup", warmup or f"{duration / 5:g}s")
    passing.check((*passed, "--duration", f"{duration:g}"))
    metric = own.pop("metric") or (LATENCY if own["mode"] == "qos" else THROUGHPUT)
    Trace(trace).check()
    return Asked(trace=trace, flags=passed, metric=metric, duration_s=duration, near=near or NEAR_PEAK, **own)


_HEAD = f"{'users':>7}{'trials':>8}{'GiB/s':>9}{'nvme read P95 ms (n)':>22}{'busy':>7}  decision"


def _line(step: Step) -> str:
    (row,) = stats([step])
    p95 = f"{row['p95_ms']:.1f} ({row['p95_n']:,})" if row["p95_ms"] is not None else "-"
    rate = f"{row['throughput_gib_s']:.3f}" if row["throughput_gib_s"] is not None else "-"
    cells = f"{row['users']:>7,}{row['trials']:>8}{rate:>9}{p95:>22}{row['saturation']:>7.0%}"
    return f"{cells}  {row['decision']}: {row['reason']}"


@click.command(epilog="Example: replayer scenarios cpu-only storage-only cpu+storage --cache-dir /mnt/nvme -o suite")
@click.argument("names", nargs=-1, type=click.Choice(list(suite.SCENARIOS)), metavar="[NAME]...")
@click.option(
    "--model", default="llama3.1-8b", show_default=True, metavar="NAME|FILE", help="As `replayer run` takes it."
)
@click.option(
    "--budget",
    type=Quantity(SECONDS, low=60),
    default=600,
    show_default=True,
    metavar="S",
    help="Seconds of replaying in all, or 10m, drains aside.",
)
@click.option(
    "--trials", type=Count(1, 100), default=suite.TRIALS, show_default=True, help="Of each scenario, in its time."
)
@click.option("--cache-dir", type=click.Path(path_type=Path), help="Where the nvme tier keeps its files.")
@click.option("--make-cache-dir", is_flag=True, help="Make --cache-dir where it does not exist.")
@click.option(
    "--gpu-device", default="cuda", show_default=True, help="As PyTorch names it; cpu emulates one, for tests."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be run, and what is skipped.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: what scenarios.json holds.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The directory to make or go on with."
)
def scenarios(
    names: tuple[str, ...],
    model: str,
    budget: float,
    trials: int,
    cache_dir: Path | None,
    gpu_device: str,
    *,
    make_cache_dir: bool,
    dry_run: bool,
    as_json: bool,
    output: Path,
) -> None:
    """Profile this machine: kv-cache.py's nine scenarios, its tiers ranked, one report (docs/sizing.md).

    Without names all of them; sizes follow from the memory and disk that are free. Interrupted, the same command goes
    on.
    """
    if cache_dir is not None:
        check_parent(cache_dir, make=make_cache_dir)
    hardware = suite.known(output) or suite.detect(cache_dir, gpu_device)
    what = suite.planned(names, hardware, model, budget, trials)
    for line in suite.said(what):
        click.echo(line, err=not dry_run)
    if dry_run:
        return
    asked = {"names": names, "model": model, "budget": budget, "trials": trials, "gpu_device": gpu_device}
    with Series(output, asked, cache_dir, make_cache_dir=make_cache_dir) as series:
        found = suite.run(what, series, cache_dir, gpu_device, lambda text: click.echo(text, err=True))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for place, row in enumerate(found["ranking"], 1):
        click.echo(_ranked(place, row))
    for name, why in found["skipped"].items():
        click.echo(f"  -  {name:20}skipped: {why}")
    click.echo(f"{output}/report.html, {output}/scenarios.json")


def _ranked(place: int, row: dict[str, Any]) -> str:
    """A line of the ranking: the rate and the speed-up, each with its interval."""
    if row["speed_up"] is None:
        return f"{place:>3}  {row['system']:20}not compared: {row['why']}"
    rate = f"{row['tok_s']:>12,.0f} tok/s" if row["tok_s"] is not None else "not measured"
    if row["tok_s_low"] is not None:
        rate += f" ({row['tok_s_low']:,.0f} to {row['tok_s_high']:,.0f})"
    times = f"{row['speed_up']:.2f} × {suite.BASELINE}"
    if row["low"] is not None:
        times += f" ({row['low']:.2f} to {row['high']:.2f})"
    over = ", over its own window" if row["cut"] else ""
    return f"{place:>3}  {row['system']:20}{rate}  {times}; {format_count(row['trials'], 'trial')}{over}"


COMMANDS: Final = {str(command.name): command for command in (sweep, scenarios, autoscale)}
"""Those that an interrupted user repeats."""
