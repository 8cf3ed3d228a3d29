"""Submissions of runs made by hand: two options and two trials, held against the rules' own CLOSED conditions."""

import os
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from analysis.doubts import against_trace as replanned
from analysis.doubts.against_trace import plan_anew
from analysis.runs.opening import open_run
from analysis.submission import begin as beginning
from analysis.submission import claims as claiming
from analysis.submission import package as packaging
from analysis.submission import rules as ruling
from analysis.submission import trial_checks as remade
from analysis.submission import validate as validation
from analysis.submission.claims import PackagedTrial
from analysis.submission.package_tree import Begun, Package, Submission, find_run_directory
from analysis.submission.rules import RULES, Option, Rules
from replayer.models.geometry import TokenBytes
from replayer.planning.order import Order
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.plan_table import write_moves
from replayer.schema import PlanInfo, RunInfo, TraceInfo
from tests.support.crafted_runs import PER_TOKEN, SECOND, SIZE, Crafted, clean, sampled, save_ranks, steps
from tests.support.run_json import edit
from tests.support.traces import write
from tracegen.errors import InputError
from tracegen.schema import Trace
from views.answer import Answer

Change = Callable[[Package], object]


DURATION_S, TRIALS, GAP_S = 2.0, 2, 60


OPTIONS: Final = tuple(
    Option(f"option_{n}", title, "hand-made", PER_TOKEN, users=4, cpu_bytes=cpu, allocs=2, duration_s=DURATION_S)
    for n, title, cpu in ((1, "no memory", 0), (2, "some memory", 3 * SIZE))
)


TINY: Final = Rules(OPTIONS, trials=TRIALS, pause_s=30, submittable=True)


PINS: Final = ruling.read_pins()


Slower = Callable[[Option, int, int], float]


