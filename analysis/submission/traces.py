"""Traces of a package, generated again from shipped recipes or from recorded ones."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from analysis.doubts.against_trace import run_child
from analysis.submission.package_tree import Package
from analysis.submission.rules import SEED, Option
from replayer.schema import RunInfo, TraceInfo
from tracegen.errors import InputError
from tracegen.schema import Trace

PATIENCE_S: Final = 600  # a recorded recipe may ask for a trace of any size
OP_S: Final = 6e-6
"""Time to generate an op, plan it and write its moves; measured: 1.46 million ops in 8 s."""
START_S: Final = 4.0  # start of two processes with their imports


@dataclass
class Traces:
    """The traces of a package, generated when they are asked for.

    Attributes:
        package: the package.
        given: files that a reviewer has, by option; `{rank}` in a name is the rank's number.
        folder: folder for generated traces.
        untied: options of OPEN whose traces cannot be generated, with the reason.
    """

    package: Package
    given: Mapping[str, Path]
    folder: Path
    untied: dict[str, str] = field(default_factory=dict)

    def open(self, option: Option, rank: int, info: RunInfo) -> Trace | None:
        """Open the trace of a rank; None if it is not given and cannot be generated.

        Args:
            option: the option that the rank replayed.
            rank: number of the rank.
            info: the rank's run.json.

        Raises:
            InputError: the given file is not a trace, or generating failed.
        """
        file = self.given.get(option.name)
        if file is not None:
            return Trace(str(file).replace("{rank}", str(rank)))
        path = self.folder / f"{option.name}-{rank}-{info.trace.fingerprint[:12]}.parquet"
        if path.exists():
            return Trace(path)
        if self.package.submission.is_closed:
            return self._generate_pinned(path, option, rank)
        reason = _find_obstacle(info.trace)
        if reason is not None:
            self.untied[option.name] = reason
            return None
        recipe = path.with_suffix(".toml")
        recipe.write_text("\n".join(_render_toml(info.trace.recipe or {})) + "\n", encoding="utf-8")
        return _generate(path, recipe)

    def _generate_pinned(self, path: Path, option: Option, rank: int) -> Trace:
        rules = self.package.submission.rules
        settings = [word for setting in rules.settings for word in ("--set", setting)]
        numbers = ("--users", option.users, "--seed", SEED + rank)
        return _generate(path, option.recipe, *numbers, *settings)


def _generate(path: Path, *words: object) -> Trace:
    """Generate a trace in a process of its own."""
    task = f"{path.stem}: its trace"
    run_child("tracegen", "generate", *words, "-o", path, subject=task, timeout_s=PATIENCE_S)
    return Trace(path)


def _find_obstacle(trace: TraceInfo) -> str | None:
    """Return why a trace cannot be generated from its entry in run.json; None if it can."""
    recipe = trace.recipe
    if recipe is None or not isinstance(recipe.get("mix"), dict):
        return "no recipe is recorded"
    if trace.sources or recipe["mix"].get("sharegpt"):
        return "its recipe needs a file"
    return "it is a part of a trace" if trace.part is not None else None


def _render_toml(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Render a recipe as lines of TOML; a null is left out, as it means the default."""
    for name, value in table.items():
        key = f"{prefix}{json.dumps(name)}"
        if isinstance(value, dict):
            yield from _render_toml(value, f"{key}.")
        elif value is not None:
            yield f"{key} = {json.dumps(value)}"


def estimate_s(infos: Mapping[Any, RunInfo]) -> float:
    """Estimate the time, in s, to generate and plan the traces of some runs."""
    ops = [0 if info.plan is None else info.plan.ops for info in infos.values()]
    return sum(START_S + OP_S * count for count in ops)


def check_given_traces(given: Mapping[str, Path], package: Package) -> None:
    """Refuse traces for unknown options, and for options whose traces are pinned.

    Args:
        given: traces by option.
        package: the package that they are for.

    Raises:
        InputError: one is refused.
    """
    known = [option.name for option in package.submission.rules.options]
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise InputError(
            "unknown option",
            f"name one of {', '.join(known)}",
            subject=f"{unknown}=…",
            setting="traces",
        )
    if given and package.submission.is_closed:
        raise InputError(
            "only packages of OPEN take traces, as the pinned traces of CLOSED are generated again",
            "leave it out",
            setting="traces",
        )
