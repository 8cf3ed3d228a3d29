"""The metrics of a comparison: those asked for, or the most important ones that the runs have."""

import difflib
from collections.abc import Sequence

from analysis.metrics.headlines import COMPARED
from analysis.summary.run_summary import Summary
from tracegen.errors import InputError


def select_metrics(summaries: Sequence[Summary], metrics: Sequence[str] | None) -> list[str]:
    """Return the requested metrics, or those of COMPARED that the runs have and that are not all 0.

    Args:
        summaries: of all runs that are compared, at least one.
        metrics: the names asked for; none takes those of COMPARED.

    Raises:
        InputError: a name is not that of a number in the summaries.
    """
    names = list(summaries[0].numbers)
    for name in metrics or ():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            remedy = f"did you mean {near[0]}?" if near else "see `analysis metrics`"
            problem = "not a number in a summary of these runs"
            raise InputError(problem, remedy, subject=name, setting="metrics")
    if metrics:
        return list(dict.fromkeys(metrics))
    return [name for name in COMPARED if name in names and any(summary.numbers.get(name) for summary in summaries)]
