"""The command line of replayer."""

import json
import os
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from replayer.commands import series as cli_series
from replayer.commands.resolving import resolve, settings_of, time_of
from replayer.flags.flag_types import Count
from replayer.flags.flags import plan_options, run_options
from replayer.planning import offered_load as offered
from replayer.planning.like_run import options_like
from replayer.planning.pace import Span, Window
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.plan_table import PlannedMoves
from replayer.record.columns import TIERS
from replayer.record.reading import ops_executed
from replayer.record.run_directory import check_free
from replayer.run.mpi import ALONE, Ranks, world
from replayer.run.opening import NVME
from replayer.run.preflight import needs, takes
from replayer.run.replay import replay
from tracegen.console.command_line import Commands
from tracegen.console.interrupts import Interrupted
from tracegen.errors import InputError, format_count
from tracegen.schema import Trace


class Replaying(Commands):
    """The commands; an error of the system is a sentence, and series can be continued."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except OSError as error:  # of a path that no check of ours met: too long, of another's, on a disk that is gone
            raise InputError(f"{error.filename or 'output'}: {error.strerror}; name another.") from None

    def clean_up_after_signal(self, ctx: click.Context) -> Sequence[str]:
        """What the user can do next."""
        return ["To continue, run the same command again."] if ctx.invoked_subcommand in cli_series.COMMANDS else []


@click.group(cls=Replaying, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kv-tier-bench")
def main() -> None:
    """Replay traces on a waterfall of KV-cache tiers."""


@main.command(
    epilog="Example: replayer plan trace.parquet --model llama3.1-8b --cpu-mem-gb 4 --storage-capacity-gb 100"
)
@plan_options
@click.option("--like", type=click.Path(path_type=Path), metavar="RUN", help="As this run of the trace was planned.")
@click.option("--moves", type=click.Path(path_type=Path), metavar="FILE", help="Write every move, too, as Parquet.")
def plan(trace: Path, as_json: bool, like: Path | None, moves: Path | None, **flags: Any) -> None:
    """Simulate a replay without any I/O: hits, bytes and the peak footprint per tier."""
    opened = Trace(trace)
    if like is not None:
        _refuse_others(flags)
    model, options = resolve(opened, flags) if like is None else options_like(like, opened)
    options.usable()
    with tqdm(desc="planning", total=opened.ops, unit="op", unit_scale=True, disable=None, leave=False) as bar:
        made = Plan(opened, options)
        load = offered.OfferedLoad(made.workload)
        with PlannedMoves(moves, made) if moves is not None else nullcontext() as table:
            planned = made.simulate(bar.update, [load.add, *([table.add] if table is not None else [])])
    about = [takes(made, Span(*time_of(opened, flags)))] if like is None else []
    if options.usable()[NVME] != 0:
        about.insert(0, needs(made, planned, Window.of(options.demand.pace)))
    del planned["plan_checkpoints"]
    planned |= {"trace_fingerprint": opened.metadata.fingerprint, "order": options.order.described()}
    planned |= {"offered": load.summary(options)}
    if as_json:
        click.echo(json.dumps(planned, indent=2))
    else:
        click.echo(
            _render(
                planned,
                f"{trace} for {model}, {options.bytes_per_token.per_token:,} bytes per token{_load(options)}",
                offered.rooms(options),
                about,
            )
        )


def _refuse_others(flags: dict[str, Any]) -> None:
    """Flags that say how to plan, beside --like, which says it all."""
    ctx = click.get_current_context()
    named = (name for name in flags if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE)
    if (name := next(named, None)) is not None:
        raise InputError(f"--like says how the run was planned; leave out --{name.replace('_', '-')}.")


def _load(options: PlanOptions) -> str:
    """In what order it was planned, and where that depends on it under which load."""
    order, demand = options.order, options.demand
    if order.kind == "reference":
        return f"; by reference {order.name}: pace {demand.pace.kind}, {format_count(demand.workers, 'worker')}"
    return "; in trace order" if order.kind == "trace" else f"; in the order of {order.name}"


def _render(planned: dict[str, Any], title: str, rooms: list[str], about: list[str]) -> str:
    hits = sum(planned["hits"].values())
    rate = "no reads"
    if planned["reads"]:
        rate = (
            f"{hits / planned['reads']:.1%} of reads; {hits / planned['ops']:.1%} of ops, with first writes as misses"
        )
    lines = [
        title,
        *rooms,
        f"  {planned['ops']:,} ops, {planned['reads']:,} reads: {format_count(hits, 'hit')} ({rate}),"
        f" {format_count(planned['misses'], 'miss', 'misses')},"
        f" {format_count(planned['recomputed_tokens'], 'token')} recomputed",
        "  "
        + ", ".join(f"{planned[name]:,} {name}" for name in ("promotions", "drops", "bypasses"))
        + "; demotions "
        + ", ".join(f"{way} {count:,}" for way, count in planned["demotions"].items()),
        "",
        f"  {'tier':6}{'hits':>14}{'stores':>14}{'read GiB':>14}{'written GiB':>14}{'peak GiB':>14}",
    ]
    for tier in TIERS:
        counts = f"{planned['hits'][tier]:>14,}{planned['stores'][tier]:>14,}"
        sizes = (planned[name][tier] / 2**30 for name in ("read_bytes", "write_bytes", "peak_bytes"))
        lines.append(f"  {tier:6}{counts}" + "".join(f"{size:>14,.3f}" for size in sizes))
    return "\n".join(
        [
            *lines,
            "",
            *offered.lines(planned["offered"]),
            "",
            *(f"  {line}" for line in about),
            f"  plan fingerprint {planned['plan_fingerprint']}",
        ]
    )


@main.command(epilog="Example: replayer run trace.parquet --cpu-mem-gb 4 --cache-dir /mnt/nvme -o run1")
@plan_options
@run_options
@click.option("--repeat", type=Count(1, 1000), default=1, show_default=True, help="Trials, into RUN-1, RUN-2, …")
@click.option(
    "--ranks",
    "mode",
    type=click.Choice(["replicate", "partition"]),
    help="Under mpirun or srun: every rank the whole trace (or its own, where TRACE names {rank}), or its share of the"
    " sessions.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The run directory to make.")
def run(trace: Path, as_json: bool, output: Path, repeat: int, mode: str | None, **flags: Any) -> None:
    """Execute a trace on real tiers and log every move."""
    ranks = world() if mode else ALONE
    with ranks.together():
        _run(trace, output, repeat, mode, ranks, as_json=as_json, flags=flags)


def _run(
    trace: Path, output: Path, repeat: int, mode: str | None, ranks: Ranks, *, as_json: bool, flags: dict[str, Any]
) -> None:
    try:
        opened = Trace(Path(str(trace).replace("{rank}", str(ranks.rank))) if mode else trace)
        part = (ranks.rank, ranks.size) if mode == "partition" else (0, 1)
        model, options = resolve(opened, flags, part)
        settings, places = settings_of(opened, flags), _places(output, repeat, force=flags["force"])
    except InputError as problem:
        ranks.agree(str(problem))
        raise
    ranks.agree(None)
    infos = []
    for place in places:
        try:
            info = replay(opened, model, options, settings, place, ranks)
        except Interrupted as stopped:
            if _holds_a_log(place):
                shown = shlex.quote(str(place))
                stopped.add_note(f"{place} holds what was done; `analysis summary {shown}` reads it.")
            raise
        infos.append(info)
        if not as_json:
            _say(info, place, ranks)
    if as_json and ranks.rank == 0:
        click.echo(json.dumps(infos[0] if repeat == 1 else infos, indent=2))
    if any(info["status"] != "complete" for info in infos):
        raise click.exceptions.Exit(1)


def _holds_a_log(place: Path) -> bool:
    """Whether an interrupted run left rows to read."""
    info = place / "run.json"
    begun = info.exists() and json.loads(info.read_text())["status"] == "incomplete"
    return begun and any(place.glob("**/part-*.parquet"))


def _places(output: Path, repeat: int, *, force: bool) -> list[Path]:
    """Where the trials go: siblings of the output where there are several."""
    if repeat == 1:
        return [output]
    if not output.name:
        raise InputError(f"-o {output} has no siblings; name a directory that is yet to be made.")
    places = [output.with_name(f"{output.name}-{number}") for number in range(1, repeat + 1)]
    if (taken := [place for place in places if os.path.lexists(place)]) and not force:
        raise InputError(f"{taken[0]} exists; name another run directory with -o, or pass --force.")
    for place in places:
        check_free(place, force=force)
    return places


def _say(info: dict[str, Any], place: Path, ranks: Ranks) -> None:
    if ranks.rank:
        return
    ops = format_count(ops_executed(info) or 0, "op")
    click.echo(f"{place}: {info['status']}, {ops}; `analysis summary {shlex.quote(str(place))}` judges it")
    if info["status"] != "complete":
        click.secho(f"Error: {place}: {info['reason']}.", err=True, bold=True)


for command in cli_series.COMMANDS.values():
    main.add_command(command)
