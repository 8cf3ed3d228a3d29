"""What a log and its run.json must have in common: what was lost, swapped or edited does not pass for a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from analysis.doubts.doubt import Doubt
from analysis.log.columns import MAX_REQUESTS, SIDES
from analysis.log.log import scan
from analysis.log.plan_order import kind_of
from replayer.schema import LOG_ENUMS, TIERS, RunInfo, Totals, Window, parts, to_plain
from tracegen.errors import InputError

MAX_NS: Final = 1 << 49  # 6.5 days: no move takes longer, and no clocks of ranks are as far apart
MAX_STAMP_NS: Final = 1 << 56  # 2.3 years: no run takes longer
CLOCK_S: Final = 1e-6  # seconds in run.json are floats, those of the log integers of nanoseconds

_FROM, _TO = pl.col("from_tier").is_not_null(), pl.col("to_tier").is_not_null()
_SHAPE: Final = {  # moves by the tiers that they must and must not name
    ("hit", "promote", "drop"): _FROM & ~_TO,
    ("store",): ~_FROM & _TO,
    ("demote",): _FROM & _TO,
    ("miss", "bypass"): ~_FROM & ~_TO,
    ("delete",): ~_TO,
}


@dataclass(frozen=True)
class LogFacts:
    """Figures of one process's log that its run.json must agree with. Times are in ns since the log's time 0.

    Attributes:
        told_errors: rows with a text in `error` and another status.
        first_steady_ns: the first start after the warm-up; None if no move is after it.
        flags: whether rows are marked as warm-up unlike run.json says.
        late_tokens: new tokens of rows that are not the first of their op.
        oversized: whether a row has more bytes than its tokens.
        checked_reads: reads from the cpu and nvme tiers that could be verified.
        check_ns: the time spent verifying them.
        sampled_ns: the end of the last sample of the counters; None without samples.
    """

    worker: int
    told_errors: int
    last_op: int
    last_position: int
    last_start_ns: int
    last_end_ns: int
    first_steady_ns: int | None
    flags: bool
    least_rank: int
    most_rank: int
    late_tokens: int
    oversized: bool
    checked_reads: int
    check_ns: int
    sampled_ns: int | None


@contextmanager
def explain_unreadable(place: Path) -> Iterator[None]:
    """Read a log within; what Polars says is one sentence, which names the word that no replay writes.

    Raises:
        InputError: it cannot be read.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise InputError(_unreadable(place, parts(place), error)) from None


def examine(
    place: Path, files: list[Path], cells: pl.DataFrame, info: RunInfo, sampled_ns: int | None = None
) -> LogFacts | None:
    """Return the figures of one process's log; None if the log has no rows.

    Args:
        place: the run directory.
        files: the parts of its log.
        cells: its rows added up, with the columns that metrics use.
        info: its run.json.
        sampled_ns: the end of the last sample of its counters.

    Raises:
        InputError: it cannot be read, or holds rows that no replay writes.
    """
    # What no metric uses is not worth its memory.
    rest = pl.scan_parquet(files, glob=False).select(
        worker=pl.col("worker").max(),
        told_errors=((pl.col("status") != "error") & pl.col("error").is_not_null()).sum(),
        last_op=pl.col("op_id").max(),
        other_least=pl.min_horizontal(pl.col("op_id", "key", "worker").min()),
        other_nulls=pl.sum_horizontal(pl.col("op_id", "key", "worker").null_count()),
    )
    with explain_unreadable(place):
        facts = rest.collect(engine="streaming").row(0, named=True)
    facts |= cells.select(**_facts(info), **_impossible(info)).row(0, named=True)
    more = {
        "numbers that are negative or too large": (facts.pop("other_least") or 0) < 0,
        "nulls where a replay leaves none": facts.pop("other_nulls"),
    }
    for name in _impossible(info):
        if facts.pop(name) or more.get(name):
            raise InputError(f"{place}: its log holds {name}: it was altered or damaged; copy the run anew.")
    return None if facts["last_position"] is None else LogFacts(**facts, sampled_ns=sampled_ns)


