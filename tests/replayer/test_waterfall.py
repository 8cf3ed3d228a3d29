"""The planner against an independent oracle, move by move; the hand-worked case; figures that others published."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.models.geometry import TokenBytes
from replayer.planning.counts import PlanCounts
from replayer.planning.plan import Plan, Planner, PlanOptions, Usable
from replayer.planning.plan_hash import PlanHash
from replayer.schema import CHECKPOINT_OPS, MOVES
from tests.replayer import waterfall_oracle
from tests.support import traces
from tests.support.arrangements import arranged
from tests.support.paths import ROOT
from tracegen.errors import InputError
from tracegen.schema import ENUMS, Columns

Row = tuple[int, int, str, int, int, int, int]


def waterfall(
    batch: Columns,
    usable: Usable,
    *,
    promote: bool = False,
    lookup: Any = "independent",
    arrangement: Any = "waterfall",
    unit: int = 1,
) -> Plan:
    """Ops planned in the order of the trace, for tiers of so many units of `unit` bytes."""
    gpu, cpu, nvme = (None if limit is None else Decimal(limit * unit) / 2**30 for limit in usable)
    options = PlanOptions(
        TokenBytes(unit), (gpu or Decimal(0), cpu or Decimal(0), nvme), headroom=Decimal(1), lookup=lookup,
        arrangement=arranged(arrangement, promote),
    )  # fmt: skip
    plan = Plan(traces.Held(batch), options)
    assert plan.usable == tuple(None if limit is None else limit * unit for limit in usable)
    return plan


def told(plan: Plan, planner: Planner, cut: int) -> Iterator[list[Row]]:
    """Rows of the plan, in stretches of `cut` ops."""
    for stretch in planner.stretches(cut):
        assert len(stretch.ops) <= cut
        rows = PlanCounts(plan.workload).list_moves(stretch).tolist()
        yield [(i, s, MOVES[m], *rest) for i, s, m, *rest in rows]


def planned(plan: Plan, cut: int = 10**6) -> list[Row]:
    return [row for part in told(plan, plan.planner(), cut) for row in part]


def as_oracle(batch: Columns) -> list[tuple[Any, ...]]:
    names = [[ENUMS[name][code] for code in batch[name]] for name in ("op", "phase")]
    return list(
        zip(
            batch["op_id"].tolist(), names[0], batch["key"].tolist(), batch["tokens"].tolist(), names[1],
            batch["request_id"].tolist(), strict=True,
        )
    )  # fmt: skip


def test_the_case_worked_by_hand() -> None:
    """docs/waterfall.md's table: cpu holds 3, nvme 4; a=0 (2), b=1 (1), c=2 (2), d=3 (4), e=4 (5).

    op 3 writes c: 3 + 2 > 3, so b, untouched since op 1, goes to nvme, then a, touched by op 2; then c fits.
    op 4 writes d: 4 > 3, so nvme must take it: 3 + 4 > 4, b and a are dropped.
    op 5 reads a: gone, so a miss; storing 2 beside c's 2 > 3 demotes c, for which d must leave nvme first.
    """
    steps = [("w", 0, 2), ("w", 1, 1), ("r", 0, 2), ("w", 2, 2), ("w", 3, 4), ("r", 0, 2), ("w", 4, 5)]
    cpu, nvme = 1, 2
    expected = [
        (0, 0, "store", 0, -1, cpu, 2),
        (1, 0, "store", 1, -1, cpu, 1),
        (2, 0, "hit", 0, cpu, -1, 2),
        (3, 0, "demote", 1, cpu, nvme, 1),
        (3, 1, "demote", 0, cpu, nvme, 2),
        (3, 2, "store", 2, -1, cpu, 2),
        (4, 0, "drop", 1, nvme, -1, 1),
        (4, 1, "drop", 0, nvme, -1, 2),
        (4, 2, "store", 3, -1, nvme, 4),
        (5, 0, "miss", 0, -1, -1, 2),
        (5, 1, "drop", 3, nvme, -1, 4),
        (5, 2, "demote", 2, cpu, nvme, 2),
        (5, 3, "store", 0, -1, cpu, 2),
        (6, 0, "bypass", 4, -1, -1, 5),
    ]
    batch = traces.columns(steps)
    assert planned(waterfall(batch, (0, 3, 4))) == expected
    assert waterfall_oracle.moves(as_oracle(batch), (0, 3, 4)) == expected
    table = (ROOT / "docs" / "waterfall.md").read_text().partition("## A case worked by hand")[2]
    for op, rows in re.findall(r"^\| (\d) \| .*? \| (.*?) \|", table, re.M):
        kinds = [kind for i, _, kind, *_ in expected if i == int(op)]
        assert re.findall(r"\b(store|hit|miss|demote|drop|bypass)\b(?= \w\b)", rows) == kinds


def test_a_promotion_is_a_read_and_a_store() -> None:
    """gpu 2, cpu 2, both full: reading b (cpu) takes it out, which makes the room that a's demotion needs."""
    batch = traces.columns([("w", 0, 2), ("w", 1, 2), ("r", 0, 2)])
    assert planned(waterfall(batch, (2, 2, 0), promote=True)) == [
        (0, 0, "store", 0, -1, 0, 2),
        (1, 0, "demote", 0, 0, 1, 2),
        (1, 1, "store", 1, -1, 0, 2),
        (2, 0, "promote", 0, 1, -1, 2),
        (2, 1, "demote", 1, 0, 1, 2),
        (2, 2, "store", 0, -1, 0, 2),
    ]


