"""Submissions: what a package holds and claims, what is told of one that was tampered with, who is ranked first."""

import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
import yaml

from analysis import replanned
from analysis.replanned import Planned, plan_anew
from analysis.runs import open_run
from analysis.submission import about as beginning
from analysis.submission import claims as claiming
from analysis.submission import package as packaging
from analysis.submission import ranking
from analysis.submission import rules as ruling
from analysis.submission import validate as validation
from analysis.submission.claims import Trial
from analysis.submission.layout import About, Package, opened_as, packages, ranks_of, read_json
from analysis.submission.ranking import ranked
from analysis.submission.replayed import apart
from analysis.submission.replayed import sampled as sampling
from analysis.submission.rules import RULES, Option, Rules
from analysis.submission.traces import Traces
from replayer import sweep
from replayer.model import TokenBytes, find
from replayer.order import Order
from replayer.plan import Plan, PlanOptions
from replayer.planned import PlannedMoves
from replayer.ranks import combined
from replayer.schema import code_digests, read_run
from tests.support.command_line import Run
from tests.support.crafted_runs import PER_TOKEN, SECOND, SIZE, Crafted, clean, frame, sampled, steps
from tests.support.doubts import call
from tests.support.paths import ROOT
from tests.support.traces import write
from tracegen.generate import generate
from tracegen.recipe import Recipe
from tracegen.schema import InputError, Trace
from tracegen.settings import find as find_recipe
from tracegen.settings import load, parse_value

Dict = dict[str, Any]
Change = Callable[[Package], object]

# Two options and two trials of logs made by hand, held against the rules' own CLOSED conditions

DURATION_S, TRIALS, GAP_S = 2.0, 2, 60
OPTIONS: Final = tuple(
    Option(f"option_{n}", title, "hand-made", PER_TOKEN, users=4, cpu_bytes=cpu, allocs=2, duration_s=DURATION_S)
    for n, title, cpu in ((1, "no memory", 0), (2, "some memory", 3 * SIZE))
)
TINY: Final = Rules("tiny", OPTIONS, trials=TRIALS, pause_s=30, submittable=True)
PINS: Final = ruling._pins()
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
    info["machine"] |= {"host": platform.node(), **code_digests()}
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


def planned_by_hand(trace: Path, place: Path, info: Dict, moves: Path) -> Planned:
    """Its plan: of a test's own order and memory, which CLOSED does not have."""
    if info["conditions"]["model"] != "hand-made":
        return plan_anew(trace, place, info, moves)
    opened, cpu = Trace(trace), info["conditions"]["usable_bytes"]["cpu"]
    order = Order("run", "crafted", op_ids=np.arange(opened.ops))
    capacity = (Decimal(0), Decimal(cpu) / 2**30, None)
    plan = Plan(opened, PlanOptions(TokenBytes(PER_TOKEN), capacity, headroom=Decimal(1), order=order))
    moves.unlink(missing_ok=True)
    with PlannedMoves(moves, plan) as table:
        return Planned(plan.simulate(looks=[table.add]), moves)


def save(place: Path, runs: list[Crafted]) -> None:
    """A trial as replayer leaves it, one rank or several."""
    for rank, run in enumerate(runs):
        run.save(place if len(runs) == 1 else place / f"rank_{rank}")
    if len(runs) > 1:
        above = {"run_version": 1} | combined([run.info for run in runs])
        (place / "run.json").write_text(json.dumps(above))
    place.with_name(f"log-{place.name}.txt").write_text("what was printed\n")


def begun(place: Path, about: About, ranks: int = 1, slower: Slower = lambda *_: 1.0, **conditions: Any) -> Path:
    """The directory of a submission whose replays are complete and whose system is described."""
    work = place / "work"
    beginning.begin(work, about, Path("/proc"), place / "results", TRIALS)
    described = (work / "system.yaml").read_text()
    (work / "system.yaml").write_text(re.sub(r"\bnull\b", "known", described))
    for option in OPTIONS:
        for trial in range(1, TRIALS + 1):
            runs = [replayed(option, trial, rank, ranks, slower(option, trial, rank)) for rank in range(ranks)]
            for run in runs:
                run.info["conditions"] |= conditions
            save(work / "replays" / option.name / f"trial_{trial}", runs)
    return work


def packed(work: Path, results: Path) -> Package:
    """Its package; the report, which takes seconds, stands in for itself: test_a_submission_… makes a real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packaging, "gather", lambda _runs, _targets, names: names)
        patch.setattr(packaging.export, "as_html", lambda names: "\n".join(names).encode())
        return packaging.package(work, results)


@pytest.fixture(scope="module", autouse=True)
def tiny(latencies_once: None) -> Iterator[None]:
    """A scale of our own; and equal trials are judged once, as each takes 0.2 s."""
    judged: dict[Any, Trial | InputError] = {}

    def once(path: Path) -> Trial:
        files = sorted(Path(place) / name for place, _, names in os.walk(path, followlinks=True) for name in names)
        content = tuple((one.relative_to(path), one.read_bytes()) for one in files)
        found = judged.get((path, content)) or judged.get(content)
        if found is None:
            try:
                found = claiming.open_trial(path)
            except InputError as error:
                found = error
            judged[path, content] = found
            if isinstance(found, Trial) and found.summary["valid"]:  # else what is told names its place
                judged[content] = found
        if isinstance(found, InputError):
            raise found
        return replace(found, path=path, run=open_run(opened_as(path)))

    pins = {
        option.name: [replayed(option, 1, rank).info["trace"]["fingerprint"] for rank in (0, 1)] for option in OPTIONS
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES, "tiny", TINY)
        patch.setattr(ruling, "_pins", lambda: PINS | {"tiny": pins})
        made = Traces.of

        def of(self: Traces, option: Option, rank: int, told: Dict) -> Trace | None:
            return trace_of(option, rank, self.folder) if option in OPTIONS else made(self, option, rank, told)

        patch.setattr(Traces, "of", of)
        patch.setattr(replanned, "plan_anew", planned_by_hand)
        patch.setattr(validation, "open_trial", once)
        patch.setattr(packaging, "open_trial", once)
        yield


BASES: Final[dict[str, Dict]] = {
    "alone": {},
    "ranks": {"ranks": 2, "slower": lambda _, trial, rank: 1 + 0.25 * rank + 0.5 * (trial - 1)},
    "open": {"fsync": "data"},
}


@pytest.fixture(scope="module")
def pristine(tiny: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By name, a tree of results with one package in it."""
    found = {}
    for name, ways in BASES.items():
        place = tmp_path_factory.mktemp(name)
        division = "open" if name == "open" else "closed"
        packed(begun(place, About("acme", "box", division, "tiny"), **ways), place / "results")
        found[name] = place / "results"
    return found


