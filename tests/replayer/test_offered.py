"""What a trace asks of the tiers at its own times: by hand, against the moves one by one, and as `replayer plan` says it."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.cli import main
from replayer.models.geometry import TokenBytes
from replayer.planning import offered_load as offered
from replayer.planning.offered_load import OfferedLoad
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.plan_summary import MoveTotals
from replayer.schema import MOVES, TIERS
from tests.support import traces

GIB = 2**30
SECOND = 10**9


def options(cpu: int = 0, nvme: int | None = None, unit: int = GIB) -> PlanOptions:
    """Tiers of so many units."""
    room = None if nvme is None else Decimal(nvme * unit) / GIB
    return PlanOptions(TokenBytes(unit), (Decimal(0), Decimal(cpu * unit) / GIB, room), headroom=Decimal(1))


def plan_of(steps: list[traces.Step], times: list[int], chosen: PlanOptions) -> tuple[Plan, dict[str, Any]]:
    plan = Plan(traces.Held(traces.columns(steps, time_ns=times)), chosen)
    load = OfferedLoad(plan.workload)
    plan.simulate(looks=[load.add])
    return plan, msgspec.to_builtins(load.summarise(chosen))


def test_a_case_worked_by_hand() -> None:
    """3 GiB are written in the first minute and 2 in the third; 3 GiB are read in it, too. The last request is at 120 s."""
    steps = [("w", 0, 1), ("w", 1, 2), ("w", 2, 2), ("r", 0, 1), ("d", 1, 2)]
    times = [10 * SECOND, 40 * SECOND, 131 * SECOND, 131 * SECOND, 130 * SECOND]
    _, found = plan_of(steps, times, options(nvme=10))
    assert found["span_s"] == 121.0
    assert found["mean_gib_s"]["nvme"] == {"read": pytest.approx(3 / 121), "write": pytest.approx(5 / 121)}
    assert found["peak_gib_s"]["nvme"] == {"read": pytest.approx(3 / 60), "write": pytest.approx(3 / 60)}
    assert found["mean_gib_s"]["cpu"] == {"read": 0.0, "write": 0.0}
    assert found["nvme_write_bytes_per_day"] == pytest.approx(5 * GIB / 121 * 86_400)
    assert found["nvme_drive_writes_per_day"] == pytest.approx(5 / 121 * 86_400 / 10)


def test_a_trace_of_seconds_has_a_peak_over_its_own_length() -> None:
    _, found = plan_of([("w", 0, 1), ("w", 1, 3)], [59 * SECOND, 63 * SECOND], options())
    assert found["mean_gib_s"]["nvme"]["write"] == found["peak_gib_s"]["nvme"]["write"] == 1.0
    assert found["nvme_drive_writes_per_day"] is None


def test_what_arrives_at_once_has_no_pace() -> None:
    _, found = plan_of([("w", 0, 1), ("r", 0, 1)], [5, 5], options())
    assert found == {"span_s": 0.0} | dict.fromkeys(list(found)[1:])
    assert offered.format_offered(offered.Offered(span_s=0.0)) == [
        "  all requests arrive at once: the trace has no pace to keep up with"
    ]


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
    for op_id, _, move, _, source, target, size in MoveTotals().add(plan.workload, stretch).tolist():
        minute = (times[op_id] - times[0]) // (60 * SECOND)
        touched = [("read", source)] if MOVES[move] in ("hit", "promote", "demote") else []
        touched += [("write", target)] if MOVES[move] in ("store", "demote") else []
        for side, tier in touched:
            cell = minutes[TIERS[tier], side]
            cell[minute] = cell.get(minute, 0) + size
    for (tier, side), cell in minutes.items():
        assert found["mean_gib_s"][tier][side] == pytest.approx(sum(cell.values()) / GIB / span_s)
        assert found["peak_gib_s"][tier][side] == pytest.approx(max(cell.values(), default=0) / GIB / min(60, span_s))


def test_as_it_is_typed(tmp_path: Path) -> None:
    steps = [("w", 0, 100), ("w", 1, 100), ("r", 0, 100)]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps, time_ns=[0, SECOND, 2 * SECOND]))
    command = ["plan", str(trace.path), "--model", "tiny-1b", "--cpu-mem-gb", "0.5", "--storage-capacity-gb", "1"]
    text = CliRunner().invoke(main, command, catch_exceptions=False).stdout
    assert "cpu: 0.4 of 0.5 GiB usable (headroom 0.8)" in text
    assert "1 hit (33.3% of prompt tokens; 100.0% of reads)" in text
    assert "to keep up with the trace's own times (2 s from the first request to the last)" in text
    assert "written to nvme per day: 0.0 GiB, 0.00 drive writes per day of this capacity" in text
    found = json.loads(CliRunner().invoke(main, [*command, "--json"], catch_exceptions=False).stdout)
    assert found["offered"]["mean_gib_s"]["cpu"]["write"] == pytest.approx(200 * 24_576 / GIB / 2)
    assert "usable" not in CliRunner().invoke(main, [*command, "--set", "headroom=1"], catch_exceptions=False).stdout
