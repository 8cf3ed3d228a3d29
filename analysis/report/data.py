"""The runs of a report: each log read once, runs grouped into systems, systems compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import polars as pl

from analysis.comparison.compare import Comparison, compare_systems
from analysis.comparison.trials import check_named_once
from analysis.log.log import Log
from analysis.log.targets import Targets
from analysis.report.systems import Subject, assign_labels, group_runs, mark_predicted, name_runs
from analysis.runs.opening import open_run
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.answer import shorten_paths
from analysis.summary.distributions import TABLES
from analysis.summary.run_summary import Summary
from analysis.summary.summary import judge, open_log
from replayer.schema import TIERS
from tracegen.errors import InputError, escape_controls
from tracegen.progress import Progress, ignore_progress

# Most systems in a chart; nobody could tell more lines apart.
DRAWN: Final = 8
_ORDER: Final = {"side": ("read", "write"), "tier": TIERS}


@dataclass(frozen=True)
class Gathered:
    """The data of a report.

    Attributes:
        runs: the runs, in the order given.
        targets: bounds that the user set.
        comparison: the systems against one of them; None for a single system.
    """

    runs: list[Subject]
    targets: Targets
    comparison: Comparison | None = None

    @property
    def summaries(self) -> list[Summary]:
        """Summaries of the runs."""
        return [run.summary for run in self.runs]

    @cached_property
    def trials(self) -> dict[str, list[Subject]]:
        """The runs of each system, in the order of their first runs."""
        return group_runs(self.runs, [run.system for run in self.runs])

    @cached_property
    def valid(self) -> dict[str, list[Subject]]:
        """The valid runs of each system; all if none is valid, to show what went wrong."""
        return {name: pick_valid(own) for name, own in self.trials.items()}

    @cached_property
    def shown(self) -> dict[str, Subject]:
        """The run with the median throughput of each system, by its name in charts."""
        shown = {}
        for system, own in [*self.trials.items()][:DRAWN]:
            drawn = pick_valid([run for run in own if run.tables])
            # A mean of several lines over time would show dips that no run had.
            drawn.sort(key=lambda run: run.summary.metrics["wall_clock_tok_s"] or 0.0)
            if drawn:
                median = drawn[len(drawn) // 2]
                shown[system if len(self.trials) > 1 else median.name] = median
        return shown

    @property
    def predicted(self) -> frozenset[str]:
        """The names in charts of the runs shown that were predicted."""
        return frozenset(name for name, run in self.shown.items() if run.summary.prediction)

    def table(self, name: str) -> pl.DataFrame:
        """Return a table of all runs shown, with a column `run`, sorted by tier and direction."""
        tables = ((label, run.tables[name]) for label, run in self.shown.items())
        whole = pl.concat(own.select(pl.lit(label).alias("run"), pl.all()) for label, own in tables)
        keys = [pl.col(key).cast(pl.Enum(_ORDER[key])) for key in ("tier", "side") if key in whole.columns]
        return whole.sort(keys, maintain_order=True) if keys else whole

    def is_equal(self, name: str) -> bool:
        """Return whether a table is the same for all runs shown, as counts of one plan are."""
        first, *others = (run.tables[name] for run in self.shown.values())
        return all(first.equals(other) for other in others)


def pick_valid(runs: Sequence[Subject]) -> list[Subject]:
    """Return the valid runs; all if none is valid, so that a report shows what went wrong."""
    return [run for run in runs if run.summary.is_valid] or [*runs]


def gather(
    paths: Sequence[Path],
    targets: Targets,
    baseline: Path | None = None,
    names: Sequence[str] | None = None,
    progress: Progress = ignore_progress,
    *,
    labels: Sequence[tuple[str, str]] = (),
) -> Gathered:
    """Read runs, and compare their systems.

    Args:
        paths: run directories.
        targets: bounds that the user set.
        baseline: one of the runs, to whose system all are compared; None takes the first run, and
            compares only systems of one load.
        names: names as SYSTEM/TRIAL; None to name runs after their paths.
        progress: shows the work on each run.
        labels: names of systems, each with a directory or a pattern of its runs.

    Raises:
        InputError: a run cannot be read or is named twice, the baseline is not among the runs, or
            a label does not fit them.
    """
    check_named_once(paths)
    resolved = [path.resolve() for path in paths]
    base = resolved[0] if baseline is None else baseline.resolve()
    if base not in resolved:
        remedy = "name it as a run, too"
        raise InputError("not among the runs", remedy, subject=baseline, setting="baseline")
    given = assign_labels(paths, labels)
    runs = [_read(path, targets, progress) for path in paths]
    summaries = add_shared_doubts([run.summary for run in runs], given)
    known = zip(runs, names or shorten_paths(paths), given, summaries, strict=True)
    runs = [
        replace(run, name=escape_controls(name), label=label, summary=summary) for run, name, label, summary in known
    ]
    # Names given as SYSTEM/TRIAL say the system themselves.
    systems = [name.rpartition("/")[0] for name in names] if names else name_runs(runs)
    runs = [
        replace(run, name=mark_predicted(run.name, run), system=mark_predicted(system, run))
        for run, system in zip(runs, systems, strict=True)
    ]
    named = [label for label in given if label]
    # Labels are the sides that the user wants, whatever configurations are under each.
    are_sides = len(named) == len(runs) and len({*named}) > 1
    sides = group_runs(runs, named if are_sides else [run.system for run in runs])
    comparison = None
    if len(sides) > 1:
        first = next(name for name, own in sides.items() if runs[resolved.index(base)] in own)
        trials = {name: [run for run in own if run.is_trial] for name, own in sides.items()}
        comparison = compare_systems(trials, first, is_any_load=baseline is not None)
    return Gathered(runs, targets, comparison)


def _read(path: Path, targets: Targets, progress: Progress) -> Subject:
    """Read a run, with its distributions unless all of it is warm-up."""
    run = open_run(path)
    log = open_log(run, targets)
    subject = Subject(run, judge(run, log, progress))
    if not subject.summary.metrics["logged_ops"]:
        return subject
    number = pl.selectors.float()  # a counter over no time is infinite, and JSON has no infinity
    finite = pl.when(number.is_finite()).then(number).name.keep()
    tables = {name: table(log).with_columns(finite) for name, table in TABLES.items()}
    return replace(subject, tables=tables, moments=find_moments(log))


def find_moments(log: Log) -> dict[str, float]:
    """Return the end of the warm-up and the cut, if the run had them, in s since the first move."""
    if log.span is None:
        return {}
    has_warmup = not log.every_cell.filter("warmup").limit(1).collect().is_empty()
    moments = {"warm-up ends": log.warm_end_ns if has_warmup else None, "measured until here": log.cut_ns}
    first = log.span[0]
    return {name: max(0.0, (at - first) / 1e9) for name, at in moments.items() if at is not None}
