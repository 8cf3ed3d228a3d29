"""Contradictions between a log and its run.json: rows that were lost, swapped or edited."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from analysis.doubts.counts import flatten_totals
from analysis.doubts.doubt import Doubt
from analysis.log.columns import MAX_REQUESTS
from analysis.log.log import scan
from analysis.log.plan_order import has_chunks, kind_of
from replayer.schema import LOG_ENUMS, RunInfo, Window, parts
from tracegen.errors import InputError

MAX_NS: Final = 1 << 49  # 6.5 days: no move takes longer, and clocks of ranks differ by less
MAX_STAMP_NS: Final = 1 << 56  # 2.3 years: no run takes longer
CLOCK_S: Final = 1e-6  # seconds in run.json are floats, those of the log integers of nanoseconds

_FROM, _TO = pl.col("from_tier").is_not_null(), pl.col("to_tier").is_not_null()
_SHAPE: Final = {  # by kinds of move: the tiers that their rows must and must not name
    ("hit", "promote", "drop"): _FROM & ~_TO,
    ("store",): ~_FROM & _TO,
    ("demote", "copy"): _FROM & _TO,
    ("miss", "bypass"): ~_FROM & ~_TO,
    ("delete",): ~_TO,
}


@dataclass(frozen=True)
class LogFacts:
    """Figures of one process's log that must agree with its run.json.

    Times are in ns since the log's time 0.

    Attributes:
        worker: the highest number of a worker.
        hidden_errors: rows with a text in `error` whose status is not error.
        last_op: the highest op_id.
        last_position: the highest position in the plan's order.
        last_start_ns: the last start of a move.
        last_end_ns: the last end of a move.
        first_steady_ns: the first start after the warm-up; None if no move is after it.
        flags: whether the rows' warm-up marks contradict run.json.
        least_rank: the lowest rank of a row.
        most_rank: the highest rank of a row.
        late_tokens: new tokens of rows that are not the first of their op.
        oversized: whether a row has more bytes than its tokens.
        checked_reads: reads from the cpu and nvme tiers that could be verified.
        check_ns: the time spent verifying them.
        sampled_ns: the end of the last sample of the counters; None without samples.
    """

    worker: int
    hidden_errors: int
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
    """Turn errors of Polars within the context into one sentence.

    Args:
        place: the run directory.

    Raises:
        InputError: the log cannot be read, or has a word that no replay writes.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise _explain(place, parts(place), error) from None


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
        InputError: the log cannot be read, or has rows that no replay writes.
    """
    # Columns that no metric uses are scanned, not kept in memory.
    rest = pl.scan_parquet(files, glob=False).select(
        worker=pl.col("worker").max(),
        hidden_errors=((pl.col("status") != "error") & pl.col("error").is_not_null()).sum(),
        last_op=pl.col("op_id").max(),
        other_least=pl.min_horizontal(pl.col("op_id", "key", "worker").min()),
        other_nulls=pl.sum_horizontal(pl.col("op_id", "key", "worker").null_count()),
    )
    with explain_unreadable(place):
        facts = rest.collect(engine="streaming").row(0, named=True)
    facts |= cells.select(**_facts(info), **_impossible_rows(info)).row(0, named=True)
    impossible = {
        "numbers that are negative or too large": (facts.pop("other_least") or 0) < 0,
        "nulls where a replay leaves none": facts.pop("other_nulls"),
    }
    for name in _impossible_rows(info):
        if facts.pop(name) or impossible.get(name):
            problem = f"its log holds {name}: it was altered or damaged"
            raise InputError(problem, "copy the run again", subject=place)
    return None if facts["last_position"] is None else LogFacts(**facts, sampled_ns=sampled_ns)


def _impossible_rows(info: RunInfo) -> dict[str, pl.Expr]:
    """Return tests for rows that no replay writes, by description."""
    shapes = [pl.col("move").is_in(moves) & ~shape for moves, shape in _SHAPE.items()]
    times = [pl.col("least_time_ns").min()]
    if not info.conditions.gds:  # cuFile's clock differs from the host's, and from a GPU's
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
        "oversized": (pl.col("most_bytes") > _most_bytes_per_token(info)).any(),
        "checked_reads": pl.col("rows").filter(kept & stored).sum(),
        "check_ns": pl.col("verify_ns").filter(kept & stored).sum(),
    }


def _most_bytes_per_token(info: RunInfo) -> int:
    """Return the bytes of an object of one token; larger objects have at most as many per token."""
    conditions = info.conditions
    return conditions.bytes_per_token + (conditions.state_bytes_per_object or 0)


def _explain(place: Path, files: list[Path], error: Exception) -> InputError:
    """Return an error that names a word which no replay writes; else the first line of Polars' error."""
    for name, known in LOG_ENUMS.items():
        try:
            words = scan(files).select(pl.col(name).cast(pl.String).unique()).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            break
        if unknown := sorted(set(words[name].drop_nulls()) - set(known)):
            problem = f"its log has {name} = {unknown[0]!r}; it must be one of {', '.join(known)}"
            return InputError(problem, subject=place)
    reason = (str(error).strip().splitlines() or ["?"])[0]
    return InputError(f"its log cannot be read ({reason})", "copy the run again", subject=place)


