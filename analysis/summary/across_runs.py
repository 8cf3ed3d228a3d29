"""Doubts about runs that are shown together, and the grouping of equal doubts."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import mean, stdev
from typing import Final

from analysis.runs.run import Doubt
from analysis.summary.run_summary import MachineName, Summary
from views.answer import DoubtLine

SPREAD_CV: Final = 0.05  # the spread between trials that kv-cache.py's authors allow
_Names = Sequence[str | None]
LISTED: Final = 4  # at most this many runs are named


def add_shared_doubts(summaries: list[Summary], systems: _Names = ()) -> list[Summary]:
    """Add the doubts that only a comparison of the runs shows.

    They are: copies of one run, trials that disagree, unlike machines. Runs of several `systems`, by the
    names that the user gave, are no trials of each other.
    """
    found = [*_copies(summaries), *_between_trials(summaries, systems)]
    return [
        summary.with_doubts(after=[doubt for doubt, runs in found if number in runs])
        for number, summary in enumerate(summaries)
    ]


def list_doubt_lines(names: Sequence[str], summaries: Sequence[Summary]) -> list[DoubtLine]:
    """Return a line for each kind of doubt and advice, those that invalidate first."""
    groups: dict[tuple[bool, str, str], list[tuple[str, str]]] = {}
    for name, summary in zip(names, summaries, strict=True):
        for doubt in summary.doubts:
            groups.setdefault((not doubt.invalidates, doubt.kind, doubt.advice), []).append((name, doubt.text))
    lines = []
    for (is_minor, kind, advice), found in sorted(groups.items(), key=lambda group: group[0][0]):
        runs = dict.fromkeys(name for name, _ in found)
        whose = f"{len(runs)} of {len(names)} runs"
        if len(names) == 1:
            whose = ""
        elif len(runs) <= LISTED and len(runs) < len(names):
            whose = ", ".join(runs)
        text = "; ".join(list_merged(dict.fromkeys(text for _, text in found))).removeprefix(f"{kind}: ")
        lines.append(DoubtLine(headline=kind, text=text, advice=advice, runs=whose, invalidates=not is_minor))
    return lines


def list_merged(texts: Iterable[str]) -> list[str]:
    """Merge the texts that differ only in figures, and give ranges of these."""
    similar: dict[str, list[str]] = {}
    for text in texts:
        similar.setdefault(_NUMBER.sub("#", text), []).append(text)
    return [_merge_figures(group) for group in similar.values()]


# Not digits of a name, such as nvme-7.
_NUMBER: Final = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")


def _merge_figures(texts: list[str]) -> str:
    """Merge texts that differ only in figures, e.g. "17.2 to 48.1 s are too short"."""
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    ordered = (sorted(set(column), key=lambda figure: float(figure.replace(",", ""))) for column in columns)
    ranges = (figures[0] if len(figures) == 1 else f"{figures[0]} to {figures[-1]}" for figures in ordered)
    return _NUMBER.sub(lambda _: next(ranges), texts[0])


def _copies(summaries: list[Summary]) -> Iterator[tuple[Doubt, list[int]]]:
    """Yield a doubt about copies of one run, with the numbers of the runs."""
    by_origin: dict[tuple[str | int | None, ...], list[int]] = {}
    for number, summary in enumerate(summaries):
        if (origin := summary.origin) is not None:
            by_origin.setdefault(origin, []).append(number)
    for copies in by_origin.values():
        if len(copies) > 1:
            text = f"{len(copies)} of these are one run, named or copied more than once"
            yield Doubt("copies", text, "name each run once; replay each trial separately"), copies


def _between_trials(summaries: list[Summary], systems: _Names) -> Iterator[tuple[Doubt, list[int]]]:
    """Yield doubts about trials of one configuration, with the numbers of the runs."""
    alike: dict[tuple[object, ...], dict[MachineName, list[int]]] = {}
    for number, summary in enumerate(summaries):
        system = systems[number] if systems else None
        machine = replace(summary.machine, host=None)  # hosts of one kind make trials, too
        if machine.profile is not None:  # a prediction is no trial
            continue
        kinds = alike.setdefault((system, summary.configuration), {})
        kinds.setdefault(machine, []).append(number)
    for kinds in alike.values():
        for trials in kinds.values():
            speeds = [speed for number in trials if (speed := summaries[number].metrics["wall_clock_tok_s"])]
            if len(speeds) > 1 and (cv := stdev(speeds) / mean(speeds)) > SPREAD_CV:
                text = f"{len(speeds)} trials of one configuration disagree: wall-clock throughput varies by {cv:.1%}"
                advice = "find what else the machine did, and replay more trials"
                yield Doubt("trials disagree", f"{text} (CV)", advice), trials
        if len(kinds) > 1:
            text = f"runs of one configuration come from {len(kinds)} unlike machines"
            advice = "compare machines with `analysis compare`; do not pool their runs as trials"
            yield (Doubt("unlike machines", text, advice), [number for trials in kinds.values() for number in trials])