def test_spillover_fills_the_fastest_tier_with_room() -> None:
    """cpu 3, nvme 4; a=0 (2), b=1 (1), c=2 (2), d=3 (3), e=4 (4)."""
    cpu, nvme = 1, 2
    steps = [("w", 0, 2), ("w", 1, 1), ("w", 2, 2), ("w", 3, 3), ("r", 2, 2), ("r", 0, 2), ("x", 0, 2), ("r", 3, 3)]
    expected = [
        (0, 0, "store", 0, -1, cpu, 2),
        (1, 0, "store", 1, -1, cpu, 1),
        (2, 0, "store", 2, -1, nvme, 2),
        (3, 0, "drop", 2, nvme, -1, 2),
        (3, 1, "store", 3, -1, nvme, 3),
        (4, 0, "miss", 2, -1, -1, 2),
        (4, 1, "drop", 3, nvme, -1, 3),
        (4, 2, "store", 2, -1, nvme, 2),
        (5, 0, "hit", 0, cpu, -1, 2),
        (6, 0, "delete", 0, cpu, -1, 2),
        (7, 0, "miss", 3, -1, -1, 3),
        (7, 1, "drop", 2, nvme, -1, 2),
        (7, 2, "store", 3, -1, nvme, 3),
    ]
    batch = traces.columns(steps)
    assert planned(waterfall(batch, (0, 3, 4), arrangement="spillover")) == expected
    assert waterfall_oracle.moves(as_oracle(batch), (0, 3, 4), arrangement="spillover") == expected


capacity = st.one_of(st.just(0), st.integers(1, 14))
usable = st.tuples(capacity, capacity, st.one_of(capacity, st.none())).filter(lambda u: any(x != 0 for x in u))
steps = st.lists(
    st.tuples(st.sampled_from("wrrrrddddx"), st.integers(0, 11), st.integers(0, 5)), min_size=1, max_size=90
)


def workload(picks: list[tuple[str, int, int]], sizes: list[int]) -> Columns:
    """Keys that are written first; requests that interleave."""
    known: set[int] = set()
    made: list[traces.Step] = []
    for op, key, _ in picks:
        made.append(("w" if key not in known else "r" if op == "w" else op, key, sizes[key]))
        known.add(key)
    return traces.columns(made, [request for _, _, request in picks])


