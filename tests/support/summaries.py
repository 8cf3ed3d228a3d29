"""Summaries made by hand: every part has a plausible value unless a test gives another."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from analysis.runs.run import Doubt
from analysis.summary.answer import answer_runs
from analysis.summary.run_summary import MachineName, Metrics, Summary
from replayer.schema import Conditions, PredictionInfo
from views.text import render_text

METRICS: Metrics = {"wall_clock_tok_s": 100.0, "hit_rate": 0.5}
CONDITIONS: dict[str, Any] = {
    "model": "m", "bytes_per_token": 1, "usable_bytes": {"gpu": 0, "cpu": 0, "nvme": None}, "workers": 8, "pace": "asap",
    "direct": True, "verify": "stamps",
}  # fmt: skip
MACHINE = MachineName("h", "cpu", 8, "/dev/a")
FAILED = Doubt("incomplete", "the run is failed: by design", "replay it to its end", invalidates=True)


def summary_of(
    *,
    run: str = "run",
    doubts: Sequence[Doubt] = (),
    trace: str = "t",
    conditions: Mapping[str, Any] | None = None,
    machine: MachineName = MACHINE,
    zero_ns: Sequence[int | None] = (None,),
    executed_ops: int = 5,
    cut: str | None = None,
    prediction: PredictionInfo | None = None,
    **metrics: float | None,
) -> Summary:
    """Return a summary; `conditions` and `metrics` change those of CONDITIONS and METRICS."""
    return Summary(
        run=run,
        doubts=tuple(doubts),
        status="complete",
        executed_ops=executed_ops,
        cut=cut,
        trace_fingerprint=trace,
        plan_fingerprint="p",
        conditions=msgspec.convert(CONDITIONS | dict(conditions or {}), Conditions),
        users=None,
        zero_ns=[*zero_ns],
        ended_ns=[None] * len(zero_ns),
        machine=machine,
        host_cores=None,
        storage=None,
        metrics=METRICS | metrics,
        bottleneck="queue",
        prediction=prediction,
    )


def show(*summaries: Summary) -> str:
    """Return what `analysis summary` prints."""
    return render_text(answer_runs(summaries))
