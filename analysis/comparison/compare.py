"""Comparison of systems: ratios over matched configurations, verdicts, advice and a ranking."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from analysis.comparison.conditions import (
    Systems,
    check_varied,
    conditions_of,
    drop_followers,
    find_differing,
    format_condition,
    is_varied,
)
from analysis.comparison.matching import (
    Configuration,
    group_trials,
    make_configuration,
    match_configurations,
    name_sets,
)
from analysis.comparison.ratios import (
    Ratio,
    compute_ratio,
    describe_findings,
    find_same_ratios,
    format_group,
    recommend_by_budget,
    recommend_metrics,
)
from analysis.comparison.selection import select_metrics
from analysis.comparison.trials import Trial, load_trials
from analysis.comparison.warnings import (
    count_doubts,
    warn_of_conditions,
    warn_of_copies,
    warn_of_machines,
    warn_of_predictions,
    warn_of_work,
)
from analysis.metrics.headlines import QUOTED
from analysis.progress import Advance
from analysis.summary.run_summary import Summary
from tracegen.errors import InputError


@dataclass(frozen=True)
class Pair:
    """Two systems and the ratios between them.

    Attributes:
        a: the system above the line.
        b: the system below the line.
        ratios: by metric; of every metric of the comparison, and of QUOTED.
        by: ratios of QUOTED by model, cpu_gib or users, then by its value, then by metric; only
            settings that have several values.
    """

    a: str
    b: str
    ratios: dict[str, Ratio]
    by: dict[str, dict[str, dict[str, Ratio]]]


@dataclass(frozen=True)
class Advice:
    """The metrics to quote.

    Attributes:
        metrics: the recommended ones; the first ranks the systems.
        why: the reason, a clause.
        by_cpu_gib: the recommended ones by the CPU tier's size in GiB; empty for a single size.
        notes: what these runs say about the recommendation, in sentences.
    """

    metrics: tuple[str, ...]
    why: str
    by_cpu_gib: dict[str, tuple[str, ...]]
    notes: list[str]


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`, from which text, JSON and reports are made.

    Attributes:
        systems: their names, in the order given.
        runs: paths of the trials by system.
        left_out: by path, why a run was left out.
        unmatched: for each configuration that some system lacks, why it has no match.
        warnings: reasons to doubt the comparison, in sentences.
        varied: conditions that differ on purpose, with their value on each system.
        predicted: by system, what its predicted runs were predicted from; measured systems are left
            out.
        doubts: kinds of doubt that do not invalidate a run, with the number of runs that have them.
        configurations: those that every system has; with `workloads` one of each system.
        workloads: whether the systems replayed different workloads, so that there are neither pairs
            nor advice.
        metrics: names of the metrics to show.
        same_ratio: by metric, others whose ratios are the same number by construction.
        pairs: of two systems the first over the second; of more each over the best, in the order
            of the ranking.
        ranking: systems, the best first by advice.metrics[0].
        advice: None for a single system.
    """

    systems: list[str]
    runs: dict[str, list[str]]
    left_out: dict[str, str]
    unmatched: list[str]
    warnings: list[str]
    varied: dict[str, dict[str, str]]
    predicted: dict[str, list[str]]
    doubts: dict[str, int]
    configurations: list[Configuration]
    workloads: bool
    metrics: list[str]
    same_ratio: dict[str, list[str]]
    pairs: list[Pair]
    ranking: list[str]
    advice: Advice | None


@dataclass(frozen=True)
class _Judgement:
    """Ranking, pairs and advice of a comparison."""

    ranking: list[str]
    pairs: list[Pair]
    advice: Advice | None


def compare(
    systems: Mapping[str, Sequence[Path]] | Sequence[Sequence[Path]],
    vary: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    *,
    workloads: bool = False,
    advance: Advance = lambda _runs: None,
) -> Comparison:
    """Compare systems by their runs, matched by trace, plan and conditions.

    Args:
        systems: run directories by system; systems without names are named after their paths.
        vary: conditions that differ between systems on purpose.
        metrics: names in a summary; None takes those of COMPARED that the runs have.
        workloads: the systems replayed different traces; only show their metrics next to each other.
        advance: takes the number of runs read since its last call.

    Raises:
        InputError: a run cannot be read, a system has no valid run, nothing matches, or a name is
            unknown.
    """
    if not isinstance(systems, Mapping):
        systems = dict(zip(name_sets(systems), systems, strict=True))
    trials: dict[str, list[Trial]] = {}
    left_out: dict[str, str] = {}
    for system, runs in systems.items():
        trials[system], reasons = load_trials(runs, advance)
        left_out |= {str(path): reason for path, reason in reasons.items()}
    unmatched: list[str] = []
    if workloads:
        check_varied(vary, trials)
        configurations = [_check_workload(system, runs) for system, runs in trials.items()]
        warnings = warn_of_machines({"the set of workloads": _flatten(trials)})
        warnings += warn_of_conditions(trials, vary)
    else:
        configurations, unmatched = match_configurations(trials, vary)
        warnings = warn_of_machines(trials) + warn_of_work(configurations)
    summaries = [one for each in configurations for own in each.summaries.values() for one in own]
    names = select_metrics(summaries, metrics)
    judgement = _Judgement([], [], None)
    if len(systems) > 1 and not workloads:
        judgement = _judge(configurations, list(systems), names)
    return Comparison(
        systems=list(systems),
        runs={system: [str(trial.run.path) for trial in runs] for system, runs in trials.items()},
        left_out=left_out,
        unmatched=unmatched,
        warnings=warn_of_copies(trials) + warn_of_predictions(trials) + warnings,
        predicted=_describe_predictions(trials),
        varied=_collect_varied(trials, vary),
        doubts=count_doubts(_flatten(trials)),
        configurations=configurations,
        workloads=workloads,
        metrics=names,
        same_ratio=_find_same(configurations, names) if judgement.pairs else {},
        pairs=judgement.pairs,
        ranking=judgement.ranking,
        advice=judgement.advice,
    )


