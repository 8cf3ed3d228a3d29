"""The runs of a report: each log read once, runs grouped into named systems, systems compared."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from itertools import chain, combinations, count
from pathlib import Path
from typing import Final

import polars as pl

from analysis.comparison.compare import Comparison, compare_systems
from analysis.comparison.matching import find_path_names
from analysis.comparison.trials import Trial, check_named_once, find_fault, name_condition, write_conditions
from analysis.log.log import Log
from analysis.log.targets import Targets
from analysis.runs.opening import open_run
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.answer import shorten_paths
from analysis.summary.distributions import TABLES
from analysis.summary.run_summary import Summary
from analysis.summary.summary import judge, open_log
from replayer.schema import TIERS
from tracegen.errors import InputError, escape_controls
from tracegen.progress import Progress, ignore_progress

DRAWN: Final = 8  # most systems in a chart; nobody could tell more lines apart
_ORDER: Final = {"side": ("read", "write"), "tier": TIERS}
# Most characters of a name; legends have no room for more.
LONGEST: Final = 28
# Names of directories that say nothing about a system, and names of a sweep's cases.
_UNTOLD: Final = re.compile(r"((run|trial|replay|test|out|output|result|bench)s?)?[-_. ]*\d*|.*=.*", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Subject(Trial):
    """A run in a report, valid or not.

    Attributes:
        name: short and unique.
        system: name of its configuration on its machine, which trials share.
        label: the name that the user gave its system; None without one.
        tables: the tables of TABLES by name; empty if the whole run is warm-up.
        moments: the end of the warm-up and the cut, in s since the first move after the warm-up.
    """

    name: str = ""
    system: str = ""
    label: str | None = None
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    moments: dict[str, float] = field(default_factory=dict)

    @property
    def is_trial(self) -> bool:
        """Whether it may be compared."""
        return not find_fault(self.run, self.summary)

    @property
    def drive(self) -> str | None:
        """The model of its drive; None if it is not known."""
        storage = self.summary.storage
        return None if storage is None else storage.device_model


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
        progress: shows the work on each run.
        labels: names of systems, each with a directory or a pattern of its runs.

    Raises:
        InputError: a run cannot be read, the baseline is not among them, or a label does not fit.
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
    known = zip(runs, shorten_paths(paths), given, summaries, strict=True)
    runs = [
        replace(run, name=mark_predicted(join_lines(name), run), label=label, summary=summary)
        for run, name, label, summary in known
    ]
    systems = zip(runs, name_runs(runs), strict=True)
    runs = [replace(run, system=mark_predicted(system, run)) for run, system in systems]
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


def parse_label(text: str) -> tuple[str, str]:
    """Split NAME=DIRECTORY."""
    name, _, place = text.partition("=")
    if not (name.strip() and place):
        raise InputError("not NAME=DIR", "write `label=old=runs/old`", subject=text, setting="label")
    return join_lines(name), place


def join_lines(text: str) -> str:
    """Return a text on one line, as for a heading, with its control characters escaped: no chart can hold them."""
    return " ".join(escape_controls(text).split())


def assign_labels(paths: Sequence[Path], labels: Sequence[tuple[str, str]]) -> list[str | None]:
    """Return the label of each run: that of its directory, of a folder above, or of a pattern.

    Raises:
        InputError: a label names no run, or a run has two.
    """
    assigned: dict[Path, str] = {}
    for name, place in labels:
        folder, subject = Path(place).resolve(), f"{name}={place}"
        own = [path for path in paths if path.resolve().is_relative_to(folder) or fnmatch(str(path), place)]
        if not own:
            problem, remedy = "no run of this report is there", "name its runs as arguments, too"
            raise InputError(problem, remedy, subject=subject, setting="label")
        for path in own:
            if assigned.setdefault(path, name) != name:
                problem = f"{path} is called {assigned[path]}, too"
                raise InputError(problem, "give it one name", subject=subject, setting="label")
    return [assigned.get(path) for path in paths]


def group_runs(runs: Sequence[Subject], names: Sequence[str]) -> dict[str, list[Subject]]:
    """Group runs by the name of each, in the order of their first runs."""
    grouped: dict[str, list[Subject]] = {}
    for name, run in zip(names, runs, strict=True):
        grouped.setdefault(name, []).append(run)
    return grouped


def name_runs(runs: Sequence[Subject]) -> list[str]:
    """Return the name of each run's system: a label, or what tells its configuration apart.

    With a time limit each trial executes as many ops as it can.
    """
    keys = []
    for run in runs:
        summary = run.summary
        ops = summary.executed_ops if summary.conditions.duration_s is None else None
        keys.append(str((run.label, summary.configuration, ops, summary.machine, run.drive)))
    # Labels, conditions and machines make systems; what is left are trials.
    groups = group_runs(runs, keys)
    named = dict(zip(groups, name_groups([*groups.values()]), strict=True))
    return [named[key] for key in keys]


def mark_predicted(name: str, run: Subject) -> str:
    """Return a name that says whether its run was predicted."""
    return name if run.summary.prediction is None or "predicted" in name else f"{name} (predicted)"


def name_groups(groups: Sequence[Sequence[Subject]]) -> list[str]:
    """Return a short name for each group of runs that distinguishes it from the others.

    It is the label of its runs. Groups with one label are told apart by what differs between them,
    and groups without one by what their paths say, or by what differs.
    """
    alike: dict[str | None, list[Sequence[Subject]]] = {}
    for own in groups:
        alike.setdefault(own[0].label, []).append(own)
    apart = {label: iter(_tell_apart(found, label)) for label, found in alike.items()}
    return list(_number_equal(_shorten(next(apart[own[0].label])) for own in groups))


def _tell_apart(groups: Sequence[Sequence[Subject]], label: str | None) -> list[str]:
    """Name groups of one label, or without any, by their paths if these say something, else by what differs."""
    if label is not None and len(groups) == 1:
        return [label]
    names = find_path_names([[run.run.path for run in own] for own in groups])
    if not names or all(map(_UNTOLD.fullmatch, names)):
        found = _find_differences([own[0].summary for own in groups])
        names = found or names or [own[0].run.path.name for own in groups]
    # Paths may hold any byte.
    return [", ".join(filter(None, (label, escape_controls(name)))) for name in names]


def _find_differences(systems: Sequence[Summary]) -> list[str] | None:
    """Name systems by the fewest facts that tell them apart; None if no facts do."""
    facts = [_list_facts(summary) for summary in systems]
    columns = [[own.get(name, "") for own in facts] for name in dict.fromkeys(chain(*facts))]
    differing = [column for column in columns if len(set(column)) > 1]
    # Three or more facts are tried only all at once: legends have no room, and subsets are many.
    for chosen in chain(combinations(differing, 1), combinations(differing, 2), [differing]):
        joined = [", ".join(filter(None, texts)) for texts in zip(*chosen, strict=True)]
        if len(set(joined)) == len(facts) > 1:
            return joined
    return None


def _list_facts(summary: Summary) -> dict[str, str]:
    """Return what may distinguish a system, in words, the most telling first."""
    storage, machine = summary.storage, summary.machine
    texts = write_conditions(summary.conditions)
    # The most telling comes first: profiles and drives before options.
    sizes = [f"usable_bytes.{tier}" for tier in ("cpu", *TIERS)]
    return {
        "profile": summary.describe_profile(),
        "drive": "" if storage is None else storage.device_model or "",
        "device": "" if storage is None else storage.device or "",
        "file system": "" if storage is None else storage.filesystem or "",
        **{name: name_condition(name, texts[name]) for name in dict.fromkeys((*sizes, *texts))},
        "cpu": machine.cpu or "",
        "host": machine.host or "",
    }


def _shorten(name: str) -> str:
    """Return a name of LONGEST characters at most, without its middle if it is longer."""
    half = (LONGEST - 1) // 2
    return name if len(name) <= LONGEST else f"{name[:half]}…{name[half + 1 - LONGEST :]}"


def _number_equal(names: Iterable[str]) -> Iterator[str]:
    """Yield names, with numbers after those that came before."""
    seen: set[str] = set()
    for name in names:
        numbered = (f"{name} ({number})" for number in count(2))
        free = next(each for each in chain([name], numbered) if each not in seen)
        seen.add(free)
        yield free
