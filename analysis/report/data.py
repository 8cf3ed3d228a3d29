"""Data of a report: summaries and tables of runs, each log opened once, and runs grouped into systems."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl
from msgspec.structs import asdict

from analysis.comparison.compare import Comparison, compare_as_found
from analysis.comparison.trials import Trial, find_fault
from analysis.log.columns import GIB
from analysis.log.log import Log, Targets
from analysis.metrics.headlines import SIDES
from analysis.report.labels import assign_labels, name_systems
from analysis.report.sides.grouping import Member, group_sides
from analysis.runs.opening import open_run
from analysis.runs.run import Run
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.answer import shorten_paths
from analysis.summary.distributions import TABLES
from analysis.summary.run_summary import MachineName, Summary
from analysis.summary.summary import judge, open_log
from replayer.schema import TIERS, RunInfo
from tracegen.errors import InputError, escape_controls
from tracegen.progress import Progress, ignore_progress

DRAWN: Final = 8
"""Most systems in a chart; nobody could tell more lines apart."""
_ORDER: Final = {"side": ("read", "write"), "tier": TIERS}


@dataclass(frozen=True)
class Subject:
    """A run in a report.

    Attributes:
        name: short and unique.
        system: name of its configuration on its machine, which trials share.
        summary: its summary.
        tables: the tables of TABLES by name; empty if the whole run is warm-up.
        infos: run.json of each rank.
        moments: the end of the warm-up and the cut, in s since the first move after the warm-up.
    """

    name: str
    system: str
    summary: Summary
    tables: dict[str, pl.DataFrame]
    infos: list[RunInfo]
    moments: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Gathered:
    """The data of a report.

    Attributes:
        runs: the runs, in the order given.
        targets: bounds that the user set.
        comparison: the systems against one of them; None for a single system.
        title: the title that the user gave; empty to make one.
    """

    runs: list[Subject]
    targets: Targets
    comparison: Comparison | None = None
    title: str = ""

    @property
    def summaries(self) -> list[Summary]:
        """Summaries of the runs."""
        return [run.summary for run in self.runs]

    @property
    def systems(self) -> list[str]:
        """Names of the systems, in the order of their first runs."""
        return list(dict.fromkeys(run.system for run in self.runs))

    def trials(self, system: str) -> list[Subject]:
        """Return the runs of one system."""
        return [run for run in self.runs if run.system == system]

    @property
    def shown(self) -> dict[str, Subject]:
        """The run with the median throughput of each system, by its name in charts."""
        shown = {}
        for system in self.systems[:DRAWN]:
            if not (trials := [run for run in self.trials(system) if run.tables]):
                continue
            valid = [run for run in trials if run.summary.is_valid] or trials
            ordered = sorted(valid, key=lambda run: run.summary.metrics["wall_clock_tok_s"] or 0.0)
            median = ordered[len(ordered) // 2]
            shown[system if len(self.systems) > 1 else median.name] = median
        return shown

    def table(self, name: str) -> pl.DataFrame:
        """Return a table of all runs shown, with a column `run`, sorted by tier and direction if it has them."""
        whole = pl.concat(
            run.tables[name].select(pl.lit(label).alias("run"), pl.all()) for label, run in self.shown.items()
        )
        order = [name for name in ("tier", "side") if name in whole.columns]
        return (
            whole.sort(
                [pl.col(column).cast(pl.Enum(_ORDER[column])) for column in order],
                maintain_order=True,
            )
            if order
            else whole
        )

    @property
    def predicted(self) -> frozenset[str]:
        """The names in charts of the runs shown that were predicted."""
        shown = self.shown.items()
        return frozenset(name for name, run in shown if run.summary.prediction is not None)

    def is_equal(self, name: str) -> bool:
        """Return whether a table is the same for all runs shown, as counts and bytes of one plan are."""
        first, *others = (run.tables[name] for run in self.shown.values())
        return all(first.equals(other) for other in others)


def gather(
    paths: Sequence[Path],
    targets: Targets,
    baseline: Path | None = None,
    names: Sequence[str] | None = None,
    progress: Progress = ignore_progress,
    *,
    title: str = "",
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
        title: the title of the report; empty to make one.
        labels: names of systems, each with a directory or a pattern of its runs.

    Raises:
        InputError: a run cannot be read or is named twice, the baseline is not among the runs, or
            a label does not fit them.
    """
    resolved = [path.resolve() for path in paths]
    if baseline is not None and baseline.resolve() not in resolved:
        raise InputError("not among the runs", "name it as a run, too", subject=baseline, setting="baseline")
    for i, path in enumerate(paths):
        if path.resolve() in {other.resolve() for other in paths[:i]}:
            raise InputError("named twice", "name it once", subject=path)
    given = assign_labels(paths, labels)
    contents = [_read(path, targets, progress) for path in paths]
    summaries = add_shared_doubts([summary for _, summary, *_ in contents], given)
    each = zip(
        names or map(escape_controls, shorten_paths(paths)),
        _name_trials(names) if names else _name_configurations(paths, summaries, given),
        summaries,
        contents,
        strict=True,
    )
    runs = [
        Subject(_mark_predicted(name, summary), system, summary, tables, opened.infos, moments)
        for name, system, summary, (opened, _, tables, moments) in each
    ]
    members = [
        Member(path, run.system, label, run.summary, _make_trial(opened, run.summary))
        for path, run, label, (opened, *_) in zip(paths, runs, given, contents, strict=True)
    ]
    base = members[0 if baseline is None else resolved.index(baseline.resolve())]
    comparison = _compare_members(members, base, is_given=baseline is not None)
    return Gathered(runs, targets, comparison, title)


