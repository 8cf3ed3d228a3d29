"""A run in numbers, and how far they may be believed."""

import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import polars as pl
from tqdm import tqdm

from analysis.doubts import against_trace as replanned
from analysis.doubts import checks as doubts
from analysis.doubts import integrity as audit
from analysis.doubts.doubt import Doubt, Evidence
from analysis.doubts.every_row import recomputed
from analysis.log.log import Log, Targets
from analysis.metrics import METRICS
from analysis.metrics.catalogue import CATALOGUE
from analysis.runs.run import Run, open_run
from tracegen.errors import InputError
from tracegen.schema import Trace

SAME_WORK: Final = ("trace_fingerprint", "plan_fingerprint", "cut")
"""Entries of a summary that are no counts, and equal in runs that did the same work."""


def summarise(path: Path, targets: Targets | None = None) -> dict[str, Any]:
    """Every metric of a run under its flat name, with `valid`, `doubts` and what they rest on.

    The metrics are of all its ranks together, warm-up left out.

    Args:
        path: its directory.
        targets: what to hold it against.

    Raises:
        InputError: the run directory is missing, damaged or without a log, or its log is none that a replay leaves.
    """
    run = open_run(path)
    return judged(run, open_log(run, targets))


def checked(path: Path, trace: Path | None = None) -> dict[str, Any]:
    """A run's summary, with a doubt more where its rows are not those of its plan.

    Args:
        path: its directory.
        trace: what it replayed, to be planned anew; `{rank}` stands for the number of the rank. None: its rows are held
            against run.json alone.

    Raises:
        InputError: as `summarise`; or the trace cannot be planned as the run was.
    """
    run = open_run(path)
    found = judged(run, open_log(run))
    more = [vars(doubt) for place, info in run.ranks.items() for doubt in recomputed(place, info)]
    if trace is not None:
        more += [vars(doubt) for doubt in _against(run, trace)]
    texts = [doubt["text"] for doubt in more]
    found |= {"doubts": more + found["doubts"], "findings": texts + found["findings"]}
    return found | {"valid": found["valid"] and not more}


def _against(run: Run, trace: Path) -> Iterator[Doubt]:
    """Where the ranks of a run are not those of a trace."""
    with TemporaryDirectory(prefix="analysis-plan-") as folder:
        places = tqdm(run.ranks.items(), desc="planning anew", unit="rank", leave=False, disable=None, delay=1)
        for number, (place, info) in enumerate(places):
            own = Trace(str(trace).replace("{rank}", str(info.get("rank") or 0)))
            planned = replanned.plan_anew(own.path, place, info, Path(folder) / f"{number}.parquet")
            yield from replanned.deviations(place, info, own, planned)
            planned.moves.unlink()


def open_log(run: Run, targets: Targets | None = None) -> Log:
    """A run's log, known to hold what a replay leaves.

    Raises:
        InputError: it cannot be read, or holds rows that no replay writes.
    """
    try:
        _ = run.facts, run.samples
        log = run.log(targets)
        rows = log.every_cell.select(pl.col("rows").sum()).collect().item()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{run.path}: its log cannot be read ({reason}); copy the run anew.") from None
    if not rows:
        raise InputError(f"{run.path}: its log has no rows; replay it anew.")
    return log


def judged(run: Run, log: Log) -> dict[str, Any]:
    """The summary of an opened run."""
    values = measure(log)
    drain_s = max((info.get("window") or {}).get("drain_s") or 0.0 for info in run.infos)
    values |= {"drain_s": drain_s}
    cells = log.every_cell.collect()
    evidence = Evidence(
        run.infos,
        values,
        nvme=run.moved(),
        device=run.counted(by_process=False),
        process=run.counted(by_process=True),
        host_cores=run.host_cores,
        causes=run.causes() if values["failed_moves"] else {},
        lost=audit.lost(cells),
    )
    edited = audit.altered(run.infos, run.facts, audit.tally(cells.filter(~pl.col("beyond"))))
    found = doubts.in_order([*run.doubts, *edited, *doubts.of_run(evidence)])
    machine = run.infos[0].get("machine") or {}
    against = [doubt for doubt in found if doubt.invalidates]
    return {
        "run": str(run.path),
        "valid": not against,
        "findings": [doubt.text for doubt in against],
        "doubts": [vars(doubt) for doubt in found],
        "status": run.status,
        "executed_ops": run.executed_ops,
        "cut": any(cut_s is not None for cut_s in run.cuts),
        "trace_fingerprint": run.fingerprint("trace"),
        "plan_fingerprint": run.fingerprint("executed"),
        "conditions": run.conditions,
        "users": run.users,
        "zero_ns": [(info.get("clock") or {}).get("zero_ns") for info in run.infos],
        "ended_ns": run.ended_ns,
        "machine": [
            machine.get("host"),
            machine.get("cpu"),
            machine.get("cores"),
            (machine.get("storage") or {}).get("device"),
        ],
        "host_cores": run.host_cores,
        "storage": machine.get("storage"),
        **values,
    }


def measure(log: Log) -> dict[str, Any]:
    """Every metric of METRICS by its flat name."""
    order = sorted(METRICS, key=lambda name: name != "latency")  # it takes the most memory: before requests are held
    steps = tqdm(order, desc="judging", unit="metric", leave=False, disable=None, delay=1)
    rows = {name: METRICS[name](log).collect(engine="streaming").row(0, named=True) for name in steps}
    return {name: _finite(value) for metric in METRICS for name, value in rows[metric].items()}


def _finite(value: Any) -> Any:
    """JSON knows no infinity: what a run of no duration divides by zero is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def differences(summaries: list[dict[str, Any]]) -> list[str]:
    """Return the names under which runs did unlike work: fingerprints, conditions and every count of the work."""
    first, *others = summaries
    counts = [name for name, metric in CATALOGUE.items() if metric.is_equal_work]
    return sorted({name for name in (*SAME_WORK, *counts) for other in others if other.get(name) != first.get(name)})