def _impossible(info: RunInfo) -> dict[str, pl.Expr]:
    """By name, whether there are rows that no replay writes."""
    shapes = [pl.col("move").is_in(moves) & ~shape for moves, shape in _SHAPE.items()]
    times = [pl.col("least_time_ns").min()]
    if not info.conditions.gds:  # cuFile's clock is another than the host's, and a GPU's
        times += [
            pl.col(f"least_host_{side}_ns").filter(pl.col(tier) != "gpu").min()
            for side, tier in (("read", "from_tier"), ("write", "to_tier"))
        ]
    return {
        "nulls where a replay leaves none": (pl.col("nulls") > 0).any(),
        "times that run backwards, moves of days or runs of years": (pl.col("least_step_ns") < 0).any()
        | (pl.col("most_ns") > MAX_NS).any()
        | (pl.col("most_stamp_ns") > MAX_STAMP_NS).any(),
        "numbers that are negative or too large": (pl.col("least_number") < 0).any()
        | (pl.col("most_request_id") >= MAX_REQUESTS).any(),
        "times of I/O that do not fit in their moves": pl.min_horizontal(times) < 0,
        "moves between tiers that do not go together": pl.any_horizontal(shape.any() for shape in shapes),
    }


def _facts(info: RunInfo) -> dict[str, pl.Expr]:
    warm_ops = (0 if info.warmup is None else info.warmup.ops) or 0
    kept = (pl.col("from_tier") != "gpu") & pl.col("move").is_in(["hit", "promote"]) & (pl.col("status") == "ok")
    stored = pl.col("from_tier") == "cpu"
    if info.conditions.layout != "null":
        stored |= pl.col("from_tier") == "nvme"
    early, late = pl.col("least_position") < warm_ops, pl.col("most_position") >= warm_ops
    return {
        "last_position": pl.col("most_position").max(),
        "last_start_ns": pl.col("last_start_ns").max(),
        "last_end_ns": pl.col("end_ns").max(),
        "first_steady_ns": pl.col("start_ns").filter(~pl.col("warmup")).min(),
        "flags": pl.when("warmup").then(late).otherwise(early).any(),
        "least_rank": pl.col("least_rank").min(),
        "most_rank": pl.col("most_rank").max(),
        "late_tokens": pl.col("new_tokens").filter(~pl.col("first")).sum(),
        "oversized": (pl.col("most_bytes") > info.conditions.bytes_per_token).any(),
        "checked_reads": pl.col("rows").filter(kept & stored).sum(),
        "check_ns": pl.col("verify_ns").filter(kept & stored).sum(),
    }


def _unreadable(place: Path, files: list[Path], error: Exception) -> str:
    """Which word is none that a replay writes; else what Polars says, in one line."""
    for name, known in LOG_ENUMS.items():
        try:
            words = scan(files).select(pl.col(name).cast(pl.String).unique()).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            break
        if strange := sorted(set(words[name].drop_nulls()) - set(known)):
            return f"{place}: its log has {name} = {strange[0]!r}, which is none of {', '.join(known)}."
    reason = (str(error).strip().splitlines() or ["?"])[0]
    return f"{place}: its log cannot be read ({reason}); copy the run anew."


def count_moves(cells: pl.DataFrame) -> dict[str, int]:
    """What `replayer plan` counts, by dotted names, of the rows of a log added up by their enums."""
    move, op = pl.col("move"), pl.col("op")
    from_, to = pl.col("from_tier"), pl.col("to_tier")
    rows, size = pl.col("rows"), pl.col("size_bytes")
    served, first = move.is_in(["hit", "promote"]), pl.col("first")
    counts = {
        "ops": rows.filter(first),
        "reads": rows.filter(first & (op == "read")),
        **{f"hits.{tier}": rows.filter(served & (from_ == tier)) for tier in TIERS},
        **{f"stores.{tier}": rows.filter((move == "store") & (to == tier)) for tier in TIERS},
        **{
            f"demotions.{one}>{other}": rows.filter((move == "demote") & (from_ == one) & (to == other))
            for place, one in enumerate(TIERS)
            for other in TIERS[place + 1 :]
        },
        **{
            name: rows.filter(move == kind)
            for name, kind in {"misses": "miss", "promotions": "promote", "drops": "drop", "bypasses": "bypass"}.items()
        },
        "recomputed_tokens": pl.col("tokens").filter((move == "miss") | ((move == "bypass") & first)),
        **{
            f"read_bytes.{tier}": size.filter(move.is_in(["hit", "promote", "demote"]) & (from_ == tier))
            for tier in TIERS
        },
        **{f"write_bytes.{tier}": size.filter(move.is_in(["store", "demote"]) & (to == tier)) for tier in TIERS},
    }
    found: dict[str, int] = cells.select(**{name: rows.sum() for name, rows in counts.items()}).row(0, named=True)
    return found | {"new_tokens": int(cells["new_tokens"].sum())}


