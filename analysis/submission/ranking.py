"""Ranking of packages, option by option, by metrics that are computed again from their logs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from analysis.comparison.compare import compare
from analysis.comparison.ratios import Ratio, estimate_false_alarms
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import RANKED
from analysis.submission.display import SILENT, Display
from analysis.submission.package_tree import Package, find_run_directory
from analysis.submission.rules import Option
from analysis.submission.summary_json import PackagedTrial, compute_claims
from analysis.submission.validate import validate
from tracegen.errors import InputError

_HEADS: Final = {describe(name).short: name for name in RANKED}
"""The columns' heads and metrics: rates summed over ranks, mean of trials; times of the worst rank and trial."""


@dataclass(frozen=True)
class Entry:
    """Entry of a package in a ranking.

    Attributes:
        name: organisation/system.
        problems: the problems of the package; it is ranked if there are none.
        trials: its trials by option.
        claims: its metrics by option, computed from the logs.
    """

    name: str
    problems: list[str]
    trials: dict[str, list[PackagedTrial]]
    claims: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Ranking:
    """Ranking of the packages in one option.

    Attributes:
        option: the option.
        names: names of the entries, the best first by the option's primary metric.
        is_cut: whether runs were cut, so that each is judged over its own window.
        ratios: ratios of the primary metric, best to other; of more than two, others to best.
        reason: why there are no ratios; None if there are.
        false_alarm: share of cases in which so few trials tell equal systems apart.
    """

    option: Option
    names: list[str]
    is_cut: bool
    ratios: list[Ratio]
    reason: str | None
    false_alarm: float | None


def rank_packages(
    packages: Sequence[Package],
    display: Display = SILENT,
) -> tuple[list[Entry], list[Ranking]]:
    """Validate packages and rank those that are valid.

    Args:
        packages: packages of one division and scale.
        display: shows the progress.

    Raises:
        InputError: divisions or scales differ, a package is named twice, or fewer than two are
            valid.
    """
    submissions = [package.submission for package in packages]
    kinds = sorted({f"{submission.division} {submission.scale}" for submission in submissions})
    if len(kinds) > 1:
        raise InputError(
            f"the packages are of different kinds ({', '.join(kinds)})",
            "compare packages of one division and scale",
        )
    names = _name_entries(packages)
    entries = []
    for name, package in zip(names, packages, strict=True):
        entries.append(_make_entry(name, package, display))
    valid = [entry for entry in entries if not entry.problems]
    if len(valid) < 2:
        invalid = [f"{entry.name}: {entry.problems[0]}" for entry in entries if entry.problems]
        reason = invalid[0] if invalid else f"{names[0]} is the only package"
        raise InputError(
            f"a ranking needs two valid packages, not {len(valid)} ({reason})",
            "check them with `analysis submission validate`",
        )
    return entries, [_rank_option(option, valid) for option in submissions[0].rules.options]


def _name_entries(packages: Sequence[Package]) -> list[str]:
    """Name packages by organisation and system, and by directory if that is ambiguous."""
    paths = [package.results.resolve() for package in packages]
    repeated = next((path for path in paths if paths.count(path) > 1), None)
    if repeated is not None:
        raise InputError("named twice", "name each package once", subject=repeated)
    submissions = [package.submission for package in packages]
    names = [f"{submission.organisation}/{submission.system}" for submission in submissions]
    return [
        name if names.count(name) == 1 else f"{name} ({package.top})"
        for name, package in zip(names, packages, strict=True)
    ]


def _make_entry(name: str, package: Package, display: Display) -> Entry:
    verdict = validate(package, display=display)
    claims: dict[str, dict[str, Any]] = {}
    if not verdict.problems:
        claims = compute_claims(package.submission, verdict.trials)["options"]
    return Entry(name, verdict.problems, verdict.trials, claims)


