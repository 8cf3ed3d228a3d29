"""Names of systems: given by the user, found in paths, or made of what differs between them."""

import json
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from analysis.comparison.conditions import format_condition, write_conditions
from analysis.comparison.matching import find_path_names
from analysis.summary.run_summary import Summary
from tracegen.errors import InputError, escape_controls, format_count, quote_value

LONGEST: Final = 28
"""Most characters of a name; legends have no room for more."""
System = tuple[Sequence[Path], Summary]
"""The runs of a system, and the summary of one of them."""

_UNTOLD: Final = re.compile(r"((run|trial|replay|test|out|output|result|bench)s?)?[-_. ]*\d*|.*=.*", re.IGNORECASE)
"""Names of directories that say nothing about a system, and names of a sweep's cases."""
_COUNTED: Final = {"workers": "worker", "users": "user", "ranks": "rank", "cycles": "cycle"}
"""What a condition counts."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither XML nor a line of text may hold; undecodable bytes are surrogates."""
_PATTERNS: Final = {
    "speedup": "{} × speed",
    "arrangement": "{}",
    "model": "{}",
    "layout": "layout {}",
    "throttle.nvme.mib_s": "nvme {} MiB/s",
    "throttle.nvme.latency_us": "nvme {} µs",
    "throttle.cpu.mib_s": "cpu {} MiB/s",
}
"""The label that a condition gives; others give their name and value."""


def parse_label(text: str) -> tuple[str, str]:
    """Split NAME=DIRECTORY.

    Raises:
        InputError: it has another form, or the name is too long or has control characters.
    """
    name, equals, place = text.partition("=")
    name = name.strip()
    if not (name and equals and place):
        raise InputError("not NAME=DIR", "write `label=old=runs/old`", subject=text, setting="label")
    check_text(name, "label")
    if len(name) > LONGEST:
        problem = f"the name has {len(name)} characters, and charts have room for {LONGEST}"
        raise InputError(problem, "shorten it", subject=text, setting="label")
    return name, place


def check_text(text: str, setting: str) -> None:
    """Check that a text can stand on one line of a page and in a chart.

    Raises:
        InputError: it has control characters, which no chart can hold.
    """
    if _CONTROL.search(text):
        problem, remedy = "has a control character or a line break", "leave it out"
        raise InputError(problem, remedy, subject=quote_value(text), setting=setting)


def assign_labels(paths: Sequence[Path], labels: Sequence[tuple[str, str]]) -> list[str | None]:
    """Return the label of each run: that of its directory, of a folder above, or of a pattern.

    Raises:
        InputError: a label names no run, or a run has two.
    """
    assigned: list[str | None] = [None] * len(paths)
    for name, place in labels:
        folder = Path(place).resolve()
        own = [
            number
            for number, path in enumerate(paths)
            if path.resolve().is_relative_to(folder) or fnmatch(str(path), place)
        ]
        subject = f"{name}={place}"
        if not own:
            problem, remedy = "no run of this report is there", "name its runs as arguments, too"
            raise InputError(problem, remedy, subject=subject, setting="label")
        for number in own:
            if assigned[number] not in (None, name):
                problem = f"{paths[number]} is called {assigned[number]}, too"
                raise InputError(problem, "give it one name", subject=subject, setting="label")
            assigned[number] = name
    return assigned


def name_systems(systems: Sequence[System], labels: Sequence[str | None]) -> list[str]:
    """Return a short name for each system that distinguishes it from the others.

    Args:
        systems: the systems.
        labels: the label of each; None without one. Systems with one label are told apart by what
            differs between them.
    """
    names = [""] * len(systems)
    for label in dict.fromkeys(labels):
        own = [number for number, each in enumerate(labels) if each == label]
        group = [systems[number] for number in own]
        found = _name_unlabelled(group) if label is None else _name_labelled(label, group)
        for number, name in zip(own, found, strict=True):
            names[number] = _shorten(escape_controls(name))  # paths may hold any byte
    return list(_number_equal(names))


def _name_labelled(label: str, systems: Sequence[System]) -> list[str]:
    if len(systems) == 1:
        return [label]
    differences = _find_differences(systems) or find_path_names([runs for runs, _ in systems])
    numbers = [str(number) for number in range(1, len(systems) + 1)]
    return [f"{label}, {each}" for each in differences or numbers]


def _name_unlabelled(systems: Sequence[System]) -> list[str]:
    paths = find_path_names([runs for runs, _ in systems])
    if paths and not all(_UNTOLD.fullmatch(name) for name in paths):
        return paths
    return _find_differences(systems) or paths or [runs[0].name for runs, _ in systems]


def _find_differences(systems: Sequence[System]) -> list[str] | None:
    """Name systems by the fewest facts that tell them apart; None if no facts do."""
    facts = [_list_facts(summary) for _, summary in systems]
    names = dict.fromkeys(name for own in facts for name in own)
    columns = {name: [own.get(name, "") for own in facts] for name in names}
    differing = [column for column in columns.values() if len(set(column)) > 1]
    if alone := next((column for column in differing if len(set(column)) == len(facts)), None):
        return alone
    chosen = [""] * len(facts)
    for column in differing:
        joined = [", ".join(filter(None, pair)) for pair in zip(chosen, column, strict=True)]
        if len(set(joined)) > len(set(chosen)):
            chosen = joined
    return chosen if len(set(chosen)) == len(facts) > 1 else None


def _list_facts(summary: Summary) -> dict[str, str]:
    """Return what may distinguish a system, in words, the most telling first."""
    provenance = summary.provenance
    storage, machine = provenance.storage, provenance.machine
    facts = {
        "profile": summary.describe_profile(),
        "drive": "" if storage is None else storage.device_model or "",
        "device": "" if storage is None else storage.device or "",
        "file system": "" if storage is None else storage.filesystem or "",
    }
    texts = write_conditions(provenance.conditions)
    headroom = texts.get("headroom")
    for tier in ("cpu", "gpu", "nvme"):
        name = f"usable_bytes.{tier}"
        size = format_condition(name, texts.pop(name), headroom)
        facts[name] = f"no {tier}" if size == "0 GiB" else f"{tier} {size}"
    for name, text in texts.items():
        facts |= dict(_flatten_condition(name, json.loads(text)))
    return facts | {"cpu": machine.cpu or "", "host": machine.host or ""}


def _flatten_condition(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flatten_condition(f"{name}.{key}", part)
    elif isinstance(value, int) and (noun := _COUNTED.get(name)):
        yield name, format_count(value, noun)
    elif value is not None:
        text = f"{value:g}" if isinstance(value, float) else str(value)
        words = name.rpartition(".")[2].replace("_", " ")
        yield name, _PATTERNS.get(name, f"{words} {{}}").format(text)


def _shorten(name: str) -> str:
    """Return a name of LONGEST characters at most, without its middle if it is longer."""
    half = (LONGEST - 1) // 2
    return name if len(name) <= LONGEST else f"{name[:half]}…{name[half + 1 - LONGEST :]}"


def _number_equal(names: Sequence[str]) -> Iterator[str]:
    """Yield names, with numbers after those that came before."""
    seen: set[str] = set()
    for name in names:
        free = name
        number = 2
        while free in seen:
            free, number = f"{name} ({number})", number + 1
        seen.add(free)
        yield free