def find_contradictions(infos: list[RunInfo], facts: list[LogFacts | None], counted: dict[str, int]) -> Iterator[Doubt]:
    """Yield a doubt for each contradiction in a run whose status is complete.

    Args:
        infos: run.json of each rank.
        facts: the figures of each rank's log (`examine`).
        counted: `tally` of all logs together, without rows beyond executed_ops.
    """
    complete = [(info, log_facts) for info, log_facts in zip(infos, facts, strict=True) if info.status == "complete"]
    texts = []
    for info, log_facts in complete:
        if log_facts is not None:  # a rank may have had nothing to do; `_compare_counts` checks that it had not
            texts += [*_compare_rows(info, log_facts), *_compare_times(info, log_facts)]
        texts += _compare_info(info)
    if len(complete) == len(infos):
        texts += [*_compare_counts(infos, counted), *_compare_tokens(infos, counted["new_tokens"])]
    for text in dict.fromkeys(texts):
        yield Doubt("altered log", text, "copy the run again, or replay it", invalidates=True)


def _compare_rows(info: RunInfo, facts: LogFacts) -> Iterator[str]:
    """Compare the rows of one log with its run.json."""
    conditions = info.conditions
    rank = info.rank or 0
    if (facts.least_rank, facts.most_rank) != (rank, rank):
        other = facts.most_rank if facts.most_rank != rank else facts.least_rank
        yield f"rows of rank {other} are in the log of rank {rank}"
    if facts.worker >= conditions.workers:
        yield f"worker {facts.worker} made moves, but there were {conditions.workers} workers"
    # A run that was cut may have begun ops beyond its prefix.
    if info.cut_s is None and info.executed_ops is not None and facts.last_position >= info.executed_ops:
        yield f"the log goes on to op {facts.last_position:,}, run.json says that {info.executed_ops:,} were executed"
    if info.trace.ops is not None and facts.last_op >= info.trace.ops * (conditions.cycles or 1):
        yield f"the log has an op {facts.last_op:,}, but the trace does not"
    if facts.hidden_errors:
        yield f"{facts.hidden_errors:,} rows name an error, but their status is not error"
    if facts.late_tokens:
        yield "tokens are counted with moves that are not the first of their op"
    if facts.oversized and not has_chunks(conditions):
        yield "rows moved more bytes than their tokens have"
    is_measured = info.prediction is None  # a profile may say that checking takes no time
    if is_measured and conditions.verify != "off" and facts.checked_reads and not facts.check_ns:
        yield f"run.json says verify {conditions.verify}, but no read took any time to verify"


def _compare_times(info: RunInfo, facts: LogFacts) -> Iterator[str]:
    """Compare the times of one log with its run.json."""
    yield from _compare_warmup(info, facts)
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


def _compare_warmup(info: RunInfo, facts: LogFacts) -> Iterator[str]:
    """Compare the warm-up of one log with its run.json, and run.json with the conditions."""
    warmup = info.warmup
    asked = info.conditions.warmup
    if warmup is None:
        return
    if facts.flags:
        yield "rows are marked as warm-up at other places than run.json says"
    if asked is not None and not asked.s:
        ops = asked.ops or 0
        if (warmup.ops or 0) != ops:
            yield f"run.json says that {warmup.ops:,} ops were warm-up, but {ops:,} were asked for"
    if (warmup.end_ns or 0) != (facts.first_steady_ns or 0):
        yield "the warm-up did not end at the time that run.json names"


def _compare_info(info: RunInfo) -> Iterator[str]:
    """Compare a run.json with itself.

    A complete run executed its plan or the ops asked for, or was cut at its time limit.
    """
    plan = info.plan
    executed = info.executed
    conditions = info.conditions
    if info.window is not None and info.window.duration_s != conditions.duration_s:
        yield "run.json names two durations"
    if info.cut_s is not None:
        if conditions.duration_s is None or info.cut_s < conditions.duration_s:
            yield f"run.json says that the run was cut after {info.cut_s:.3f} s, not at the duration that was asked for"
        return
    if conditions.ops is not None and plan is not None and conditions.ops < plan.ops:
        if executed is not None and executed.ops != conditions.ops:
            yield f"run.json says that the run ended after {conditions.ops:,} ops, but counts {executed.ops:,}"
        return
    if len({info.plan_fingerprint, info.executed_fingerprint} - {None}) > 1:
        yield "run.json says that the whole plan was executed, but names another fingerprint than the plan's"
    planned = flatten_totals(plan)
    if executed is not None and any(
        planned.get(name, count) != count for name, count in flatten_totals(executed).items()
    ):
        yield "run.json says that the whole plan was executed, but counts other work than the plan's"
    yield from _compare_executed_ops(info)


def _compare_executed_ops(info: RunInfo) -> Iterator[str]:
    """Compare executed_ops with the ops of the trace and of the plan."""
    if info.trace.ops is None or info.executed_ops is None:
        return
    ops = info.trace.ops * (info.conditions.cycles or 1)
    ends = {ops}
    if kind_of(info.conditions) != "trace" and info.plan is not None:
        ends.add(info.plan.ops)
    if info.executed_ops not in ends:
        yield f"run.json says that the whole plan was executed, but names {info.executed_ops:,} ops of {ops:,}"


def _compare_counts(infos: list[RunInfo], counted: dict[str, int]) -> Iterator[str]:
    """Compare the counts of the log with those of what was executed."""
    executed = [flatten_totals(info.executed or info.plan) for info in infos]
    if any(has_chunks(info.conditions) for info in infos):  # a log does not say what its hits lack
        for one in executed:
            one.pop("recomputed_tokens", None)
    for name, count in counted.items():
        if all(name in plan for plan in executed) and count != (planned := sum(plan[name] for plan in executed)):
            yield f"the log has {name} = {count:,}, the plan {planned:,}: parts are missing or altered"


def _compare_tokens(infos: list[RunInfo], counted: int) -> Iterator[str]:
    """Compare the generated tokens of the log with the trace's; a part of a trace does not name them."""
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
