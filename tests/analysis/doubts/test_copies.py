"""Checks of runs whose tiers hold copies: honest ones are valid, and rows that cannot be are found."""

from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

from analysis.doubts.every_row import check_rows, count_early_moves
from replayer.arrangements.arrangement import Arrangement, TierRules
from replayer.schema import read_run
from tests.replayer.run.replays import ORDERS, go, options
from tests.support import traces
from tests.support.doubts import call
from tracegen.schema import Trace

WRITE_THROUGH: Final = Arrangement(
    "through", copies="inclusive", cpu=TierRules(high=0.9, low=0.5), nvme=TierRules(down="on-store", up="copy")
)
WAYS: Final[dict[str, tuple[str, Arrangement]]] = {
    "copied when stored, watermarks": ("reference", WRITE_THROUGH),
    "the same, placed live": ("live", WRITE_THROUGH),
    "copied when touched": (
        "trace",
        Arrangement("touch", copies="inclusive", nvme=TierRules(down="on-touch", up="copy-top")),
    ),
    "chunks": (
        "reference",
        Arrangement("chunks", copies="inclusive", chunk_tokens=2, nvme=TierRules(down="on-store", up="copy")),
    ),
    "chunks with tails": ("trace", Arrangement("tails", chunk_tokens=3, tail="keep", unsaved_tokens=1)),
}


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """20 requests, each of which reads what some before it wrote."""
    steps, requests = list[traces.Step](), list[int]()
    for request in range(20):
        earlier = [("r", key, 1 + key % 5) for key in range(max(0, request - 4), request)]
        ops: list[traces.Step] = [*earlier, ("w", request, 1 + request % 5), ("d", request, 1 + request % 5)]
        steps += ops
        requests += [request] * len(ops)
    return traces.write(tmp_path / "trace.parquet", traces.columns(steps, requests))


def replayed(trace: Trace, place: Path, arrangement: Arrangement, order: str = "trace") -> dict[str, Any]:
    info, _ = go(trace, place, options(8, 40, arrangement=arrangement, order=ORDERS[order]), layout="files")
    assert info["status"] == "complete"
    return info


@pytest.mark.parametrize("way", WAYS)
def test_an_honest_run_is_what_its_trace_gives(trace: Trace, tmp_path: Path, way: str) -> None:
    order, arrangement = WAYS[way]
    replayed(trace, tmp_path, arrangement, order)
    stdout = call("check", tmp_path / "run", "--trace", trace.path).stdout
    assert "altered log" not in stdout
    assert not list(check_rows(tmp_path / "run", read_run(tmp_path / "run")))


def test_the_summary_names_the_arrangement(trace: Trace, tmp_path: Path) -> None:
    replayed(trace, tmp_path, WRITE_THROUGH)
    assert ", arrangement through (inclusive, rules in run.json)" in call("summary", tmp_path / "run").stdout


def row(
    position: int, seq: int, move: str, tiers: tuple[str | None, str | None], start: int, end: int
) -> dict[str, Any]:
    source, target = tiers
    return {
        "position": position, "seq": seq, "key": 5, "move": move, "status": "ok", "from_tier": source, "to_tier": target,
        "start_ns": start, "end_ns": end, "verify_ns": 0,
    }  # fmt: skip


SLOW_COPY: Final = [
    row(0, 0, "store", (None, "cpu"), 0, 10),
    row(0, 1, "copy", ("cpu", "nvme"), 10, 100),
    row(1, 0, "hit", ("cpu", None), 20, 30),
    row(2, 0, "hit", ("nvme", None), 100, 120),
    row(2, 1, "store", (None, "gpu"), 120, 130),
    row(3, 0, "drop", ("cpu", None), 100, 100),
    row(4, 0, "demote", ("gpu", "cpu"), 130, 140),
]
TOO_EARLY: Final = {
    "a copy before the store of what it reads": (1, 9),
    "a hit before its copy is there": (3, 99),
    "a store before what it stores is read": (4, 119),
    "a drop while its copy is read": (5, 99),
    "a demotion before what it reads is there": (6, 129),
}


def test_a_read_of_one_copy_may_begin_while_another_is_written() -> None:
    rows = pl.LazyFrame(SLOW_COPY)
    assert count_early_moves(rows, inclusive=True) == 0
    assert count_early_moves(rows, inclusive=False) > 0, "of an object that one tier alone may hold"


@pytest.mark.parametrize("what", TOO_EARLY)
def test_a_move_that_begins_too_early_is_counted(what: str) -> None:
    which, start = TOO_EARLY[what]
    rows = [line | {"start_ns": start} if number == which else line for number, line in enumerate(SLOW_COPY)]
    assert count_early_moves(pl.LazyFrame(rows), inclusive=True) == 1
