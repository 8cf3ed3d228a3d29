"""Packages of real replays that a forger changed, thoroughly: what `submission validate` tells of each."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis import audit, replanned
from analysis.cells import added_up
from analysis.log import scan
from analysis.recomputed import _fingerprint
from analysis.submission import about as beginning
from analysis.submission import package as packaging
from analysis.submission import rules as ruling
from analysis.submission import traces as tracing
from analysis.submission import validate as validation
from analysis.submission.layout import About, Package, packages
from analysis.submission.rules import RULES, Option, Rules
from replayer.schema import LOG_ENUMS, LOG_SCHEMA, ORDERED_PLAN_VERSION, parts, read_run
from tests.analysis.test_submission import edited, forge, packed, trial_of
from tests.support.command_line import child_here, here
from tests.support.doubts import call
from tracegen.schema import Trace

Dict = dict[str, Any]
Change = Callable[[Package], object]
OPTION: Final = Option("option_1", "real", "tiny-1b", 24576, users=3, cpu_bytes=0, allocs=16, duration_s=1)
SETTINGS: Final = ("duration_s=4", "personas.coding.weight=0", "personas.document.weight=0")
CHATS: Final = "personas.chatbot.context=[256, 512]"
PLACES: Final = tuple(f"option_1/trial_{trial}/rank_0" for trial in (1, 2))


def generated(place: Path, *settings: str) -> Trace:
    words = [word for setting in (*SETTINGS, *settings) for word in ("--set", setting)]
    assert here("tracegen", "generate", "mlperf_option_1", *words, "--users", 3, "-o", place).returncode == 0
    return Trace(place)


def replayed(trace: Trace, place: Path, *flags: object) -> None:
    fixed = "--model tiny-1b --duration 1 --make-cache-dir --cache-dir".split()
    words = [*fixed, place.parent / "cache", *flags, "-o", place]
    assert here("replayer", "run", trace.path, *words).returncode == 0


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tree of results with a package of two real trials in it."""
    place = tmp_path_factory.mktemp("forged")
    trace, work = generated(place / "trace.parquet", CHATS), place / "work"
    rules = Rules("real", (OPTION,), 2, pause_s=0, submittable=False, settings=(*SETTINGS, CHATS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES, "real", rules)
        patch.setattr(ruling, "_pins", lambda: {"real": {"option_1": [trace.metadata.fingerprint]}})
        patch.setattr(replanned, "child", child_here)
        patch.setattr(tracing, "_made", lambda *_: trace)
        beginning.begin(work, About("acme", "box", "closed", "real"), Path("/proc"), place / "results", 2)
        for trial in (1, 2):
            run = work / "replays" / "option_1" / f"trial_{trial}"
            replayed(trace, run)
            run.with_name(f"log-{run.name}.txt").write_text("what was printed\n")
        if not read_run(run)["conditions"]["direct"]:
            pytest.skip("this disk refuses O_DIRECT")
        packed(work, place / "results")
        yield place / "results"


@pytest.fixture
def package(real: Path, tmp_path: Path) -> Package:
    shutil.copytree(real, tmp_path / "results")
    (found,) = packages(tmp_path / "results" / "closed" / "acme")
    return found


def logged(place: Path) -> pl.DataFrame:
    return pl.read_parquet(parts(place))


def rewritten(place: Path, rows: pl.DataFrame) -> None:
    """A log of these rows, and a run.json that agrees with it: fingerprint, counts, warm-up and window."""
    for part in parts(place):
        part.unlink()
    table = rows.with_columns(pl.col(*LOG_ENUMS).cast(pl.String)).to_arrow().select(LOG_SCHEMA.names)
    pq.write_table(table.cast(LOG_SCHEMA), place / "moves" / "part-00000.parquet")
    info = json.loads((place / "run.json").read_text())
    said = scan(parts(place)).with_columns(pl.col(name).cast(pl.Enum(words)) for name, words in LOG_ENUMS.items())
    cells = added_up(said, info["executed_ops"])
    counted = audit.tally(cells.filter(~pl.col("beyond")))
    for name, count in counted.items():
        group, _, tier = name.partition(".")
        if group in info["executed"]:
            info["executed"] = info["executed"] | {group: info["executed"][group] | {tier: count} if tier else count}
    info["executed_fingerprint"] = _fingerprint(said, info["executed_ops"], 1, ORDERED_PLAN_VERSION)[0]
    info["window"] |= {
        "issued_s": rows["start_ns"].max() / 1e9,  # type: ignore[operator]
        "drain_s": max(0.0, rows["end_ns"].max() / 1e9 - 1),  # type: ignore[operator]
    }
    steady = rows.filter(~pl.col("warmup"))["start_ns"]
    info["warmup"] = {"ops": info["warmup"]["ops"], "end_ns": steady.min()}
    (place / "run.json").write_text(json.dumps(info))


def log(*changes: pl.Expr, of: tuple[str, ...] = PLACES[1:]) -> Change:
    """Columns of trials' logs changed."""

    def changed(package: Package) -> None:
        for run in of:
            place = trial_of(package, run)
            rewritten(place, logged(place).with_columns(*changes))

    return changed


def copied(*changes: pl.Expr) -> Change:
    """The first trial in the place of the second, with the second's birth, its rows changed and compressed anew."""

    def changed(package: Package) -> None:
        one, two = (trial_of(package, run) for run in PLACES)
        born, counters = read_run(two)["clock"], (two / "device.parquet").read_bytes()
        shutil.rmtree(two)
        shutil.copytree(one, two)
        edited(two / "run.json", "clock", born)
        (two / "device.parquet").write_bytes(counters)
        rewritten(two, logged(two).with_columns(*changes))

    return changed


def field(name: str, value: Any, of: tuple[str, ...] = PLACES) -> Change:
    def changed(package: Package) -> None:
        for run in of:
            edited(trial_of(package, run) / "run.json", name, value)

    return changed


def other_replay(*flags: object, settings: tuple[str, ...] = (CHATS,)) -> Change:
    """The second trial replayed otherwise, under the names that CLOSED asks for."""

    def changed(package: Package) -> None:
        place, fresh = trial_of(package, PLACES[1]), package.top.parents[1] / "other"
        known = read_run(place)
        replayed(generated(fresh.with_suffix(".parquet"), *settings), fresh, *flags)
        shutil.rmtree(place)
        shutil.copytree(fresh, place)
        shutil.rmtree(fresh)
        for name in ("trace", "conditions", "plan"):
            edited(place / "run.json", name, known[name])

    return changed


def invented(package: Package) -> None:
    """Reads beyond executed_ops that nobody made."""
    place = trial_of(package, PLACES[1])
    rows = logged(place)
    more = rows.filter(pl.col("move").cast(pl.String) == "hit").with_columns(
        position=pl.col("position") + 10**6, op_id=pl.lit(1, pl.Int64)
    )
    rewritten(place, pl.concat([rows, more]))


def renamed(package: Package) -> None:
    """Two objects under each other's names, wherever they occur."""
    swap = {0: 1, 1: 0}
    log(pl.col("key").replace(swap), of=PLACES)(package)


def doubled(package: Package) -> None:
    place = trial_of(package, PLACES[1])
    rows = logged(place)
    rewritten(place, pl.concat([rows, rows.sort("position", "seq").head(1)]))


def warm(package: Package) -> None:
    """The first ops, whose reads are slow, called warm-up."""
    for run in PLACES:
        place = trial_of(package, run)
        edited(place / "run.json", "warmup", {"ops": 3, "end_ns": 0})
        rewritten(place, logged(place).with_columns(warmup=pl.col("position") < 3))


def skipped(package: Package) -> None:
    """A prefix told as short, and beyond it the slower half of the moves gone whose requests went on."""
    place = trial_of(package, PLACES[1])
    edited(place / "run.json", "executed_ops", 10)
    beyond = (pl.col("position") >= 10) & (pl.col("step") < pl.col("step").max().over("request_id"))
    rewritten(place, logged(place).filter(~(beyond & (pl.col("end_ns") % 2 == 0))))


def of_one_payload(package: Package) -> None:
    for place in PLACES:
        edited(trial_of(package, place) / "run.json", "payload_nonce", "0" * 16)


def uncounted(package: Package) -> None:
    """What the kernel counted for the process, taken out of the counters."""
    path = trial_of(package, PLACES[1]) / "device.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["process_read_bytes", "process_written_bytes"]), path)


def at_one_time(package: Package) -> None:
    one, two = (trial_of(package, place) for place in PLACES)
    edited(two / "run.json", "clock", read_run(two)["clock"] | {"zero_ns": read_run(one)["clock"]["zero_ns"] + 5})


def too_early(package: Package) -> None:
    """A store that begins when its object is read for the first time."""
    place = trial_of(package, PLACES[1])
    rows = logged(place).sort("position", "seq")
    mine, move = pl.col("key") == rows["key"][0], pl.col("move").cast(pl.String)
    began, read = (rows.filter(mine & (move == kind))["start_ns"].min() for kind in ("store", "hit"))
    later = STAMPS + (read - began)  # type: ignore[operator]
    rewritten(place, rows.with_columns(pl.when(mine & (move == "store")).then(later).otherwise(STAMPS).name.keep()))


AROUND: Final = ("read_ns", "write_ns", "device_read_ns", "device_write_ns", "verify_ns", "window_ns", "order_ns")
SPANS: Final = ("due_ns", "ready_ns", "start_ns", "end_ns")
STAMPS: Final = pl.col(*SPANS)
READS: Final = pl.col("read_ns", "device_read_ns")
TOKENS: Final = pl.col("new_tokens")


def counters_of_another(package: Package) -> None:
    one, two = (trial_of(package, run) / "device.parquet" for run in PLACES)
    shutil.copy(one, two)


def bomb(package: Package) -> None:
    names = [
        f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9 if number else ['x'] * 9)}]" for number in range(9)
    ]
    package.description.write_text("\n".join([*names, "system_under_test: {clients: *a8}\n"]))