def replayed(option: Option, trial: int, rank: int = 0, ranks: int = 1, slower: float = 1.0) -> Crafted:
    """What CLOSED asks for, GAP_S after the trial before; the slower, the fewer ops it came to."""
    number = OPTIONS.index(option)
    executed = int(DURATION_S / 0.1 / slower)
    run = clean(60 + 20 * number + rank, cpu_objects=option.cpu_bytes // SIZE, executed=executed, ordered=True)
    info, born_ns = run.info, 1_800_000_000 * SECOND + (number * TRIALS + trial) * GAP_S * SECOND
    info["conditions"] = option.closed | {"ranks": ranks}
    info["window"] |= {"cut_s": DURATION_S}
    info["trace"] |= {"seed": 42 + rank}
    info["machine"] |= {"host": platform.node()}
    info["machine"]["packages"] = info["machine"]["packages"] | {"kv-tier-bench": version("kv-tier-bench")}
    info["payload_nonce"] = f"{number}{trial}{rank}".rjust(16, "0")
    info |= {"rank": rank, "clock": {"offset_ns": 0, "round_trip_ns": 0, "zero_ns": born_ns + rank * 1000}}
    run.rows["rank"] = run.rows["rank"] + rank
    chance = np.random.default_rng([number, trial, rank])  # no two replays take the same times
    for name in ("start_ns", "end_ns"):
        run.rows[name] = run.rows[name] + chance.integers(0, 1000, len(run.rows[name])) + 1000 * (name == "end_ns")
    run.slower(slower)
    run.samples = sampled(run.rows, 1.1 * ranks, 1.1 * ranks)  # all ranks are on one device, which sees them all
    for sample in run.samples:
        sample["time_ns"] += int(chance.integers(0, 10**6))
    return run


def trace_of(option: Option, rank: int, place: Path) -> Trace:
    """What `replayed` replays."""
    batch, _ = steps(60 + 20 * OPTIONS.index(option) + rank)
    counts = {"tokens_generated": len(batch["op_id"])}
    return write(place / f"{option.name}-{rank}.parquet", batch, seed=42 + rank, counts=counts)


def planned_by_hand(trace: Path, place: Path, info: RunInfo, moves: Path) -> PlanInfo:
    """Its plan: of a test's own order and memory, which CLOSED does not have."""
    if info.conditions.model != "hand-made":
        return plan_anew(trace, place, info, moves)
    opened, cpu = Trace(trace), info.conditions.usable_bytes.cpu or 0
    order = Order("run", "crafted", op_ids=np.arange(opened.ops))
    capacity = (Decimal(0), Decimal(cpu) / 2**30, None)
    plan = Plan(opened, PlanOptions(TokenBytes(PER_TOKEN), capacity, headroom=Decimal(1), order=order))
    with write_moves(moves, plan) as look:
        return plan.simulate(looks=[look]).to_info()


def save(place: Path, runs: list[Crafted]) -> None:
    """A trial as replayer leaves it, one rank or several."""
    if len(runs) == 1:
        runs[0].save(place)
    else:
        save_ranks(place, runs)
    place.with_name(f"log-{place.name}.txt").write_text("what was printed\n")


def named(**names: Any) -> Submission:
    """The names of a submission of the tiny scale."""
    return Submission(**({"organisation": "acme", "system": "box", "division": "closed", "scale": "tiny"} | names))


def begun(
    place: Path, submission: Submission, ranks: int = 1, slower: Slower = lambda *_: 1.0, **conditions: Any
) -> Path:
    """The directory of a submission whose replays are complete and whose system is described."""
    work = place / "work"
    beginning.begin(work, Begun(**submission.names, trials=TRIALS), Path("/proc"), place / "results")
    described = (work / "system.yaml").read_text()
    (work / "system.yaml").write_text(re.sub(r"\bnull\b", "known", described))
    for option in OPTIONS:
        for trial in range(1, TRIALS + 1):
            runs = [replayed(option, trial, rank, ranks, slower(option, trial, rank)) for rank in range(ranks)]
            for run in runs:
                run.info["conditions"] |= conditions
            save(work / "replays" / option.name / f"trial_{trial}", runs)
    return work


@contextmanager
def reports_of_names() -> Iterator[None]:
    """A package's report, which takes seconds, names its systems alone; test_a_submission_… makes a real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packaging, "gather", lambda _runs, _targets, labels: labels)
        patch.setattr(
            packaging, "make_report", lambda labels: Answer(title="", sentence=" ".join(name for name, _ in labels))
        )
        patch.setattr(packaging, "FORMATS", {"html": lambda answer: answer.sentence})
        yield


def packed(work: Path, results: Path) -> Package:
    """Its package, but for the report."""
    with reports_of_names():
        return packaging.make_package(work, results)


JUDGED: dict[Any, PackagedTrial | InputError] = {}


def judged_once(path: Path) -> PackagedTrial:
    """`open_trial`; equal trials are judged once in a process, as each takes 0.2 s."""
    files = sorted(Path(place) / name for place, _, names in os.walk(path, followlinks=True) for name in names)
    content = tuple((one.relative_to(path), one.read_bytes()) for one in files)
    found = JUDGED.get((path, content)) or JUDGED.get(content)
    if found is None:
        try:
            found = claiming.open_trial(path)
        except InputError as error:
            found = error
        JUDGED[path, content] = found
        if isinstance(found, PackagedTrial) and found.summary.is_valid:  # otherwise the message names the trial's place
            JUDGED[content] = found
    if isinstance(found, InputError):
        raise found
    return replace(found, path=path, run=open_run(find_run_directory(path)))


@cache
def pinned() -> dict[str, list[str]]:
    """Return the fingerprints of the traces of each option, for two ranks."""
    return {
        option.name: [replayed(option, 1, rank).info["trace"]["fingerprint"] for rank in (0, 1)] for option in OPTIONS
    }


def trace_made(package: Package, option: Option, rank: int, told: TraceInfo, folder: Path) -> Path:
    if option not in OPTIONS:
        return MADE(package, option, rank, told, folder)
    return trace_of(option, rank, folder).path


MADE: Final = remade.make_trace


@contextmanager
def tiny_scale() -> Iterator[None]:
    """Add a scale of our own to the rules."""
    pins = pinned()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES, "tiny", TINY)
        patch.setattr(ruling, "read_pins", lambda: PINS | {"tiny": pins})
        patch.setattr(remade, "make_trace", trace_made)
        patch.setattr(replanned, "plan_anew", planned_by_hand)
        patch.setattr(validation, "open_trial", judged_once)
        patch.setattr(packaging, "open_trial", judged_once)
        yield


BASES: Final[dict[str, dict[str, Any]]] = {
    "alone": {},
    "ranks": {"ranks": 2, "slower": lambda _, trial, rank: 1 + 0.25 * rank + 0.5 * (trial - 1)},
    "open": {"fsync": "data"},
}


Open = Callable[[str], Package]


def problems(package: Package) -> list[str]:
    found = validation.validate(Package(package.top, package.submission))
    return [problem.text for problem in found.problems]


def trial_of(package: Package, trial: str) -> Path:
    (found,) = package.results.glob(f"kv_cache/*/run/*/{trial}")
    return found


def manifest(name: str, value: Any) -> Change:
    return lambda package: edit(package.manifest, {name: value})


def forge(package: Package, *, claims: bool) -> None:
    """Compute the manifest anew, and summary.json where its logs can be read."""
    if claims:
        with suppress(InputError):
            opened = {name: [validation.open_trial(one) for one in found] for name, found in package.options.items()}  # type: ignore[attr-defined]  # as a test may have replaced it
            for run in package.runs:
                (run / "summary.json").write_text(packaging.render_summary_json(run, package.submission, opened))
    files = {
        path.relative_to(package.top).as_posix(): msgspec.to_builtins(packaging.digest_file(path))
        for path in package.list_files()
    }
    manifest("files", files)(package)
