"""Systems compared: ratios of metrics over matched configurations, verdicts, the metric to quote, a ranking."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from analysis.comparison.matching import (
    Configuration,
    check_varied,
    conditions_of,
    configuration,
    differing,
    grouped,
    is_varied,
    labels,
    leading,
    match,
    shown,
)
from analysis.comparison.ratios import Ratio, budgets, named, notes, ratio, recommendation, same_ratios
from analysis.comparison.trials import Trial, load
from analysis.metrics.catalogue import CATALOGUE
from analysis.metrics.headlines import COMPARED, QUOTED, TOTALS
from analysis.summary.run_summary import Summary
from tracegen.errors import InputError

MOST_LISTED: Final = 12
"""Counts that are named if runs differ in none of the totals."""


@dataclass(frozen=True)
class Pair:
    """Two sides.

    Attributes:
        ratios: of every metric of the comparison, and of QUOTED.
        by: of QUOTED, by what tells configurations apart: model, cpu_gib, users; then by its value. Only where
            there is more than one.
    """

    a: str
    b: str
    ratios: dict[str, Ratio]
    by: dict[str, dict[str, dict[str, Ratio]]]


@dataclass(frozen=True)
class Advice:
    """Which metric to quote.

    Attributes:
        metrics: the recommended ones, the first of which ranks.
        why: in a clause.
        by_cpu_gib: the recommended ones by the CPU tier's size in GiB, where there are several.
        notes: what the data at hand says to that, in sentences.
    """

    metrics: tuple[str, ...]
    why: str
    by_cpu_gib: dict[str, tuple[str, ...]]
    notes: list[str]


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; the text, the JSON and reports are made of it.

    Attributes:
        sides: their names, in the order given.
        runs: paths of the trials of each side.
        left_out: of each run left out, why.
        unmatched: of each configuration that is not on every side, why.
        warnings: what makes the comparison doubtful.
        varied: what differs on purpose: its value on each side.
        doubts: kinds of doubt that do not invalidate a run, and of how many runs here.
        configurations: those on every side, or with `workloads` one of each.
        workloads: the sides are unlike workloads, so that there are neither pairs nor advice.
        metrics: those to be shown.
        same_ratio: of them, those that are one number by construction, by the first, which is shown for all.
        pairs: of two sides the first against the second; of more each against the best, in the order of rank.
        ranking: sides, the best first by advice.metrics[0].
        advice: None without a second side.
    """

    sides: list[str]
    runs: dict[str, list[str]]
    left_out: dict[str, str]
    unmatched: list[str]
    warnings: list[str]
    varied: dict[str, dict[str, str]]
    doubts: dict[str, int]
    configurations: list[Configuration]
    workloads: bool
    metrics: list[str]
    same_ratio: dict[str, list[str]]
    pairs: list[Pair]
    ranking: list[str]
    advice: Advice | None


def compare(
    sides: Mapping[str, Sequence[Path]] | Sequence[Sequence[Path]],
    vary: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    *,
    workloads: bool = False,
) -> Comparison:
    """Compare sets of runs, matched by trace, plan and conditions.

    Args:
        sides: runs by side; sides without names are named after their paths.
        vary: conditions that differ between sides on purpose.
        metrics: names in a summary; None takes those of COMPARED that the runs have.
        workloads: the sides replayed unlike traces, to be put side by side.

    Raises:
        InputError: a run cannot be read, a side has no valid run, nothing matches, or a name is unknown.
    """
    named = dict(sides) if isinstance(sides, Mapping) else dict(zip(labels(sides), sides, strict=True))
    trials: dict[str, list[Trial]] = {}
    left_out: dict[str, str] = {}
    for side, runs in named.items():
        trials[side], missing = load(runs)
        left_out |= {str(path): why for path, why in missing.items()}
    if workloads:
        check_varied(vary, trials)
        configurations = [_workload(side, found) for side, found in trials.items()]
        unmatched: list[str] = []
    else:
        configurations, unmatched = match(trials, vary)
    chosen = _chosen(configurations, metrics)
    judged = _judged(configurations, list(named), chosen) if len(named) > 1 and not workloads else ([], [], None)
    ranking, pairs, advice = judged
    return Comparison(
        sides=list(named),
        runs={side: [str(trial.run.path) for trial in found] for side, found in trials.items()},
        left_out=left_out,
        unmatched=unmatched,
        warnings=_warnings(trials, configurations, vary, workloads=workloads),
        varied=_varied(trials, vary),
        doubts=_doubts(trial for found in trials.values() for trial in found),
        configurations=configurations,
        workloads=workloads,
        metrics=chosen,
        same_ratio=same_ratios(_trials(configurations), chosen) if judged[1] else {},
        pairs=pairs,
        ranking=ranking,
        advice=advice,
    )


def _workload(side: str, trials: Sequence[Trial]) -> Configuration:
    if len(groups := grouped(trials)) > 1:
        what = "traces" if len({trace for trace, _ in groups}) > 1 else "conditions"
        raise InputError(f"--by workload: {side} mixes runs of unlike {what}; give each a set of its own by --against.")
    return configuration(side, {side: trials})


def _chosen(configurations: Sequence[Configuration], metrics: Sequence[str] | None) -> list[str]:
    """The metrics asked for, or those of COMPARED that all sides have and that are not 0 on all."""
    found = [one for c in configurations for side in c.summaries.values() for one in side]
    names = list(found[0].numbers)
    for name in metrics or ():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else "`analysis metrics` lists them."
            raise InputError(f"--metric {name} is no number in a summary of these runs; {hint}")
    if metrics is not None and list(metrics):
        return list(dict.fromkeys(metrics))
    return [name for name in COMPARED if name in names and any(one.numbers.get(name) for one in found)]