def _flatten(systems: Systems) -> list[Trial]:
    return [trial for trials in systems.values() for trial in trials]


def _check_workload(system: str, trials: Sequence[Trial]) -> Configuration:
    """Make the configuration of a workload's runs, which must be trials of each other."""
    groups = group_trials(trials)
    if len(groups) > 1:
        unlike = "traces" if len({trace for trace, _ in groups}) > 1 else "conditions"
        raise InputError(
            f"{system} mixes runs with different {unlike}",
            "give each its own set of runs",
            subject="workload",
            setting="by",
        )
    return make_configuration(system, {system: trials})


def _judge(configurations: Sequence[Configuration], systems: Sequence[str], metrics: Sequence[str]) -> _Judgement:
    """Rank systems by the first recommended metric that all have, and compare them in pairs."""
    recommended, why = recommend_metrics(configurations)
    speeds = {
        metric: {system: compute_ratio(configurations, system, systems[0], metric).ratio for system in systems}
        for metric in (*recommended, *QUOTED)
    }
    usable = [metric for metric, ratios in speeds.items() if None not in ratios.values()]
    quoted = tuple(metric for metric in recommended if metric in usable)
    if not quoted:
        quoted = (usable[0] if usable else recommended[0],)
    ranking = sorted(systems, key=lambda system: -(speeds[quoted[0]][system] or 0.0))
    wanted = [(system, ranking[0]) for system in ranking[1:]]
    if len(systems) == 2:
        wanted = [(systems[0], systems[1])]
    pairs = [_compare_pair(configurations, a, b, metrics) for a, b in wanted]
    by_budget = {size: names for size, (names, _) in recommend_by_budget(configurations).items()}
    repeated = {name for same in _find_same(configurations, quoted).values() for name in same}
    distinct = [metric for metric in quoted if metric not in repeated]
    notes = [note for pair in pairs for note in describe_findings(pair.ratios, distinct)]
    advice = Advice(quoted, why, by_budget if len(by_budget) > 1 else {}, notes)
    return _Judgement(ranking, pairs, advice)


def _find_same(configurations: Sequence[Configuration], metrics: Iterable[str]) -> dict[str, list[str]]:
    """Find the metrics whose ratios are one number in each configuration."""
    groups: list[list[Summary]] = [
        [summary for trials in configuration.summaries.values() for summary in trials]
        for configuration in configurations
    ]
    return find_same_ratios(groups, metrics)


def _compare_pair(configurations: Sequence[Configuration], a: str, b: str, metrics: Sequence[str]) -> Pair:
    """Compute all ratios of two systems, also by each setting that has several values."""
    by: dict[str, dict[str, dict[str, Ratio]]] = {}
    for setting, value_of in GROUPS.items():
        groups: dict[str, list[Configuration]] = {}
        for configuration in sorted(configurations, key=lambda c: _sort_key(value_of(c))):
            groups.setdefault(format_group(value_of(configuration)), []).append(configuration)
        if len(groups) > 1:
            by[setting] = {
                value: {metric: compute_ratio(group, a, b, metric) for metric in QUOTED}
                for value, group in groups.items()
            }
    names = dict.fromkeys([*metrics, *QUOTED])
    return Pair(a, b, {metric: compute_ratio(configurations, a, b, metric) for metric in names}, by)


GroupValue = str | float | None
"""A value that groups configurations: a model, GiB or a number of users."""


def _sort_key(value: GroupValue) -> tuple[bool, float, str]:
    return (value is None, value if isinstance(value, int | float) else 0.0, str(value))


GROUPS: Final[dict[str, Callable[[Configuration], GroupValue]]] = {
    "model": lambda configuration: configuration.conditions.model,
    "cpu_gib": lambda configuration: configuration.cpu_gib,
    "users": lambda configuration: configuration.users,
}


def _collect_varied(systems: Systems, vary: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the varied conditions that differ, with their values on each system."""
    conditions = {system: [conditions_of(trial) for trial in trials] for system, trials in systems.items()}
    differing = find_differing(*(run for runs in conditions.values() for run in runs))
    varied: dict[str, dict[str, str]] = {}
    for name in drop_followers(differing):
        if is_varied(name, vary):
            varied[name] = {
                system: ", ".join(dict.fromkeys(format_condition(name, run.get(name)) for run in runs))
                for system, runs in conditions.items()
            }
    return varied


def _describe_predictions(systems: Systems) -> dict[str, list[str]]:
    """Return for each system with predictions what they were predicted from."""
    found = {
        system: [one.summary.prediction.describe() for one in trials if one.summary.prediction]
        for system, trials in systems.items()
    }
    return {system: list(dict.fromkeys(profiles)) for system, profiles in found.items() if profiles}
