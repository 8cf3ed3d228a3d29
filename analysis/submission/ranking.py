"""Ranking of packages, option by option, by metrics that are computed again from their logs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from analysis.comparison.answer import list_remarks
from analysis.comparison.compare import Comparison, compare_as_found
from analysis.comparison.equal_work.measuring import EQUAL_WORK
from analysis.comparison.export import convert_comparison
from analysis.comparison.sentences import describe_pair
from analysis.comparison.trials import load_sets
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import RANKED
from analysis.submission.claims import compute_claims
from analysis.submission.package_tree import Package, find_run_directory
from analysis.submission.rules import Option
from analysis.submission.validate import PackageVerdict, validate
from tracegen.errors import InputError
from tracegen.progress import Progress, ignore_progress
from views.answer import Answer, Cell, Column, DoubtLine, Table

_HEADS: Final = (
    "place",
    "equal work, ×",
    "from",
    "to",
    "ranks",
    *(describe(name).short for name in RANKED),
)
"""The columns' heads: rates are summed over ranks; times are of the worst rank and trial."""


@dataclass(frozen=True)
class Ranking:
    """Ranking of the packages in one option.

    Attributes:
        option: the option.
        names: names of the packages: the best first at equal work, then those that cannot be
            compared, by the option's primary metric.
        claims: by name, the metrics of the option.
        comparison: the packages against the one with the best primary metric; None if they cannot
            be compared at all.
        reason: why not; empty if they can.
    """

    option: Option
    names: list[str]
    claims: dict[str, dict[str, Any]]
    comparison: Comparison | None
    reason: str = ""

    @property
    def places(self) -> dict[str, int]:
        """The places of those that can be compared; none unless two can."""
        ranked = self.comparison.ranking if self.comparison else []
        return {name: place for place, name in enumerate(ranked, 1)} if len(ranked) > 1 else {}


def rank_packages(packages: Sequence[Package], progress: Progress = ignore_progress) -> Answer:
    """Validate packages and rank those that are valid.

    Args:
        packages: packages of one division and scale.
        progress: shows the work.

    Raises:
        InputError: divisions or scales differ, a package is named twice, or fewer than two are
            valid.
    """
    submissions = [package.submission for package in packages]
    kinds = sorted({f"{submission.division} {submission.scale}" for submission in submissions})
    if len(kinds) > 1:
        problem = f"the packages are of different kinds ({', '.join(kinds)})"
        raise InputError(problem, "compare packages of one division and scale")
    verdicts = {name: validate(package, progress=progress) for name, package in _name_packages(packages).items()}
    valid = {name: verdict for name, verdict in verdicts.items() if not verdict.problems}
    if len(valid) < 2:
        invalid = [f"{name}: {verdict.problems[0].text}" for name, verdict in verdicts.items() if verdict.problems]
        reason = invalid[0] if invalid else f"{next(iter(verdicts))} is the only package"
        problem = f"a ranking needs two valid packages, not {len(valid)} ({reason})"
        raise InputError(problem, "check them with `analysis submission validate`")
    return _answer(verdicts, [_rank_option(option, valid) for option in submissions[0].rules.options])


def _name_packages(packages: Sequence[Package]) -> dict[str, Package]:
    """Name packages by organisation and system, and by directory if that is ambiguous."""
    paths = [package.results.resolve() for package in packages]
    for path in paths:
        if paths.count(path) > 1:
            raise InputError("named twice", "name each package once", subject=path)
    submissions = [package.submission for package in packages]
    names = [f"{submission.organisation}/{submission.system}" for submission in submissions]
    return {
        name if names.count(name) == 1 else f"{name} ({package.top})": package
        for name, package in zip(names, packages, strict=True)
    }


def _rank_option(option: Option, valid: dict[str, PackageVerdict]) -> Ranking:
    claims = {
        name: compute_claims(verdict.package.submission, verdict.trials)["options"][option.name]
        for name, verdict in valid.items()
    }
    names = sorted(claims, key=lambda name: -(claims[name][option.primary] or 0.0))
    paths = {name: [find_run_directory(trial.path) for trial in valid[name].trials[option.name]] for name in names}
    try:
        trials, _ = load_sets(paths)
    except InputError as error:
        return Ranking(option, names, claims, None, error.problem)
    comparison = compare_as_found(trials, names[0], [option.primary], is_given=False)
    ranked = comparison.ranking
    return Ranking(option, [*ranked, *(name for name in names if name not in ranked)], claims, comparison)


def _answer(verdicts: dict[str, PackageVerdict], rankings: Sequence[Ranking]) -> Answer:
    leaders = [f"{ranking.option.name}: {_name_leader(ranking)}" for ranking in rankings]
    not_ranked = [
        DoubtLine(headline="not ranked", runs=name, text=problem.text, advice=problem.advice)
        for name, verdict in verdicts.items()
        for problem in verdict.problems
    ]
    return Answer(
        title="Packages ranked by equal work per second, each against the best by the rules' own figures",
        sentence=f"{'; '.join(leaders)}.",
        tables=[_tabulate(ranking) for ranking in rankings],
        doubts=not_ranked,
        data={
            "packages": {name: not verdict.problems for name, verdict in verdicts.items()},
            "options": [_convert(ranking) for ranking in rankings],
        },
    )


def _name_leader(ranking: Ranking) -> str:
    return f"{ranking.names[0]} is first" if ranking.places else "not ranked, as no two can be compared"


def _tabulate(ranking: Ranking) -> Table:
    """Tabulate an option: places at equal work, then figures each over the run's own window."""
    comparison = ranking.comparison
    notes = [f"not compared: {ranking.reason}"]
    if comparison is not None:
        notes = [
            *map(describe_pair, comparison.pairs),
            *list_remarks(comparison),
            *comparison.warnings,
        ]
    return Table(
        name=ranking.option.name,
        title=f"{ranking.option.name}, {ranking.option.title}: {_name_leader(ranking)}",
        columns=[Column("system"), *map(Column, _HEADS)],
        rows=[_list_cells(ranking, name) for name in ranking.names],
        notes=list(dict.fromkeys(notes)),
    )


def _list_cells(ranking: Ranking, name: str) -> list[Cell]:
    place = ranking.places.get(name)
    pairs = ranking.comparison.compared if ranking.comparison else []
    ratio = next((pair.ratios[EQUAL_WORK] for pair in pairs if pair.name == name), None)
    equal: tuple[Cell, ...] = (1.0 if place else None, None, None)
    if ratio is not None:
        equal = (ratio.ratio, ratio.low, ratio.high)
    claims = ranking.claims[name]
    return [name, place, *equal, claims["rank_count"], *(claims[metric] for metric in RANKED)]


def _convert(ranking: Ranking) -> dict[str, Any]:
    """Convert a ranking to plain JSON."""
    rows = [{"package": name, "place": ranking.places.get(name)} | ranking.claims[name] for name in ranking.names]
    return {
        "option": ranking.option.name,
        "primary": ranking.option.primary,
        "ranking": [{key: value for key, value in row.items() if key != "trials"} for row in rows],
        "comparison": None if ranking.comparison is None else convert_comparison(ranking.comparison),
        "not_compared": ranking.reason or None,
    }
