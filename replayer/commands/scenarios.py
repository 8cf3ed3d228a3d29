"""`replayer scenarios`: profile this machine by the suite of nine scenarios."""

import json
from pathlib import Path
from typing import Any

import click

from replayer.commands.shared.prediction_options import add_speed, load_predictor
from replayer.commands.shared.screens import choose_screen
from replayer.commands.shared.series_options import json_option, series_options
from replayer.experiments.replay_series import Cache, Series
from replayer.experiments.scenarios import (
    DEFAULT_TRIALS,
    Suite,
    choose_sizes,
    compare_scenarios,
    detect_hardware,
    list_scenarios,
    plan_suite,
    predict_suite,
    read_sizes,
    run_suite,
)
from replayer.flags.flag_types import WholeNumber
from replayer.flags.run_flags import GPU_DEVICE_OPTION
from replayer.models.known import find_model
from tracegen.console.command_line import SECONDS, Quantity


@click.command(epilog="Example: replayer scenarios cpu-only storage-only --cache-dir /mnt/nvme -o suite")
@click.argument("names", nargs=-1, type=click.Choice(list_scenarios()), metavar="[NAME]...")
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
    help="Also predict each scenario from this profile, and show the errors of the predictions.",
)
@add_speed
@series_options
@GPU_DEVICE_OPTION
@click.option("--dry-run", is_flag=True, help="Only print what would run, and what is skipped.")
@json_option("sizes, run directories, skipped scenarios, the search and the comparison")
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
    """Compare this machine's tiers (docs/scenarios.md).

    Replays kv-cache.py's nine scenarios, or those named. Their sizes follow from the memory and
    disk that are free. After an interruption, the same command continues.
    """
    cache = Cache(cache_dir, make=make_cache_dir)
    cache.check()
    predictor = load_predictor(prediction["profile"], prediction["speed"], "profile")
    hardware = detect_hardware(cache_dir, gpu_device)
    sizes = read_sizes(output) or choose_sizes(hardware, find_model(model).sizes("fp16"))
    suite = plan_suite(names, sizes, hardware, {"model": model}, budget, trials)
    for line in (f"{model}; {hardware.describe()}", *suite.describe()):
        click.echo(line, err=not dry_run)
    if dry_run:
        return
    settings = {"names": names, "model": model, "budget": budget, "trials": trials, "gpu_device": gpu_device}
    profiled = {} if predictor is None else {"prediction": predictor.row()}
    with (
        choose_screen() as display,
        Series(output, {**settings, **profiled, "sizes": sizes}, cache, display=display) as series,
    ):
        search = run_suite(suite, series, gpu_device)
        predicted = "" if predictor is None else predict_suite(suite, series, predictor)
        compared = compare_scenarios(suite, series, *(["--json"] if as_json else []))
    if as_json:
        comparison = json.loads(compared) if compared else None
        found = {"runs": _list_runs(suite, output), "skipped": suite.skipped, "autoscaling": search}
        click.echo(json.dumps({"sizes": sizes, **found, "comparison": comparison}, indent=2))
    else:
        answers = [predicted, compared, search["result"]["text"] if search else ""]
        click.echo("\n\n".join([*(answer.rstrip() for answer in answers if answer), f"{output}/report.html"]))


def _list_runs(suite: Suite, output: Path) -> dict[str, list[str]]:
    """Return the run directories of each scenario but the search."""
    return {name: [f"{output}/{run}" for run in runs] for name, runs in suite.runs().items()}
