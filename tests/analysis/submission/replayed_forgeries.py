"""Changes that a thorough forger makes to a package of real replays, each with what validation reports of it."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow.parquet as pq

from analysis.doubts.counts import count_moves
from analysis.doubts.every_row import fingerprint_rows
from analysis.log.cells import sum_by_cell
from analysis.log.log import scan
from analysis.submission.package_tree import Package
from analysis.submission.rules import Option
from replayer.schema import LOG_ENUMS, LOG_SCHEMA, ORDERED_PLAN_VERSION, parts
from tests.support.command_line import here
from tests.support.run_json import run_json
from tests.support.submissions import edited, trial_of
from tracegen.schema import Trace

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
    cells = sum_by_cell(said, info["executed_ops"])
    counted = count_moves(cells.filter(~pl.col("beyond")))
    for name, count in counted.items():
        group, _, tier = name.partition(".")
        if group in info["executed"]:
            info["executed"] = info["executed"] | {group: info["executed"][group] | {tier: count} if tier else count}
    info["executed_fingerprint"] = fingerprint_rows(said, info["executed_ops"], 1, ORDERED_PLAN_VERSION)[0]
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
        born, counters = run_json(two)["clock"], (two / "device.parquet").read_bytes()
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
        known = run_json(place)
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
    edited(two / "run.json", "clock", run_json(two)["clock"] | {"zero_ns": run_json(one)["clock"]["zero_ns"] + 5})


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
    "rows beyond the prefix": Forgery(invented, "rows are not a move of it"),
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
