"""The summary of a run: its metrics, and the doubts about them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import polars as pl
from polars import col

from analysis.doubts import against_trace, checks, integrity
from analysis.doubts.evidence import Evidence
from analysis.doubts.predictions import identify_profile
from analysis.log.log import Log
from analysis.log.steadiness import find_steadiness
from analysis.log.targets import Targets
from analysis.metrics import METRICS
from analysis.metrics.catalogue import CATALOGUE
from analysis.metrics.waits import find_lower_bounds
from analysis.runs.opening import open_run
from analysis.runs.run import Doubt, Run
from analysis.summary.run_summary import MachineName, Summary
from replayer.schema import RunInfo, Window, describe_cut
from tracegen.errors import InputError
from tracegen.progress import Progress, ignore_progress

# Entries of a summary that are no counts, and equal in runs that did the same work.
SAME_WORK: Final = ("trace_fingerprint", "plan_fingerprint", "cut")


def summarise(path: Path, targets: Targets | None = None, progress: Progress = ignore_progress) -> Summary:
    """Compute every metric of a run, and its doubts.

    The metrics are of all ranks together, without the warm-up.

    Raises:
        InputError: the run directory is missing, damaged or without a log, or its log has rows that
            no replay writes.
    """
    run = open_run(path)
    return judge(run, open_log(run, targets), progress)


def check_run(path: Path, trace: Path | None = None, progress: Progress = ignore_progress) -> Summary:
    """Summarise a run, and check that its rows are those of its plan.

    Args:
        path: the run directory.
        trace: the trace that the run replayed, to plan it again; `{rank}` in its name is the number
            of the rank. None: the rows are compared with run.json alone.
        progress: shows the work.

    Raises:
        InputError: as `summarise`; or the trace cannot be planned as the run was.
    """
    run = open_run(path)
    summary = judge(run, open_log(run), progress)
    texts = [text for rank in run.ranks for text in integrity.compare_fingerprint(rank.path, rank.info)]
    doubts = [*integrity.make_doubts(texts)]
    if trace is not None:
        doubts += _compare_with_trace(run, trace, progress)
    return summary.with_doubts(before=doubts)


def _compare_with_trace(run: Run, trace: Path, progress: Progress) -> Iterator[Doubt]:
    """Yield a doubt for each difference between the ranks of a run and their trace."""
    with (
        TemporaryDirectory(prefix="analysis-plan-") as folder,
        progress("planning again", "rank", len(run.ranks)) as advance,
    ):
        plans = against_trace.Plans(Path(folder))
        for rank in run.ranks:
            own = Path(str(trace).replace("{rank}", str(rank.info.rank or 0)))
            yield from plans.find_deviations(own, rank.path, rank.info)
            advance(1)


def open_log(run: Run, targets: Targets | None = None) -> Log:
    """Open the log of a run, and check that it has the rows of a replay.

    Raises:
        InputError: the log cannot be read, has no rows, or has rows that no replay writes.
    """
    try:
        integrity.refuse_impossible_rows(run)
        log = run.make_log(targets)
        rows = log.every_cell.select(col("rows").sum()).collect().item()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"its log cannot be read ({reason})", "copy the run again", subject=run.path) from None
    if not rows:
        raise InputError("its log has no rows", "replay it", subject=run.path)
    return log


def judge(run: Run, log: Log, progress: Progress = ignore_progress) -> Summary:
    """Compute the metrics and the doubts of an opened run."""
    values = measure(log, progress)
    windows = [info.window for info in run.infos if info.window is not None]
    values |= {"drain_s": max((window.drain_s or 0.0 for window in windows), default=0.0)}
    cells = log.every_cell.collect()
    evidence = Evidence(run, values, find_steadiness(log))
    # Ops past executed_ops depend on when the run was cut, so no plan says how many there are.
    counts = integrity.count_moves(cells.filter(~col("beyond")))
    contradictions = integrity.find_contradictions(run, counts)
    found = dict.fromkeys([*run.doubts, *contradictions, *checks.find_doubts(evidence)])
    bottleneck = values.pop("bottleneck")  # a word among numbers
    first = run.infos[0]
    is_measured = first.prediction is None
    return Summary(
        run=str(run.path),
        doubts=tuple(sorted(found, key=lambda doubt: not doubt.invalidates)),
        status=run.status,
        executed_ops=run.executed_ops,
        cut=next((_describe_cut(info) for info in run.infos if info.cut_s is not None), None),
        trace_fingerprint=run.trace_fingerprint,
        plan_fingerprint=run.executed_fingerprint,
        conditions=run.conditions,
        users=run.users,
        zero_ns=[info.zero_ns for info in run.infos],
        ended_ns=run.ended_ns,
        machine=_name_machine(first),
        host_cores=run.host_cores if is_measured else None,
        storage=first.machine.storage if is_measured else None,
        metrics=values,
        bottleneck=bottleneck,
        prediction=evidence.prediction,
        more_than=find_lower_bounds(log),
    )


def _name_machine(info: RunInfo) -> MachineName:
    if info.prediction is not None:  # the machine that computed it does not matter
        return MachineName(None, None, None, None, profile=identify_profile(info.prediction))
    return MachineName(info.machine.host, info.machine.cpu, info.machine.cores, info.device)


def _describe_cut(info: RunInfo) -> str:
    window = info.window or Window()
    return describe_cut(window.duration_s or window.cut_s or 0.0, window.duration_by)


def measure(log: Log, progress: Progress = ignore_progress, groups: Iterable[str] = METRICS) -> dict[str, Any]:
    """Compute every metric of some groups of METRICS, by its flat name."""
    order = sorted(groups, key=lambda name: name != "latency")  # the most memory: before requests are computed
    rows = {}
    with progress("judging", "metric", len(order)) as advance:
        for name in order:
            rows[name] = METRICS[name](log).collect(engine="streaming").row(0, named=True)
            advance(1)
    return {name: _finite(value) for metric in METRICS if metric in rows for name, value in rows[metric].items()}


def _finite(value: Any) -> Any:
    """Replace infinity, which JSON lacks, by None; a run without duration divides by zero."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def find_differences(summaries: Sequence[Summary]) -> list[str]:
    """Return the names under which runs did unlike work: fingerprints, conditions, then counts of the work."""
    first, *others = [summary.to_json() for summary in summaries]
    counts = [name for name, metric in CATALOGUE.items() if metric.is_equal_work]
    return [name for name in (*SAME_WORK, *counts) if any(other.get(name) != first.get(name) for other in others)]