def pipe(name: str) -> Change:
    def changed(package: Package) -> None:
        path = trial_of(package, PLACES[1]) / name
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    return changed


def elsewhere(package: Package) -> None:
    outside = package.top.parents[1] / "outside"
    package.results.rename(outside)
    package.results.symlink_to(outside)


def large(package: Package) -> None:
    os.truncate(package.results / "report.html", 1 << 40)


@dataclass(frozen=True)
class Forgery:
    """What is done, and what is told of it."""

    change: Change
    told: str
    manifest: bool = True  # made anew


NOT_OF_TRACE: Final = "option_1/trial_2 is not of its trace: the rows of "
FORGERIES: Final[dict[str, Forgery]] = {
    # those that passed once
    "an easier trace": Forgery(other_replay(settings=("personas.chatbot.context=[16, 32]",)), NOT_OF_TRACE),
    "a copy": Forgery(copied(), "trial_2/rank_0 is a copy of option_1/trial_1/rank_0: they share 100%"),
    "a copy, a nanosecond off": Forgery(
        copied(pl.col("verify_ns") + (pl.col("position") == 1)), "is a copy of option_1/trial_1/rank_0: they share 100%"
    ),
    "reads of nine tenths": Forgery(
        log(READS * 9 // 10, of=PLACES), "% of the time of nvme reads is neither reading nor writing"
    ),
    "reads of half": Forgery(log(READS // 2), "option_1/trial_2 is not valid: 50% of the time of nvme reads is neither"),
    "digests of nothing": Forgery(
        lambda package: [
            edited(package.results / "environment.json", name, "0" * 64) for name in ("code_sha256", "core_sha256")
        ],
        "the code of this tool is not the same in all runs and environment.json: 000000000000…, ",
    ),
    "digests of nothing everywhere": Forgery(
        lambda package: [
            field("machine.code_sha256", "0" * 64)(package),
            edited(package.results / "environment.json", "code_sha256", "0" * 64),
        ],
        "the runs name the code 000000000000…, release 0.1.0 here is ",
    ),
    "a bomb of aliases": Forgery(bomb, "systems/box.yaml has aliases (*name), which may stand for any amount of text"),
    "a pipe as a part": Forgery(pipe("moves/part-00009.parquet"), "part-00009.parquet is a pipe, a socket", False),
    "a pipe as run.json": Forgery(pipe("run.json"), "rank_0/run.json is a pipe, a socket or a device", False),
    "results elsewhere": Forgery(elsewhere, "results/box is a link; a package holds its files", False),
    # others
    "a copy, all of it later": Forgery(
        copied(STAMPS + 1_000_000), "is a copy of option_1/trial_1/rank_0: 100% of its moves took the same times"
    ),
    "a copy, all of it quicker": Forgery(
        copied((pl.col(*SPANS, *AROUND) * 0.9).cast(pl.Int64)), "of its moves took the same times, all scaled alike"
    ),
    "counters of another trial": Forgery(
        counters_of_another, "trial_2/rank_0/device.parquet is a copy of option_1/trial_1/rank_0's"
    ),
    "objects under other names": Forgery(renamed, "rows have another key"),
    "smaller objects": Forgery(log(pl.col("size_bytes") // 2), "rows have another size_bytes"),
    "tokens of another op": Forgery(log(pl.col("new_tokens").reverse()), "rows have another new_tokens"),
    "another phase": Forgery(
        log(pl.lit("prefill").cast(pl.Enum(LOG_ENUMS["phase"])).alias("phase")), "rows have another phase"
    ),
    "another class": Forgery(
        log(pl.lit("batch").cast(pl.Enum(LOG_ENUMS["qos"])).alias("qos")), "rows have another qos"
    ),
    "rows beyond the prefix": Forgery(invented, "rows are no move of it"),
    "a row twice": Forgery(doubled, "1 rows are there twice"),
    "a replay with memory": Forgery(other_replay("--cpu-mem-gb", 1), "rows have another from_tier"),
    "another seed": Forgery(other_replay(settings=(CHATS, "seed=43")), NOT_OF_TRACE),
    "a warm-up that nobody asked for": Forgery(warm, "run.json says that 3 ops were warm-up, and 0 were asked for"),
    "a plan of another fingerprint": Forgery(
        field("plan.plan_fingerprint", "f" * 64), "names the plan ffffffffffff…, its trace gives "
    ),
    "a read before its store": Forgery(too_early, "moves of rank_0 began before a move that they had to wait for was done"),
    "slow moves left out": Forgery(skipped, "moves are missing that later steps of their requests waited for"),
    "one payload for all trials": Forgery(of_one_payload, "their payload_nonce is the same"),
    "counters left out": Forgery(uncounted, "device.parquet lacks process_read_bytes, process_written_bytes"),
    "trials at one time": Forgery(at_one_time, "option_1/trial_2 began before option_1/trial_1 had ended"),
    "a file without end": Forgery(large, "report.html has 1,099,511,627,776 bytes, more than any honest one", False),
}  # fmt: skip


def test_an_honest_package_is_valid(package: Package) -> None:
    assert validation.validate(package).problems == []


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_told(package: Package, name: str) -> None:
    forgery = FORGERIES[name]
    forgery.change(package)
    if forgery.manifest:
        forge(package, claims=False)
    began = time.monotonic()
    found = validation.validate(Package(package.top, package.about)).problems
    assert [text for text in found if forgery.told in text], found
    assert forgery.manifest or time.monotonic() - began < 5


def test_a_manifest_that_is_a_pipe_is_refused(package: Package) -> None:
    package.manifest.unlink()
    os.mkfifo(package.manifest)
    assert "manifest.json is not a regular file" in call("submission", "validate", package.top, code=2).stderr


def test_files_are_given_for_options_of_open_alone(package: Package) -> None:
    told = {
        "option_1=t.parquet": "leave it out",
        "option_9=t": "no such option",
        "t.parquet": "write it as OPTION=FILE",
    }
    for given, sentence in told.items():
        assert sentence in call("submission", "validate", package.top, "--trace", given, code=2).stderr


# A run beside its trace


@pytest.fixture
def run_of(package: Package, real: Path) -> tuple[Path, Path]:
    return trial_of(package, PLACES[1]), real.with_name("trace.parquet")


def test_a_plan_is_made_by_a_process_of_its_own(run_of: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    place, trace = run_of
    call("check", place, "--trace", trace)


def test_check_compares_a_run_with_its_trace(run_of: tuple[Path, Path], tmp_path: Path) -> None:
    place, trace = run_of
    other = generated(tmp_path / "other.parquet", CHATS, "seed=43")
    assert "replayed the trace" in call("check", place, "--trace", other.path, code=2).stderr
    rewritten(place, logged(place).with_columns(pl.col("step") + 1))
    call("check", place)
    assert "rows have another step" in call("check", place, "--trace", trace, code=1).stdout


WAYS: Final = {
    "in the trace's order": ("--order", "trace", "--users", 2, "--cycles", 2, "--decode", "once"),
    "placed live": ("--placement", "live"),
    "with odd memory": ("--cpu-mem-gb", "0.013", "--headroom", "0.37", "--promote", "--storage-capacity-gb", "0.031"),
}


@pytest.mark.parametrize("way", WAYS)
def test_runs_of_any_kind_are_planned_anew(real: Path, tmp_path: Path, way: str) -> None:
    trace = Trace(real.with_name("trace.parquet"))
    replayed(trace, tmp_path / "run", *WAYS[way])
    call("check", tmp_path / "run", "--trace", trace.path)
    rows = logged(tmp_path / "run")
    rewritten(tmp_path / "run", rows.with_columns(pl.col("tokens") + 1))
    found = call("check", tmp_path / "run", "--trace", trace.path, code=1).stdout
    assert "rows have another tokens" in found


# Packages of OPEN, whose traces nobody has pinned


def opened(real: Path, place: Path, recipe: Dict | None) -> Package:
    """The package as one of OPEN, with this recipe of its trace; None: the one that is recorded."""
    shutil.copytree(real, place / "results")
    (place / "results" / "closed").rename(place / "results" / "open")
    package = Package(place / "results" / "open" / "acme", About("acme", "box", "open", "real"))
    edited(package.manifest, "division", "open")
    (package.top / "submission.yaml").write_text(packaging.submission_yaml(package.about))
    if recipe is not None:
        field("trace.recipe", recipe)(package)
    edited(package.runs[0] / "summary.json", "division", "open")
    forge(package, claims=False)
    return package


def test_a_trace_of_open_is_made_of_its_recorded_recipe(
    real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_made", MADE)
    package = opened(real, tmp_path, None)
    found = validation.validate(package)
    assert (found.problems, found.untied) == ([], {})
    log(pl.col("step") + 1)(package)
    forge(package, claims=False)
    found = validation.validate(Package(package.top, package.about))
    assert [text for text in found.problems if "rows have another step" in text], found.problems


MADE: Final = tracing._made


def test_a_trace_of_open_that_cannot_be_made_is_asked_for(real: Path, tmp_path: Path) -> None:
    package = opened(real, tmp_path, {})
    told = "Note: nothing ties the rows of option_1 to its trace (no recipe is recorded): a reviewer who has it passes"
    assert f"{told} --trace option_1=FILE." in call("submission", "validate", package.top).stdout
    given = f"option_1={real.with_name('trace.parquet')}"
    done = call("submission", "validate", package.top, "--trace", given)
    assert "nothing ties" not in done.stdout
    log(pl.col("step") + 1)(package)
    forge(package, claims=False)
    done = call("submission", "validate", package.top, "--trace", given, code=1)
    assert "rows have another step" in done.stdout


# Run directories that hold no files


@pytest.mark.parametrize("name", ["run.json", "device.parquet", "moves/part-00000.parquet"])
def test_a_run_with_a_pipe_in_it_is_refused(package: Package, name: str) -> None:
    pipe(name)(package)
    place = trial_of(package, PLACES[1])
    for command in ("summary", "check"):
        assert f"{name} is not a regular file; copy the run anew." in call(command, place, code=2).stderr


def test_sizes_and_rows_that_no_replay_writes_are_refused(package: Package) -> None:
    place = trial_of(package, PLACES[1])
    part, *_ = parts(place)
    content = part.read_bytes()
    table = pq.read_table(part)
    many = pa.table({name: pa.repeat(table[name][0], 1_000_000) for name in table.column_names})
    pq.write_table(many.cast(LOG_SCHEMA), part, compression="zstd")
    assert "part-00000.parquet claims 1,000,000 rows in " in call("check", place, code=2).stderr
    part.write_bytes(content)
    os.truncate(part, 1 << 31)
    assert "part-00000.parquet has 2,147,483,648 bytes, more than any honest one" in call("check", place, code=2).stderr


def test_a_million_ranks_that_are_missing_are_told_of_soon(package: Package) -> None:
    place = trial_of(package, "option_1/trial_2")
    above = {"run_version": 2, "ranks": 1_000_000, "status": "complete", "reason": None, "clocks": []}
    (place / "run.json").write_text(json.dumps(above))
    found = call("summary", place).stdout
    assert "rank 99 of 1000000 is missing" in found
    assert "ranks from 100 to 999,999 were not looked for" in found
