"""Autoscale: fresh closed-loop replays of a trace's first users, searched for how many a system carries."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import click

from replayer.schema import TIERS, read_run
from replayer.search import Result, Sample, Search, Step, Target, stats
from replayer.series import Series, analysis
from tracegen.schema import InputError, Trace

LATENCY: Final = "nvme_read_p95_ms"
THROUGHPUT: Final = "steady_nvme_read_gib_s+steady_nvme_write_gib_s"
_AT_LEAST: Final = ("_tok_s", "_gib_s", "_compliance", "_rate", "_efficiency")  # such metrics have a lower limit


@dataclass(frozen=True)
class Asked:
    """What is searched for, and how.

    Attributes:
        metric: of `analysis summary`; several joined by + are added.
        target: of qos.
        users: at most.
        flags: of `replayer run`, for every replay.
    """

    trace: Path
    mode: Literal["qos", "capacity"]
    metric: str
    target: float
    users: int | None
    trials: int
    precision: float
    flags: tuple[str, ...]


def autoscale(asked: Asked, series: Series, told: Callable[[Step], object]) -> dict[str, Any]:
    """Search; the content of autoscale.json, which lies in the series' directory then, with a plot.

    Raises:
        InputError: the trace will not do, or the metric is none of a run's.
        click.exceptions.Exit: a replay failed or is not valid.
    """
    trace = Trace(asked.trace)
    has = trace.metadata.counts.get("users") or 1
    most = min(asked.users or has, has)
    ended: set[int] = set()

    def measure(users: int, trial: int) -> Sample:
        flags = (*asked.flags, "--users", str(users))
        run = series.replay(f"users_{users}/trial_{trial}", asked.trace, flags)
        if read_run(run)["window"]["cut_s"] is None:
            ended.add(users)
        return _sample(json.loads(analysis("summary", str(run), "--json")), asked)

    search = Search(asked.metric, measure, most, asked.trials, asked.precision, told)
    target = Target(asked.target, at_most=not asked.metric.endswith(_AT_LEAST))
    result = search.qos(target) if asked.mode == "qos" else search.capacity()
    warnings = _warnings(ended, result)
    found = {
        "mode": asked.mode,
        "metric": asked.metric,
        "target": asked.target if asked.mode == "qos" else None,
        "trace": {"path": str(asked.trace), "fingerprint": trace.metadata.fingerprint},
        "flags": list(asked.flags),
        "autoscaling_stats": stats(search.steps),
        "result": vars(result),
        "warnings": warnings,
    }
    (series.place / "autoscale.json").write_text(json.dumps(found, indent=1) + "\n")
    _plot(series.place / "autoscale.svg", asked, search.steps, result)
    return found


def _sample(summary: dict[str, Any], asked: Asked) -> Sample:
    if not summary["valid"]:
        for text in summary["findings"]:
            click.secho(f"Error: {summary['run']} is not valid: {text}.", err=True, bold=True)
        raise click.exceptions.Exit(1)
    values = []
    for name in asked.metric.split("+"):
        value = summary.get(name, ...)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InputError(
                f"--metric {name} is no number of `analysis summary --json`; `analysis metrics` lists them."
            )
        values.append(value)
    known = [value for value in values if value is not None]
    moved = [summary[f"steady_nvme_{side}_gib_s"] or 0.0 for side in ("read", "write")]
    return Sample(sum(known) if known else None, sum(moved), summary[LATENCY], _saturation(summary), summary["run"])


def _saturation(summary: dict[str, Any]) -> float:
    """Share of the time in which the busiest side of a tier had something to move: over all time / while busy."""
    sides = [f"{tier}_{side}" for tier in TIERS for side in ("read", "write")]
    busy = [(summary[f"{side}_gib_s"], summary[f"{side}_busy_gib_s"]) for side in sides]
    return max((rate / while_busy for rate, while_busy in busy if rate and while_busy), default=0.0)


def _warnings(ended: set[int], result: Result) -> list[str]:
    if not ended:
        return []
    shown = ", ".join(map(str, sorted(ended)))
    about = "the answer rests on them" if result.users in ended else "the answer does not rest on them"
    return [f"the trace ended before --duration with {shown} users ({about}); pass --cycles or a longer trace."]


def _plot(path: Path, asked: Asked, steps: Sequence[Step], result: Result) -> None:
    """Throughput and P95 against users, the knee marked; the same steps give the same bytes."""
    import matplotlib as mpl  # noqa: PLC0415 (heavy; only plots need it)
    from matplotlib.figure import Figure  # noqa: PLC0415

    rows = sorted(stats(steps), key=lambda row: row["users"])
    users = [row["users"] for row in rows]
    panels: list[tuple[str, str, Any]] = [
        ("throughput_gib_s", "nvme, read and written, GiB/s", "#1f5fa8"),
        ("p95_ms", "nvme reads, P95, ms", "#c8691c"),
    ]
    if asked.metric not in (LATENCY, THROUGHPUT):
        panels.append(("value", asked.metric, "#3f7d3f"))
    with mpl.rc_context({"svg.hashsalt": "kv", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(8, 2.4 * len(panels) + 0.6), layout="constrained")
        figure.suptitle(f"{asked.trace.name}: {result.users:,} users ({asked.mode})", fontsize=11)
        axes = figure.subplots(len(panels), sharex=True)
        for axis, (name, label, colour) in zip(axes, panels, strict=True):
            axis.plot(users, [row[name] for row in rows], marker="o", markersize=4, color=colour)
            axis.set(ylabel=label, xscale="log", ylim=(0, None))
            axis.axvline(result.knee, color="#6b6b6b", linestyle=":")
            axis.grid(alpha=0.2)
        axes[0].annotate(f" knee: {result.knee:,}", (result.knee, 0), color="#6b6b6b", va="bottom")
        if asked.mode == "qos":
            held = axes[0] if asked.metric == THROUGHPUT else axes[-1]
            held.axhline(asked.target, color="#6b6b6b", linestyle="--")
            held.annotate(f"target {asked.target:g}", (1, asked.target), color="#6b6b6b", va="bottom")
        powers = [1 << n for n in range(max(users).bit_length())]
        axes[-1].set_xticks(powers, [f"{one:,}" for one in powers])
        axes[-1].minorticks_off()
        axes[-1].set_xlabel("users")
        figure.savefig(path, format="svg", metadata={"Date": None})