def _rank_option(option: Option, entries: Sequence[Entry]) -> Ranking:
    order = sorted(entries, key=lambda entry: -(entry.claims[option.name][option.primary] or 0.0))
    names = [entry.name for entry in order]
    runs = {}
    for entry in order:
        trials = entry.trials[option.name]
        runs[entry.name] = [find_run_directory(trial.path) for trial in trials]
    try:
        comparison = compare(runs, metrics=[option.primary])
    except InputError as error:  # e.g. different numbers of ranks, or different conditions in OPEN
        return Ranking(option, names, False, [], error.problem, None)
    ratios = [pair.ratios[option.primary] for pair in comparison.pairs]
    alarm = estimate_false_alarms(comparison.configurations)
    is_cut = comparison.configurations[0].cut
    return Ranking(option, names, is_cut, ratios, None, alarm[-1] if alarm else None)


def rankings_to_json(entries: Sequence[Entry], rankings: Sequence[Ranking]) -> dict[str, Any]:
    """Convert entries and rankings to plain JSON."""
    return {
        "packages": {entry.name: {"problems": entry.problems} for entry in entries},
        "options": [_ranking_to_json(entries, ranking) for ranking in rankings],
    }


def _ranking_to_json(entries: Sequence[Entry], ranking: Ranking) -> dict[str, Any]:
    option = ranking.option
    claims = {entry.name: entry.claims for entry in entries}
    rows = []
    for name in ranking.names:
        metrics = claims[name][option.name]
        rows.append({"package": name} | {key: metrics[key] for key in metrics if key != "trials"})
    return {
        "option": option.name,
        "primary": option.primary,
        "ranking": rows,
        "cut": ranking.is_cut,
        "ratios": [vars(ratio) for ratio in ranking.ratios],
        "unlike": ranking.reason,
        "false_alarm_share": ranking.false_alarm,
    }


def render_rankings(entries: Sequence[Entry], rankings: Sequence[Ranking]) -> str:
    """Render entries and rankings as text."""
    lines = []
    for entry in entries:
        lines += [f"Not ranked: {entry.name}: {problem}." for problem in entry.problems]
    claims = {entry.name: entry.claims for entry in entries}
    width = max(len(entry.name) for entry in entries)
    for ranking in rankings:
        option = ranking.option
        lines += [
            "",
            f"{option.name}, {option.title}: ranked by {option.primary}, summed over ranks, mean of trials",
        ]
        lines.append(f"  #  {'system':{width}} ranks" + "".join(f"  {name:>11}" for name in _HEADS))
        for place, system in enumerate(ranking.names, 1):
            values = claims[system][option.name]
            cells = "".join(f"  {_number(values[metric]):>{max(11, len(name))}}" for name, metric in _HEADS.items())
            lines.append(f"  {place}  {system:{width}} {values['rank_count']:>5}{cells}")
        lines += _render_ratios(ranking)
    return "\n".join(lines).strip()


def _render_ratios(ranking: Ranking) -> list[str]:
    if ranking.reason:
        return [f"  no ratios: {ranking.reason}"]
    span = "each over its own window" if ranking.is_cut else "over all of the work"
    ratios = [ratio for ratio in ranking.ratios if ratio.ratio is not None]
    lines = [f"  {span}: {_phrase_ratio(ratio)}" for ratio in ratios]
    if ranking.false_alarm and lines:
        share = f"{ranking.false_alarm:.0%}"
        lines.append(
            f"  this few trials tell equal systems apart in {share} of cases: docs/comparing.md",
        )
    return lines


def _phrase_ratio(ratio: Ratio) -> str:
    interval = ""
    if ratio.low is not None and ratio.high is not None:
        interval = f" ({ratio.low:.3f} to {ratio.high:.3f})"
    verdict = "told apart" if ratio.verdict == "apart" else "not told apart"
    return f"{ratio.a} has {ratio.ratio:.3f} × the value of {ratio.b}{interval}: {verdict}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
