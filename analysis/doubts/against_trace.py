"""Comparison of a run's rows with its plan, which another process makes again from the trace."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import polars as pl
from polars import col

from analysis.doubts.integrity import make_doubts
from analysis.runs.plan_order import kind_of
from analysis.runs.reading import explain_unreadable, scan
from analysis.runs.run import Doubt
from replayer.schema import LOG_ENUMS, MOVES, PLANNED_COLUMNS, PlanInfo, RunInfo, parts
from tracegen.errors import InputError
from tracegen.schema import Trace

STRETCH: Final = 1 << 22  # positions compared at once
MOST_OPS: Final = 1 << 27  # of a plan that is made again: 5 GB of memory and some minutes
AT: Final = ("position", "seq")


def run_child(*command: object, subject: str, timeout_s: float | None = None) -> str:
    """Run a command of this tool in a process of its own, and return its output.

    Raises:
        InputError: the command failed, or exceeded the time limit.
    """
    words = [sys.executable, "-P", "-m", *map(str, command)]
    try:
        process = subprocess.run(words, check=False, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        problem = f"it took more than {timeout_s:g} s"
        raise InputError(problem, "check the run together with its trace", subject=subject) from None
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"it ended with {process.returncode}"]
        raise InputError(lines[-1].removeprefix("Error: ").removesuffix("."), subject=subject)
    return process.stdout


def plan_anew(trace: Path, place: Path, info: RunInfo, moves: Path) -> PlanInfo:
    """Plan a trace under the conditions of a run.

    Raises:
        InputError: the run replayed another trace, or its conditions cannot be planned.
    """
    opened = Trace(trace)
    if (has := opened.metadata.fingerprint) != (wanted := info.trace.fingerprint):
        problem = f"replayed the trace {wanted[:12]}…, but {trace} is {has[:12]}…"
        raise InputError(problem, "name the trace of the run", subject=place)
    ops = opened.ops * (info.conditions.cycles or 1)
    if ops > MOST_OPS:
        raise InputError(f"its plan has {ops:,} ops; at most {MOST_OPS:,} can be planned again", subject=place)
    words = ("replayer", "plan", trace, "--like", place, "--moves", moves, "--json")
    return msgspec.json.decode(run_child(*words, subject=f"{place}: its plan"), type=PlanInfo)


def has_plan(info: RunInfo) -> bool:
    """Return whether trace and conditions determine the plan; else a run has its own order."""
    return kind_of(info.conditions) in ("trace", "reference")


class Plans:
    """Plans that are made again in a folder, one at a time: runs that share one come after one another.

    Args:
        folder: the folder for the moves of a plan, which may be gigabytes.
    """

    def __init__(self, folder: Path) -> None:
        self._moves = folder / "moves.parquet"
        self._key = ("", "")
        self._fingerprint: str | None = None

    def find_deviations(self, trace: Path, place: Path, info: RunInfo) -> Iterator[Doubt]:
        """Yield a doubt for each difference between the run of one process and its trace.

        Raises:
            InputError: as `plan_anew`; or the log cannot be read.
        """
        expected, claimed = self._plan(trace, place, info), info.plan_fingerprint
        texts = [*_compare_rows(place, info, self._moves)]
        # The plan of a live run, or in the order of another run, follows from its rows alone.
        if has_plan(info) and claimed not in (None, expected):
            texts.append(f"run.json of {place} names the plan {claimed[:12]}…, its trace gives {str(expected)[:12]}…")
        yield from make_doubts(texts)

    def _plan(self, trace: Path, place: Path, info: RunInfo) -> str | None:
        """Make the plan of a run, unless the run before claims the same one; return its fingerprint."""
        key = (info.trace.fingerprint, (has_plan(info) and info.plan_fingerprint) or str(place))
        if key != self._key:
            self._moves.unlink(missing_ok=True)
            self._fingerprint = plan_anew(trace, place, info, self._moves).plan_fingerprint
            self._key = key
        return self._fingerprint


def _compare_rows(place: Path, info: RunInfo, plan: Path) -> Iterator[str]:
    """Compare every row with the plan; every move below executed_ops must be a row."""
    differences = Counter[str]()
    with explain_unreadable(place):
        for rows, moves in _stretches(place, info, plan):
            differences.update(_count_strange_rows(rows, moves, plan))
            due = moves.filter(col("position") < (info.executed_ops or 0))
            differences["missing moves"] += due.join(rows, on=AT, how="anti").height
    phrases = {name: f"{{:,}} rows have another {name}" for name in _VALUES} | _DIFFERENCES
    findings = [phrase.format(differences[name]) for name, phrase in phrases.items() if differences[name]]
    if findings:
        own_order = "" if has_plan(info) else ", in the order of its own log"
        yield f"the rows of {place} are not the plan of its trace{own_order}: {'; '.join(findings)}"


_VALUES: Final = tuple(name for name in PLANNED_COLUMNS if name not in AT)
_DIFFERENCES: Final = {
    "unknown rows": "{:,} rows are not a move of it",
    "repeated rows": "{:,} rows are there twice",
    "missing moves": "{:,} of its moves are missing",
}
_PLANNED: Final = " of the plan"
# Moves that a request's next step waits for.
#
# An eviction may run before its op is due, to make room for another op.
_OF_REQUESTS: Final = col("move").is_in([MOVES.index(move) for move in ("hit", "promote", "store")])


# Columns in which rows differ from the plan if two ops traded places (docs/ordering.md).
_OF_REQUEST: Final = ("request_id", "session_id", "user_id", "turn", "step", "qos", "source")


def _count_strange_rows(rows: pl.DataFrame, moves: pl.DataFrame, plan: Path) -> dict[str, int]:
    """Count rows that differ from the plan by column, that it lacks, and that are repeated."""
    both = rows.join(moves, on=AT, how="left", suffix=_PLANNED)
    known = both.filter(col(f"op_id{_PLANNED}").is_not_null())
    own = known.join(_find_trades(known, moves, plan), on=AT, how="anti")  # of no other request
    unlike = {}
    for name in _VALUES:
        compared = own if name in _OF_REQUEST else known
        unlike[name] = compared.select(col(name).ne_missing(col(name + _PLANNED)).sum()).item()
    return unlike | {
        "unknown rows": both.height - known.height,
        "repeated rows": rows.height - rows.select(pl.struct(AT).n_unique()).item(),
    }


def _find_trades(rows: pl.DataFrame, moves: pl.DataFrame, plan: Path) -> pl.DataFrame:
    """Return the rows made for another op of the plan on the same object, its `key`."""
    own = moves.filter(_OF_REQUESTS).group_by("position").agg(col("key").last())
    differs = pl.any_horizontal(col(name) != col(name + _PLANNED) for name in _OF_REQUEST)
    strange = rows.filter(differs).drop("key").join(own, on="position").select(*AT, *_OF_REQUEST, "key")
    keys = strange["key"].unique().implode()
    sharing = pl.scan_parquet(plan, glob=False).filter(col("key").is_in(keys)).select(*_OF_REQUEST, "key")
    others = sharing.with_columns(_encode(name) for name in ("qos", "source")).unique()
    if strange.is_empty():
        return strange  # most logs, for which the plan need not be read once more
    return strange.join(others.collect(engine="streaming"), on=(*_OF_REQUEST, "key"), how="semi")


def _encode(name: str) -> pl.Expr:
    return col(name).cast(pl.String).cast(pl.Enum(LOG_ENUMS[name])).to_physical()


def _stretches(place: Path, info: RunInfo, moves: Path) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield rows and planned moves of STRETCH positions at a time, with enums as codes."""
    codes = [_encode(name) for name in PLANNED_COLUMNS if name in LOG_ENUMS]
    executed = col("position") < (info.executed_ops or 0)
    # Ops that a log lacks have no order.
    log = scan(parts(place)).filter(pl.lit(True) if has_plan(info) else executed)
    rows, planned = (
        table.select(PLANNED_COLUMNS).with_columns(codes) for table in (log, pl.scan_parquet(moves, glob=False))
    )
    stretch_of = col("position") // STRETCH
    numbers = pl.concat([rows.select(stretch_of.unique()), planned.filter(executed).select(stretch_of.unique())])
    for number in numbers.collect(engine="streaming")["position"].unique().sort():
        is_in_stretch = stretch_of == number
        yield (
            rows.filter(is_in_stretch).collect(engine="streaming"),
            planned.filter(is_in_stretch).collect(engine="streaming"),
        )