def sum_lost_time(cells: pl.DataFrame) -> dict[str, tuple[int, int, int]]:
    """Per side of the nvme tier: moves, their time in ns, and what of it was neither reading nor writing.

    Args:
        cells: rows added up by their enums; left out are moves of the gpu tier, whose clock may be another, and
            promotions, which also remove the object's file: that is neither reading nor writing.
    """
    gone = pl.col("io_ns") - pl.col("read_ns") - pl.col("write_ns")
    on_host = pl.col("from_tier").ne_missing("gpu") & pl.col("to_tier").ne_missing("gpu")
    told = on_host & (pl.col("move") != "promote")
    found = {}
    for side in ("read", "write"):
        mine = cells.filter(SIDES[f"nvme_{side}"] & told)
        found[side] = mine.select(pl.col("rows").sum(), pl.col("io_ns").sum(), gone.sum().alias("gone")).row(0)
    return found


def find_contradictions(infos: list[RunInfo], facts: list[LogFacts | None], counted: dict[str, int]) -> Iterator[Doubt]:
    """Yield a doubt for each contradiction within a run that says it is complete.

    Args:
        infos: run.json of each rank.
        facts: the figures of each rank's log (`examine`).
        counted: `tally` of all logs together, without rows beyond executed_ops.
    """
    complete = [(info, of_log) for info, of_log in zip(infos, facts, strict=True) if info.status == "complete"]
    texts = []
    for info, of_log in complete:
        if of_log is not None:  # a rank may have had nothing to do; `_of_counts` checks that it had not
            texts += [*_of_rows(info, of_log), *_of_times(info, of_log)]
        texts += _of_info(info)
    if len(complete) == len(infos):
        texts += [*_of_counts(infos, counted), *_of_tokens(infos, counted["new_tokens"])]
    for text in dict.fromkeys(texts):
        yield Doubt("altered log", text, "copy the run anew, or replay it", invalidates=True)


def _of_rows(info: RunInfo, facts: LogFacts) -> Iterator[str]:
    """Compare the rows of one log with its run.json."""
    conditions = info.conditions
    rank = info.rank or 0
    if (facts.least_rank, facts.most_rank) != (rank, rank):
        strange = facts.most_rank if facts.most_rank != rank else facts.least_rank
        yield f"rows of rank {strange} lie in the log of rank {rank}"
    if facts.worker >= conditions.workers:
        yield f"worker {facts.worker} made moves, and there were {conditions.workers}"
    # A run that was cut may have begun ops beyond its prefix.
    if info.cut_s is None and info.executed_ops is not None and facts.last_position >= info.executed_ops:
        yield (f"the log goes on to op {facts.last_position:,}, run.json says that {info.executed_ops:,} were executed")
    if info.trace.ops is not None and facts.last_op >= info.trace.ops * (conditions.cycles or 1):
        yield f"the log has an op {facts.last_op:,}, which the trace has not"
    if facts.told_errors:
        yield f"{facts.told_errors:,} rows tell of an error and do not count as one"
    if facts.late_tokens:
        yield "tokens are counted with moves that are not the first of their op"
    if facts.oversized:
        yield "rows moved more bytes than their tokens have"
    if conditions.verify != "off" and facts.checked_reads and not facts.check_ns:
        yield f"run.json says verify {conditions.verify}, and no read took any time to be verified"


def _of_times(info: RunInfo, facts: LogFacts) -> Iterator[str]:
    """Compare the times of one log with its run.json."""
    yield from _of_warmup(info, facts)
    window = info.window or Window()
    if window.issued_s is not None and abs(window.issued_s - facts.last_start_ns / 1e9) > CLOCK_S:
        yield (
            f"the last move began {facts.last_start_ns / 1e9:.3f} s into the log, run.json says {window.issued_s:.3f} s"
        )
    is_cut = window.cut_s is not None
    drained_s = max(0.0, facts.last_end_ns / 1e9 - (window.duration_s or 0)) if is_cut else 0.0
    if window.drain_s is not None and abs(window.drain_s - drained_s) > CLOCK_S:
        yield f"the log drained for {drained_s:.3f} s, run.json says {window.drain_s:.3f} s"
    if facts.sampled_ns is not None and facts.sampled_ns < facts.last_end_ns:
        sampled_s, last_s = facts.sampled_ns / 1e9, facts.last_end_ns / 1e9
        yield f"device.parquet counts for {sampled_s:.3f} s, the log goes on for {last_s:.3f} s"


