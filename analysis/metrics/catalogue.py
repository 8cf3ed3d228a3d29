"""The catalogue: every number of a summary by its name, with its description."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from analysis.log.log import Log
from analysis.metrics import DECLARED
from analysis.metrics.metric import Metric


@dataclass(frozen=True)
class Group:
    """The metrics that one function computes.

    Attributes:
        name: the function's name.
        about: what all of its metrics have in common.
        families: its metrics as they are declared, with their definitions.
    """

    name: str
    about: str
    families: tuple[Metric, ...]


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
    Metric(
        "executed_ops",
        "ops",
        "work",
        "ops executed",
        definition="ops that were executed, including the warm-up.",
    ),
    Metric(
        "users",
        "users",
        "work",
        "users",
        definition="users of the trace that the run replayed.",
    ),
    Metric(
        "host_cores",
        "cores",
        "machine",
        "cores of the hosts",
        definition="cores of all hosts of the run.",
    ),
)


def _read_group(function: Callable[[Log], pl.LazyFrame], metrics: tuple[Metric, ...]) -> Group:
    """Give each metric of a function the definition in the function's docstring."""
    name = function.__name__
    about, _, body = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
    definitions = dict(_read_definitions(body))
    families = (replace(one, group=name, definition=definitions[one.name]) for one in metrics)
    return Group(name, about, tuple(families))


def _read_definitions(text: str) -> Iterator[tuple[str, str]]:
    """Yield each name with its definition from lines like `name, name: definition`."""
    for entry in re.split(r"\n(?=\S)", text):
        names, _, definition = entry.partition(": ")
        for name in names.split(", "):
            yield name, " ".join(definition.split())


# All metrics by the function that computes them, in the order of the glossary.
GROUPS: Final = (
    *(_read_group(function, metrics) for function, metrics in DECLARED.items()),
    Group("run", "Facts of the run, from run.json.", tuple(replace(one, group="run") for one in RUN)),
)
# Every metric by its name in a summary.
CATALOGUE: Final[dict[str, Metric]] = {
    metric.name: metric for group in GROUPS for family in group.families for metric in family.expand()
}


def describe(name: str) -> Metric:
    """Return the description of a metric.

    Raises:
        KeyError: no number of a summary has this name.
    """
    return CATALOGUE[name]
