"""The decode filter against the oracle."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import replayer
from replayer.models.geometry import TokenBytes
from replayer.planning import workload
from replayer.planning.plan import Plan, PlanOptions  # fmt: skip
from replayer.planning.trace_selection import Selection
from tests.support import traces
from tests.support.imports import imported
from tracegen.generate import generate
from tracegen.recipes.loading import find_recipe, load_recipe
from tracegen.schema import DECODE, ENUMS, READ, Columns, Trace


def decode_filter(ops: Sequence[dict[str, Any]], mode: str) -> list[dict[str, Any]]:
    """The ops that `--decode mode` keeps; new_tokens of the others move to an op of their request that is kept."""
    if mode == "reread":
        return [dict(op) for op in ops]
    kept: list[dict[str, Any]] = []
    left_out: dict[int, int] = {}  # request -> new_tokens
    target: dict[int, dict[str, Any]] = {}  # request -> its decode read that is kept, else its last op that is
    decoding: set[int] = set()
    for op in ops:
        request = op["request_id"]
        is_decode = op["op"] == "read" and op["phase"] == "decode"
        if is_decode and (mode == "none" or request in decoding):
            left_out[request] = left_out.get(request, 0) + op["new_tokens"]
            continue
        kept.append(dict(op))
        if request not in decoding:
            target[request] = kept[-1]
        if is_decode:
            decoding.add(request)
    for request, tokens in left_out.items():
        if request in target:
            target[request]["new_tokens"] += tokens
    return kept


@given(
    st.lists(st.tuples(st.sampled_from("wrrdddd"), st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=40),
    st.sampled_from(["reread", "once", "none"]),
    st.integers(1, 50),
)
def test_decode_filter_as_the_oracle(picks: list[tuple[str, int, int]], mode: Any, size: int) -> None:
    steps = [("w" if i == 0 else "r" if op == "w" else op, 0, 5) for i, (op, _, _) in enumerate(picks)]
    dense: dict[int, int] = {}
    requests = [dense.setdefault(request, len(dense)) for _, request, _ in picks]
    batch = traces.columns(steps, requests, new_tokens=[n for _, _, n in picks])
    found = taken(batch, Selection(mode), size)
    names = ("op_id", "op", "phase", "request_id", "new_tokens")
    columns = [[ENUMS[n][c] for c in batch[n]] if n in ENUMS else batch[n].tolist() for n in names]
    kept = decode_filter([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)], mode)
    assert found == [(op["op_id"], op["new_tokens"]) for op in kept]


def taken(batch: Columns, selection: Selection, size: int) -> list[tuple[int, int]]:
    """(op_id, new_tokens) of the ops that a workload has, read `size` rows of the trace at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload, "BATCH_OPS", size)
        options = PlanOptions(TokenBytes(1), (Decimal(0), Decimal(0), None), selection=selection)
        ops = Plan(traces.Held(batch), options).workload
    return list(zip(ops.op_ids().tolist(), ops._op["new_tokens"].tolist(), strict=True))


LINES = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n1,Write,64,Tier-2,a,Prefill\n2,Read,64,Tier-2,a,Decode\n"


def planned(trace: Trace, **settings: Any) -> tuple[int, int]:
    """How many decode reads the trace has, and how many of its ops a plan leaves out."""
    count = sum(int(((batch["phase"] == DECODE) & (batch["op"] == READ)).sum()) for batch in trace.batches())
    found = replayer.plan(trace, model="tiny-1b", order="trace", **settings)
    return count, trace.ops - found.summary.ops


@pytest.mark.parametrize(
    ("recipe", "changes", "is_replayed"),
    [
        ("chat", {}, False),
        ("chat", {"decode_reads": True}, True),
        ("chat", {"decode_reads": True, "replay.decode": "once"}, None),
        ("mlperf_option_1", {}, True),
        ("mlperf_proposal_8b", {}, True),
        ("smoke", {}, True),
    ],
)
def test_decode_reads_are_replayed_where_the_trace_says_so(
    recipe: str, changes: dict[str, Any], is_replayed: bool | None, tmp_path: Path
) -> None:
    made = tmp_path / "t.parquet"
    generate(load_recipe(find_recipe(recipe), changes | {"users": 2, "requests": 6}), made)
    count, left_out = planned(Trace(made))
    assert count
    assert left_out == {True: 0, False: count, None: count - 6}[is_replayed]
    assert planned(Trace(made), decode="none")[1] == count
    assert planned(Trace(made), decode="reread")[1] == 0


def test_imports_say_whether_their_decode_reads_are_replayed(tmp_path: Path) -> None:
    """kv-cache.py's I/O logs have them; of lengths they are made up, and replayed only if asked for."""
    (tmp_path / "log.csv").write_text(LINES)
    assert planned(imported("mlcommons", tmp_path / "log.csv", tmp_path / "a.parquet", bytes_per_token=1)) == (1, 0)
    (tmp_path / "log.jsonl").write_text('{"timestamp": 0, "input_length": 9, "output_length": 9}\n')
    for asked, expected in ((None, (2, 2)), (True, (2, 0))):
        log = imported("mooncake", tmp_path / "log.jsonl", tmp_path / "b.parquet", decode_reads=asked)
        assert planned(log) == expected


def test_a_trace_of_an_older_release_has_no_decode_reads_replayed(tmp_path: Path) -> None:
    batch = traces.columns([("w", 0, 4), ("d", 0, 4), ("d", 0, 4)], [0, 0, 0])
    older = traces.write(tmp_path / "t.parquet", batch, recipe={"replay": {"model": "tiny-1b"}})
    assert planned(older) == (2, 2)
    assert planned(traces.write(tmp_path / "t.parquet", batch, recipe={"replay": {"decode": "once"}})) == (2, 1)
