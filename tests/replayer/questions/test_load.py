"""What a trace asks of the tiers at its own times: by hand, against the moves one by one, and as `replayer plan` says it."""

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.models.geometry import TokenBytes
from replayer.planning.counts import GIB, Minutes, PlanCounts
from replayer.planning.plan import Plan, PlanOptions
from replayer.questions.columns import tabulate_counts
from replayer.record.simulation import Cell
from replayer.schema import MOVES, TIERS
from tests.support import traces
from tests.support.command_line import here

SECOND = 10**9


def options(cpu: int = 0, nvme: int | None = None) -> PlanOptions:
    """Tiers of so many GiB; a token takes one."""
    room = None if nvme is None else Decimal(nvme)
    return PlanOptions(TokenBytes(GIB), (Decimal(0), Decimal(cpu), room), headroom=Decimal(1))


def plan_of(steps: list[traces.Step], times: list[int], chosen: PlanOptions) -> tuple[Plan, Cell]:
    plan = Plan(traces.Held(traces.columns(steps, time_ns=times)), chosen)
    counts = plan.count(PlanCounts(plan.workload, Minutes(plan.workload)))
    return plan, tabulate_counts(counts, chosen)


def test_a_case_worked_by_hand() -> None:
    """3 GiB are written in the first minute and 2 in the third; 3 GiB are read in it, too. The last request is at 120 s."""
    steps = [("w", 0, 1), ("w", 1, 2), ("w", 2, 2), ("r", 0, 1), ("d", 1, 2)]
    times = [10 * SECOND, 40 * SECOND, 131 * SECOND, 131 * SECOND, 130 * SECOND]
    _, found = plan_of(steps, times, options(nvme=10))
    assert (found["read_bytes_nvme"], found["write_bytes_nvme"], found["write_bytes_cpu"]) == (3 * GIB, 5 * GIB, 0)
    assert found["peak_read_gib_s_nvme"] == found["peak_write_gib_s_nvme"] == pytest.approx(3 / 60)
    assert found["write_bytes_per_day_nvme"] == pytest.approx(5 * GIB / 121 * 86_400)
    assert found["drive_writes_per_day"] == pytest.approx(5 / 121 * 86_400 / 10)


def test_a_trace_of_seconds_has_a_peak_over_its_own_length() -> None:
    _, found = plan_of([("w", 0, 1), ("w", 1, 3)], [59 * SECOND, 63 * SECOND], options())
    assert (found["peak_write_gib_s_nvme"], found["drive_writes_per_day"]) == (1.0, None)


def test_what_arrives_at_once_has_no_pace() -> None:
    _, found = plan_of([("w", 0, 1), ("r", 0, 1)], [5, 5], options())
    rates = {name: value for name, value in found.items() if "_gib_s_" in name or "_per_day" in name}
    assert set(rates.values()) == {None}


STEPS = st.lists(st.tuples(st.sampled_from("wrd"), st.integers(0, 6), st.integers(0, 400)), min_size=2, max_size=60)


@settings(max_examples=30)
@given(STEPS, st.integers(0, 9), st.one_of(st.none(), st.integers(1, 20)))
def test_every_move_counts_in_the_minute_of_its_request(
    picks: list[tuple[str, int, int]], cpu: int, nvme: int | None
) -> None:
    known: set[int] = set()
    steps: list[traces.Step] = []
    for op, key, _ in picks:
        steps.append(("w" if key not in known else "r" if op == "w" else op, key, key + 1))
        known.add(key)
    times = np.cumsum([gap * SECOND for _, _, gap in picks]).tolist()
    plan, found = plan_of(steps, times, options(cpu, nvme))
    span_s = (times[-1] - times[0]) / 1e9
    if not span_s:
        return
    planner = plan.planner()  # whose memory a stretch lies in
    (stretch,) = list(planner.stretches(len(steps)))
    minutes: dict[tuple[str, str], dict[int, int]] = {(tier, side): {} for tier in TIERS for side in ("read", "write")}
    for op_id, _, move, _, source, target, size in PlanCounts(plan.workload).list_moves(stretch).tolist():
        minute = (times[op_id] - times[0]) // (60 * SECOND)
        touched = [("read", source)] if MOVES[move] in ("hit", "promote", "demote") else []
        touched += [("write", target)] if MOVES[move] in ("store", "demote") else []
        for side, tier in touched:
            cell = minutes[TIERS[tier], side]
            cell[minute] = cell.get(minute, 0) + size
    for (tier, side), cell in minutes.items():
        assert found[f"{side}_bytes_{tier}"] == sum(cell.values())
        assert found[f"peak_{side}_gib_s_{tier}"] == pytest.approx(
            max(cell.values(), default=0) / GIB / min(60, span_s)
        )


def test_plan_prints_hits_and_the_life_of_a_drive(tmp_path: Path) -> None:
    """200 tokens of 24,576 bytes are written in 2 s, and 100 of them go on to a drive that bears 1 TB."""
    steps = [("w", 0, 100), ("w", 1, 100), ("r", 0, 100)]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps, time_ns=[0, SECOND, 2 * SECOND]))
    sizes = ("--cpu-mem-gb", "0.003", "--storage-capacity-gb", "1")
    command = ("replayer", "plan", trace.path, "--model", "tiny-1b", *sizes)
    drive = ("--set", "headroom=1", "--drive-tb", "0.5", "--tbw", "1")
    found = json.loads(here(*command, *drive, "--json").stdout)
    assert found["hit_rate_tokens"] == pytest.approx(1 / 3)
    assert (found["write_bytes_cpu"], found["span_s"]) == (200 * 24_576, 2)
    figures = {figure["name"]: figure["value"] for figure in found["figures"]}
    per_day = 100 * 24_576 / 2 * 86_400
    assert figures["rated_drive_writes_per_day"] == pytest.approx(per_day / 5e11)
    assert figures["drive_days"] == pytest.approx(1e12 / per_day)
    assert "cpu 0.003 of 0.003 GiB usable" in here(*command, *drive).stdout
