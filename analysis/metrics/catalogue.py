"""The catalogue: every number of a summary by its name, with its description."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from analysis.metrics import DECLARED
from analysis.metrics.metric import Metric

# Numbers of a summary that run.json has and no function computes.
RUN: Final = (
    Metric(
        "drain_s",
        "s",
        "speed",
        "drain after the cut",
        "lower",
        definition="last end − cut; of several ranks the longest; 0 in a run that was not cut.",
    ),
    Metric("executed_ops", "ops", "work", "ops executed", definition="ops that were executed, including the warm-up."),
    Metric("users", "users", "work", "users", definition="users of the trace that the run replayed."),
    Metric("host_cores", "cores", "machine", "cores of the hosts", definition="cores of all hosts of the run."),
)


def _read_definitions(text: str) -> Iterator[tuple[str, str]]:
    """Yield each name with its definition from lines like `name, name: definition`."""
    for entry in re.split(r"\n(?=\S)", text):
        names, _, definition = entry.partition(": ")
        for name in names.split(", "):
            yield name, " ".join(definition.split())


def _list_families() -> Iterator[Metric]:
    """Yield the metrics as they are declared, each with the definition in its function's docstring."""
    for function, metrics in DECLARED.items():
        _, _, body = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        definitions = dict(_read_definitions(body))
        yield from (replace(one, group=function.__name__, definition=definitions[one.name]) for one in metrics)
    yield from (replace(one, group="run") for one in RUN)


# All metrics as they are declared, in the order of the glossary.
FAMILIES: Final = tuple(_list_families())
# What the metrics of a function have in common, by the function's name.
ABOUT: Final = {
    function.__name__: inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0] for function in DECLARED
}
# Every metric by its name in a summary.
CATALOGUE: Final[dict[str, Metric]] = {metric.name: metric for family in FAMILIES for metric in family.expand()}


def describe(name: str) -> Metric:
    """Return the description of a metric.

    Raises:
        KeyError: no number of a summary has this name.
    """
    return CATALOGUE[name]
