"""Data of a report: summaries and tables of runs, each log opened once, and runs grouped into systems."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl
from msgspec.structs import asdict

from analysis.comparison.matching import name_sets
from analysis.log.columns import GIB
from analysis.log.log import Log, Targets
from analysis.progress import Progress, ignore_progress
from analysis.report.baseline import Rank, rank_systems
from analysis.runs.opening import open_run
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.distributions import TABLES
from analysis.summary.run_summary import MachineName, Summary
from analysis.summary.summary import judge, open_log
from analysis.summary.text import shorten_paths
from replayer.schema import TIERS, RunInfo
from tracegen.errors import InputError

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
        ranking: ranking of the systems against a baseline; empty without one.
    """

    runs: list[Subject]
    targets: Targets
    ranking: list[Rank] = field(default_factory=list)

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
) -> Gathered:
    """Read runs, and rank them against a baseline.

    Args:
        paths: run directories.
        targets: bounds that the user set.
        baseline: one of the runs; all systems that replayed its trace are ranked.
        names: names as SYSTEM/TRIAL; None to name runs after their paths.
        progress: shows the work on each run.

    Raises:
        InputError: a run cannot be read or is named twice, or the baseline is not among the runs.
    """
    resolved = [path.resolve() for path in paths]
    if baseline is not None and baseline.resolve() not in resolved:
        raise InputError("not among the runs", "name it as a run, too", subject=baseline, setting="baseline")
    for i, path in enumerate(paths):
        if path.resolve() in {other.resolve() for other in paths[:i]}:
            raise InputError("named twice", "name it once", subject=path)
    contents = [_read(path, targets, progress) for path in paths]
    summaries = add_shared_doubts([summary for summary, *_ in contents])
    each = zip(
        names or shorten_paths(paths),
        _name_systems(paths, summaries, names),
        summaries,
        contents,
        strict=True,
    )
    runs = [
        Subject(_mark_predicted(name, summary), system, summary, tables, infos, moments)
        for name, system, summary, (_, tables, infos, moments) in each
    ]
    if baseline is None:
        return Gathered(runs, targets)
    base = runs[resolved.index(baseline.resolve())]
    systems: dict[str, list[Path]] = {}
    for run, path in zip(runs, paths, strict=True):
        if run.summary.provenance.trace_fingerprint == base.summary.provenance.trace_fingerprint:
            systems.setdefault(run.system, []).append(path)
    return Gathered(runs, targets, rank_systems(systems, base.system))


Configuration = tuple[str | None, str, int | None, MachineName]


def _configuration(summary: Summary) -> Configuration:
    """Return a key that the trials of one system share; with a time limit each executes as many ops as it can."""
    provenance = summary.provenance
    ops = provenance.executed_ops if provenance.conditions.duration_s is None else None
    return *provenance.configuration, ops, provenance.machine


def _read(
    path: Path,
    targets: Targets,
    progress: Progress,
) -> tuple[Summary, dict[str, pl.DataFrame], list[RunInfo], dict[str, float]]:
    run = open_run(path)
    log = open_log(run, targets)
    summary = judge(run, log, progress)
    if not summary.metrics["logged_ops"]:  # nothing but warm-up: there are no times to draw
        return summary, {}, run.infos, {}
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
    return summary, tables, run.infos, find_moments(log)


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


def _name_systems(paths: Sequence[Path], summaries: list[Summary], names: Sequence[str] | None) -> list[str]:
    if names is not None:
        return [name.rpartition("/")[0] for name in names]
    groups: dict[Configuration, list[Path]] = {}
    for path, summary in zip(paths, summaries, strict=True):
        groups.setdefault(_configuration(summary), []).append(path)
    labels = dict(zip(groups, name_sets(list(groups.values())), strict=True))
    return [_mark_predicted(labels[_configuration(summary)], summary) for summary in summaries]


def _mark_predicted(name: str, summary: Summary) -> str:
    """Return the name of a run or system, with a mark if the name does not say "predicted"."""
    is_clear = summary.prediction is None or "predicted" in name
    return name if is_clear else f"{name} (predicted)"