def _judged(
    configurations: Sequence[Configuration], sides: Sequence[str], metrics: Sequence[str]
) -> tuple[list[str], list[Pair], Advice]:
    """Ranking, pairs and advice."""
    recommended, why = recommendation(configurations)
    speeds = {
        metric: {side: ratio(configurations, side, sides[0], metric).ratio for side in sides}
        for metric in (*recommended, *QUOTED)
    }
    usable = [metric for metric, found in speeds.items() if None not in found.values()]
    kept = tuple(metric for metric in recommended if metric in usable) or (*usable, recommended[0])[:1]
    ranking = sorted(sides, key=lambda side: -(speeds[kept[0]][side] or 0.0))
    wanted = [(sides[0], sides[1])] if len(sides) == 2 else [(side, ranking[0]) for side in ranking[1:]]
    pairs = [_pair(configurations, a, b, metrics) for a, b in wanted]
    by = {size: found for size, (found, _) in budgets(configurations).items()}
    same = same_ratios(_trials(configurations), kept)
    told = [metric for metric in kept if metric not in {other for others in same.values() for other in others}]
    said = [note for pair in pairs for note in notes(pair.ratios, told)]
    return ranking, pairs, Advice(kept, why, by if len(by) > 1 else {}, said)


def _trials(configurations: Sequence[Configuration]) -> list[list[Summary]]:
    """The summaries of each configuration, of all sides."""
    return [[summary for side in one.summaries.values() for summary in side] for one in configurations]


def _pair(configurations: Sequence[Configuration], a: str, b: str, metrics: Sequence[str]) -> Pair:
    by: dict[str, dict[str, dict[str, Ratio]]] = {}
    for name, value_of in GROUPS.items():
        groups: dict[str, list[Configuration]] = {}
        for one in sorted(configurations, key=lambda c: _order(value_of(c))):
            groups.setdefault(named(value_of(one)), []).append(one)
        if len(groups) > 1:
            by[name] = {v: {m: ratio(found, a, b, m) for m in QUOTED} for v, found in groups.items()}
    return Pair(a, b, {m: ratio(configurations, a, b, m) for m in dict.fromkeys([*metrics, *QUOTED])}, by)


def _order(value: Any) -> tuple[bool, float, str]:
    return (value is None, value if isinstance(value, int | float) else 0.0, str(value))


GROUPS: Final[dict[str, Callable[[Configuration], Any]]] = {
    "model": lambda one: one.conditions.model,
    "cpu_gib": lambda one: one.cpu_gib,
    "users": lambda one: one.users,
}


def _varied(sides: Mapping[str, Sequence[Trial]], vary: Sequence[str]) -> dict[str, dict[str, str]]:
    """What is varied, where it differs, with the values on each side."""
    found: dict[str, dict[str, str]] = {}
    every = {side: [conditions_of(trial) for trial in trials] for side, trials in sides.items()}
    for name in leading(differing(*(one for conditions in every.values() for one in conditions))):
        if is_varied(name, vary):
            values = {side: dict.fromkeys(shown(name, one.get(name)) for one in every[side]) for side in sides}
            found[name] = {side: ", ".join(one) for side, one in values.items()}
    return found


def unequal_work(one: Configuration) -> list[str]:
    """Return the counts of the work that differ between the trials of a configuration, TOTALS first."""
    summaries = [summary for trials in one.summaries.values() for summary in trials]
    counts = [name for name, metric in CATALOGUE.items() if metric.is_equal_work]
    names = dict.fromkeys((*TOTALS, *counts))
    return [name for name in names if len({summary.metrics.get(name) for summary in summaries}) > 1]


def list_totals(names: Iterable[str]) -> list[str]:
    """Return those of some counts that are TOTALS; the first few counts if none is."""
    unequal = list(names)
    return [name for name in unequal if name in TOTALS] or unequal[:MOST_LISTED]


def _warnings(
    sides: Mapping[str, Sequence[Trial]],
    configurations: Sequence[Configuration],
    vary: Sequence[str],
    *,
    workloads: bool,
) -> list[str]:
    """What makes the comparison doubtful, in sentences."""
    found = []
    everyone = [trial for trials in sides.values() for trial in trials]
    times = Counter(trial.origin for trial in everyone)
    if twice := dict.fromkeys(str(trial.run.path) for trial in everyone if times[trial.origin] > 1):
        found.append(f"{', '.join(twice)} is on more than one side: a run is no other system than itself.")
    for side, trials in ({"the set of workloads": everyone} if workloads else sides).items():
        machines = dict.fromkeys(trial.machine for trial in trials)  # a run without an nvme tier names no device
        kinds = [" ".join(one) for one in machines if not any(two[: len(one)] == one != two for two in machines)]
        if len(kinds) > 1:
            found.append(f"{side} mixes machines ({'; '.join(kinds)}): trials of one system must run on one.")
    if workloads:
        every = {side: conditions_of(trials[0]) for side, trials in sides.items()}
        unlike = [name for name in differing(*every.values()) if not is_varied(name, vary)]
        values = (f"{name} ({', '.join(shown(name, one.get(name)) for one in every.values())})" for name in unlike)
        found += [f"not only the workloads differ: {', '.join(values)}."] if unlike else []
        return found
    for one in configurations:
        if one.same_plan and not one.cut and (names := unequal_work(one)):
            found.append(
                f"{one.name}: runs of one plan were measured over unlike work ({', '.join(list_totals(names))}): their"
                " warm-up ended at different ops; replay with --warmup in ops, not in seconds."
            )
    return found


def _doubts(trials: Iterable[Trial]) -> dict[str, int]:
    return dict(Counter(kind for one in trials for kind in dict.fromkeys(doubt.kind for doubt in one.summary.doubts)))
