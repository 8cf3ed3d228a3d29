"""Checks of runs whose tiers hold copies: honest ones are valid, and rows that cannot be are found."""

from pathlib import Path
from typing import Any, Final

import pytest

from analysis.doubts import against_trace
from replayer.arrangements.arrangement import Arrangement, TierRules
from tests.replayer.run.replays import ORDERS, go, options
from tests.support import traces
from tests.support.command_line import child_here
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
def test_an_honest_run_is_what_its_trace_gives(
    trace: Trace, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(against_trace, "run_child", child_here)
    order, arrangement = WAYS[way]
    replayed(trace, tmp_path, arrangement, order)
    assert "altered log" not in call("check", tmp_path / "run", "--trace", trace.path).stdout
