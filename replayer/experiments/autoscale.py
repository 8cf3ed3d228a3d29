"""Autoscale: fresh closed-loop replays of a trace's first users, searched for how many a system carries."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import click

from replayer.experiments.replay_series import Series, analysis
from replayer.experiments.steps import Result, Sample, Step, Target, stats
from replayer.experiments.user_search import ALL, NEAR_PEAK, Search
from replayer.record.columns import TIERS
from replayer.record.reading import read_run
from tracegen.errors import InputError, format_count, missing_package
from tracegen.schema import Trace

LATENCY: Final = "ttfb_p95_ms"
THROUGHPUT: Final = "steady_nvme_read_gib_s+steady_nvme_write_gib_s"
_READS: Final = "nvme_read_p95_ms"


@dataclass(frozen=True)
class Asked:
    """What is searched for, and how.

    Attributes:
        metric: of `analysis summary`; several joined by + are added.
        target: of qos.
        users: at most.
        duration_s: of a replay.
        flags: of `replayer run`, for every replay.
        near: of capacity, the share of the peak that the fewest users must reach.
    """

    trace: Path
    mode: Literal["qos", "capacity"]
    metric: str
    target: float
    users: int | None
    trials: int
    precision: float
    duration_s: float
    flags: tuple[str, ...]
    near: float = NEAR_PEAK


@dataclass(frozen=True)
class Metric:
    """What a search goes by, as `analysis metrics` describes it.

    Attributes:
        names: to be added.
        at_most: whether less is better, so that a target is an upper limit.
        counts: the metrics that count the samples of each.
        least: samples that a value must rest on.
    """

    names: tuple[str, ...]
    at_most: bool
    counts: tuple[str, ...]
    least: int


def described(asked: Asked) -> Metric:
    """What analysis says of the metric that is searched by.

    Raises:
        InputError: no search can go by it.
        click.exceptions.Exit: it is no metric, and analysis has said so.
    """
    names = tuple(asked.metric.split("+"))
    terms = json.loads(analysis("metrics", "--json", *names))
    ways = {name: term["better"] for term in terms for name in term["names"]}
    rests = {name: about for term in terms for name, about in term["samples"].items()}
    for name in names:
        if ways.get(name) is None:
            raise InputError(f"--metric {name}: no value of it is better than another; name a latency, rate or share.")
        if rests[name]["counted_by"] is None and rests[name]["least"] > 1:
            raise InputError(f"--metric {name}: a summary does not count its samples; name a time of all such moves.")
    if len({ways[name] for name in names}) > 1:
        raise InputError(f"--metric {asked.metric} adds what should be high to what should be low; name one of them.")
    if asked.mode == "capacity" and ways[names[0]] == "lower":
        raise InputError(f"--metric {asked.metric}: capacity looks for the highest value, and lower is better of this.")
    counts = tuple(rests[name]["counted_by"] for name in names if rests[name]["counted_by"])
    return Metric(names, ways[names[0]] == "lower", counts, max(rests[name]["least"] for name in names))


def autoscale(asked: Asked, metric: Metric, series: Series, told: Callable[[Step], object]) -> dict[str, Any]:
    """Search; the content of autoscale.json, which lies in the series' directory then, with a plot.

    Raises:
        InputError: the trace will not do.
        click.exceptions.Exit: a replay failed or is not valid.
    """
    trace = Trace(asked.trace)
    has = trace.metadata.counts.get("users") or 1
    most = min(asked.users or has, has)
    ended: set[int] = set()
    doubts: dict[tuple[str, str], dict[str, str]] = {}

    def measure(users: int, trial: int, times: int) -> Sample:
        name = f"users_{users}/trial_{trial}{f'-{times}_times_longer' if times > 1 else ''}"
        flags = (*asked.flags, "--duration", f"{asked.duration_s * times:g}", "--users", str(users))
        run = series.replay(name, asked.trace, flags)
        whole = read_run(run).cut_s is None
        if whole:
            ended.add(users)
        summary = json.loads(analysis("summary", str(run), "--json"))
        for doubt in summary["doubts"]:
            doubts.setdefault((doubt["kind"], doubt["advice"]), {})[name] = doubt["text"]
        return _sample(summary, metric, ended=whole)

    ceiling = ALL if most == has else f"--users {most} allows no more: more users may show more"
    search = Search(
        asked.metric,
        measure,
        most,
        asked.trials,
        asked.precision,
        told,
        least=metric.least,
        near=asked.near,
        ceiling=ceiling,
    )
    target = Target(asked.target, at_most=metric.at_most)
    result = search.qos(target) if asked.mode == "qos" else search.capacity()
    replays = sum(len(step.samples) + len(step.short) for step in search.steps)
    found = {
        "mode": asked.mode,
        "metric": asked.metric,
        "least_samples": metric.least,
        "target": asked.target if asked.mode == "qos" else None,
        "target_is": ("at_most" if metric.at_most else "at_least") if asked.mode == "qos" else None,
        "target_saturation": asked.near if asked.mode == "capacity" else None,
        "trace": {"path": str(asked.trace), "fingerprint": trace.metadata.fingerprint},
        "flags": list(asked.flags),
        "duration_s": asked.duration_s,
        "autoscaling_stats": stats(search.steps),
        "result": vars(result),
        "warnings": [*_ended(ended, result), *_doubted(doubts, replays)],
    }
    (series.place / "autoscale.json").write_text(json.dumps(found, indent=1) + "\n")
    _plot(series.place / "autoscale.svg", asked, search.steps, result)
    return found


def _sample(summary: dict[str, Any], metric: Metric, *, ended: bool) -> Sample:
    if not summary["valid"]:
        for text in summary["findings"]:
            click.secho(f"Error: {summary['run']} is not valid: {text}.", err=True, bold=True)
        raise click.exceptions.Exit(1)
    moved = [summary[f"steady_nvme_{side}_gib_s"] for side in ("read", "write")]
    return Sample(
        _sum([summary[name] for name in metric.names]),
        _sum(moved),
        summary[_READS],
        _saturation(summary),
        summary["run"],
        min((summary[name] for name in metric.counts), default=None),
        summary["nvme_reads"],
        ended,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """Of all; None where one was not measured."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _saturation(summary: dict[str, Any]) -> float:
    """Share of the time in which the busiest side of a tier had something to move: over all time / while busy."""
    sides = [f"{tier}_{side}" for tier in TIERS for side in ("read", "write")]
    busy = [(summary[f"{side}_gib_s"], summary[f"{side}_busy_gib_s"]) for side in sides]
    return max((rate / while_busy for rate, while_busy in busy if rate and while_busy), default=0.0)


