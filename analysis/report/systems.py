"""The systems of a report: which runs belong together, and what they are called."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import chain, combinations, count
from pathlib import Path
from typing import Final

import polars as pl

from analysis.comparison.matching import find_path_names
from analysis.comparison.trials import Trial, find_fault, name_condition, write_conditions
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS
from tracegen.errors import InputError, escape_controls, quote_value

# Most characters of a name; legends have no room for more.
LONGEST: Final = 28
# Names of directories that say nothing about a system, and names of a sweep's cases.
_UNTOLD: Final = re.compile(r"((run|trial|replay|test|out|output|result|bench)s?)?[-_. ]*\d*|.*=.*", re.IGNORECASE)
# Characters that neither XML nor a line of text may hold; undecodable bytes are surrogates.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, eq=False)
class Subject(Trial):
    """A run in a report, valid or not.

    Attributes:
        name: short and unique.
        system: name of its configuration on its machine, which trials share.
        label: the name that the user gave its system; None without one.
        tables: the tables of TABLES by name; empty if the whole run is warm-up.
        moments: the end of the warm-up and the cut, in s since the first move after the warm-up.
    """

    name: str = ""
    system: str = ""
    label: str | None = None
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    moments: dict[str, float] = field(default_factory=dict)

    @property
    def is_trial(self) -> bool:
        """Whether it may be compared."""
        return not find_fault(self.run, self.summary)

    @property
    def drive(self) -> str | None:
        """The model of its drive; None if it is not known."""
        storage = self.summary.provenance.storage
        return None if storage is None else storage.device_model


def check_text(text: str, setting: str) -> None:
    """Check that a text can stand on one line of a page and in a chart.

    Raises:
        InputError: it has control characters, which no chart can hold.
    """
    if _CONTROL.search(text):
        problem, remedy = "has a control character or a line break", "leave it out"
        raise InputError(problem, remedy, subject=quote_value(text), setting=setting)


def parse_label(text: str) -> tuple[str, str]:
    """Split NAME=DIRECTORY.

    Raises:
        InputError: it has another form, or the name has control characters.
    """
    name, _, place = text.partition("=")
    name = name.strip()
    if not (name and place):
        raise InputError("not NAME=DIR", "write `label=old=runs/old`", subject=text, setting="label")
    check_text(name, "label")
    return name, place


def assign_labels(paths: Sequence[Path], labels: Sequence[tuple[str, str]]) -> list[str | None]:
    """Return the label of each run: that of its directory, of a folder above, or of a pattern.

    Raises:
        InputError: a label names no run, or a run has two.
    """
    assigned: dict[Path, str] = {}
    for name, place in labels:
        folder, subject = Path(place).resolve(), f"{name}={place}"
        own = [path for path in paths if path.resolve().is_relative_to(folder) or fnmatch(str(path), place)]
        if not own:
            problem, remedy = "no run of this report is there", "name its runs as arguments, too"
            raise InputError(problem, remedy, subject=subject, setting="label")
        for path in own:
            if assigned.setdefault(path, name) != name:
                problem = f"{path} is called {assigned[path]}, too"
                raise InputError(problem, "give it one name", subject=subject, setting="label")
    return [assigned.get(path) for path in paths]


def group_runs(runs: Sequence[Subject], names: Sequence[str]) -> dict[str, list[Subject]]:
    """Group runs by the name of each, in the order of their first runs."""
    grouped: dict[str, list[Subject]] = {}
    for name, run in zip(names, runs, strict=True):
        grouped.setdefault(name, []).append(run)
    return grouped


def name_runs(runs: Sequence[Subject]) -> list[str]:
    """Return the name of each run's system: a label, or what tells its configuration apart.

    With a time limit each trial executes as many ops as it can.
    """
    keys = []
    for run in runs:
        provenance = run.summary.provenance
        ops = provenance.executed_ops if provenance.conditions.span.duration_s is None else None
        keys.append(str((run.label, provenance.configuration, ops, provenance.machine, run.drive)))
    # Labels, conditions and machines make systems; what is left are trials.
    groups = group_runs(runs, keys)
    named = dict(zip(groups, name_groups([*groups.values()]), strict=True))
    return [named[key] for key in keys]


def mark_predicted(name: str, run: Subject) -> str:
    """Return a name that says whether its run was predicted."""
    return name if run.summary.prediction is None or "predicted" in name else f"{name} (predicted)"


def name_groups(groups: Sequence[Sequence[Subject]]) -> list[str]:
    """Return a short name for each group of runs that distinguishes it from the others.

    It is the label of its runs. Groups with one label are told apart by what differs between them,
    and groups without one by what their paths say, or by what differs.
    """
    by_label: dict[str | None, list[int]] = {}
    for number, own in enumerate(groups):
        by_label.setdefault(own[0].label, []).append(number)
    names: dict[int, str] = {}
    for label, numbers in by_label.items():
        apart = _tell_apart([groups[number] for number in numbers], label)
        names |= zip(numbers, map(escape_controls, apart), strict=True)  # paths may hold any byte
    return list(_number_equal(_shorten(names[number]) for number in range(len(groups))))


def _tell_apart(groups: Sequence[Sequence[Subject]], label: str | None) -> list[str]:
    if label is not None and len(groups) == 1:
        return [label]
    paths = find_path_names([[run.run.path for run in own] for own in groups])
    differences = _find_differences([own[0].summary for own in groups])
    if label is not None:
        numbers = map(str, range(1, len(groups) + 1))
        return [f"{label}, {each}" for each in differences or paths or numbers]
    if paths and not all(map(_UNTOLD.fullmatch, paths)):
        return paths
    return differences or paths or [own[0].run.path.name for own in groups]


def _find_differences(systems: Sequence[Summary]) -> list[str] | None:
    """Name systems by the fewest facts that tell them apart; None if no facts do."""
    facts = [_list_facts(summary) for summary in systems]
    columns = [[own.get(name, "") for own in facts] for name in dict.fromkeys(chain(*facts))]
    differing = [column for column in columns if len(set(column)) > 1]
    # Three or more facts are tried only all at once: legends have no room, and subsets are many.
    for chosen in chain(combinations(differing, 1), combinations(differing, 2), [differing]):
        joined = [", ".join(filter(None, texts)) for texts in zip(*chosen, strict=True)]
        if len(set(joined)) == len(facts) > 1:
            return joined
    return None


def _list_facts(summary: Summary) -> dict[str, str]:
    """Return what may distinguish a system, in words, the most telling first."""
    provenance = summary.provenance
    storage, machine = provenance.storage, provenance.machine
    texts = write_conditions(provenance.conditions)
    # The most telling comes first: profiles and drives before options.
    sizes = [f"usable_bytes.{tier}" for tier in ("cpu", *TIERS)]
    return {
        "profile": summary.describe_profile(),
        "drive": "" if storage is None else storage.device_model or "",
        "device": "" if storage is None else storage.device or "",
        "file system": "" if storage is None else storage.filesystem or "",
        **{name: name_condition(name, texts[name], texts.get("headroom")) for name in dict.fromkeys((*sizes, *texts))},
        "cpu": machine.cpu or "",
        "host": machine.host or "",
    }


def _shorten(name: str) -> str:
    """Return a name of LONGEST characters at most, without its middle if it is longer."""
    half = (LONGEST - 1) // 2
    return name if len(name) <= LONGEST else f"{name[:half]}…{name[half + 1 - LONGEST :]}"


def _number_equal(names: Iterable[str]) -> Iterator[str]:
    """Yield names, with numbers after those that came before."""
    seen: set[str] = set()
    for name in names:
        numbered = (f"{name} ({number})" for number in count(2))
        free = next(each for each in chain([name], numbered) if each not in seen)
        seen.add(free)
        yield free
