"""What a report is made of, with every log opened once: summaries, tables, and which runs are trials of one system."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl
from msgspec.structs import asdict

from analysis.comparison.matching import name_sets
from analysis.log.columns import GIB
from analysis.log.log import Targets
from analysis.report.baseline import Rank, ranked
from analysis.runs.opening import open_run
from analysis.summary.across_runs import together
from analysis.summary.distributions import TABLES
from analysis.summary.run_summary import MachineName, Summary
from analysis.summary.summary import judged, open_log
from analysis.summary.text import short
from replayer.schema import TIERS, RunInfo
from tracegen.errors import InputError

DRAWN: Final = 8
"""Charts show up to so many systems; more lines than these nobody tells apart."""
_ORDER: Final = {"side": ("read", "write"), "tier": TIERS}


@dataclass(frozen=True)
class Subject:
    """A run as the report shows it.

    Attributes:
        name: short, unlike those of the others.
        system: the name of its configuration on its machine; trials share it.
        summary: as `analysis summary --json` gives it.
        tables: TABLES of its log, by name; none where all of it is warm-up.
        infos: run.json of each rank.
    """

    name: str
    system: str
    summary: Summary
    tables: dict[str, pl.DataFrame]
    infos: list[RunInfo]


@dataclass(frozen=True)
class Gathered:
    """All of it.

    Attributes:
        runs: in the order given.
        targets: what they were held against.
        ranking: of the systems against one of them, where it was asked for.
    """

    runs: list[Subject]
    targets: Targets
    ranking: list[Rank] = field(default_factory=list)

    @property
    def summaries(self) -> list[Summary]:
        """Of each run."""
        return [run.summary for run in self.runs]

    @property
    def systems(self) -> list[str]:
        """Names of unlike configurations or machines, in the order of their first runs."""
        return list(dict.fromkeys(run.system for run in self.runs))

    def trials(self, system: str) -> list[Subject]:
        """The runs of one system."""
        return [run for run in self.runs if run.system == system]

    @property
    def shown(self) -> dict[str, Subject]:
        """The run that stands for each system in charts, by what it is called there: the one of median throughput."""
        found = {}
        for system in self.systems[:DRAWN]:
            if not (trials := [run for run in self.trials(system) if run.tables]):
                continue
            believed = [run for run in trials if run.summary.is_valid] or trials
            ranked = sorted(believed, key=lambda run: run.summary.metrics["wall_clock_tok_s"] or 0.0)
            median = ranked[len(ranked) // 2]
            found[system if len(self.systems) > 1 else median.name] = median
        return found

    def table(self, name: str) -> pl.DataFrame:
        """A table of what charts show, one run below the other, with `run`; by tier and side, where it has them."""
        whole = pl.concat(
            run.tables[name].select(pl.lit(shown).alias("run"), pl.all()) for shown, run in self.shown.items()
        )
        order = [one for one in ("tier", "side") if one in whole.columns]
        return (
            whole.sort([pl.col(one).cast(pl.Enum(_ORDER[one])) for one in order], maintain_order=True)
            if order
            else whole
        )

    def alike(self, name: str) -> bool:
        """Whether a table is the same for all runs shown: counts and bytes of one plan are."""
        first, *others = (run.tables[name] for run in self.shown.values())
        return all(first.equals(other) for other in others)


def gather(
    paths: Sequence[Path], targets: Targets, baseline: Path | None = None, names: Sequence[str] | None = None
) -> Gathered:
    """Read runs, and rank those of its trace against a baseline among them.

    Args:
        paths: run directories.
        targets: what to hold them against.
        baseline: one of them.
        names: to call them by, as SYSTEM/TRIAL; else they are named after their paths.

    Raises:
        InputError: one cannot be read or is named twice, or the baseline is none of them.
    """
    resolved = [path.resolve() for path in paths]
    if baseline is not None and baseline.resolve() not in resolved:
        raise InputError(f"--baseline {baseline} is none of the runs; name it among them, too.")
    for i, path in enumerate(paths):
        if path.resolve() in {other.resolve() for other in paths[:i]}:
            raise InputError(f"{path} is named twice; name it once.")
    found = [_read(path, targets) for path in paths]
    summaries = together([summary for summary, _, _ in found])
    each = zip(names or short(paths), _systems(paths, summaries, names), summaries, found, strict=True)
    runs = [Subject(name, system, summary, tables, infos) for name, system, summary, (_, tables, infos) in each]
    if baseline is None:
        return Gathered(runs, targets)
    base, systems = runs[resolved.index(baseline.resolve())], dict[str, list[Path]]()
    for run, path in zip(runs, paths, strict=True):
        if run.summary.provenance.trace_fingerprint == base.summary.provenance.trace_fingerprint:
            systems.setdefault(run.system, []).append(path)
    return Gathered(runs, targets, ranked(systems, base.system))


Configuration = tuple[str | None, str, int | None, MachineName]


def _configuration(summary: Summary) -> Configuration:
    """Return a key that the trials of one system share; with a time limit each executes as many ops as it can."""
    provenance = summary.provenance
    ops = provenance.executed_ops if provenance.conditions.duration_s is None else None
    return *provenance.configuration, ops, provenance.machine


def _read(path: Path, targets: Targets) -> tuple[Summary, dict[str, pl.DataFrame], list[RunInfo]]:
    run = open_run(path)
    log = open_log(run, targets)
    summary = judged(run, log)
    if not summary.metrics["logged_ops"]:  # nothing but warm-up: no times to put on an axis
        return summary, {}, run.infos
    number = pl.selectors.float()  # a counter over no time is none, and JSON knows no infinity
    tables = {
        name: table(log).with_columns(pl.when(number.is_finite()).then(number).name.keep())
        for name, table in TABLES.items()
    }
    usable = asdict(run.conditions.usable_bytes)
    rooms = pl.DataFrame(
        {"tier": TIERS, "room_gib": [(usable.get(tier) or 0) * len(run.infos) / GIB or None for tier in TIERS]},
        schema={"tier": pl.String, "room_gib": pl.Float64},
    )
    occupancy = tables["occupancy_over_time"]
    tables["occupancy_over_time"] = occupancy.join(rooms, on="tier", how="left", maintain_order="left")
    return summary, tables, run.infos


def _systems(paths: Sequence[Path], summaries: list[Summary], names: Sequence[str] | None) -> list[str]:
    if names is not None:
        return [name.rpartition("/")[0] for name in names]
    groups: dict[Configuration, list[Path]] = {}
    for path, summary in zip(paths, summaries, strict=True):
        groups.setdefault(_configuration(summary), []).append(path)
    called = dict(zip(groups, name_sets(list(groups.values())), strict=True))
    return [called[_configuration(summary)] for summary in summaries]
