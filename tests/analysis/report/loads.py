"""Runs at several loads, made by hand."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from analysis.log.targets import Targets
from analysis.report.systems import Gathered, Subject
from analysis.runs.run import Doubt
from analysis.summary.run_summary import MachineName, Summary
from replayer.schema import Storage
from tests.support.summaries import summary_of

LATE = Doubt("fell behind", "the system fell behind its schedule", "offer less load")


def loaded(
    load: float,
    p95_ms: float | None,
    *,
    of: str = "interactive",
    doubts: Iterable[Doubt] = (),
    users: int | None = None,
    conditions: Mapping[str, Any] | None = None,
    **others: Any,
) -> Summary:
    """A run whose requests are all of one class, at a speed-up, or with a number of users."""
    pace = {"pace": "open", "speedup": load} if users is None else {"pace": "closed", "users": users}
    values = {"ttfb_p50_ms": p95_ms and p95_ms / 2, "ttfb_p95_ms": p95_ms, "ttfb_p99_ms": p95_ms and p95_ms * 2}
    values |= {f"{of}_ttfb_p95_ms": p95_ms, "requests_per_s": min(load, 40.0)}
    summary = summary_of(doubts=tuple(doubts), conditions=pace | dict(conditions or {}), **{**values, **others})
    return replace(summary, users=users)


def gathered_of(*summaries: Summary, targets: Targets | None = None, systems: Iterable[str] = ()) -> Gathered:
    """Data of a report on some runs, each a system of its own unless named."""
    names = [*systems] or [f"s{i}" for i in range(len(summaries))]
    runs = [
        Subject(_open(f"runs/run-{i}", summary), summary, f"run-{i}", name)  # type: ignore[arg-type] (no log)
        for i, (name, summary) in enumerate(zip(names, summaries, strict=True))
    ]
    return Gathered(runs, targets or Targets())


def _open(path: str, summary: Summary) -> SimpleNamespace:
    """Return what a report reads of a run beside its summary."""
    info = SimpleNamespace(prediction=summary.prediction, executed_ops=summary.executed_ops)
    return SimpleNamespace(
        path=Path(path), infos=[info], conditions=summary.conditions, trace_fingerprint=summary.trace_fingerprint
    )


def on(summary: Summary, device: str, model: str | None = None) -> Summary:
    """The same run on another drive."""
    machine = MachineName("h", "cpu", 8, device)
    storage = Storage(device=device, device_model=model)
    return replace(summary, machine=machine, storage=storage)
