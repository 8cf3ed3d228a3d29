"""What ties a package's rows to its traces: each plan made anew, once, and every row of its runs compared with it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
from tqdm import tqdm

from analysis.doubts import against_trace as replanned
from analysis.submission.package_tree import Package
from analysis.submission.rules import Option
from analysis.submission.summary_json import Trial
from analysis.submission.traces import Traces, expected_s
from replayer.schema import RunInfo, to_plain
from tracegen.errors import InputError

LONG_S: Final = 15.0  # what takes longer is announced

Ranks = list[tuple[Trial, int, Path, RunInfo]]


def compared(
    package: Package, trials: Mapping[str, Sequence[Trial]], given: Mapping[str, Path]
) -> tuple[list[str], dict[str, str]]:
    """Where rows are not those of the plan of their trace; and options whose traces cannot be made, with the reason."""
    plans = _plans(package, trials)
    if (seconds := expected_s({key: ranks[0][3] for key, ranks in plans.items()})) > LONG_S:
        click.echo(f"{len(plans)} traces and plans are made anew: about {seconds:.0f} s.", err=True)
    found = list[str]()
    with TemporaryDirectory(prefix="analysis-validate-") as folder:
        traces = Traces(package, given, Path(folder))
        steps = tqdm(plans.items(), "planning anew", unit="plan", delay=1, disable=None, leave=False)
        for (name, rank, _), ranks in steps:
            try:
                found += _of_plan(traces, package.about.rules.option(name), rank, ranks)
            except InputError as error:
                found.append(f"{name}, rank {rank}: its plan cannot be made anew: {str(error).removesuffix('.')}")
    return [text.replace(f"{package.top}/", "") for text in found], traces.untied


def _plans(package: Package, trials: Mapping[str, Sequence[Trial]]) -> dict[tuple[str, int, str], Ranks]:
    """Runs by option, rank and plan; in CLOSED those of the pinned trace and the fixed conditions alone.

    The others are told of as what they are, and could ask for plans of any size.
    """
    found: dict[tuple[str, int, str], Ranks] = {}
    for name, all_of in trials.items():
        for trial in all_of:
            for rank, (place, info) in enumerate(trial.run.info_of.items()):
                if package.about.division == "open" or _is_fixed(package, name, rank, info):
                    plan = replanned.identify_plan(info) if replanned.has_plan(info) else str(place)
                    found.setdefault((name, rank, plan), []).append((trial, rank, place, info))
    return found


def _is_fixed(package: Package, name: str, rank: int, info: RunInfo) -> bool:
    rules = package.about.rules
    if name not in {option.name for option in rules.options}:
        return False
    fixed = rules.option(name).closed
    pinned = info.trace.fingerprint == rules.pinned(name, rank)
    conditions = to_plain(info.conditions)
    return pinned and all(conditions.get(condition, ...) == value for condition, value in fixed.items())


def _of_plan(traces: Traces, option: Option, rank: int, ranks: Ranks) -> Iterator[str]:
    """What is wrong with runs of one plan."""
    _, _, place, info = ranks[0]
    trace = traces.of(option, rank, info)
    if trace is None:
        return
    if (has := trace.metadata.fingerprint) != (said := info.trace.fingerprint):
        yield f"{option.name}, rank {rank}: its recipe, or the file given, makes {has[:12]}…, not {said[:12]}…"
        return
    planned = replanned.plan_anew(trace.path, place, info, traces.folder / "moves.parquet")
    for trial, _, own, about in ranks:
        for doubt in replanned.find_deviations(own, about, trace, planned):
            yield f"{option.name}/{trial.path.name} is not of its trace: {doubt.text}"
    planned.moves.unlink(missing_ok=True)
