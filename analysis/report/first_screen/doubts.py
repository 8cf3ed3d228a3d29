"""Doubts of a first screen: one line for all runs that share a kind and an advice."""

from analysis.report.data import Gathered
from analysis.report.first_screen.form import DoubtLine
from analysis.summary.across_runs import group_doubts, list_merged


def list_doubt_lines(data: Gathered) -> list[DoubtLine]:
    """Return the doubts on the runs, those that invalidate first."""
    names = [run.name for run in data.runs]
    return [
        DoubtLine(
            kind[:1].upper() + kind[1:],
            "; ".join(list_merged(texts)),
            advice,
            _count_runs({name for runs in texts.values() for name in runs}, names),
            invalidates,
        )
        for invalidates, kind, advice, texts in group_doubts(names, data.summaries)
    ]


def _count_runs(runs: set[str], names: list[str]) -> str:
    """Return which runs have a doubt: empty for a report of one run, a name for one of several."""
    if len(names) == 1:
        return ""
    return next(iter(runs)) if len(runs) == 1 else f"{len(runs)} of {len(names)} runs"