def _make_trial(run: Run, summary: Summary) -> Trial | None:
    return None if find_fault(run, summary) else Trial(run, summary)


def _compare_members(members: Sequence[Member], base: Member, *, is_given: bool) -> Comparison | None:
    """Compare the sides that runs form with that of one of them; None for a single side."""
    grouped = group_sides(members)
    if len(grouped) < 2:
        return None
    baseline = next(name for name, own in grouped.items() if base in own)
    trials = {name: [run.trial for run in own if run.trial] for name, own in grouped.items()}
    return compare_as_found(trials, baseline, SIDES, is_given=is_given)


Configuration = tuple[str | None, str, int | None, MachineName, str | None]


def _configuration(summary: Summary) -> Configuration:
    """Return a key that the trials of one system share; with a time limit each executes as many ops as it can."""
    provenance = summary.provenance
    ops = provenance.executed_ops if provenance.conditions.duration_s is None else None
    drive = provenance.storage.device_model if provenance.storage is not None else None
    return *provenance.configuration, ops, provenance.machine, drive


def _read(
    path: Path,
    targets: Targets,
    progress: Progress,
) -> tuple[Run, Summary, dict[str, pl.DataFrame], dict[str, float]]:
    run = open_run(path)
    log = open_log(run, targets)
    summary = judge(run, log, progress)
    if not summary.metrics["logged_ops"]:  # nothing but warm-up: there are no times to draw
        return run, summary, {}, {}
    number = pl.selectors.float()  # a counter over no time is infinite, and JSON has no infinity
    tables = {
        name: table(log).with_columns(pl.when(number.is_finite()).then(number).name.keep())
        for name, table in TABLES.items()
    }
    usable = asdict(run.conditions.usable_bytes)
    rooms = pl.DataFrame(
        {
            "tier": TIERS,
            "room_gib": [(usable.get(tier) or 0) * len(run.infos) / GIB or None for tier in TIERS],
        },
        schema={"tier": pl.String, "room_gib": pl.Float64},
    )
    occupancy = tables["occupancy_over_time"]
    tables["occupancy_over_time"] = occupancy.join(rooms, on="tier", how="left", maintain_order="left")
    return run, summary, tables, find_moments(log)


def find_moments(log: Log) -> dict[str, float]:
    """Return the end of the warm-up and the cut, if the run had them, in s since the first move."""
    if log.span is None:
        return {}
    has_warmup = not log.every_cell.filter("warmup").limit(1).collect().is_empty()
    moments = {
        "warm-up ends": log.warm_end_ns if has_warmup else None,
        "measured until here": log.cut_ns,
    }
    return {name: max(0.0, (at - log.span[0]) / 1e9) for name, at in moments.items() if at is not None}


def _name_trials(names: Sequence[str]) -> list[str]:
    """Return the systems of names as SYSTEM/TRIAL."""
    return [name.rpartition("/")[0] for name in names]


def _name_configurations(paths: Sequence[Path], summaries: list[Summary], labels: Sequence[str | None]) -> list[str]:
    """Return the name of each run's system: a label, or what tells its configuration apart."""
    keys = [(label, _configuration(summary)) for label, summary in zip(labels, summaries, strict=True)]
    groups: dict[tuple[str | None, Configuration], list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    systems = [([paths[number] for number in own], summaries[own[0]]) for own in groups.values()]
    named = dict(zip(groups, name_systems(systems, [label for label, _ in groups]), strict=True))
    return [_mark_predicted(named[key], summary) for key, summary in zip(keys, summaries, strict=True)]


def _mark_predicted(name: str, summary: Summary) -> str:
    """Return the name of a run or system, with a mark if the name does not say "predicted"."""
    is_clear = summary.prediction is None or "predicted" in name
    return name if is_clear else f"{name} (predicted)"