def _of_warmup(info: RunInfo, facts: LogFacts) -> Iterator[str]:
    """Compare the warm-up of one log with its run.json, and that with what was asked for."""
    warmup, asked = info.warmup, info.conditions.warmup
    if warmup is None:
        return
    if facts.flags:
        yield "rows are marked as warm-up, or not, unlike run.json says"
    if asked is not None and not asked.s:
        ops = asked.ops or 0
        if (warmup.ops or 0) not in (ops, min(ops, info.executed_ops or 0)):  # the latter in release 0.1
            yield f"run.json says that {warmup.ops:,} ops were warm-up, and {ops:,} were asked for"
    if (warmup.end_ns or 0) != (facts.first_steady_ns or 0):
        yield "the warm-up did not end when run.json says that it did"


def _of_info(info: RunInfo) -> Iterator[str]:
    """Compare a run.json with itself: a complete run executed its plan, or the ops asked for, or was cut in time."""
    plan, executed, conditions = info.plan, info.executed, info.conditions
    if info.window is not None and info.window.duration_s != conditions.duration_s:
        yield "run.json names two durations"
    if info.cut_s is not None:
        if conditions.duration_s is None or info.cut_s < conditions.duration_s:
            yield f"run.json says that the run was cut after {info.cut_s:.3f} s, not at a duration that was asked for"
        return
    if conditions.ops is not None and plan is not None and conditions.ops < plan.ops:
        if executed is not None and executed.ops != conditions.ops:
            yield f"run.json says that the run ended after {conditions.ops:,} ops, and counts {executed.ops:,}"
        return
    if len({info.plan_fingerprint, info.executed_fingerprint} - {None}) > 1:
        yield "run.json says that the whole plan was executed, and names another fingerprint than the plan's"
    planned = flatten_totals(plan)
    if executed is not None and any(
        planned.get(name, count) != count for name, count in flatten_totals(executed).items()
    ):
        yield "run.json says that the whole plan was executed, and counts other work than the plan's"
    yield from _of_executed_ops(info)


def _of_executed_ops(info: RunInfo) -> Iterator[str]:
    """Compare executed_ops with the ops of the trace and of the plan."""
    if info.trace.ops is None or info.executed_ops is None:
        return
    ops = info.trace.ops * (info.conditions.cycles or 1)
    ends = {ops}
    if kind_of(info.conditions) != "trace" and info.plan is not None:
        ends.add(info.plan.ops)
    if info.executed_ops not in ends:
        yield f"run.json says that the whole plan was executed, and {info.executed_ops:,} ops of {ops:,}"


def flatten_totals(totals: Totals | None) -> dict[str, int]:
    """Return the counts of a plan, or of its execution, by dotted names; without those that it does not have."""
    plain = {} if totals is None else to_plain(totals)
    nested = {name: value if isinstance(value, dict) else {"": value} for name, value in plain.items()}
    counts = {f"{name}.{key}" if key else name: count for name, of in nested.items() for key, count in of.items()}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _of_counts(infos: list[RunInfo], counted: dict[str, int]) -> Iterator[str]:
    """Compare the counts of the log with those of what was executed."""
    executed = [flatten_totals(info.executed or info.plan) for info in infos]
    for name, count in counted.items():
        if all(name in plan for plan in executed) and count != (planned := sum(plan[name] for plan in executed)):
            yield f"the log has {name} = {count:,}, the plan {planned:,}: parts are missing or altered"


def _of_tokens(infos: list[RunInfo], counted: int) -> Iterator[str]:
    """Compare the tokens that the log generated with the trace's; a part of a trace does not say how many it has."""
    generated = []
    for info in infos:
        conditions, trace = info.conditions, info.trace
        tokens = (trace.counts or {}).get("tokens_generated")
        is_part = info.cut_s is not None or trace.part is not None or conditions.ops is not None
        if tokens is None or is_part or conditions.users is not None or conditions.decode != "reread":
            return
        generated.append(tokens * (conditions.cycles or 1))
    taken = sorted(info.conditions.part or (0, 1) for info in infos)
    if taken == [(rank, len(infos)) for rank in range(len(infos))] and len(set(generated)) == 1:
        expected = generated[0]
    elif set(taken) == {(0, 1)}:
        expected = sum(generated)
    else:
        return
    if counted != expected:
        yield f"the log has {counted:,} tokens generated, the trace {expected:,}"