Open = Callable[[str], Package]


@pytest.fixture(scope="module")
def fresh(pristine: dict[str, Path]) -> Open:
    """A copy of one of them, to change."""

    def copied(name: str) -> Package:
        place = pristine[name].with_name("copy")
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(pristine[name], place, symlinks=True)
        (found,) = packages(next(place.glob("*/acme")))
        return found

    return copied


def problems(package: Package) -> list[str]:
    return validation.validate(Package(package.top, package.about)).problems


@pytest.mark.parametrize("name", BASES)
def test_a_package_is_valid(fresh: Open, name: str) -> None:
    package = fresh(name)
    done = call("submission", "validate", package.top)
    assert f"VALID: {package.top}, system box: 2 options, 4 trials" in done.stdout
    (told,) = json.loads(call("submission", "validate", package.results, "--json").stdout)
    assert told == {"system": "box", "valid": True, "submittable": True, "problems": [], "notes": []}


# What a forger does, by name


@dataclass(frozen=True)
class Forgery:
    """A change to a package.

    Attributes:
        change: what he does.
        listed: what is told of the files, as long as the manifest is the old one; None: that one was changed.
        told: a sentence, where he has computed the manifest anew, and all that package() computes from logs.
        base: what he begins with.
        claims: whether he does compute summary.json anew.
    """

    change: Change
    listed: str | None
    told: str
    base: str = "alone"
    claims: bool = True


def trial_of(package: Package, trial: str) -> Path:
    (found,) = package.results.glob(f"kv_cache/*/run/*/{trial}")
    return found


def edited(path: Path, name: str, value: Any) -> None:
    """A field of a JSON file, by its dotted name; ...: left out."""
    inner = known = json.loads(path.read_text())
    *above, last = name.split(".")
    for step in above:
        inner = inner[int(step) if isinstance(inner, list) else step]
    inner[last] = value
    if value is ...:
        del inner[last]
    path.write_text(json.dumps(known))


def info(run: str, name: str, value: Any) -> Change:
    return lambda package: edited(trial_of(package, run) / "run.json", name, value)


def claim(name: str, value: Any) -> Change:
    return lambda package: edited(package.runs[0] / "summary.json", name, value)


def manifest(name: str, value: Any) -> Change:
    return lambda package: edited(package.manifest, name, value)


def environment(name: str, value: Any) -> Change:
    return lambda package: edited(package.results / "environment.json", name, value)


def system(name: str, value: Any) -> Change:
    """A field of the system's description, likewise; JSON is YAML, too."""

    def changed(package: Package) -> None:
        package.description.write_text(json.dumps(yaml.safe_load(package.description.read_text())))
        edited(package.description, name, value)

    return changed


def log(change: Callable[[Crafted], object], **ways: Any) -> Change:
    """The second trial of option 1, replayed otherwise, or its log edited."""

    def changed(package: Package) -> None:
        run, place = replayed(OPTIONS[0], 2, **ways), trial_of(package, TWO) / "rank_0"
        change(run)
        shutil.rmtree(place)
        run.save(place)

    return changed


def copied(source: str, target: str) -> Change:
    """A trial, or a rank of one, again."""

    def changed(package: Package) -> None:
        place = trial_of(package, source)
        shutil.copytree(place, place.parents[len(Path(target).parts) - 1] / target, dirs_exist_ok=True)

    return changed


