"""Doubts on runs that are shown together: what only a look at the others tells."""

import re
from collections.abc import Iterator
from dataclasses import replace
from statistics import mean, stdev
from typing import Final

from analysis.doubts.doubt import Doubt
from analysis.summary.run_summary import MachineName, Summary

SPREAD_CV: Final = 0.05  # what kv-cache.py's authors allow between trials
HIT_RATE_POINTS: Final = 0.001  # a tenth of a per cent, as it is printed; equal plans differ by nothing
LISTED: Final = 4  # so many runs are named


def add_shared_doubts(summaries: list[Summary]) -> list[Summary]:
    """The same, each with the doubts that only a look at the others shows.

    Copies of one run, trials that disagree, unlike machines, unlike hit rates.
    """
    found = [*_copies(summaries), *_between_trials(summaries), *_between_rates(summaries)]
    return [
        summary.with_doubts(after=[doubt for doubt, runs in found if number in runs])
        for number, summary in enumerate(summaries)
    ]


def group_doubts(names: list[str], summaries: list[Summary]) -> list[tuple[bool, str, str, dict[str, list[str]]]]:
    """Doubts of runs, those alike in kind and advice in one, what invalidates first.

    Each is whether it invalidates, its kind, its advice, and by what was found the names of the runs it was found in.
    """
    found: dict[tuple[bool, str, str], dict[str, list[str]]] = {}
    for name, summary in zip(names, summaries, strict=True):
        for doubt in summary.doubts:
            texts = found.setdefault((doubt.invalidates, doubt.kind, doubt.advice), {})
            texts.setdefault(doubt.text, []).append(name)
    return [(*key, found[key]) for key in sorted(found, key=lambda key: not key[0])]


def merge_texts(texts: dict[str, list[str]], names: list[str]) -> str:
    """What was found where, in one sentence: three texts or more that differ in figures alone become one.

    Args:
        texts: by what was found, the names of the runs it was found in.
        names: of all runs.
    """
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(_NUMBER.sub("#", text), []).append(text)
    said, whose_said = [], list[set[str]]()
    for same in alike.values():
        if len(same) < 3:
            whose_said += [{*texts[text]} for text in same]
            said += [text if texts[text] == names else f"{_listed(texts[text], names)}: {text}" for text in same]
        else:
            whose = {name for text in same for name in texts[text]}
            whose_said.append(whose)
            said.append(f"{len(whose)} of {len(names)} runs: {_ranged(same)}")
    if len(said) < 3:
        return "; ".join(said)
    others = len(set().union(*whose_said[1:]) - whose_said[0])
    return f"{said[0]}; likewise, with other figures, {others} more runs"


def _listed(whose: list[str], names: list[str]) -> str:
    return ", ".join(whose) if len(whose) <= LISTED else f"{len(whose)} of {len(names)} runs"


_NUMBER: Final = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def _ranged(texts: list[str]) -> str:
    """Texts that differ in figures alone, as one: 17.2 to 48.1 s are too short."""
    figures = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    ends = (sorted(set(several), key=lambda figure: float(figure.replace(",", ""))) for several in figures)
    told = (found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}" for found in ends)
    return _NUMBER.sub(lambda _: next(told), texts[0])


def group_trials(summaries: list[Summary]) -> list[list[Summary]]:
    """Runs of one trace under the same conditions together, in the order of their first."""
    found: dict[tuple[str | None, str], list[Summary]] = {}
    for summary in summaries:
        found.setdefault(summary.provenance.configuration, []).append(summary)
    return list(found.values())


def _copies(summaries: list[Summary]) -> Iterator[tuple[Doubt, list[int]]]:
    born: dict[tuple[str | int | None, ...], list[int]] = {}
    for number, summary in enumerate(summaries):
        if (origin := summary.provenance.origin) is not None:
            born.setdefault(origin, []).append(number)
    for copies in born.values():
        if len(copies) > 1:
            text = f"{len(copies)} of these are one run, named or copied more than once"
            yield Doubt("copies", text, "name each run once; trials are replayed, each anew"), copies


def _between_trials(summaries: list[Summary]) -> Iterator[tuple[Doubt, list[int]]]:
    """With the places of the runs that it concerns."""
    alike: dict[tuple[str | None, str], dict[MachineName, list[int]]] = {}
    for number, summary in enumerate(summaries):
        machine = replace(summary.provenance.machine, host=None)
        kinds = alike.setdefault(summary.provenance.configuration, {})
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
            yield Doubt("unlike machines", text, advice), [number for trials in kinds.values() for number in trials]


def _between_rates(summaries: list[Summary]) -> Iterator[tuple[Doubt, list[int]]]:
    if len({summary.provenance.trace_fingerprint for summary in summaries}) > 1:
        return
    for name, what in (("hit_rate_reuse", "hit rates (reuse)"), ("hit_rate", "hit rates")):
        rates = [summary.metrics[name] or 0.0 for summary in summaries]
        if max(rates) - min(rates) > HIT_RATE_POINTS:
            text = f"{what} differ, {min(rates):.1%} to {max(rates):.1%}: these systems were spared unequal work"
            advice = "rank systems by runs of one plan: equal capacities and options"
            yield Doubt("hit rates differ", text, advice), [*range(len(summaries))]
            return
