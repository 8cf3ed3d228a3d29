"""Changes that a thorough forger makes to a package of real replays, each with the reported problem."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow.parquet as pq

from analysis.doubts import counts
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


def generate_trace(place: Path, *settings: str) -> Trace:
    words = [word for setting in (*SETTINGS, *settings) for word in ("--set", setting)]
    assert here("tracegen", "generate", "mlperf_option_1", *words, "--users", 3, "-o", place).returncode == 0
    return Trace(place)


def replay(trace: Trace, place: Path, *flags: object) -> None:
    fixed = "--model tiny-1b --duration 1 --make-cache-dir --cache-dir".split()
    words = [*fixed, place.parent / "cache", *flags, "-o", place]
    assert here("replayer", "run", trace.path, *words).returncode == 0


def read_log(place: Path) -> pl.DataFrame:
    return pl.read_parquet(parts(place))


def rewrite_log(place: Path, rows: pl.DataFrame) -> None:
    """Replace a log by these rows; make run.json agree: fingerprint, counts, warm-up and window."""
    for part in parts(place):
        part.unlink()
    table = rows.with_columns(pl.col(*LOG_ENUMS).cast(pl.String)).to_arrow().select(LOG_SCHEMA.names)
    pq.write_table(table.cast(LOG_SCHEMA), place / "moves" / "part-00000.parquet")
    info = json.loads((place / "run.json").read_text())
    said = scan(parts(place)).with_columns(pl.col(name).cast(pl.Enum(words)) for name, words in LOG_ENUMS.items())
    cells = sum_by_cell(said, info["executed_ops"])
    counted = counts.count_moves(cells.filter(~pl.col("beyond")))
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


def change_log(*changes: pl.Expr, of: tuple[str, ...] = PLACES[1:]) -> Change:
    """Change columns of trials' logs."""

    def changed(package: Package) -> None:
        for run in of:
            place = trial_of(package, run)
            rewrite_log(place, read_log(place).with_columns(*changes))

    return changed


def copy_first_trial(*changes: pl.Expr) -> Change:
    """Replace the second trial by the first, with the start of the second and changed rows."""

    def changed(package: Package) -> None:
        one, two = (trial_of(package, run) for run in PLACES)
        born, counters = run_json(two)["clock"], (two / "device.parquet").read_bytes()
        shutil.rmtree(two)
        shutil.copytree(one, two)
        edited(two / "run.json", "clock", born)
        (two / "device.parquet").write_bytes(counters)
        rewrite_log(two, read_log(two).with_columns(*changes))

    return changed


def set_field(name: str, value: Any, of: tuple[str, ...] = PLACES) -> Change:
    def changed(package: Package) -> None:
        for run in of:
            edited(trial_of(package, run) / "run.json", name, value)

    return changed


def replay_otherwise(*flags: object, settings: tuple[str, ...] = (CHATS,)) -> Change:
    """Replay the second trial in another way, under the names that CLOSED requires."""

    def changed(package: Package) -> None:
        place, fresh = trial_of(package, PLACES[1]), package.top.parents[1] / "other"
        known = run_json(place)
        replay(generate_trace(fresh.with_suffix(".parquet"), *settings), fresh, *flags)
        shutil.rmtree(place)
        shutil.copytree(fresh, place)
        shutil.rmtree(fresh)
        for name in ("trace", "conditions", "plan"):
            edited(place / "run.json", name, known[name])

    return changed


def invent_rows(package: Package) -> None:
    """Add reads beyond executed_ops that no replay made."""
    place = trial_of(package, PLACES[1])
    rows = read_log(place)
    more = rows.filter(pl.col("move").cast(pl.String) == "hit").with_columns(
        position=pl.col("position") + 10**6, op_id=pl.lit(1, pl.Int64)
    )
    rewrite_log(place, pl.concat([rows, more]))


def swap_keys(package: Package) -> None:
    """Swap the keys of two objects wherever they occur."""
    swap = {0: 1, 1: 0}
    change_log(pl.col("key").replace(swap), of=PLACES)(package)


def duplicate_row(package: Package) -> None:
    place = trial_of(package, PLACES[1])
    rows = read_log(place)
    rewrite_log(place, pl.concat([rows, rows.sort("position", "seq").head(1)]))


def claim_warmup(package: Package) -> None:
    """Mark the first ops, whose reads are slow, as warm-up."""
    for run in PLACES:
        place = trial_of(package, run)
        edited(place / "run.json", "warmup", {"ops": 3, "end_ns": 0})
        rewrite_log(place, read_log(place).with_columns(warmup=pl.col("position") < 3))


def drop_slow_moves(package: Package) -> None:
    """Shorten executed_ops; beyond it drop half of the moves that later steps waited for."""
    place = trial_of(package, PLACES[1])
    edited(place / "run.json", "executed_ops", 10)
    beyond = (pl.col("position") >= 10) & (pl.col("step") < pl.col("step").max().over("request_id"))
    rewrite_log(place, read_log(place).filter(~(beyond & (pl.col("end_ns") % 2 == 0))))


def share_payload(package: Package) -> None:
    for place in PLACES:
        edited(trial_of(package, place) / "run.json", "payload_nonce", "0" * 16)


def drop_counters(package: Package) -> None:
    """Drop the columns that the kernel counts for the process."""
    path = trial_of(package, PLACES[1]) / "device.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["process_read_bytes", "process_written_bytes"]), path)


def overlap_trials(package: Package) -> None:
    one, two = (trial_of(package, place) for place in PLACES)
    edited(two / "run.json", "clock", run_json(two)["clock"] | {"zero_ns": run_json(one)["clock"]["zero_ns"] + 5})


