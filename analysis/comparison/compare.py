"""Comparison of systems with one of them: configurations, equal work, ratios, verdicts."""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from msgspec import Struct

from analysis.comparison.matching import match_configurations
from analysis.comparison.ratios import EQUAL_WORK, FAMILY, Measured, Ratio, compute_ratios, measure_configuration
from analysis.comparison.trials import Systems, Trial, describe_differing, drop_followers, find_differing
from analysis.comparison.warnings import (
    QUIET,
    Disturbance,
    find_disturbance,
    warn_of_copies,
    warn_of_machines,
    warn_of_predictions,
    warn_of_work,
)
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import COMPARED
from analysis.summary.run_summary import Summary
from tracegen.errors import InputError

LOAD: Final = frozenset(
    (
        *("model", "bytes_per_token", "windowed_bytes_per_token", "attention_window"),
        *("state_bytes_per_object", "decode", "users", "part", "cycles", "order", "placement"),
        *("pace", "speedup", "token_ms", "prefill_tok_s", "duration_s", "drain_s", "ops"),
        *("warmup", "ranks"),
    )
)
"""Conditions of the work: systems that differ in one are compared only if the user says so."""


class Pair(Struct, frozen=True):
    """A system against the baseline.

    Attributes:
        name: the system.
        baseline: the system that it is compared with.
        why: why the two cannot be compared; empty if they can.
        measured: the configurations that both have, with their spans of equal work.
        ratios: by metric, of the system over the baseline, over all configurations; EQUAL_WORK
            first.
        each: the same by the name of a configuration, if there are several.
        varied: conditions that differ between the two, with both values.
        unmatched: for each configuration that one of them lacks, why it has no match.
        warnings: reasons to doubt the comparison, in sentences.
        disturbance: what else may have made the difference.
    """

    name: str
    baseline: str
    why: str = ""
    measured: list[Measured] = []
    ratios: dict[str, Ratio] = {}
    each: dict[str, dict[str, Ratio]] = {}
    varied: list[str] = []
    unmatched: list[str] = []
    warnings: list[str] = []
    disturbance: Disturbance = QUIET

    @property
    def speed(self) -> float | None:
        """The ratio of the rates of equal work, which ranks systems; None if there is none."""
        return self.ratios[EQUAL_WORK].ratio if self.ratios else None


