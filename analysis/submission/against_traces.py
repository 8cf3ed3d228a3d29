"""Checks of rows against traces: plans each trace again and compares every row of its runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from analysis.doubts import against_trace
from analysis.submission.display import SILENT, Display
from analysis.submission.package_tree import Package
from analysis.submission.rules import Option
from analysis.submission.summary_json import PackagedTrial
from analysis.submission.traces import Traces, estimate_s
from replayer.schema import RunInfo, to_plain
from tracegen.errors import InputError

LONG_S: Final = 15.0  # work that is expected to take longer is announced


@dataclass(frozen=True)
class _Rank:
    """A rank of a trial.

    Attributes:
        trial: the trial.
        place: the rank's run directory.
        info: the rank's run.json.
    """

    trial: PackagedTrial
    place: Path
    info: RunInfo


@dataclass(frozen=True)
class _Plan:
    """A plan that several ranks executed.

    Attributes:
        option: name of the option.
        rank: number of the ranks within their trials.
        ranks: the ranks.
    """

    option: str
    rank: int
    ranks: list[_Rank] = field(default_factory=list)


def compare_with_traces(
    package: Package,
    trials: Mapping[str, Sequence[PackagedTrial]],
    given: Mapping[str, Path],
    display: Display = SILENT,
) -> tuple[list[str], dict[str, str]]:
    """Compare the rows of a package with the plans of its traces.

    Args:
        package: the package.
        trials: its trials by option.
        given: traces of OPEN by option.
        display: shows the progress.

    Returns:
        The problems; and the options whose traces cannot be generated, with the reason.
    """
    plans = _group_by_plan(package, trials)
    seconds = estimate_s({key: plan.ranks[0].info for key, plan in plans.items()})
    if seconds > LONG_S:
        display.say(f"{len(plans)} traces and plans are made again: about {seconds:.0f} s.")
    problems = list[str]()
    with (
        TemporaryDirectory(prefix="analysis-validate-") as folder,
        display.progress("planning again", "plan", len(plans)) as advance,
    ):
        traces = Traces(package, given, Path(folder))
        for plan in plans.values():
            try:
                option = package.submission.rules.find_option(plan.option)
                problems += _check_plan(traces, option, plan)
            except InputError as error:
                reason = error.problem
                problems.append(f"{plan.option}, rank {plan.rank}: cannot plan again: {reason}")
            advance(1)
    return [problem.replace(f"{package.top}/", "") for problem in problems], traces.untied


def _group_by_plan(
    package: Package,
    trials: Mapping[str, Sequence[PackagedTrial]],
) -> dict[tuple[str, int, str], _Plan]:
    """Group the ranks of a package by option, rank and plan.

    In CLOSED leave out ranks with other traces or conditions than the rules fix: other checks
    report them, and their plans could be of any size.
    """
    plans: dict[tuple[str, int, str], _Plan] = {}
    for option, opened in trials.items():
        for trial in opened:
            for number, (place, info) in enumerate(trial.run.info_of.items()):
                if package.submission.is_closed and not _is_fixed(package, option, number, info):
                    continue
                plan = against_trace.identify_plan(info) if against_trace.has_plan(info) else str(place)
                group = plans.setdefault((option, number, plan), _Plan(option, number))
                group.ranks.append(_Rank(trial, place, info))
    return plans


def _is_fixed(package: Package, name: str, rank: int, info: RunInfo) -> bool:
    """Whether a rank has the pinned trace and the conditions of CLOSED."""
    rules = package.submission.rules
    if name not in {option.name for option in rules.options}:
        return False
    if info.trace.fingerprint != rules.find_pin(name, rank):
        return False
    conditions = to_plain(info.conditions)
    fixed = rules.find_option(name).closed
    return all(conditions.get(condition, ...) == value for condition, value in fixed.items())


def _check_plan(traces: Traces, option: Option, plan: _Plan) -> Iterator[str]:
    """Report the ranks of a plan whose rows are not those of their trace."""
    first = plan.ranks[0]
    trace = traces.open(option, plan.rank, first.info)
    if trace is None:
        return
    made = trace.metadata.fingerprint
    recorded = first.info.trace.fingerprint
    if made != recorded:
        yield (
            f"{option.name}, rank {plan.rank}: its recipe, or the given file, makes the trace"
            f" {made[:12]}…, not {recorded[:12]}…"
        )
        return
    moves = traces.folder / "moves.parquet"
    planned = against_trace.plan_anew(trace.path, first.place, first.info, moves)
    for rank in plan.ranks:
        name = f"{option.name}/{rank.trial.path.name}"
        for doubt in against_trace.find_deviations(rank.place, rank.info, trace, planned):
            yield f"{name} does not follow its trace: {doubt.text}"
    planned.moves.unlink(missing_ok=True)