def _ended(ended: set[int], result: Result) -> list[str]:
    if not ended:
        return []
    *few, most = sorted(ended)
    shown = f"{', '.join(map(str, few))} and {most} users" if few else format_count(most, "user")
    about = "the answer rests on them" if result.users in ended else "the answer does not rest on them"
    return [f"the trace ended before --duration with {shown} ({about}); pass --cycles or a longer trace."]


def _doubted(doubts: dict[tuple[str, str], dict[str, str]], replays: int) -> list[str]:
    """A warning per kind of doubt on the replays, with the last one's figures."""
    found = []
    for (kind, advice), texts in doubts.items():
        name, text = list(texts.items())[-1]
        found.append(f"{kind}: {len(texts)} of {format_count(replays, 'replay')}, {name} for one: {text}; {advice}.")
    return found


def _plot(path: Path, asked: Asked, steps: Sequence[Step], result: Result) -> None:
    """Throughput and P95 against users, the knee marked; the same steps give the same bytes."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 (an extra; only plots need it)
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        click.secho(f"Warning: {missing_package(str(path), 'matplotlib', 'plot')}", err=True, bold=True)
        return

    rows = sorted(stats(steps), key=lambda row: row["users"])
    users = [row["users"] for row in rows]
    panels: list[tuple[str, str, Any]] = [
        ("throughput_gib_s", "nvme, read and written, GiB/s", "#1f5fa8"),
        ("p95_ms", "nvme reads, P95, ms", "#c8691c"),
    ]
    if asked.metric not in (_READS, THROUGHPUT):
        panels.append(("value", asked.metric, "#3f7d3f"))
    searched = 0 if asked.metric == THROUGHPUT else len(panels) - 1
    spreads = {row["users"]: row["interval"] for row in rows if row["interval"]}
    with mpl.rc_context({"svg.hashsalt": "kv", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(8, 2.4 * len(panels) + 0.6), layout="constrained")
        answer = "not known how many users" if result.users is None else format_count(result.users, "user")
        figure.suptitle(f"{asked.trace.name}: {answer} ({asked.mode})", fontsize=11)
        axes = figure.subplots(len(panels), sharex=True)
        for axis, (name, label, colour) in zip(axes, panels, strict=True):
            values = [math.nan if row[name] is None else row[name] for row in rows]
            axis.plot(users, values, marker="o", markersize=4, color=colour)
            axis.set(ylabel=label, xscale="log", ylim=(0, None))
            axis.grid(alpha=0.2)
            if result.knee is not None:
                axis.axvline(result.knee, color="#6b6b6b", linestyle=":")
        if result.knee is not None:
            axes[0].annotate(f" knee: {result.knee:,}", (result.knee, 0), color="#6b6b6b", va="bottom")
        held = axes[searched]
        for one, (low, high) in spreads.items():
            held.vlines(one, low, high, color="#6b6b6b")
        if asked.mode == "qos":
            held.axhline(asked.target, color="#6b6b6b", linestyle="--")
            held.annotate(f"target {asked.target:g}", (1, asked.target), color="#6b6b6b", va="bottom")
        powers = [1 << n for n in range(max(users).bit_length())]
        axes[-1].set_xticks(powers, [f"{one:,}" for one in powers])
        axes[-1].minorticks_off()
        axes[-1].set_xlabel("users")
        figure.savefig(path, format="svg", metadata={"Date": None})