def read_before_store(package: Package) -> None:
    """Move a store to the time at which its object is first read."""
    place = trial_of(package, PLACES[1])
    rows = read_log(place).sort("position", "seq")
    mine, move = pl.col("key") == rows["key"][0], pl.col("move").cast(pl.String)
    began, read = (rows.filter(mine & (move == kind))["start_ns"].min() for kind in ("store", "hit"))
    later = STAMPS + (read - began)  # type: ignore[operator]
    rewrite_log(place, rows.with_columns(pl.when(mine & (move == "store")).then(later).otherwise(STAMPS).name.keep()))


STAMPS: Final = pl.col("due_ns", "ready_ns", "start_ns", "end_ns")
READS: Final = pl.col("read_ns", "device_read_ns")
TOKENS: Final = pl.col("new_tokens")


def copy_counters(package: Package) -> None:
    one, two = (trial_of(package, run) / "device.parquet" for run in PLACES)
    shutil.copy(one, two)


def add_alias_bomb(package: Package) -> None:
    names = [
        f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9 if number else ['x'] * 9)}]" for number in range(9)
    ]
    package.description.write_text("\n".join([*names, "system_under_test: {clients: *a8}\n"]))


def replace_by_pipe(name: str) -> Change:
    def changed(package: Package) -> None:
        path = trial_of(package, PLACES[1]) / name
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    return changed


def move_results_away(package: Package) -> None:
    outside = package.top.parents[1] / "outside"
    package.results.rename(outside)
    package.results.symlink_to(outside)


def grow_report(package: Package) -> None:
    os.truncate(package.results / "report.html", 1 << 40)


@dataclass(frozen=True)
class Forgery:
    """A change to a package.

    Attributes:
        change: the change.
        problem: text of a problem that validate must report.
        manifest: whether the manifest is computed again after the change.
    """

    change: Change
    problem: str
    manifest: bool = True


NOT_OF_TRACE: Final = "option_1/trial_2 does not follow its trace: the rows of "
FORGERIES: Final[dict[str, Forgery]] = {
    # forgeries that earlier releases did not detect
    "an easier trace": Forgery(replay_otherwise(settings=("personas.chatbot.context=[16, 32]",)), NOT_OF_TRACE),
    "a copy": Forgery(copy_first_trial(), "trial_2/rank_0 is a copy of option_1/trial_1/rank_0: they share 100%"),
    "a copy, a nanosecond off": Forgery(
        copy_first_trial(pl.col("verify_ns") + (pl.col("position") == 1)), "is a copy of option_1/trial_1/rank_0: they share 100%"
    ),
    "reads of nine tenths": Forgery(
        change_log(READS * 9 // 10, of=PLACES), "% of the time of nvme reads is neither reading nor writing"
    ),
    "reads of half": Forgery(change_log(READS // 2), "option_1/trial_2 is not valid: 50% of the time of nvme reads is neither"),
    "digests of nothing": Forgery(
        lambda package: [
            edited(package.results / "environment.json", name, "0" * 64) for name in ("code_sha256", "core_sha256")
        ],
        "this tool's code differs between runs and environment.json: 000000000000…, ",
    ),
    "a bomb of aliases": Forgery(add_alias_bomb, "systems/box.yaml: YAML aliases (*name) are not allowed, as they may expand to any amount of text"),
    "a pipe as a part": Forgery(replace_by_pipe("moves/part-00009.parquet"), "part-00009.parquet is a pipe, a socket", False),
    "a pipe as run.json": Forgery(replace_by_pipe("run.json"), "rank_0/run.json is a pipe, a socket or a device", False),
    "results elsewhere": Forgery(move_results_away, "results/box is a link; a package contains the file itself", False),
    # others
    "counters of another trial": Forgery(
        copy_counters, "trial_2/rank_0/device.parquet is a copy of option_1/trial_1/rank_0's"
    ),
    "objects under other names": Forgery(swap_keys, "rows have another key"),
    "smaller objects": Forgery(change_log(pl.col("size_bytes") // 2), "rows have another size_bytes"),
    "tokens of another op": Forgery(change_log(pl.col("new_tokens").reverse()), "rows have another new_tokens"),
    "another phase": Forgery(
        change_log(pl.lit("prefill").cast(pl.Enum(LOG_ENUMS["phase"])).alias("phase")), "rows have another phase"
    ),
    "another class": Forgery(
        change_log(pl.lit("batch").cast(pl.Enum(LOG_ENUMS["qos"])).alias("qos")), "rows have another qos"
    ),
    "rows beyond the prefix": Forgery(invent_rows, "rows are not a move of it"),
    "a row twice": Forgery(duplicate_row, "1 rows are there twice"),
    "a replay with memory": Forgery(replay_otherwise("--cpu-mem-gb", 1), "rows have another from_tier"),
    "another seed": Forgery(replay_otherwise(settings=(CHATS, "seed=43")), NOT_OF_TRACE),
    "a warm-up that nobody asked for": Forgery(claim_warmup, "run.json says that 3 ops were warm-up, but 0 were asked for"),
    "a plan of another fingerprint": Forgery(
        set_field("plan.plan_fingerprint", "f" * 64), "names the plan ffffffffffff…, its trace gives "
    ),
    "a read before its store": Forgery(read_before_store, "moves of rank_0 began before a move that they had to wait for was done"),
    "slow moves left out": Forgery(drop_slow_moves, "moves are missing that later steps of their requests waited for"),
    "one payload for all trials": Forgery(share_payload, "their payload_nonce is the same"),
    "counters left out": Forgery(drop_counters, "device.parquet is not a log of counters"),
    "trials at one time": Forgery(overlap_trials, "option_1/trial_2 began before option_1/trial_1 ended"),
    "a file without end": Forgery(grow_report, "report.html has 1,099,511,627,776 bytes; the limit is ", False),
}  # fmt: skip