@dataclass(frozen=True)
class Comparison:
    """Systems against one of them.

    Attributes:
        baseline: the system to which all are compared.
        trials: valid trials of each system.
        pairs: the other systems: the fastest first, those without a ratio last.
        asked: the metrics that were asked for by name.
    """

    baseline: str
    trials: dict[str, list[Trial]]
    pairs: list[Pair]
    asked: Sequence[str] = ()

    @property
    def compared(self) -> list[Pair]:
        """The systems that can be compared."""
        return [pair for pair in self.pairs if not pair.why]

    @property
    def ranking(self) -> list[str]:
        """The systems that have a rate of equal work, the best first."""
        speeds = {self.baseline: 1.0}
        speeds |= {pair.name: pair.speed for pair in self.pairs if pair.speed is not None}
        return sorted(speeds, key=lambda name: -speeds[name])

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the comparisons, each once."""
        return list(dict.fromkeys(warning for pair in self.compared for warning in pair.warnings))


def compare_systems(
    trials: Systems,
    baseline: str,
    vary: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    *,
    is_any_load: bool = False,
) -> Comparison:
    """Compare systems with one of them.

    Args:
        trials: valid trials by system; none of a system without a valid run only if `vary` is None.
        baseline: the system to which all are compared.
        vary: conditions that differ between systems on purpose; None: whatever differs, and a
            system that cannot be compared is told instead of refused.
        metrics: names in a summary, which are judged together; None takes those of COMPARED that
            the runs have.
        is_any_load: whether systems of other loads are compared, too, if `vary` is None.

    Raises:
        InputError: two systems have no configuration in common, or a name is unknown.
    """
    names = select_metrics([trial.summary for own in trials.values() for trial in own], metrics)
    pairs = []
    for name in trials:
        if name == baseline:
            continue
        systems = {system: trials[system] for system in (name, baseline)}
        try:
            varied = _find_varied(systems, is_any_load=is_any_load) if vary is None else vary
            pairs.append(_compare_pair(systems, varied, names, metrics or FAMILY))
        except InputError as error:
            if vary is not None:
                raise
            # A report of many systems shows those that can be compared.
            pairs.append(Pair(name, baseline, error.problem))
    # The ratio of equal work ranks, as rates over own windows divide different work.
    ordered = sorted(pairs, key=lambda pair: (pair.speed is None, -(pair.speed or 0.0)))
    return Comparison(baseline, {system: list(own) for system, own in trials.items()}, ordered, metrics or ())


def _find_varied(systems: Systems, *, is_any_load: bool) -> list[str]:
    """Return the conditions that differ, as though the user had named them.

    Raises:
        InputError: the systems cannot be compared, which is known before any log is read.
    """
    if missing := [system for system, own in systems.items() if not own]:
        raise InputError(f"no valid run of {' and '.join(missing)}")
    differing = list_differing(systems.values())
    if of_load := [] if is_any_load else sorted(LOAD.intersection(differing)):
        raise InputError(f"they ran another load: {'; '.join(_describe_varied(systems, of_load))}")
    if not set.intersection(*({trial.run.trace_fingerprint for trial in own} for own in systems.values())):
        raise InputError("they replayed different traces")
    return differing


def _compare_pair(
    systems: Mapping[str, Sequence[Trial]], vary: Sequence[str], metrics: Sequence[str], family: Collection[str]
) -> Pair:
    name, baseline = systems
    configurations, unmatched = match_configurations(systems, vary)
    measured = [measure_configuration(one, metrics) for one in configurations]
    shown = [metric for metric in metrics if not _is_equal_work(measured, metric)]
    differing = [name for name in list_differing(systems.values()) if name != "unknown"]
    comparable = [one for one in measured if one.metrics]
    disturbance = find_disturbance(systems)
    # One side on a busy machine may have made the difference.
    withheld = disturbance.remark if disturbance.withholds else ""

    def compute(chosen: Sequence[Measured]) -> dict[str, Ratio]:
        return compute_ratios(chosen, (name, baseline), shown, family, withheld)

    return Pair(
        name,
        baseline,
        why="" if comparable else next(one.equal.refusal for one in measured),
        measured=measured,
        ratios=compute(comparable) if comparable else {},
        each={one.configuration.name: compute([one]) for one in comparable} if len(measured) > 1 else {},
        varied=_describe_varied(systems, drop_followers(differing)),
        unmatched=unmatched,
        warnings=[
            *warn_of_copies(systems),
            *warn_of_predictions(systems),
            *warn_of_machines(systems),
            *warn_of_work(configurations),
        ],
        disturbance=disturbance,
    )


def _is_equal_work(measured: Sequence[Measured], metric: str) -> bool:
    """Return whether a metric has one value on both systems by construction, as counts have."""
    # A metric of the system is judged even if both have the same value.
    if describe(metric).better_system is not None:
        return False
    each = (set(chain(*(one.values(system, metric) for system in one.metrics))) for one in measured)
    return all(len(values) <= 1 for values in each)


def list_differing(systems: Iterable[Sequence[Trial]]) -> list[str]:
    """Return the conditions that differ between systems and are the same in all runs of each."""
    each = [[trial.conditions for trial in own] for own in systems]
    # What differs within a system cannot tell systems apart.
    mixed = {name for own in each for name in find_differing(*own)}
    differing = find_differing(*(run for own in each for run in own))
    return [name for name in differing if name not in mixed]


def _describe_varied(systems: Systems, names: Iterable[str]) -> list[str]:
    return describe_differing(names, {system: own[0].conditions for system, own in systems.items()})


def select_metrics(summaries: Sequence[Summary], metrics: Sequence[str] | None) -> list[str]:
    """Return the requested metrics, or those of COMPARED that the runs have and that are not all 0.

    Raises:
        InputError: a name is not that of a number in the summaries.
    """
    names = {name for summary in summaries for name in summary.numbers}
    for name in metrics or ():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            remedy = f"did you mean {near[0]}?" if near else "see `analysis metrics`"
            problem = "not a number in a summary of these runs"
            raise InputError(problem, remedy, subject=name, setting="metrics")
    if metrics:
        return list(dict.fromkeys(metrics))
    return [name for name in COMPARED if any(summary.numbers.get(name) for summary in summaries)]
