"""Systems of a report against one of them: matched configurations, ratios, what is refused."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from analysis.comparison.conditions import (
    conditions_of,
    drop_followers,
    find_differing,
    format_condition,
)
from analysis.comparison.matching import Configuration, match_configurations
from analysis.comparison.ratios import Ratio, compute_ratio, estimate_false_alarms
from analysis.comparison.sentences import (
    describe_many,
    describe_ratios,
    drop_thin,
    explain_no_interval,
)
from analysis.comparison.trials import Trial
from analysis.comparison.warnings import (
    warn_of_copies,
    warn_of_machines,
    warn_of_predictions,
    warn_of_work,
)
from analysis.metrics.headlines import SIDES
from tracegen.errors import InputError

_CHANCE: Final = "With {} {}, {:.0%} of the metrics of equal systems would be told apart by chance."
PRIMARY: Final = "wall_clock_tok_s"
"""The metric that ranks several systems."""
LOAD: Final = frozenset(
    (
        *("model", "bytes_per_token", "windowed_bytes_per_token", "attention_window"),
        *("state_bytes_per_object", "decode", "users", "part", "cycles", "order", "placement"),
        *("pace", "speedup", "token_ms", "prefill_tok_s", "duration_s", "drain_s", "ops"),
        *("warmup", "ranks"),
    )
)
"""Conditions of the work: systems that differ in one are compared only if a baseline is named."""


@dataclass(frozen=True)
class Side:
    """A system against the baseline.

    Attributes:
        name: the system.
        why: why it cannot be compared; empty if it can.
        configurations: those that both have.
        ratios: by metric of SIDES, of the system over the baseline, over all configurations.
        each: the same by the name of a configuration, if there are several.
        varied: conditions that differ between the two, with both values.
        unmatched: for each configuration that one of them lacks, why it has no match.
        warnings: reasons to doubt the comparison, in sentences.
        no_interval: why a ratio has no interval, if it has none.
    """

    name: str
    why: str = ""
    configurations: list[Configuration] = field(default_factory=list)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    each: dict[str, dict[str, Ratio]] = field(default_factory=dict)
    varied: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    no_interval: str = ""

    def describe(self, baseline: str) -> str:
        """Say in a sentence how the system differs from the baseline."""
        if self.why:
            return f"{self.name} is not compared with {baseline}: {self.why}."
        ratios = drop_thin(self.ratios, self.configurations) or self.ratios
        return describe_ratios(self.name, baseline, ratios, self.no_interval)


@dataclass(frozen=True)
class Sides:
    """The systems of a report against one of them.

    Attributes:
        baseline: the system to which all are compared.
        is_given: whether the user named the baseline, so that all conditions may differ.
        trials: valid trials of each system.
        sides: the other systems, in the order of the report.
    """

    baseline: str
    is_given: bool
    trials: dict[str, list[Trial]]
    sides: list[Side]

    @property
    def compared(self) -> list[Side]:
        """The systems that can be compared."""
        return [side for side in self.sides if not side.why]

    @property
    def has_configurations(self) -> bool:
        """Whether a system and the baseline have several configurations in common."""
        return any(side.each for side in self.sides)

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the comparisons, and how often chance tells equal systems apart."""
        found = dict.fromkeys(warning for side in self.compared for warning in side.warnings)
        alarms = (estimate_false_alarms(side.configurations) for side in self.compared)
        chances = (_CHANCE.format(*alarm) for alarm in alarms if alarm)
        return [*found, *dict.fromkeys(chances)]

    def describe(self) -> str:
        """Say in a sentence what the comparison shows."""
        if len(self.sides) == 1 or len(self.compared) == 1:
            return (self.compared or self.sides)[0].describe(self.baseline)
        return describe_many(self.baseline, (side.ratios[PRIMARY] for side in self.compared))


