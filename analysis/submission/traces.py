"""The traces of a package, made anew: pinned ones from recipes that are shipped, others from recorded recipes."""

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

PATIENCE_S: Final = 600  # a recorded recipe may ask for anything
OP_S: Final = 6e-6
"""To make an op, plan it and write its moves: 1.46 million in 8 s."""
START_S: Final = 4.0  # two processes, their modules imported


@dataclass
class Traces:
    """What the traces of a package can be made of.

    Attributes:
        package: whose.
        given: files that a reviewer has, by option; `{rank}` in a name is the number of the rank.
        folder: where traces are made.
        untied: options of OPEN whose traces can be made of nothing, and why.
    """

    package: Package
    given: Mapping[str, Path]
    folder: Path
    untied: dict[str, str] = field(default_factory=dict)

    def of(self, option: Option, rank: int, info: RunInfo) -> Trace | None:
        """The trace of a rank; None where there is no way to it.

        Raises:
            InputError: the file that was given is none, or the recipe makes none.
        """
        if (file := self.given.get(option.name)) is not None:
            return Trace(str(file).replace("{rank}", str(rank)))
        made = self.folder / f"{option.name}-{rank}-{info.trace.fingerprint[:12]}.parquet"
        if made.exists():
            return Trace(made)
        if self.package.about.division == "closed":
            settings = [word for setting in self.package.about.rules.settings for word in ("--set", setting)]
            return _made(made, option.recipe, "--users", option.users, "--seed", SEED + rank, *settings)
        if (why := _unmakeable(info.trace)) is not None:
            self.untied[option.name] = why
            return None
        recipe = made.with_suffix(".toml")
        recipe.write_text("\n".join(_toml(info.trace.recipe or {})) + "\n", encoding="utf-8")
        return _made(made, recipe)


def _made(path: Path, *words: object) -> Trace:
    run_child("tracegen", "generate", *words, "-o", path, subject=f"{path.stem}: its trace", timeout_s=PATIENCE_S)
    return Trace(path)


def _unmakeable(trace: TraceInfo) -> str | None:
    """Why a trace cannot be made of what run.json says of it; None: it can."""
    recipe = trace.recipe
    if recipe is None or not isinstance(recipe.get("mix"), dict):
        return "no recipe is recorded"
    if trace.sources or recipe["mix"].get("sharegpt"):
        return "its recipe needs a file"
    return "it is a part of a trace" if trace.part is not None else None


def _toml(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """A recipe as tracegen reads it: what is null is a default."""
    for name, value in table.items():
        key = f"{prefix}{json.dumps(name)}"
        if isinstance(value, dict):
            yield from _toml(value, f"{key}.")
        elif value is not None:
            yield f"{key} = {json.dumps(value)}"


def expected_s(infos: Mapping[Any, RunInfo]) -> float:
    """How long it takes to make these traces and plans anew."""
    return sum(START_S + OP_S * (0 if info.plan is None else info.plan.ops) for info in infos.values())


def check_given(given: Mapping[str, Path], package: Package) -> None:
    """Refuse files for options that there are not, or that are pinned.

    Raises:
        InputError: names one.
    """
    known = [option.name for option in package.about.rules.options]
    if strange := next((name for name in given if name not in known), None):
        raise InputError(f"--trace {strange}=…: there is no such option; name one of {', '.join(known)}.")
    if given and package.about.division == "closed":
        raise InputError("--trace is for packages of OPEN: in CLOSED the pinned traces are made anew; leave it out.")
