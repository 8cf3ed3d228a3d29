"""The plan that docs/waterfall.md shows, its checkpoints, and the capacities of its tiers."""

import re
from decimal import Decimal

import numpy as np
import pytest

from replayer.models.geometry import TokenBytes
from replayer.planning.plan import PlanOptions
from replayer.schema import CHECKPOINT_OPS
from tests.replayer.arrangements.compiled_plan import arranged, rows_of
from tests.replayer.arrangements.oracle import fingerprint
from tests.support import traces
from tests.support.paths import ROOT
from tracegen.errors import InputError


def test_the_case_worked_by_hand() -> None:
    """docs/waterfall.md's table: cpu holds 3, nvme 4; a=0 (2), b=1 (1), c=2 (2), d=3 (4), e=4 (5).

    `test_oracle.py` has the oracle make the same moves.
    """
    steps = [("w", 0, 2), ("w", 1, 1), ("r", 0, 2), ("w", 2, 2), ("w", 3, 4), ("r", 0, 2), ("w", 4, 5)]
    found = rows_of(arranged(traces.columns(steps), {}, (0, 3, 4)))
    table = (ROOT / "docs" / "waterfall.md").read_text().partition("## A case worked by hand")[2]
    shown = re.findall(r"^\| (\d) \| .*? \| (.*?) \|", table, re.M)
    assert len(shown) == len(steps)
    for op, moves in shown:
        pairs = [(move, "abcde"[key]) for op_id, _, move, key, *_ in found if op_id == int(op)]
        assert re.findall(r"\b(store|hit|miss|demote|drop|bypass) (\w)\b", moves) == pairs


@pytest.mark.parametrize("ops", [1, CHECKPOINT_OPS, CHECKPOINT_OPS + 1, 2 * CHECKPOINT_OPS + 7])
def test_checkpoints_are_of_whole_blocks(ops: int) -> None:
    """Floor((n - 1) / 65,536) of them, each the digest of the plan so far, however it is cut."""
    batch = {name: np.repeat(column, ops) for name, column in traces.columns([("w", 0, 1)]).items()}
    batch |= {"op_id": np.arange(ops), "key": np.arange(ops), "request_id": np.arange(ops)}
    plan = arranged(batch, {}, (0, 5, 100))
    found = plan.simulate()
    rows = rows_of(plan, 777)
    blocks = [row[0] // CHECKPOINT_OPS for row in rows]
    ends = [blocks.index(block) for block in range(1, blocks[-1] + 1)]
    assert len(found.plan_checkpoints) == (ops - 1) // CHECKPOINT_OPS
    assert list(found.plan_checkpoints) == [fingerprint(rows[:end]) for end in ends]


def test_capacities_are_exact_decimals() -> None:
    options = PlanOptions(TokenBytes(1), (Decimal("0.1"), Decimal("4"), Decimal("0.3")))
    tenth, four, third = int(Decimal("0.1") * 2**30), 4 * 2**30, int(Decimal("0.3") * 2**30)
    assert options.usable() == (int(tenth * Decimal("0.8")), four * 8 // 10, third)
    assert PlanOptions(TokenBytes(1), (Decimal(0), Decimal(1), None)).usable() == (0, 2**30 * 8 // 10, None)
    for bad in (Decimal("-1"), Decimal("nan"), Decimal("inf")):
        with pytest.raises(InputError):
            PlanOptions(TokenBytes(1), (Decimal(0), bad, None))
