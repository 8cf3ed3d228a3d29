"""Checks of rows against traces: plans each trace again and compares every row of its runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import tomli_w

from analysis.doubts import against_trace
from analysis.doubts.against_trace import run_child
from analysis.submission.claims import PackagedTrial, Trials
from analysis.submission.package_tree import Package
from analysis.submission.rules import SEED, Option
from replayer.schema import TraceInfo
from tracegen.errors import InputError
from tracegen.progress import Progress
from tracegen.schema import Trace

PATIENCE_S: Final = 600  # a recorded recipe may ask for a trace of any size


class _UntiedError(InputError):
    """A trace of OPEN that cannot be generated, so that nothing ties the rows to it."""


@dataclass(frozen=True)
class _Traces:
    """The traces of a package, generated when they are asked for.

    Attributes:
        package: the package.
        given: files that a reviewer has, by option; `{rank}` in a name is the rank's number.
        folder: folder for generated traces.
    """

    package: Package
    given: Mapping[str, Path]
    folder: Path

    def open(self, option: Option, rank: int, info: TraceInfo) -> Trace:
        """Open the trace of a rank: the given one, or one that its recipe makes again.

        Raises:
            InputError: there is no recipe, or it needs a file.
        """
        if option.name in self.given:
            return Trace(str(self.given[option.name]).replace("{rank}", str(rank)))
        path = self.folder / f"{option.name}-{rank}-{info.fingerprint[:12]}.parquet"
        if path.exists():
            return Trace(path)
        if self.package.submission.is_closed:
            settings = [word for setting in self.package.submission.rules.settings for word in ("--set", setting)]
            return generate(path, option.recipe, "--users", option.users, "--seed", SEED + rank, *settings)
        if not info.recipe or info.part is not None:
            raise _UntiedError("no recipe of the whole trace is recorded")
        recipe = path.with_suffix(".toml")
        recipe.write_text(tomli_w.dumps(_leave_out_nulls(info.recipe)), encoding="utf-8")
        try:
            return generate(path, recipe)
        except InputError as error:
            raise _UntiedError(error.problem) from None


def generate(path: Path, *words: object) -> Trace:
    """Generate a trace in a process of its own."""
    subject = f"{path.stem}: its trace"
    run_child("tracegen", "generate", *words, "-o", path, subject=subject, timeout_s=PATIENCE_S)
    return Trace(path)


def _leave_out_nulls(table: Any) -> Any:
    """Leave out the nulls of a recipe: TOML has none, and they mean the default."""
    if not isinstance(table, dict):
        return table
    return {name: _leave_out_nulls(value) for name, value in table.items() if value is not None}


def compare_with_traces(
    package: Package,
    trials: Trials,
    given: Mapping[str, Path],
    progress: Progress,
) -> tuple[list[str], dict[str, str]]:
    """Compare the rows of a package with the plans of its traces.

    Args:
        package: the package.
        trials: those of its trials that did the work of the rules, by option: others are reported already,
            and their plans could be of any size.
        given: traces of OPEN by option.
        progress: shows the work.

    Returns:
        The problems; and the options whose traces cannot be generated, with the reason.
    """
    plans = _group_by_plan(trials)
    problems = list[str]()
    untied: dict[str, str] = {}
    with (
        TemporaryDirectory(prefix="analysis-validate-") as folder,
        progress("planning again", "plan", len(plans)) as advance,
    ):
        traces = _Traces(package, given, Path(folder))
        for (option, rank, _), ranks in plans.items():
            info = next(iter(ranks.values())).infos[rank]
            try:
                trace = traces.open(package.submission.rules.find_option(option), rank, info.trace)
                problems += _check_plan(trace, ranks, traces.folder / "moves.parquet")
            except _UntiedError as error:
                untied[option] = error.problem
            except InputError as error:
                problems.append(f"{option}, rank {rank}: cannot plan again: {error.problem}")
            advance(1)
    return [problem.replace(f"{package.top}/", "") for problem in problems], untied


def _group_by_plan(trials: Trials) -> dict[tuple[str, int, str], dict[Path, PackagedTrial]]:
    """Group the run directories of all ranks by option, number and plan."""
    plans: dict[tuple[str, int, str], dict[Path, PackagedTrial]] = {}
    for option, opened in trials.items():
        for trial in opened:
            for number, (place, info) in enumerate(trial.run.info_of.items()):
                plan = against_trace.identify_plan(info) if against_trace.has_plan(info) else str(place)
                plans.setdefault((option, number, plan), {})[place] = trial
    return plans


def _check_plan(trace: Trace, ranks: dict[Path, PackagedTrial], moves: Path) -> Iterator[str]:
    """Report the ranks of a plan whose rows are not those of their trace."""
    infos = {place: trial.run.info_of[place] for place, trial in ranks.items()}
    first, info = next(iter(infos.items()))
    planned = against_trace.plan_anew(trace.path, first, info, moves)
    for place, trial in ranks.items():
        for doubt in against_trace.find_deviations(place, infos[place], planned):
            yield f"{trial.name} does not follow its trace: {doubt.text}"
    moves.unlink(missing_ok=True)


def check_given_traces(given: Mapping[str, Path], package: Package) -> None:
    """Refuse traces for unknown options, and for options whose traces are pinned.

    Raises:
        InputError: one is refused.
    """
    known = [option.name for option in package.submission.rules.options]
    for name in given.keys() - set(known):
        remedy = f"name one of {', '.join(known)}"
        raise InputError("unknown option", remedy, subject=f"{name}=…", setting="traces")
    if given and package.submission.is_closed:
        problem = "only packages of OPEN take traces, as the pinned traces of CLOSED are generated again"
        raise InputError(problem, "leave it out", setting="traces")