def build_sides(trials: Mapping[str, list[Trial]], baseline: str, *, is_given: bool) -> Sides:
    """Compare each system with one of them, over the configurations that the two have in common.

    Args:
        trials: valid trials by system; empty for a system without a valid run.
        baseline: the system to which all are compared.
        is_given: whether the user named it: then systems of other loads are compared, too.
    """
    others = [system for system in trials if system != baseline]
    allowed = () if is_given else LOAD
    sides = [_compare_side(name, baseline, trials, allowed) for name in others]
    return Sides(baseline, is_given, dict(trials), sides)


def _compare_side(
    name: str,
    baseline: str,
    trials: Mapping[str, list[Trial]],
    fixed: Collection[str],
) -> Side:
    systems = {system: trials[system] for system in (name, baseline)}
    if missing := [system for system, own in systems.items() if not own]:
        return Side(name, why=f"no valid run of {' and '.join(missing)}")
    vary = list_differing(systems.values())
    if refused := [condition for condition in vary if condition in fixed]:
        differences = "; ".join(_describe_varied(systems, refused))
        return Side(name, why=f"they ran another load: {differences}")
    if not set.intersection(*(_list_traces(own) for own in systems.values())):
        return Side(name, why="they replayed different traces")
    try:
        configurations, unmatched = match_configurations(systems, vary)
    except InputError as error:
        return Side(name, why=error.problem)
    counts = {system: len(configurations[0].summaries[system]) for system in systems}
    predicted = [system for system, own in systems.items() if own[0].summary.prediction is not None]
    return Side(
        name,
        configurations=configurations,
        ratios=_compute_ratios(configurations, name, baseline),
        each={one.name: _compute_ratios([one], name, baseline) for one in configurations}
        if len(configurations) > 1
        else {},
        varied=_describe_varied(systems, drop_followers(vary)),
        unmatched=unmatched,
        warnings=[
            *warn_of_copies(systems),
            *warn_of_predictions(systems),
            *warn_of_machines(systems),
            *warn_of_work(configurations),
        ],
        no_interval=explain_no_interval(counts, predicted),
    )


def _list_traces(trials: Iterable[Trial]) -> set[str]:
    return {str(trial.run.trace_fingerprint) for trial in trials}


def list_differing(systems: Iterable[Sequence[Trial]]) -> list[str]:
    """Return the conditions that differ between systems and are the same in all runs of each."""
    each = [[conditions_of(trial) for trial in own] for own in systems]
    mixed = {name for own in each for name in find_differing(*own)}
    differing = find_differing(*(run for own in each for run in own))
    return [name for name in differing if name not in mixed]


def _describe_varied(systems: Mapping[str, Sequence[Trial]], names: Iterable[str]) -> list[str]:
    """Describe conditions that differ between systems, with the value of each."""
    known = {system: conditions_of(own[0]) for system, own in systems.items()}
    texts = []
    for name in names:
        values = {}
        for system, run in known.items():
            values[system] = format_condition(name, run.get(name), run.get("headroom"))
        against = " against ".join(f"{value} ({system})" for system, value in values.items())
        words = name.replace("usable_bytes.", "size of ").replace("_", " ")
        texts.append(f"{words} {against}")
    return texts


def _compute_ratios(
    configurations: Sequence[Configuration],
    name: str,
    baseline: str,
) -> dict[str, Ratio]:
    """Compute the ratios of SIDES that one of two systems has; those of equal work are left out."""
    ratios = {metric: compute_ratio(configurations, name, baseline, metric) for metric in SIDES}
    known = {
        metric
        for metric in SIDES
        for one in configurations
        for own in one.summaries.values()
        if any(summary.numbers.get(metric) for summary in own)
    }
    return {
        metric: ratio
        for metric, ratio in ratios.items()
        if metric == PRIMARY
        or (metric in known and (ratio.better is not None or not _is_equal(configurations, metric)))
    }


def _is_equal(configurations: Iterable[Configuration], metric: str) -> bool:
    """Return whether all systems have one value of a metric, as equal work has."""
    for one in configurations:
        values = {value for system in one.summaries for value in one.values(system, metric)}
        if len(values) > 1:
            return False
    return True
