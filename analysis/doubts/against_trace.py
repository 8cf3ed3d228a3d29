"""A run's rows against its plan, made anew from its trace by a replayer of its own process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec
import polars as pl

from analysis.doubts.doubt import Doubt
from analysis.doubts.integrity import explain_unreadable, flatten_totals
from analysis.log.log import scan
from analysis.log.plan_order import kind_of
from replayer.schema import LOG_ENUMS, MOVES, PLANNED_COLUMNS, PlanInfo, RunInfo, parts, to_plain
from tracegen.errors import InputError
from tracegen.schema import Trace

STRETCH: Final = 1 << 22  # positions compared at once
MOST_OPS: Final = 1 << 27  # of a plan that is made anew: 5 GB of memory and some minutes
AT: Final = ("position", "seq")
SAID: Final = ("seed", "counts", "block_tokens", "prefix_chained")
"""What a trace says of itself and run.json repeats, whichever release made it."""

EXECUTED: Final = frozenset({
    "ranks", "placement", "duration_s", "drain_s", "ops", "warmup", "precondition_gib", "layout", "direct", "io_bytes",
    "io_depth", "io_engine", "fsync", "verify", "gpu_device", "gpu_read", "gds", "throttle", "window_ops",
    "window_bytes",
})  # fmt: skip
"""Conditions that no plan follows from."""


@dataclass(frozen=True)
class Planned:
    """A plan that was made anew.

    Attributes:
        counts: what `replayer plan --json` says of it.
        moves: the file of its moves.
    """

    counts: PlanInfo
    moves: Path


def run_child(*command: object, what: str, timeout_s: float | None = None) -> str:
    """What a command of this tool prints, in a process of its own.

    Raises:
        InputError: it failed, or took too long; `what` names the matter.
    """
    words = [sys.executable, "-P", "-m", *map(str, command)]
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise InputError(f"{what}: it took more than {timeout_s:g} s; check the run beside its trace.") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise InputError(f"{what}: {lines[-1].removeprefix('Error: ').removesuffix('.')}.")
    return done.stdout


def plan_anew(trace: Path, place: Path, info: RunInfo, moves: Path) -> Planned:
    """Plan a trace as a run of it was planned.

    Args:
        trace: the run's.
        place: the run's directory.
        info: its run.json.
        moves: a file that is yet to be made.

    Raises:
        InputError: the conditions of the run cannot be planned, or not for this trace.
    """
    opened = Trace(trace)
    if (has := opened.metadata.fingerprint) != (wanted := info.trace.fingerprint):
        raise InputError(f"{place} replayed the trace {wanted[:12]}…, {trace} is {has[:12]}…; name its own.")
    ops = opened.ops * (info.conditions.cycles or 1)
    if ops > MOST_OPS:
        raise InputError(f"{place}: its plan of {ops:,} ops is not made anew, {MOST_OPS:,} are the most.")
    told = run_child("replayer", "plan", trace, "--like", place, "--moves", moves, "--json", what=f"{place}: its plan")
    return Planned(msgspec.json.decode(told, type=PlanInfo), moves)


def identify_plan(info: RunInfo) -> str:
    """What the plan of a run follows from, to tell which runs have one plan."""
    conditions = {name: value for name, value in to_plain(info.conditions).items() if name not in EXECUTED}
    return json.dumps([info.trace.fingerprint, conditions], sort_keys=True)


def has_plan(info: RunInfo) -> bool:
    """Whether its plan follows from trace and conditions; else the order of its ops is its own."""
    return kind_of(info.conditions) in ("trace", "reference")


def find_deviations(place: Path, info: RunInfo, trace: Trace, planned: Planned) -> Iterator[Doubt]:
    """Where a run is not that of its trace."""
    for text in (*_of_trace(place, info, trace), *_of_plan(place, info, planned), *_of_rows(place, info, planned)):
        yield Doubt("altered log", text, "copy the run anew, or replay it", invalidates=True)


def _of_trace(place: Path, info: RunInfo, trace: Trace) -> Iterator[str]:
    actual = json.loads(json.dumps(asdict(trace.metadata))) | {"ops": trace.ops}
    claimed = {name: getattr(info.trace, name) for name in ("ops", *SAID)}
    unlike = [name for name, value in claimed.items() if value is not None and value != actual.get(name)]
    if unlike:
        yield f"run.json of {place} says of its trace what that does not: {', '.join(unlike)}"


def _of_plan(place: Path, info: RunInfo, planned: Planned) -> Iterator[str]:
    """The whole plan that run.json names; that of a live run, or in a run's order, is what its rows say."""
    if not has_plan(info):
        return
    wanted, said = str(planned.counts.plan_fingerprint), info.plan_fingerprint
    if said is not None and said != wanted:
        yield f"run.json of {place} names the plan {said[:12]}…, its trace gives {wanted[:12]}…"
    counts = flatten_totals(planned.counts)
    unlike = [name for name, count in flatten_totals(info.plan).items() if counts.get(name, count) != count]
    if unlike:
        yield f"run.json of {place} counts other work than the plan of its trace: {', '.join(unlike)}"


