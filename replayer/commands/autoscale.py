"""`replayer autoscale`: find how many users a system carries."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replayer.commands.shared.prediction_options import choose_means, prediction_options
from replayer.commands.shared.screens import choose_screen
from replayer.commands.shared.series_options import series_options
from replayer.experiments.steps import MOST_TRIALS, Step
from replayer.experiments.user_search import LATENCY, NEAR_PEAK, THROUGHPUT, SearchMode
from replayer.options.command_line import config_options, forward_options, forwarded_words, parse_words
from replayer.options.types import PLAIN, SHARE, one_of, whole_number
from tracegen.console.command_line import SECONDS, Quantity
from tracegen.console.commands import command, option_group
from tracegen.errors import InputError, format_count
from views.numbers import format_number

if TYPE_CHECKING:
    from replayer.experiments.autoscale import SearchSettings


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
        type=Quantity(PLAIN),
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
        "--users", type=whole_number(1), metavar="N", help="The most users to try.  [default: all of the trace]"
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
        type=whole_number(1, MOST_TRIALS),
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
@forward_options(without=("users", "duration", "warmup", "pace", "speedup", "cache_dir"), rare=("ops",))
@config_options
@series_options(content="the answer, with what autoscale.json holds")
def autoscale(
    trace: Path, output: Path, predict: str | None, *, cache_dir: Path | None, as_json: bool, **search: Any
) -> None:
    """Find how many users a system carries (docs/what-if.md).

    Each step replays the trace's first users in a closed loop, in several trials until its interval
    is tight. The command also takes flags of `replayer run`. After an interruption, the same
    command continues.
    """
    from replayer.experiments.autoscale import autoscale as search_users
    from replayer.experiments.autoscale import describe_metric
    from replayer.experiments.children import run_analysis
    from replayer.experiments.series import Series
    from tracegen.schema import Trace

    means = choose_means(predict, search.pop("speed"), cache_dir=cache_dir)
    if means.system is not None:
        search["trials"] = 1
    settings = _resolve_search(trace, forwarded_words(), **search)
    means.check_flags(settings.flags)
    Trace(trace).check()  # each replay would refuse it, after the search has begun
    with choose_screen() as screen:
        metric = describe_metric(settings, screen)
        with Series(output, vars(settings), means, screen) as series:
            record = search_users(settings, metric, series, means, lambda step: screen.say(_describe_step(step)))
            page = output / "report.html"
            run_analysis("report", str(record), "-o", str(page), "--force", screen=screen)
            form = "json" if as_json else "txt"
            answer = run_analysis("report", str(record), "--format", form, screen=screen)
            screen.say(str(record))
    click.echo(answer, nl=False)


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
) -> "SearchSettings":
    """Return the settings of a search, whose flags are known to be valid."""
    from replayer.experiments.autoscale import SearchSettings

    if target_saturation is not None and mode == "qos":
        raise InputError(
            "it is for `mode=capacity`", "for qos, pass `metric` and `target`", setting="target_saturation"
        )
    # In a closed loop the load follows from the users alone.
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


def _describe_step(step: Step) -> str:
    """Describe what a step found, and what the search does next."""
    trials = format_count(len(step.trials), "trial")
    value = format_number(step.mean) if step.is_evidence else "too little was measured"
    return f"{format_count(step.users, 'user')}: {value} ({trials}); next: {step.decision}"
