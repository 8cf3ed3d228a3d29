"""Ranking of packages, option by option, by metrics that are computed again from their logs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from analysis.comparison.compare import Comparison, compare_as_found
from analysis.comparison.equal_work.measuring import EQUAL_WORK
from analysis.comparison.rows import convert_comparison, list_remarks
from analysis.comparison.sentences import describe_pair, format_ends, format_times
from analysis.comparison.tables import align_columns
from analysis.comparison.trials import load_sets
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import RANKED
from analysis.submission.display import SILENT, Display
from analysis.submission.package_tree import Package, find_run_directory
from analysis.submission.rules import Option
from analysis.submission.summary_json import PackagedTrial, compute_claims
from analysis.submission.validate import validate
from tracegen.errors import InputError

_HEADS: Final = {describe(name).short: name for name in RANKED}
"""The columns' heads and metrics: rates summed over ranks; times of the worst rank and trial."""


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
        names: names of the entries: the best first at equal work, then those that cannot be
            compared, by the option's primary metric.
        comparison: the entries against the one with the best primary metric; None if they cannot be
            compared at all.
        reason: why not; empty if they can.
    """

    option: Option
    names: list[str]
    comparison: Comparison | None
    reason: str = ""

    @property
    def ranked(self) -> list[str]:
        """Names of the entries with a place, the best first; none unless two can be compared."""
        found = self.comparison.ranking if self.comparison else []
        return found if len(found) > 1 else []


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
    paths = {entry.name: [find_run_directory(trial.path) for trial in entry.trials[option.name]] for entry in order}
    try:
        trials, _ = load_sets(paths)
    except InputError as error:
        return Ranking(option, names, None, error.problem)
    comparison = compare_as_found(trials, names[0], [option.primary], is_given=False)
    ranked = comparison.ranking
    return Ranking(option, [*ranked, *(name for name in names if name not in ranked)], comparison)


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
        place = ranking.ranked.index(name) + 1 if name in ranking.ranked else None
        rows.append(
            {
                "package": name,
                "place": place,
            }
            | {key: metrics[key] for key in metrics if key != "trials"},
        )
    return {
        "option": option.name,
        "primary": option.primary,
        "ranking": rows,
        "comparison": None if ranking.comparison is None else convert_comparison(ranking.comparison),
        "not_compared": ranking.reason or None,
    }


def render_rankings(entries: Sequence[Entry], rankings: Sequence[Ranking]) -> str:
    """Render entries and rankings as text."""
    lines = []
    for entry in entries:
        lines += [f"Not ranked: {entry.name}: {problem}." for problem in entry.problems]
    claims = {entry.name: entry.claims for entry in entries}
    for ranking in rankings:
        lines += ["", f"{ranking.option.name}, {ranking.option.title}: {_describe_order(ranking)}"]
        rows = [["#", "system", "equal work", "95% interval", "ranks", *_HEADS]]
        for name in ranking.names:
            values = claims[name][ranking.option.name]
            figures = [_number(values[metric]) for metric in _HEADS.values()]
            rows.append([*_list_place(ranking, name), str(values["rank_count"]), *figures])
        lines += [f"  {line}" for line in align_columns(rows, left=(1,))]
        lines += [f"  {line}" for line in _list_sentences(ranking)]
    return "\n".join(lines).strip()


def _describe_order(ranking: Ranking) -> str:
    figures = "the rules' figures, each over the run's own window"
    if ranking.comparison is None or not ranking.ranked:
        return f"not ranked, as no two can be compared; {figures}, by {describe(ranking.option.primary).label}"
    return f"ranked by equal work per second, against {ranking.comparison.baseline}; then {figures}"


def _list_place(ranking: Ranking, name: str) -> list[str]:
    """Return the cells of a system's place: its number, name, ratio and interval."""
    place = str(ranking.ranked.index(name) + 1) if name in ranking.ranked else "–"
    pairs = ranking.comparison.compared if ranking.comparison else []
    ratio = next((pair.ratios[EQUAL_WORK] for pair in pairs if pair.name == name), None)
    if ratio is None:
        return [place, name, "1 ×" if place != "–" else "–", "–"]
    return [place, name, format_times(ratio), format_ends(ratio)]


def _list_sentences(ranking: Ranking) -> list[str]:
    comparison = ranking.comparison
    if comparison is None:
        return [f"not compared: {ranking.reason}"]
    sentences = [describe_pair(pair) for pair in comparison.pairs]
    return list(dict.fromkeys((*sentences, *list_remarks(comparison), *comparison.warnings)))


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