def _of_rows(place: Path, info: RunInfo, planned: Planned) -> Iterator[str]:
    """Every row is a move of the plan; every move below executed_ops is a row."""
    values = [name for name in PLANNED_COLUMNS if name not in AT]
    unlike, strange, twice, missing, skipped = dict.fromkeys(values, 0), 0, 0, 0, 0
    executed_ops = info.executed_ops or 0
    with explain_unreadable(place):
        for rows, moves in _stretches(place, info, planned.moves):
            both = rows.join(moves, on=AT, how="left", suffix=_PLANNED)
            known = both.filter(pl.col(f"op_id{_PLANNED}").is_not_null())
            strange += both.height - known.height
            twice += rows.height - rows.select(pl.struct(AT).n_unique()).item()
            gone = moves.join(rows, on=AT, how="anti")
            missing += gone.filter(pl.col("position") < executed_ops).height
            reached = rows.filter(_OF_REQUESTS).group_by("request_id").agg(reached=pl.col("step").max())
            passed = gone.filter(_OF_REQUESTS).join(reached, on="request_id")
            skipped += passed.filter(pl.col("step") < pl.col("reached")).height
            counts = known.select((pl.col(name).ne_missing(pl.col(name + _PLANNED))).sum() for name in values)
            unlike = {name: unlike[name] + count for name, count in counts.row(0, named=True).items()}
    found = [f"{count:,} rows have another {name}" for name, count in unlike.items() if count]
    found += [f"{strange:,} rows are no move of it"] if strange else []
    found += [f"{twice:,} rows are there twice"] if twice else []
    found += [f"{missing:,} of its moves are missing"] if missing else []
    found += [f"{skipped:,} moves are missing that later steps of their requests waited for"] if skipped else []
    if found:
        beyond = "" if has_plan(info) else ", in the order of its own log"
        yield f"the rows of {place} are not the plan of its trace{beyond}: {'; '.join(found)}"


_PLANNED: Final = " of the plan"
_OF_REQUESTS: Final = pl.col("move").is_in([MOVES.index(move) for move in ("hit", "promote", "store")])
"""Moves that a request's next step waits for. An eviction may run before its op is due, for another op's room."""


def _stretches(place: Path, info: RunInfo, moves: Path) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Rows and planned moves of some positions at a time; enums as codes."""
    codes = [
        pl.col(name).cast(pl.String).cast(pl.Enum(LOG_ENUMS[name])).to_physical()
        for name in PLANNED_COLUMNS
        if name in LOG_ENUMS
    ]
    executed = pl.col("position") < (info.executed_ops or 0)
    rows = scan(parts(place)).filter(pl.lit(True) if has_plan(info) else executed)  # what a log lacks has no order
    sides = [side.select(PLANNED_COLUMNS).with_columns(codes) for side in (rows, pl.scan_parquet(moves, glob=False))]
    stretch_of = pl.col("position") // STRETCH
    asked = [side.select(stretch_of.unique()) for side in (sides[0], sides[1].filter(executed))]
    for stretch in pl.concat(asked).collect(engine="streaming")["position"].unique().sort():
        some = (side.filter(stretch_of == stretch).collect(engine="streaming") for side in sides)
        yield next(some), next(some)
