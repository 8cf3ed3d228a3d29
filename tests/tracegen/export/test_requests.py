"""Mooncake and kvcache-simulator requests, read back and replayed by the simulator."""

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from replayer.models.geometry import TokenBytes
from replayer.planning.counts import PlanCounts
from replayer.planning.moves import HIT
from replayer.planning.plan import Plan, PlanOptions
from tests.support import traces
from tests.support.imports import EXCERPT, imported
from tests.tracegen.export.exports import _sized, export_trace, requests_of
from tracegen.errors import InputError
from tracegen.schema import Trace


@pytest.mark.parametrize("format_", ["mooncake", "kvcache-simulator"])
def test_requests_record_by_record(
    format_: str, office: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trace, "batches", lambda self, size=0, more=(): _sized(self, 199))
    counts = export_trace(format_, office, tmp_path / "t.jsonl")
    found = [json.loads(line, parse_float=Decimal) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    if format_ == "mooncake":
        assert found.pop(0) == {"block_size": 64}, "a header, as its blocks are not of 512 tokens"
    wanted = requests_of(office)
    assert counts["requests"] == len(found) == len(wanted) == 80
    assert counts["blocks"] == sum(len(one["keys"]) for one in wanted)
    several = {one["session_id"] for one in wanted if one["turn"] > 1}
    for row, one in zip(found, wanted, strict=True):
        same = {"input_length": one["prompt"], "output_length": one["generated"], "hash_ids": one["keys"]}
        if format_ == "kvcache-simulator":
            same["block_size"] = 64
        else:
            same["timestamp"] = Decimal(one["time_ns"]) / 10**6
            same |= {"session_id": f"s{one['session_id']}"} if one["session_id"] in several else {}
            same |= {"delay": Decimal(one["think_ns"]) / 10**6} if one["turn"] > 1 else {}
        assert row == same


def test_an_interleaved_prefill_is_refused(tmp_path: Path) -> None:
    batch = traces.columns([("w", 0, 8), ("w", 1, 8), ("w", 2, 8)], requests=[0, 1, 0], step=[0, 0, 1])
    trace = traces.write(tmp_path / "t.parquet", batch, block_tokens=8)
    with pytest.raises(InputError, match="row 2: the prefill of request 0 continues"):
        export_trace("mooncake", trace, tmp_path / "o")
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_kvcache_simulators_own_lru_agrees_with_our_plan(blocks: Trace, tmp_path: Path) -> None:
    """It counts the tokens of the longest cached prefix over all prompt tokens, in the last half of the requests."""
    pytest.importorskip("kvcache_sim")
    path, capacities = tmp_path / "t.jsonl", (1024, 2048, 4096)
    trace = imported("mooncake", EXCERPT, tmp_path / "t.parquet")
    export_trace("kvcache-simulator", trace, path)
    # A block of 512 tokens of this model is 64 MiB.
    budgets = ",".join(str(blocks // 16) for blocks in capacities)
    command = ["--trace", path, "--model", "llama-3.1-8b", "--backend", "python", "--policies", "lru"]
    module = [sys.executable, "-m", "kvcache_sim", "run", *command, "--format", "json", "--budgets-gib", budgets]
    done = json.loads(subprocess.run(module, check=True, capture_output=True, text=True).stdout)
    assert done["metadata"]["uniqueBlocks"] == trace.metadata.counts["keys"]
    for point, capacity in zip(done["points"], capacities, strict=True):
        theirs = point["results"]["lru"]
        ours = hits_of_last_half(blocks, trace, capacity) / theirs["totalTokens"]
        assert theirs["hitRate"] == pytest.approx(ours, abs=0.002)


def hits_of_last_half(blocks: Trace, trace: Trace, capacity: int) -> int:
    """Count the tokens that our plan of equal blocks hits in the last half."""
    room = Decimal(capacity) * 512 * 2048 / 2**30
    plan = Plan(blocks, PlanOptions(TokenBytes(2048), (Decimal(0), Decimal(0), room)))
    of = traces.joined(list(trace.batches()))
    late = of["request_id"] >= trace.metadata.counts["requests"] // 2
    moved = [PlanCounts(plan.workload).list_moves(part) for part in plan.planner().stretches()]
    hits = np.concatenate([rows[rows[:, 2] == HIT, 0] for rows in moved])
    return int(of["tokens"][hits[late[hits]]].sum())
