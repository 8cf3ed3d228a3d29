"""`replayer scenarios`: profile this machine by the suite of nine scenarios."""

import json
from pathlib import Path
from typing import Any

import click

from replayer.commands.shared.prediction_options import add_speed, load_predictor
from replayer.commands.shared.series_options import json_option, open_display, series_options
from replayer.experiments.replay_series import Cache, Series
from replayer.experiments.scenario_sizes import DEFAULT_TRIALS, detect_hardware, read_hardware
from replayer.experiments.scenario_table import BASELINE, SCENARIOS
from replayer.experiments.scenarios import RankedScenario, SuiteReport, plan_suite, run_suite
from replayer.flags.flag_types import WholeNumber
from replayer.flags.run_flags import GPU_DEVICE_OPTION
from tracegen.console.command_line import SECONDS, Quantity
from tracegen.errors import format_count


@click.command(epilog="Example: replayer scenarios cpu-only storage-only --cache-dir /mnt/nvme -o suite")
@click.argument("names", nargs=-1, type=click.Choice(list(SCENARIOS)), metavar="[NAME]...")
@click.option(
    "--model",
    default="llama3.1-8b",
    show_default=True,
    metavar="NAME|FILE",
    help="Model whose KV cache is replayed, as `replayer run` takes it.",
)
@click.option(
    "--budget",
    type=Quantity(SECONDS, low=60),
    default=600,
    show_default=True,
    metavar="S",
    help="Seconds of replaying for all scenarios together, without drains; or 10m, 1h.",
)
@click.option(
    "--trials",
    type=WholeNumber(1, 100),
    default=DEFAULT_TRIALS,
    show_default=True,
    metavar="N",
    help="Replays of each scenario, which share its time.",
)
@click.option(
    "--profile",
    metavar="NAME|FILE",
    help="Also predict each scenario from this profile, and show the rates side by side.",
)
@add_speed
@series_options
@GPU_DEVICE_OPTION
@click.option("--dry-run", is_flag=True, help="Only print what would run, and what is skipped.")
@json_option("what scenarios.json holds")
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
    **prediction: Any,
) -> None:
    """Profile this machine by kv-cache.py's nine scenarios, and rank its tiers (docs/scenarios.md).

    Without names, all scenarios run. Their sizes follow from the memory and disk that are free.
    After an interruption, the same command continues.
    """
    cache = Cache(cache_dir, make=make_cache_dir)
    cache.check()
    predictor = load_predictor(prediction["profile"], prediction["speed"], "profile")
    hardware = read_hardware(output) or detect_hardware(cache_dir, gpu_device)
    suite = plan_suite(names, hardware, model, budget, trials)
    for line in suite.describe():
        click.echo(line, err=not dry_run)
    if dry_run:
        return
    settings: dict[str, object] = {"names": names, "model": model, "budget": budget}
    settings |= {"trials": trials, "gpu_device": gpu_device}
    if predictor is not None:
        settings["prediction"] = predictor.row()
    with (
        open_display() as display,
        Series(output, settings, cache, display=display) as series,
    ):
        report = run_suite(suite, series, gpu_device, predictor)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        click.echo("\n".join([*_render_report(report), f"{output}/report.html, {output}/scenarios.json"]))


def _render_report(report: SuiteReport) -> list[str]:
    """Render the ranking, predictions, and the scenarios that were skipped."""
    ranking = [render_system(place, row) for place, row in enumerate(report["ranking"], 1)]
    if report["predicted"]:
        ranking += ["", *_render_predictions(report)]
    skipped = [f"  -  {name:20}skipped: {reason}" for name, reason in report["skipped"].items()]
    return [*ranking, *skipped]


def _render_predictions(report: SuiteReport) -> list[str]:
    """Render measured and predicted rates side by side."""
    lines = [f"  {'tok/s':20}{'measured':>14}{'predicted':>14}{'error':>9}"]
    for name, row in report["predicted"].items():
        rate = row["measured"]
        first = f"  {name:20}{'-' if rate is None else f'{rate:,.0f}':>14}"
        if row["why"] is not None or row["tok_s"] is None:
            lines.append(f"{first}{'-':>14}  {row['why'] or 'no rate'}")
            continue
        error = f"{row['tok_s'] / rate - 1:+.1%}" if rate else "-"
        interval = ""
        if row["low"] is not None:
            interval = f"  predicted {row['low']:,.0f} to {row['high']:,.0f}"
        lines.append(f"{first}{row['tok_s']:>14,.0f}{error:>9}{interval}")
    return lines


def render_system(place: int, row: RankedScenario) -> str:
    """Render a line of the ranking: the rate and the speed-up, each with its interval."""
    name = f"{place:>3}  {row['system']:20}"
    if row["speed_up"] is None:
        return f"{name}not compared: {row['why']}"
    rate = "not measured"
    if row["tok_s"] is not None:
        rate = f"{row['tok_s']:>12,.0f} tok/s"
    if row["tok_s_low"] is not None:
        rate += f" ({row['tok_s_low']:,.0f} to {row['tok_s_high']:,.0f})"
    speed_up = f"{row['speed_up']:.2f} × {BASELINE}"
    if row["low"] is not None:
        speed_up += f" ({row['low']:.2f} to {row['high']:.2f})"
    window = ", over its own window" if row["cut"] else ""
    return f"{name}{rate}  {speed_up}; {format_count(row['trials'], 'trial')}{window}"
