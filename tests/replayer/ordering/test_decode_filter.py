"""The decode filter against the oracle."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.models.geometry import TokenBytes
from replayer.planning import workload
from replayer.planning.plan import Plan, PlanOptions  # fmt: skip
from replayer.planning.trace_selection import Selection
from tests.replayer import waterfall_oracle
from tests.support import traces
from tracegen.schema import ENUMS, Columns


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
    kept = waterfall_oracle.decode_filter(
        [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)], mode
    )
    assert found == [(op["op_id"], op["new_tokens"]) for op in kept]


def taken(batch: Columns, selection: Selection, size: int) -> list[tuple[int, int]]:
    """(op_id, new_tokens) of the ops that a workload has, read `size` rows of the trace at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload, "BATCH_OPS", size)
        options = PlanOptions(TokenBytes(1), (Decimal(0), Decimal(0), None), selection=selection)
        ops = Plan(traces.Held(batch), options).workload
    return list(zip(ops.op_ids().tolist(), ops._op["new_tokens"].tolist(), strict=True))


@pytest.mark.parametrize("mode", ["once", "none"])
def test_decode_filter_keeps_every_generated_token(mode: Any) -> None:
    steps = [("w", 0, 4), ("w", 1, 4), ("d", 0, 4), ("d", 1, 4), ("d", 0, 4), ("d", 0, 4), ("d", 1, 4)]
    batch = traces.columns(steps, [0, 1, 0, 1, 0, 0, 1], new_tokens=[0, 0, 1, 2, 4, 8, 16])
    expected = {"once": {0: 0, 1: 0, 2: 13, 3: 18}, "none": {0: 13, 1: 18}}
    assert dict(taken(batch, Selection(mode), 2)) == expected[mode]
