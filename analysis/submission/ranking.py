"""Packages ranked, option by option: by what they claim and can prove."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from analysis.comparison.compare import compare
from analysis.comparison.ratios import Ratio, estimate_false_alarms
from analysis.submission.package_tree import Package, opened_as
from analysis.submission.rules import Option
from analysis.submission.summary_json import Trial, claims
from analysis.submission.validate import validate
from tracegen.errors import InputError

SHOWN: Final = {
    "decode GiB/s": "decode_read_gib_s",
    "tok/s": "wall_clock_tok_s",
    "storage tok/s": "storage_tok_s",
    "read GiB/s": "nvme_read_gib_s",
    "write GiB/s": "nvme_write_gib_s",
    "read P95 ms": "nvme_read_device_p95_ms",
    "write P95 ms": "nvme_write_device_p95_ms",
    "drain s": "drain_s",
}
"""Columns: rates summed over ranks, mean of trials; P95 of device times, the worst of ranks and trials."""


@dataclass(frozen=True)
class Entry:
    """A package as it is ranked.

    Attributes:
        name: organisation/system.
        problems: why it is not ranked; none: it is.
        trials: by option.
        claims: by option, computed from the logs.
    """

    name: str
    problems: list[str]
    trials: dict[str, list[Trial]]
    claims: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Ranking:
    """An option's.

    Attributes:
        option: what was run.
        names: the best first, by the option's primary metric.
        cut: whether runs were cut in time, so that each is judged over its own window.
        ratios: of two the best over the other, of more each other one over the best, in the primary metric.
        unlike: why there are no ratios.
        false_alarm: how often intervals over so few trials tell equal systems apart.
    """

    option: Option
    names: list[str]
    cut: bool
    ratios: list[Ratio]
    unlike: str | None
    false_alarm: float | None


def ranked(packages: Sequence[Package]) -> tuple[list[Entry], list[Ranking]]:
    """Packages validated, and those that are valid ranked.

    Raises:
        InputError: they are of unlike divisions or scales, one is named twice, or fewer than two are left.
    """
    if len(kinds := sorted({f"{one.about.division} {one.about.scale}" for one in packages})) > 1:
        raise InputError(f"packages are of unlike kinds ({', '.join(kinds)}); compare those of one division and scale.")
    names = _names(packages)
    entries = [_entry(name, package) for name, package in zip(names, packages, strict=True)]
    valid = [entry for entry in entries if not entry.problems]
    if len(valid) < 2:
        wrong = next((f"{one.name}: {one.problems[0]}" for one in entries if one.problems), f"{names[0]} is alone")
        raise InputError(f"{len(valid)} valid packages are too few to rank ({wrong}); `analysis submission validate`.")
    return entries, [_ranking(option, valid) for option in packages[0].about.rules.options]


def _names(packages: Sequence[Package]) -> list[str]:
    names = [f"{one.about.organisation}/{one.about.system}" for one in packages]
    paths = [one.results.resolve() for one in packages]
    if twice := next((str(path) for path in paths if paths.count(path) > 1), None):
        raise InputError(f"{twice} is named twice; name each package once.")
    return [
        name if names.count(name) == 1 else f"{name} ({one.top})" for name, one in zip(names, packages, strict=True)
    ]


def _entry(name: str, package: Package) -> Entry:
    found = validate(package)
    return Entry(
        name, found.problems, found.trials, {} if found.problems else claims(package.about, found.trials)["options"]
    )


def _ranking(option: Option, entries: Sequence[Entry]) -> Ranking:
    order = sorted(entries, key=lambda one: -(one.claims[option.name][option.primary] or 0.0))
    names = [one.name for one in order]
    sides = {one.name: [opened_as(trial.path) for trial in one.trials[option.name]] for one in order}
    try:
        found = compare(sides, metrics=[option.primary])
    except InputError as error:  # unlike numbers of ranks, or in OPEN unlike conditions: nothing is common
        return Ranking(option, names, False, [], str(error), None)
    one = found.configurations[0]
    ratios = [pair.ratios[option.primary] for pair in found.pairs]
    alarm = estimate_false_alarms(found.configurations)
    return Ranking(option, names, one.cut, ratios, None, alarm[-1] if alarm else None)


def as_json(entries: Sequence[Entry], rankings: Sequence[Ranking]) -> dict[str, Any]:
    """All of it in plain JSON."""
    return {
        "packages": {one.name: {"problems": one.problems} for one in entries},
        "options": [
            {
                "option": found.option.name,
                "primary": found.option.primary,
                "ranking": [
                    {"package": one.name} | {k: v for k, v in one.claims[found.option.name].items() if k != "trials"}
                    for name in found.names
                    for one in entries
                    if one.name == name
                ],
                "cut": found.cut,
                "ratios": [vars(one) for one in found.ratios],
                "unlike": found.unlike,
                "false_alarm_share": found.false_alarm,
            }
            for found in rankings
        ],
    }


def render(entries: Sequence[Entry], rankings: Sequence[Ranking]) -> str:
    """All of it as text."""
    lines = [f"Not ranked: {one.name}: {text}." for one in entries for text in one.problems]
    by_name = {one.name: one.claims for one in entries}
    width = max(len(one.name) for one in entries)
    for found in rankings:
        option = found.option
        lines += ["", f"{option.name}, {option.title}: ranked by {option.primary}, summed over ranks, mean of trials"]
        lines.append(f"  #  {'system':{width}} ranks" + "".join(f"  {name:>11}" for name in SHOWN))
        for place, system in enumerate(found.names, 1):
            values = by_name[system][option.name]
            cells = "".join(f"  {_number(values[metric]):>{max(11, len(name))}}" for name, metric in SHOWN.items())
            lines.append(f"  {place}  {system:{width}} {values['rank_count']:>5}{cells}")
        lines += _common(found)
    return "\n".join(lines).strip()


def _common(found: Ranking) -> list[str]:
    if found.unlike:
        return [f"  no ratios: {found.unlike}"]
    work = "each over its own window" if found.cut else "over the whole work"
    lines = []
    for one in found.ratios:
        if one.ratio is None:
            continue
        span = f" ({one.low:.3f} to {one.high:.3f})" if one.low is not None and one.high is not None else ""
        apart = "told apart" if one.verdict == "apart" else "not told apart"
        lines.append(f"  {work}: {one.a} has {one.ratio:.3f} × what {one.b} has{span}: {apart}")
    if found.false_alarm and lines:
        lines.append(f"  so few trials tell equal systems apart in {found.false_alarm:.0%} of cases: docs/comparing.md")
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
