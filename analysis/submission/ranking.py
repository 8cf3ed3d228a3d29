"""Ranking of packages, option by option, by metrics that are computed again from their logs."""

from collections.abc import Mapping, Sequence
from typing import Final

from analysis.comparison.answer import list_remarks
from analysis.comparison.compare import compare_systems
from analysis.comparison.ratios import EQUAL_WORK
from analysis.comparison.sentences import describe_pair, format_interval
from analysis.comparison.trials import load_sets
from analysis.metrics.headlines import RANKED, heading
from analysis.submission.claims import sum_option
from analysis.submission.package_tree import Package
from analysis.submission.rules import Option
from analysis.submission.validate import PackageVerdict, validate
from tracegen.errors import InputError
from tracegen.progress import Progress, ignore_progress
from views.answer import Answer, Cell, Column, DoubtLine, Table

# The columns: rates are summed over ranks; times are of the worst rank and trial.
_HEADS: Final = ("system", "place", "equal work", "95% interval", "ranks", *map(heading, RANKED))


def rank_packages(packages: Sequence[Package], progress: Progress = ignore_progress) -> Answer:
    """Validate packages and rank those that are valid.

    Raises:
        InputError: divisions or scales differ, a package is named twice, or fewer than two are
            valid.
    """
    _check_kinds(packages)
    named = _name_packages(packages)
    verdicts = {name: validate(package, progress) for name, package in named.items()}
    valid = {name: verdict for name, verdict in verdicts.items() if not verdict.problems}
    problems = [
        DoubtLine(headline="not ranked", runs=name, text=problem.text, advice=problem.advice)
        for name, verdict in verdicts.items()
        for problem in verdict.problems
    ]
    if len(valid) < 2:
        reason = f"{next(iter(named))} is the only package"
        if problems:
            reason = f"{problems[0].runs}: {problems[0].text}"
        problem = f"a ranking needs two valid packages, not {len(valid)} ({reason})"
        raise InputError(problem, "check them with `analysis submission validate`")
    tables = [_rank_option(option, valid) for option in packages[0].submission.rules.options]
    return Answer(
        title="Packages ranked by equal work per second, each against the best by the rules' own figures",
        sentence=f"{'; '.join(table.title for table in tables)}.",
        tables=tables,
        doubts=problems,
        data={"packages": {name: name in valid for name in named}},
    )


def _check_kinds(packages: Sequence[Package]) -> None:
    """Refuse packages of several divisions or scales."""
    submissions = [package.submission for package in packages]
    kinds = sorted({f"{submission.division} {submission.scale}" for submission in submissions})
    if len(kinds) > 1:
        problem = f"the packages are of different kinds ({', '.join(kinds)})"
        raise InputError(problem, "compare packages of one division and scale")


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


def _rank_option(option: Option, valid: Mapping[str, PackageVerdict]) -> Table:
    """Make the table of an option: places at equal work, then figures each over the run's own window.

    Packages that cannot be compared come last, by the option's primary metric.
    """
    trials_of = {name: verdict.trials[option.name] for name, verdict in valid.items()}
    claims = {name: sum_option(option, trials) for name, trials in trials_of.items()}
    names = sorted(claims, key=lambda name: -(claims[name][option.primary] or 0.0))
    trials, _ = load_sets({name: [trial.run.path for trial in trials_of[name]] for name in names})
    comparison = compare_systems(trials, names[0], metrics=[option.primary])
    ranking = comparison.ranking if comparison.compared else []
    # The baseline has no ratio to itself.
    ratios: dict[str, Sequence[Cell]] = {
        pair.name: format_interval(pair.ratios[EQUAL_WORK]) for pair in comparison.compared
    }
    ratios[names[0]] = ("1 ×", None)
    places = {name: [place, *ratios[name]] for place, name in enumerate(ranking, 1)}
    rows = [
        [name, *places.get(name, [None, None, None]), *(claims[name][metric] for metric in ("rank_count", *RANKED))]
        for name in dict.fromkeys((*ranking, *names))
    ]
    leader = f"{ranking[0]} is first" if ranking else "not ranked, as no two can be compared"
    notes = [*map(describe_pair, comparison.pairs), *list_remarks(comparison), *comparison.warnings]
    return Table(
        name=option.name,
        title=f"{option.name}, {option.title}: {leader}",
        columns=[Column(head) for head in _HEADS],
        rows=rows,
        notes=list(dict.fromkeys(notes)),
        is_turned=True,
    )