@settings(max_examples=250)
@given(
    steps,
    st.lists(st.integers(1, 6), min_size=12, max_size=12),
    usable,
    st.booleans(),
    st.sampled_from(["independent", "contiguous"]),
    st.sampled_from(["waterfall", "spillover"]),
    st.integers(1, 40),
)
def test_move_by_move_as_the_oracle(
    picks: list[tuple[str, int, int]],
    sizes: list[int],
    limits: Usable,
    promote: bool,
    lookup: Any,
    arrangement: Any,
    cut: int,
) -> None:
    batch = workload(picks, sizes)
    plan = waterfall(batch, limits, promote=promote, lookup=lookup, arrangement=arrangement)
    expected = waterfall_oracle.moves(as_oracle(batch), limits, promote, lookup, arrangement)
    planner = plan.planner()
    assert [row for part in told(plan, planner, cut) for row in part] == expected
    found = planner.account()
    assert all(limit is None or most <= limit for most, limit in zip(found.peak, limits, strict=True))
    assert [list(found.used), list(found.peak), list(found.peak_objects)] == list(add_up(expected))
    assert found.largest == max(batch["tokens"])


def add_up(rows: list[Row]) -> tuple[list[int], list[int], list[int]]:
    """Add up used bytes, peak bytes and peak objects of each tier from the rows alone."""
    used, peak, objects, most = [0] * 3, [0] * 3, [0] * 3, [0] * 3
    for _, _, move, _, source, target, size in rows:
        if source >= 0 and move != "hit":
            used[source] -= size
            objects[source] -= 1
        if target >= 0:
            used[target] += size
            objects[target] += 1
            peak[target], most[target] = max(peak[target], used[target]), max(most[target], objects[target])
    return used, peak, most


@given(steps, st.lists(st.integers(1, 6), min_size=12, max_size=12), usable)
def test_the_fingerprint_as_the_oracle(picks: list[tuple[str, int, int]], sizes: list[int], limits: Usable) -> None:
    batch = workload(picks, sizes)
    plan, expected = waterfall(batch, limits), waterfall_oracle.moves(as_oracle(batch), limits)
    hashed = PlanHash(1)
    for stretch in plan.planner().stretches():
        hashed.add(PlanCounts(plan.workload).list_moves(stretch))
    assert hashed.hexdigest() == waterfall_oracle.fingerprint(expected)
    assert plan.simulate().plan_fingerprint == hashed.hexdigest()


@pytest.mark.parametrize("ops", [1, CHECKPOINT_OPS, CHECKPOINT_OPS + 1, 2 * CHECKPOINT_OPS + 7])
def test_checkpoints_are_of_whole_blocks(ops: int) -> None:
    """Floor((n - 1) / 65,536) of them, each the digest of the plan so far, however it is cut."""
    batch = {name: np.repeat(column, ops) for name, column in traces.columns([("w", 0, 1)]).items()}
    batch |= {"op_id": np.arange(ops), "key": np.arange(ops), "request_id": np.arange(ops)}
    plan = waterfall(batch, (0, 5, 100))
    found = plan.simulate()
    rows = planned(plan, 777)
    blocks = [row[0] // CHECKPOINT_OPS for row in rows]
    ends = [blocks.index(block) for block in range(1, blocks[-1] + 1)]
    assert len(found.plan_checkpoints) == (ops - 1) // CHECKPOINT_OPS
    assert list(found.plan_checkpoints) == [waterfall_oracle.fingerprint(rows[:end]) for end in ends]


def test_capacities_are_exact_decimals() -> None:
    options = PlanOptions(TokenBytes(1), (Decimal("0.1"), Decimal("4"), Decimal("0.3")))
    tenth, four, third = int(Decimal("0.1") * 2**30), 4 * 2**30, int(Decimal("0.3") * 2**30)
    assert options.usable() == (int(tenth * Decimal("0.8")), four * 8 // 10, third)
    assert PlanOptions(TokenBytes(1), (Decimal(0), Decimal(1), None)).usable() == (0, 2**30 * 8 // 10, None)
    for bad in (Decimal("-1"), Decimal("nan"), Decimal("inf")):
        with pytest.raises(InputError):
            PlanOptions(TokenBytes(1), (Decimal(0), bad, None))
