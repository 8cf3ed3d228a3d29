"""`replayer autoscale`: find how many users a system carries."""

import json
import math
from pathlib import Path
from typing import Any, Final

import click

from replayer.commands.shared.prediction_options import load_system, prediction_options, refuse_trials
from replayer.commands.shared.screens import choose_screen
from replayer.commands.shared.series_options import series_options
from replayer.experiments.autoscale import (
    LATENCY,
    THROUGHPUT,
    SearchMode,
    SearchSettings,
    describe_metric,
    describe_prediction,
)
from replayer.experiments.autoscale import autoscale as search_users
from replayer.experiments.series import ReplayMeans, Series
from replayer.experiments.steps import Step
from replayer.experiments.user_search import NEAR_PEAK
from replayer.options.command_line import (
    config_options,
    forward_options,
    forwarded_words,
    parse_words,
)
from replayer.options.declaring import one_of
from replayer.options.types import SHARE, whole_number
from tracegen.console.command_line import SECONDS, Quantity
from tracegen.console.commands import command, option_group
from tracegen.errors import InputError
from tracegen.schema import Trace

_HEAD: Final = f"{'users':>7}{'trials':>8}{'GiB/s':>9}{'nvme read P95 ms (n)':>22}{'busy':>7}  decision"


@command(epilog="Example: replayer autoscale trace.parquet --mode qos --cache-dir /mnt/nvme -o scale")
@click.argument("trace", type=click.Path(path_type=Path))
@option_group(
    "Search",
    "--mode qos --metric ttfb_p95_ms --target 500",
    click.option(
        "--mode",
        type=one_of(SearchMode),
        required=True,
        help="What to find. qos: the most users that meet --target. capacity: the fewest users that"
        " come near the peak of throughput.",
    ),
    click.option(
        "--metric",
        metavar="NAME[+NAME]",
        help="The metric to search by; several are added."
        f"  [default: for qos {LATENCY}; for capacity {THROUGHPUT}, the bandwidth of nvme]",
    ),
    click.option(
        "--target",
        type=float,
        default=200,
        show_default=True,
        metavar="VALUE",
        help="For qos, the limit of the metric: an upper one if lower is better, else a lower one.",
    ),
    click.option(
        "--target-saturation",
        type=Quantity(SHARE, low=1e-9, high=1),
        metavar="SHARE",
        help=f"For capacity, the share of the peak that the users must reach.  [default: {NEAR_PEAK}]",
    ),
    click.option(
        "--users",
        type=whole_number(1),
        metavar="N",
        help="The most users to try.  [default: all of the trace]",
    ),
    click.option(
        "--duration",
        type=Quantity(SECONDS, low=1e-3, high=1e9),
        default=30,
        show_default=True,
        metavar="S",
        help="Time limit of each replay, in seconds or with a unit: 90s, 5m.",
    ),
    click.option(
        "--warmup",
        metavar="TIME|OPS",
        help="Start of each replay that metrics leave out: 30s, or 5000ops.  [default: a fifth of --duration]",
    ),
    click.option(
        "--trials",
        type=whole_number(1, 10),
        default=5,
        show_default=True,
        metavar="N",
        help="The most replays with the same number of users.",
    ),
    click.option(
        "--precision",
        type=Quantity(SHARE, low=0, high=1),
        default=0.02,
        show_default=True,
        metavar="SHARE",
        help="Stop bisection if the bounds are this close, as a share of the lower one.",
    ),
)
@prediction_options()
@forward_options(
    without=("users", "duration", "warmup", "pace", "speedup", "cache_dir"),
    rare=("ops",),
)
@config_options
@series_options(content="what autoscale.json holds")
def autoscale(
    trace: Path,
    output: Path,
    predict: str | None,
    *,
    cache_dir: Path | None,
    as_json: bool,
    **search: Any,
) -> None:
    """Find how many users a system carries (docs/what-if.md).

    Each step replays the trace's first users in a closed loop, in several trials until its interval
    is tight. The command also takes flags of `replayer run`. After an interruption, the same
    command continues.
    """
    system = load_system(predict, search.pop("speed"), "predict")
    means = ReplayMeans(cache_dir, profile=predict, system=system)
    if system is not None:
        refuse_trials()
        search["trials"] = 1
    settings = _resolve_search(trace, forwarded_words(), **search)
    means.check_flags(settings.flags)
    Trace(trace).check()
    with choose_screen() as screen:
        metric = describe_metric(settings, screen)
        with Series(output, vars(settings), means, screen) as series:
            if system is not None:
                screen.say(describe_prediction(means))
            screen.say(_HEAD)
            report = search_users(
                settings,
                metric,
                series,
                means,
                lambda step: screen.say(_render_step(step)),
            )
        if as_json:
            click.echo(json.dumps(report, indent=2))
            return
        for warning in report["warnings"]:
            screen.warn(warning)
    files = (output / "autoscale.json", output / "report.html")
    click.echo(", ".join(str(file) for file in files if file.exists()))
    click.echo(report["result"]["text"])


def _resolve_search(
    trace: Path,
    forwarded: tuple[str, ...],
    *,
    mode: SearchMode,
    metric: str | None,
    target_saturation: float | None,
    duration: float,
    warmup: str | None,
    **others: Any,
) -> SearchSettings:
    """Return the settings of a search, whose flags are known to be valid."""
    if not math.isfinite(others["target"]):
        raise InputError("is not a limit", "pass a number", subject=others["target"], setting="target")
    if target_saturation is not None and mode == "qos":
        raise InputError(
            "it is for `mode=capacity`", "for qos, pass `metric` and `target`", setting="target_saturation"
        )
    flags = ("--pace", "closed", *forwarded, "--warmup", warmup or f"{duration / 5:g}s")
    parse_words((*flags, "--duration", f"{duration:g}"))  # refuses now what the first replay would
    return SearchSettings(
        trace=trace,
        mode=mode,
        metric=metric or (LATENCY if mode == "qos" else THROUGHPUT),
        duration_s=duration,
        flags=flags,
        near=target_saturation or NEAR_PEAK,
        **others,
    )


def _render_step(step: Step) -> str:
    """Render a step as a line of the table."""
    rate = "-" if step.throughput is None else f"{step.throughput:.3f}"
    p95_ms, reads = step.tail
    p95 = "-" if p95_ms is None else f"{p95_ms:.1f} ({reads:,})"
    cells = f"{step.users:>7,}{len(step.trials):>8}{rate:>9}{p95:>22}{step.saturation:>7.0%}"
    return f"{cells}  {step.decision}: {step.reason}"