def removed(name: str) -> Change:
    """A file or a folder of the results."""

    def changed(package: Package) -> None:
        (path,) = package.results.glob(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    return changed


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def link(package: Package) -> None:
    path, elsewhere = package.results / "environment.json", package.top.parents[1] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def relabel(package: Package) -> None:
    """An OPEN package called CLOSED wherever it says so."""
    package.top.parent.rename(package.top.parents[1] / "closed")
    top = package.top.parents[1] / "closed" / "acme"
    edited(top / "results" / "box" / "manifest.json", "division", "closed")
    (top / "submission.yaml").write_text(packaging.submission_yaml(replace(package.about, division="closed")))


def sooner(package: Package) -> None:
    """Option 2 begins 29 s after option 1 has ended."""
    last = trial_of(package, TWO) / "rank_0"
    ended_ns = read_run(last)["clock"]["zero_ns"] + int(frame(last)["end_ns"].max())  # type: ignore[arg-type]
    for trial in (1, 2):
        began_ns = ended_ns + (28 + trial) * SECOND
        info(f"option_2/trial_{trial}/rank_0", "clock.zero_ns", began_ns)(package)


def fewer_ranks(package: Package) -> None:
    """A rank taken out of a trial, and the traces of it."""
    removed("kv_cache/*/run/*/option_1/trial_2/rank_1")(package)
    (trial_of(package, TWO) / "run.json").unlink()
    info(f"{TWO}/rank_0", "conditions.ranks", 1)(package)


ONE, TWO = "option_1/trial_1", "option_1/trial_2"
RUN = "option_1/trial_2/rank_0/run.json was changed"
LOG = "option_1/trial_2/rank_0/moves/part-00000.parquet was changed"
CLAIMS = "summary.json was changed: its size or sha256 is not that of manifest.json"

FORGERIES: Final[dict[str, Forgery]] = {
    # files
    "a byte of a log": Forgery(
        lambda package: flip(trial_of(package, TWO) / "rank_0" / "moves" / "part-00000.parquet", -1),
        LOG, "option_1/trial_2/rank_0/moves/part-00000.parquet is not readable",
    ),
    "a byte of run.json": Forgery(
        lambda package: flip(trial_of(package, TWO) / "rank_0" / "run.json", 0),
        RUN, "option_1/trial_2/rank_0/run.json is damaged",
    ),
    "a part of a log removed": Forgery(
        removed("kv_cache/*/run/*/option_1/trial_2/rank_0/moves/part-00001.parquet"),
        "part-00001.parquet is missing, though manifest.json lists it",
        "option_1/trial_2 is not valid: the log has ops = 10, the plan 20: parts are missing or altered",
    ),
    "a part of a log added": Forgery(
        lambda package: shutil.copy(
            trial_of(package, TWO) / "rank_0" / "moves" / "part-00000.parquet",
            trial_of(package, TWO) / "rank_0" / "moves" / "part-00002.parquet",
        ),
        "part-00002.parquet is not listed in manifest.json",
        "option_1/trial_2 is not valid: the log has ops = 30, the plan 20: parts are missing or altered",
    ),
    "a log removed": Forgery(
        removed("kv_cache/*/run/*/option_1/trial_2/rank_0/moves"),
        "part-00001.parquet is missing, though manifest.json lists it",
        "option_1/trial_2/rank_0 holds no closed part of a log",
    ),
    "run.json removed": Forgery(
        removed("kv_cache/*/run/*/option_1/trial_2/rank_0/run.json"),
        "option_1/trial_2/rank_0/run.json is missing, though manifest.json lists it",
        "option_1/trial_2/rank_0 is not a run directory",
    ),
    "a link in the place of a file": Forgery(
        link, "environment.json is a link; a package holds its files", "environment.json is a link",
    ),
    "the report removed": Forgery(removed("report.html"), "report.html is missing, though", "report.html is missing"),
    # claims
    "a metric raised": Forgery(
        claim("options.option_1.decode_read_gib_s", 99.5), CLAIMS,
        "summary.json: options.option_1.decode_read_gib_s is 99.5, its logs say ", claims=False,
    ),
    "a metric of a rank lowered": Forgery(
        claim("options.option_2.trials.1.ranks.0.nvme_write_device_p95_ms", 0.25), CLAIMS,
        "options.option_2.trials[1].ranks[0].nvme_write_device_p95_ms is 0.25, its logs say ", claims=False,
    ),
    "MLPerf's metric raised": Forgery(
        claim("options.option_1.aggregated_read_bandwidth_gbps", 99.5), CLAIMS,
        "options.option_1.aggregated_read_bandwidth_gbps is 99.5, its logs say ", claims=False,
    ),
    "a metric removed": Forgery(
        claim("options.option_1.drain_s", ...), CLAIMS,
        "summary.json: options.option_1.drain_s is nothing of it, its logs say 0.0", claims=False,
    ),
    "a metric added": Forgery(
        claim("options.option_1.iops", 10**6), CLAIMS,
        "summary.json: options.option_1.iops is 1000000, its logs say nothing of it", claims=False,
    ),
    "a number as a text": Forgery(
        claim("options.option_1.trial_count", "2"), CLAIMS,
        "summary.json: options.option_1.trial_count is 2, its logs say 2", claims=False,
    ),
    "a trial left out of the claims": Forgery(
        claim("options.option_2.trials", []), CLAIMS,
        "summary.json: options.option_2.trials is [], its logs say [", claims=False,
    ),
    "called a trial run": Forgery(
        claim("submittable", False), CLAIMS, "summary.json: submittable is false, its logs say true", claims=False,
    ),
    "the claims removed": Forgery(
        removed("kv_cache/*/run/*/summary.json"), "summary.json is missing, though manifest.json lists it",
        "summary.json cannot be read: ", claims=False,
    ),
    "times of a log halved": Forgery(
        log(lambda run: run.rows.update(device_read_ns=run.rows["device_read_ns"] // 2)), LOG,
        "options.option_1.trials[1].ranks[0].nvme_read_device_p95_ms is ", claims=False,
    ),
    # what there must be
    "an option removed": Forgery(
        removed("kv_cache/*/run/*/option_2"), "option_2/trial_2/rank_0/run.json is missing, though manifest.json lists",
        "option_2 (some memory) is missing",
    ),
    "a trial removed": Forgery(
        removed("kv_cache/*/run/*/option_1/trial_2"), "option_1/trial_2/rank_0/run.json is missing, though",
        "trial 2 of option_1 is missing",
    ),
    "a trial twice": Forgery(copied(ONE, "trial_2"), RUN, "2 of these are one run, named or copied more than once"),
    "a trial too many": Forgery(
        copied(ONE, "trial_3"), "option_1/trial_3/rank_0/run.json is not listed in manifest.json",
        "trial 3 of option_1 is one too many: 2 are asked for",
    ),
    "a rank removed": Forgery(
        removed("kv_cache/*/run/*/option_1/trial_2/rank_1"), "trial_2/rank_1/run.json is missing, though",
        "option_1/trial_2 is not valid: rank 1 of 2 is missing", "ranks",
    ),
    "a rank removed without a trace": Forgery(
        fewer_ranks, "trial_2/rank_1/run.json is missing, though",
        "trials have unlike numbers of ranks (1, 2): one is missing, or added", "ranks",
    ),
    "a rank twice": Forgery(
        copied(f"{TWO}/rank_0", "rank_1"), "trial_2/rank_1/run.json was changed",
        "option_1/trial_2 is not valid: rank_1 is not rank 1 of 2: it comes from another run", "ranks",
    ),
    "a rank added": Forgery(
        copied(f"{TWO}/rank_1", "rank_2"), "trial_2/rank_2/run.json is not listed in manifest.json",
        "option_1/trial_2 is not valid: rank_2 is none of the 2 ranks of this run", "ranks",
    ),
    "ops of ranks": Forgery(
        info(TWO, "executed_ops", 999), "option_1/trial_2/run.json was changed",
        "option_1/trial_2 is not valid: the ranks executed 24 ops, the run 999", "ranks",
    ),
    # which work was done
    "the fingerprint of a trace": Forgery(
        info(f"{TWO}/rank_0", "trace.fingerprint", "f" * 64), RUN,
        "option_1/trial_2/rank_0 replayed the trace ffffffffffff…, not {pin}…, which option_1 pins",
    ),
    "another trace": Forgery(
        log(lambda run: run.info.update(rank=0) or run.rows.update(rank=run.rows["rank"] * 0), rank=1), RUN,
        "option_1/trial_2/rank_0 has a trace of seed 43, not 42",
    ),
    "another trace, its seed edited": Forgery(
        log(
            lambda run: (
                run.info["trace"].update(seed=42), run.info.update(rank=0), run.rows.update(rank=run.rows["rank"] * 0)
            ),
            rank=1,
        ),
        RUN, "option_1/trial_2/rank_0 replayed the trace {other}…, not {pin}…, which option_1 pins",
    ),
    "in OPEN a trial of another trace": Forgery(
        info(f"{TWO}/rank_0", "trace.fingerprint", "f" * 64), RUN,
        "option_1/trial_2/rank_0 replayed another trace (ffffffffffff…) than trial 1", "open",
    ),
    "the fingerprint of what was executed": Forgery(
        info(f"{TWO}/rank_0", "executed_fingerprint", "f" * 64), RUN,
        "option_1/trial_2 is not valid: the rows of rank_0 are not those of its plan: their fingerprint is ",
    ),
    "the fingerprint of a plan": Forgery(
        info(f"{TWO}/rank_0", "plan.plan_fingerprint", "f" * 64), RUN,
        "option_1/trial_2/rank_0 followed another plan (ffffffffffff…) than trial 1",
    ),
    "a rank of another name": Forgery(
        info(f"{TWO}/rank_0", "rank", 7), RUN, "option_1/trial_2/rank_0 says that it is rank 7",
    ),
    "rows dropped": Forgery(
        log(lambda run: run.rows.update({name: one[:-3] for name, one in run.rows.items()})), LOG,
        "option_1/trial_2 is not valid: the log has ops = 17, the plan 20: parts are missing or altered",
    ),
    "rows of another key": Forgery(
        log(lambda run: run.rows.update(key=np.append(run.rows["key"][:-1], 2))), LOG.replace("00000", "00001"),
        "option_1/trial_2 is not valid: the rows of rank_0 are not those of its plan: their fingerprint is ",
    ),
    "an error called complete": Forgery(
        log(lambda run: run.rows["status"].__setitem__(slice(3), 1)), LOG,
        "option_1/trial_2 is not valid: 3 moves failed and 0 more could not be made after them",
    ),
    "a run that was interrupted": Forgery(
        log(lambda run: run.info.update(status="incomplete", reason="interrupted")), RUN,
        "option_1/trial_2 is not valid: the run is incomplete: interrupted",
    ),
    "a run cut short": Forgery(
        log(lambda run: run.info["window"].update(cut_s=1.5)), RUN,
        "option_1/trial_2 is not valid: run.json says that the run was cut after 1.500 s, not at a duration",
    ),
    "a log that ends sooner": Forgery(
        log(lambda run: run.rows.update(start_ns=run.rows["start_ns"] // 2, end_ns=run.rows["end_ns"] // 2)), LOG,
        "option_1/trial_2/rank_0: its log holds times",
    ),
    # how it was done
    "reads that a cache served": Forgery(
        log(lambda run: setattr(run, "samples", sampled(run.rows, read=0.1))),
        "option_1/trial_2/rank_0/device.parquet was changed",
        "option_1/trial_2 is not valid: the device delivered 10% of what the nvme tier read: a cache served the rest",
    ),
    "a cache in memory": Forgery(
        info(f"{TWO}/rank_0", "machine.storage.filesystem", "tmpfs"), RUN,
        "option_1/trial_2 is not valid: the nvme tier lay in memory, on tmpfs",
    ),
    "a throttle": Forgery(
        info(f"{TWO}/rank_0", "conditions.throttle", {"nvme": {"gib_s": 1.0}}), RUN,
        'option_1/trial_2/rank_0 ran with throttle = {{"nvme": {{"gib_s": 1.0}}}}; CLOSED fixes {{}}',
    ),
    "in OPEN a trial of other conditions": Forgery(
        info(f"{TWO}/rank_0", "conditions.fsync", "none"), RUN,
        'option_1/trial_2/rank_0 ran with fsync = "none"; the first trial has "data"', "open",
    ),
    "OPEN called CLOSED": Forgery(
        relabel, None, 'option_1/trial_2/rank_0 ran with fsync = "data"; CLOSED fixes "none"', "open",
    ),
    "a pause too short": Forgery(
        sooner, "option_2/trial_2/rank_0/run.json was changed",
        "option_2 began 29 s after option_1 had ended; the rules ask for 30 s",
    ),
    "other layers": Forgery(
        info(f"{TWO}/rank_0", "conditions.attention_window", 1), RUN,
        "option_1/trial_2/rank_0 ran with attention_window = 1; CLOSED fixes nothing",
    ),
    "another processor": Forgery(
        info(f"{TWO}/rank_0", "machine.cpu", "abacus"), RUN, "runs have unlike processors: AMD EPYC, abacus",
    ),
    "another device": Forgery(
        info(f"{TWO}/rank_0", "machine.storage.device_model", "punched tape"), RUN,
        "runs have unlike devices below the cache: None, punched tape",
    ),
    "another release": Forgery(
        info(f"{TWO}/rank_0", "machine.packages", {"kv-tier-bench": "9.9"}), RUN,
        "runs have unlike releases of this tool: 0.1.0, 9.9",
    ),
    # whose it is
    "the system's description removed": Forgery(
        lambda package: package.description.unlink(), "systems/box.yaml is missing, though manifest.json lists it",
        "systems/box.yaml cannot be read",
    ),
    "a description of nothing": Forgery(
        lambda package: package.description.write_text("- a\n- b\n"), "systems/box.yaml was changed",
        "systems/box.yaml has no system_under_test",
    ),
    "a description without solution": Forgery(
        system("system_under_test.solution", ...), "systems/box.yaml was changed",
        "systems/box.yaml lacks solution.architecture.product_API",
    ),
    "a description without clients": Forgery(
        system("system_under_test.clients", []), "systems/box.yaml was changed",
        "systems/box.yaml must describe clients, each with chassis, ",
    ),
    "a client without drives": Forgery(
        system("system_under_test.clients.0.drives", ...), "systems/box.yaml was changed",
        "systems/box.yaml must describe clients, each with chassis, ",
    ),
    "a description that is not filled in": Forgery(
        system("system_under_test.clients.0.chassis.model_name", None), "systems/box.yaml was changed",
        "systems/box.yaml: clients[0].chassis.model_name is not filled in",
    ),
    "submission.yaml of others": Forgery(
        lambda package: (package.top / "submission.yaml").write_text("organisation: duff\n"),
        "submission.yaml was changed", "submission.yaml is missing, or not that of this organisation and division",
    ),
    "a manifest of another organisation": Forgery(
        manifest("organisation", "duff"), None, "manifest.json names the organisation duff, its directory acme",
    ),
    "a manifest of another division": Forgery(
        manifest("division", "open"), None, "manifest.json names the division open, its directory closed",
    ),
    "the environment of another host": Forgery(
        environment("host", "elsewhere"), "environment.json was changed",
        "environment.json is of elsewhere, the runs are of {host}",
    ),
    "one file system": Forgery(
        environment("file_systems", {"cache": "8:1", "results": "8:1"}), "environment.json was changed",
        "environment.json: results and cache lay on one file system; the rules ask for two",
    ),
    "an environment that says nothing": Forgery(
        environment("host", ...), "environment.json was changed", "environment.json does not say host and file_systems",
    ),
    "the environment removed": Forgery(
        removed("environment.json"), "environment.json is missing, though", "environment.json cannot be read: ",
    ),
    "a model of another name": Forgery(
        lambda package: (package.results / "kv_cache" / "hand-made").rename(package.results / "kv_cache" / "gpt-9"),
        "is missing, though manifest.json lists it", "option_1 lies under the model gpt-9, but is of hand-made",
    ),
}  # fmt: skip


def forge(package: Package, *, claims: bool) -> None:
    """Compute the manifest anew, and summary.json where its logs can be read."""
    if claims:
        with suppress(InputError):
            opened = {name: [validation.open_trial(one) for one in found] for name, found in package.options.items()}
            for run in package.runs:
                (run / "summary.json").write_text(packaging.summaries(run, package.about, opened))
    files = {path.relative_to(package.top).as_posix(): packaging.digest(path) for path in package.files()}
    manifest("files", files)(package)


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_told(fresh: Open, name: str) -> None:
    forgery = FORGERIES[name]
    package = fresh(forgery.base)
    forgery.change(package)
    (package,) = packages(next(package.top.parents[1].glob("*/acme")))
    if forgery.listed is not None:
        found = [*package.irregular(), *validation._files(package)]
        assert [text for text in found if forgery.listed in text], found
    forge(package, claims=forgery.claims)
    found = problems(package)
    pin, other = (str(TINY.pinned("option_1", rank))[:12] for rank in (0, 1))
    told = forgery.told.format(pin=pin, other=other, host=platform.node())
    assert [text for text in found if told in text], found
    assert not [text for text in found if "manifest.json lists" in text or "sha256" in text], "he is thorough"


@pytest.mark.parametrize("trial", [1, 2])
def test_every_file_is_listed(fresh: Open, trial: int) -> None:
    """A bit of each of them at once, but for those of the other trials."""
    package = fresh("ranks")
    files = [path for path in package.files() if f"trial_{3 - trial}" not in str(path)]
    assert len(files) == 2 + 3 + 2 * (2 + 2 * 4), (
        "yaml twice; summary, report, environment; per option its runs and logs"
    )
    for path in files:
        flip(path, path.stat().st_size // 2)
    found = problems(package)
    for path in files:
        assert f"{path.relative_to(package.top)} was changed: its size or sha256 is not that of manifest.json" in found


SETTINGS: Final[Dict] = {
    "model": "other", "bytes_per_token": 1 << 18, "usable_bytes": {"gpu": 0, "cpu": 5, "nvme": None}, "headroom": "0.9",
    "arrangement": "spillover", "promote": True, "lookup": "contiguous", "decode": "once", "users": 3, "part": [0, 2], "cycles": 2, "workers": 5,
    "pace": "asap", "speedup": 2.0, "token_ms": 30.0, "prefill_tok_s": 100.0, "request_depth": 2,
    "max_concurrent_allocs": None, "duration_s": 1.0, "warmup": {"ops": 5, "s": 0.0}, "precondition_gib": 1.0,
    "layout": "slab", "direct": False, "io_bytes": 4096, "io_depth": 8, "fsync": "data", "verify": "off",
    "gpu_device": "cpu", "gpu_read": "copy", "gds": True, "throttle": {"cpu": {"gib_s": 2.0}}, "window_ops": 4096,
    "window_bytes": 1, "ops": 7, "drain_s": 9.0, "io_engine": "uring", "placement": "live",
    "order": {"kind": "reference", "name": "nvme-2", "ops_digest": None, "profile": None}, "a new one": 1,
}  # fmt: skip


def test_closed_fixes_every_setting(fresh: Open) -> None:
    package = fresh("alone")
    closed = OPTIONS[0].closed
    assert {*SETTINGS} == {*closed, "a new one"}
    for name, value in SETTINGS.items():
        info(f"{TWO}/rank_0", f"conditions.{name}", value)(package)
    info(f"{ONE}/rank_0", "conditions.io_depth", ...)(package)
    found = problems(package)
    for name, value in SETTINGS.items():
        fixed = json.dumps(closed[name]) if name in closed else "nothing"
        assert f"option_1/trial_2/rank_0 ran with {name} = {json.dumps(value)}; CLOSED fixes {fixed}" in found
    assert "option_1/trial_1/rank_0 ran with io_depth = nothing; CLOSED fixes 1" in found


# Packing


def content(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return begun(tmp_path, About("acme", "box", "closed", "tiny"))


def test_packages_of_one_submission_are_equal(work: Path, tmp_path: Path) -> None:
    packed(work, tmp_path / "results")
    first = content(tmp_path / "results")
    packed(work, tmp_path / "results")
    assert content(tmp_path / "results") == first, "replaced by the same"
    packed(work, tmp_path / "elsewhere")
    assert content(tmp_path / "elsewhere") == first


CHANGES: Final[dict[str, Change]] = {
    "environment.json": environment("host", "elsewhere"),
    "report.html": lambda package: (package.results / "report.html").write_text(""),
    "notes.txt": lambda package: (package.results / "notes.txt").write_text("of somebody"),
    "manifest.json": lambda package: package.manifest.unlink(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_package_that_was_changed_is_not_replaced(fresh: Open, pristine: dict[str, Path], name: str) -> None:
    package = fresh("alone")
    CHANGES[name](package)
    before = content(package.top)
    with pytest.raises(InputError, match=r"not as it was packaged|no package that was made here") as refused:
        packed(pristine["alone"].with_name("work"), package.top.parents[1])
    assert name == "manifest.json" or name in refused.value.message
    assert content(package.top) == before


UNREADY: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "missing": (shutil.rmtree, "option_2/trial_1 is missing; make the submission again, which replays what is missing"),
    "killed": (
        lambda trial: edited(trial / "run.json", "status", "running"),
        "option_2/trial_1 is running; make the submission again, which replays it",
    ),
    "failed": (
        lambda trial: edited(trial / "run.json", "status", "failed"),
        "option_2/trial_1 is failed; make the submission again, which replays it",
    ),
    "damaged": (lambda trial: flip(trial / "run.json", 0), "option_2/trial_1/run.json is damaged"),
}


@pytest.mark.parametrize("name", UNREADY)
def test_a_submission_that_is_not_ready_is_refused(work: Path, tmp_path: Path, name: str) -> None:
    change, told = UNREADY[name]
    change(work / "replays" / "option_2" / "trial_1")
    with pytest.raises(InputError, match=re.escape(told)):
        packed(work, tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_what_is_no_submission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "submission.json").write_text('{"schema": "another"}')
    with pytest.raises(InputError, match=r"submission\.json is none of kv-tier-bench-submission/1"):
        packed(tmp_path, tmp_path / "results")


# Beginning


REFUSED: Final[dict[str, tuple[Dict, str]]] = {
    "trials": ({"trials": 3}, "--trials 3: CLOSED asks for 2; choose --division open."),
    "one file system": ({"cache": "."}, "are on one file system; the rules ask for two."),
    "path as organisation": ({"organisation": "../acme"}, "--org '../acme' must be of letters, digits and _.-"),
    "hidden organisation": ({"organisation": ".acme"}, "--org '.acme' must be of letters, digits and _.-"),
    "empty organisation": ({"organisation": ""}, "--org '' must be of letters, digits and _.-"),
    "long organisation": ({"organisation": "a" * 101}, "must be of letters, digits and _.-"),
    "organisation of two lines": ({"organisation": "acme\n"}, "must be of letters, digits and _.-"),
    "system": ({"system": "a/b"}, "--system 'a/b' must be of letters, digits and _.-"),
    "division": ({"division": "ajar"}, "--division 'ajar' is none of closed, open."),
    "scale": ({"scale": "huge"}, "--scale 'huge' is none of full, smoke, tiny."),
}


def begin(place: Path, *, trials: int = TRIALS, cache: str = "/proc", **names: str) -> list[str]:
    about = About(**({"organisation": "acme", "system": "box", "division": "closed", "scale": "tiny"} | names))
    return beginning.begin(place / "work", about, place / cache, place / "results", trials)


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_rules_do_not_allow_is_refused_first(tmp_path: Path, name: str) -> None:
    ways, told = REFUSED[name]
    with pytest.raises(InputError, match=re.escape(told)):
        begin(tmp_path, **ways)
    assert list(tmp_path.iterdir()) == []


def test_open_takes_what_closed_does_not(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    begin(tmp_path, division="open", trials=5, cache="cache")
    assert json.loads((tmp_path / "work" / "submission.json").read_text())["trials"] == 5


def test_a_submission_goes_on_with_what_it_was_begun_with(tmp_path: Path) -> None:
    left = begin(tmp_path)
    before = content(tmp_path)
    described = yaml.safe_load(before["work/system.yaml"])["system_under_test"]
    assert described["solution"]["submission_name"] == "box"
    assert "solution.architecture.product_API" in [name.removeprefix("system_under_test.") for name in left]
    text = (tmp_path / "work" / "system.yaml").read_text().replace("product_API: null", "product_API: none")
    (tmp_path / "work" / "system.yaml").write_text(text)
    assert len(begin(tmp_path)) == len(left) - 1, "what was filled in stays"
    for changed in ({"system": "other"}, {"organisation": "duff"}, {"division": "open"}):
        with pytest.raises(InputError, match="begun for another submission or other trials; choose another --system"):
            begin(tmp_path, **changed)
    assert content(tmp_path) == before | {"work/system.yaml": text.encode()}


def test_begin_says_what_is_ahead(tmp_path: Path) -> None:
    names = ["--org", "acme", "--system", "box", "--results", tmp_path / "results"]
    done = call("submission", "begin", tmp_path / "work", *names, "--cache-dir", "/proc")
    missing = call("submission", "begin", tmp_path / "work", *names, "--cache-dir", tmp_path / "cache", code=2)
    assert f"--cache-dir {tmp_path}/cache: no such directory; is it mounted?" in missing.stderr
    (tmp_path / "cache").mkdir()
    assert done.stdout.splitlines()[0] == "3 options, 3 trials each: 48 minutes, and what drains after them"
    assert "solution.nodes" in done.stdout
    again = call("submission", "begin", tmp_path / "work", *names, "--cache-dir", tmp_path / "cache", code=2)
    assert "are on one file system; the rules ask for two." in again.stderr
    environment = json.loads((tmp_path / "work" / "environment.json").read_text())
    assert environment["host"] == platform.node()
    assert environment["code_sha256"] == code_digests()["code_sha256"]
    assert environment["file_systems"]["cache"] != environment["file_systems"]["results"]


# Numbers worked by hand


def test_claims_are_sums_over_ranks_and_means_over_trials(fresh: Open) -> None:
    """Each read takes 50 MiB / (1 GiB/s) × 0.9 in the device, × 1, 1.25 by rank, + 0.5 in the second trial."""
    package = fresh("ranks")
    option = json.loads((package.runs[0] / "summary.json").read_text())["options"]["option_1"]
    rates: dict[str, list[list[float]]] = {"read": [], "write": [], "tokens": []}
    for trial in (1, 2):
        logs = [frame(place) for place in ranks_of(trial_of(package, f"option_1/trial_{trial}"))]
        spans = [DURATION_S - log["start_ns"].min() / 1e9 for log in logs]  # type: ignore[operator]
        moved = [
            [(log["move"].cast(pl.String) == move).sum() * SIZE / 2**30 for log in logs] for move in ("hit", "store")
        ]
        tokens = [log["new_tokens"].sum() for log in logs]
        for name, sizes in zip(rates, (*moved, tokens), strict=True):
            rates[name].append([size / span for size, span in zip(sizes, spans, strict=True)])
    wanted = {name: (sum(first) + sum(second)) / 2 for name, (first, second) in rates.items()}
    assert option["nvme_read_gib_s"] == pytest.approx(wanted["read"])
    assert option["aggregated_read_bandwidth_gbps"] == pytest.approx(wanted["read"] * 1.073741824)
    assert option["aggregated_write_bandwidth_gbps"] == pytest.approx(wanted["write"] * 1.073741824)
    assert option["aggregated_avg_throughput_tokens_per_sec"] == pytest.approx(wanted["tokens"])
    slowest = 50 / 1024 * 1000 * 0.9 * (1 + 0.25 + 0.5)
    for name in ("aggregated_device_read_p95_ms", "aggregated_device_write_p95_ms", "nvme_read_device_p95_ms"):
        assert option[name] == pytest.approx(slowest, rel=1e-6)
    assert [trial["nvme_read_gib_s"] for trial in option["trials"]] == pytest.approx([*map(sum, rates["read"])])
    assert [one["nvme_read_gib_s"] for one in option["trials"][1]["ranks"]] == pytest.approx(rates["read"][1])
    assert (option["rank_count"], option["trial_count"]) == (2, 2)


def test_a_tier_that_was_not_touched_has_no_latency(fresh: Open) -> None:
    """All that option 2 reads is in its cpu tier."""
    options = json.loads((fresh("alone").runs[0] / "summary.json").read_text())["options"]
    assert options["option_2"]["aggregated_device_read_p95_ms"] is None
    assert options["option_2"]["aggregated_read_bandwidth_gbps"] == 0
    assert options["option_2"]["aggregated_device_write_p95_ms"] == pytest.approx(50 / 1024 * 1000 * 0.9, rel=1e-6)


# Ranking


@pytest.fixture(scope="module")
def rivals(pristine: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Packages to rank: duff is slower than acme at option 1 and faster at option 2; evil has no runs."""
    place = tmp_path_factory.mktemp("duff")
    work = begun(place, About("duff", "box", "closed", "tiny"), slower=lambda option, *_: SLOWER[option.name])
    duff = packed(work, place / "results").top
    evil = shutil.copytree(duff, duff.with_name("evil"))
    shutil.rmtree(evil / "results" / "box" / "kv_cache")
    edited(evil / "results" / "box" / "manifest.json", "organisation", "evil")
    return {"acme": pristine["alone"] / "closed" / "acme", "duff": duff, "evil": evil}


SLOWER = {"option_1": 1.6, "option_2": 0.8}


def test_packages_are_ranked_best_first(rivals: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    places = [rivals["duff"], rivals["acme"], rivals["evil"]]
    found = ranked([package for place in places for package in packages(place)])
    monkeypatch.setattr(ranking, "ranked", lambda _: found)  # it takes seconds
    lines = call("submission", "compare", *places).stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("Not ranked: evil/box: "))
    assert "Not ranked: evil/box: option_1 (no memory) is missing." in lines[:first]
    assert "evil" not in "".join(lines[first:])
    order = [line.split()[1] for line in lines if re.match(r"  [12]  ", line)]
    assert order == ["acme/box", "duff/box", "duff/box", "acme/box"], "option 1, option 2"
    assert "option_1, no memory: ranked by decode_read_gib_s, summed over ranks, mean of trials" in lines
    assert "option_2, some memory: ranked by storage_tok_s, summed over ranks, mean of trials" in lines
    told = json.loads(call("submission", "compare", *places, "--json").stdout)
    assert {name: one["problems"] == [] for name, one in told["packages"].items()} == {
        "duff/box": True, "acme/box": True, "evil/box": False,
    }  # fmt: skip
    first, second = told["options"]
    assert [[one["package"] for one in option["ranking"]] for option in (first, second)] == [
        ["acme/box", "duff/box"],
        ["duff/box", "acme/box"],
    ]
    claimed = json.loads((packages(rivals["duff"])[0].runs[0] / "summary.json").read_text())["options"]["option_1"]
    assert first["ranking"][1]["decode_read_gib_s"] == claimed["decode_read_gib_s"]
    (ratio,) = first["ratios"]
    assert (first["cut"], ratio["a"], ratio["b"], ratio["verdict"]) == (True, "acme/box", "duff/box", "apart")
    assert ratio["ratio"] == pytest.approx(7 / 4, rel=1e-5), "decode reads among the 20 and the 12 ops until the cut"


def kind(package: Package, place: Path, **names: str) -> Package:
    """Another kind of package, of which the manifest tells."""
    shutil.copytree(package.top.parents[1], place)
    (path,) = place.glob("*/acme/results/box/manifest.json")
    for name, value in names.items():
        edited(path, name, value)
    (found,) = packages(path.parent)
    return found


UNLIKE = {
    "divisions": ({"division": "open"}, "packages are of unlike kinds (closed tiny, open tiny); compare those of one"),
    "scales": ({"scale": "smoke"}, "packages are of unlike kinds (closed smoke, closed tiny); compare those of one"),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_packages_are_not_ranked(fresh: Open, tmp_path: Path, name: str) -> None:
    package = fresh("alone")
    names, told = UNLIKE[name]
    with pytest.raises(InputError, match=re.escape(told)):
        ranked([package, kind(package, tmp_path / "other", **names)])


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"options": {"x": 1}, "options": {"x": 2}}')
    with pytest.raises(InputError, match="a name stands twice in one object"):
        read_json(tmp_path / "a.json")


def test_counters_that_were_sped_up_are_told(tmp_path: Path) -> None:
    """A longer run whose times are halved is sampled every half second."""
    path = clean().save(tmp_path / "run") / "device.parquet"
    assert list(sampling("run", path)) == []
    table = pl.read_parquet(path)
    table.with_columns(pl.col("interval_ns", "time_ns") // 2).write_parquet(path)
    assert list(sampling("run", path)) == [
        "run/device.parquet has a sample every 0.50 s; the replayer takes one each second"
    ]


@pytest.mark.parametrize("late_s", [0, 100])
def test_ranks_of_a_trial_run_at_one_time(late_s: int) -> None:
    born = 1_800_000_000 * SECOND
    summary = {"zero_ns": [born, born + late_s * SECOND], "ended_ns": [born + 9 * SECOND, born + (late_s + 9) * SECOND]}
    trial: Any = SimpleNamespace(summary=summary, infos=[{}, {}], path=Path("option_1/trial_1"))
    told = ["the ranks of option_1/trial_1 did not run at the same time: one began after another had ended"]
    assert list(apart([trial])) == (told if late_s else [])


def test_one_package_cannot_be_ranked(rivals: dict[str, Path]) -> None:
    (acme,), (evil,) = packages(rivals["acme"]), packages(rivals["evil"])
    with pytest.raises(InputError, match=r"1 valid packages are too few to rank \(acme/box is alone\)"):
        ranked([acme])
    with pytest.raises(InputError, match=r"1 valid packages are too few to rank \(evil/box: .* is missing"):
        ranked([acme, evil])
    with pytest.raises(InputError, match=r"results/box is named twice; name each package once"):
        ranked([acme, acme])


# The command line


def test_exit_codes(fresh: Open, tmp_path: Path) -> None:
    package = fresh("alone")
    call("submission", "validate", package.top)
    (package.results / "report.html").write_text("")
    done = call("submission", "validate", package.top, code=1)
    said = done.stdout.splitlines()
    assert said == [
        "results/box/report.html was changed: its size or sha256 is not that of manifest.json.",
        f"NOT VALID: {package.top}, system box: 1 problem.",
    ]
    (told,) = json.loads(call("submission", "validate", package.top, "--json", code=1).stdout)
    assert (told["valid"], told["submittable"], told["problems"]) == (False, False, [said[0].removesuffix(".")])
    for place in (tmp_path, tmp_path / "nowhere", package.top / "submission.yaml"):
        done = call("submission", "validate", place, code=2)
        assert f"{place} holds no package: no results/*/manifest.json" in done.stderr
    package.manifest.write_text("{}")
    done = call("submission", "validate", package.top, code=2)
    assert "manifest.json is none of kv-tier-bench-submission/1" in done.stderr


# The shipped tables


def cases(scale: str) -> list[tuple[Option, Recipe, dict[str, str]]]:
    """The rules' options, with what the sweep replays for them: a recipe and flags."""
    found = []
    for option, case in zip(RULES[scale].options, shipped(scale).cases, strict=True):
        assert case.name == option.name
        settings = {key: parse_value(value) for key, _, value in (one.partition("=") for one in case.settings)}
        flags = dict(zip(case.flags[::2], case.flags[1::2], strict=True))
        found.append((option, load(find_recipe(case.recipe), settings), flags))
    return found


def shipped(scale: str) -> sweep.Sweep:
    return sweep.load(sweep.find(f"submission-{scale}"))


@pytest.mark.parametrize("scale", ["smoke", "full"])
def test_sweeps_are_what_the_rules_fix(scale: str) -> None:
    assert shipped(scale).trials == RULES[scale].trials
    assert shipped(scale).pause_s >= RULES[scale].pause_s
    for option, recipe, flags in cases(scale):
        model = find(flags.pop("--model", None) or recipe.replay.model or "")
        cpu_gib = Decimal(flags.pop("--cpu-mem-gb", str(recipe.replay.cpu_mem_gb)))
        assert (recipe.seed, recipe.replay.gpu_mem_gb, recipe.replay.storage_capacity_gb) == (ruling.SEED, 0, None)
        assert (recipe.users, recipe.replay.max_concurrent_allocs) == (option.users, option.allocs)
        assert (model.name, model.sizes("fp16", 1).per_token) == (option.model, option.bytes_per_token)
        assert int(cpu_gib * 2**30 * Decimal("0.8")) == option.cpu_bytes
        assert float(flags.pop("--duration", str(recipe.replay.duration_s))) == recipe.duration_s == option.duration_s
        assert flags == {}
        settings = dict(one.split("=", 1) for one in RULES[scale].settings)
        changed = {key: parse_value(value) for key, value in settings.items()} | {"users": option.users}
        made = replace(load(find_recipe(option.recipe), changed), replay=recipe.replay)
        assert made == recipe, "what the validator makes anew"


PINNED = [("smoke", option, rank) for option in (1, 2, 3) for rank in (0, 1, 15)] + [("full", 3, 0), ("full", 3, 127)]


@pytest.mark.parametrize(("scale", "number", "rank"), PINNED)
def test_pinned_traces_are_those_that_are_made(scale: str, number: int, rank: int, tmp_path: Path) -> None:
    option, recipe, _ = cases(scale)[number - 1]
    made = generate(replace(recipe, seed=recipe.seed + rank), tmp_path / "t.parquet", quiet=True)
    assert made.fingerprint == RULES[scale].pinned(option.name, rank)


def test_pins_are_complete() -> None:
    known = json.loads((ROOT / "tests" / "data" / "recipe_fingerprints.json").read_text())
    for scale, ranks in (("smoke", 16), ("full", 128)):
        assert RULES[scale].ranks == ranks
        pins = [one for option in RULES[scale].options for one in PINS[scale][option.name]]
        assert len({*pins}) == len(pins) == 3 * ranks, "a trace of its own for every rank of every option"
        assert RULES[scale].pinned("option_1", ranks) is None
    for option in RULES["full"].options:
        assert RULES["full"].pinned(option.name, 0) == known[f"mlperf_{option.name}"]


# With real replays

GRID = """
[[case]]
name = "option_1"
recipe = "mlperf_option_1"
model = "tiny-1b"
cpu_mem_gb = 1
duration = 1
[case.set]
users = 3
duration_s = 4
"personas.coding.weight" = 0
"personas.document.weight" = 0
"personas.chatbot.context" = [256, 512]
"""


def test_a_submission_from_its_replays_to_its_verdict(run: Run, tmp_path: Path) -> None:
    """What replayer leaves, of two ranks where there is MPI, is what CLOSED fixes; the cpu tier holds all of it."""
    ranks = 2 if shutil.which("mpirun") else 1
    option = Option("option_1", "real", "tiny-1b", 24576, users=3, cpu_bytes=858993459, allocs=16, duration_s=1)
    work, results, replays = tmp_path / "work", tmp_path / "results", tmp_path / "work" / "replays"
    with pytest.MonkeyPatch.context() as patch:
        changed = ("duration_s=4", "personas.coding.weight=0", "personas.document.weight=0")
        changed = (*changed, "personas.chatbot.context=[256, 512]")
        patch.setitem(RULES, "real", Rules("real", (option,), 1, pause_s=0, submittable=False, settings=changed))
        (tmp_path / "cache").mkdir()
        beginning.begin(work, About("acme", "box", "closed", "real"), tmp_path / "cache", results, 1)
        (tmp_path / "grid.toml").write_text(GRID)
        mpirun = ["--ranks", ranks, "--mpirun", "mpirun --allow-run-as-root --oversubscribe"]
        places = ["--make-cache-dir", "--cache-dir", tmp_path / "cache", "-o", replays]
        run("replayer", "sweep", tmp_path / "grid.toml", "--trials", 1, *mpirun, *places)
        made = [Trace(path).metadata.fingerprint for path in sorted((replays / "traces").glob("*.parquet"))]
        patch.setattr(ruling, "_pins", lambda: {"real": {"option_1": made}})
        one, *_ = [path.parent for path in replays.glob("option_1/trial_1/**/moves")]
        if not read_run(one)["conditions"]["direct"]:
            pytest.skip("this disk refuses O_DIRECT")
        package = packaging.package(work, results)
        done = call("submission", "validate", package.top)
        assert f"VALID: {package.top}, system box: 1 option, 1 trial;" in done.stdout
        assert "Note: its scale is real: it shows that everything works, and is not to be submitted." in done.stdout
    assert len(ranks_of(trial_of(package, ONE))) == len(made) == ranks
    assert b"<html" in (package.results / "report.html").read_bytes()
    assert (trial_of(package, ONE).with_name("log-trial_1.txt")).read_text().startswith("$ ")
    assert list((tmp_path / "cache").iterdir()) == []
