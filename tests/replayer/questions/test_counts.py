"""The counts of a cell against an oracle that counts the plan's moves one by one; a case worked by hand."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.arrangements.loading import load_arrangement, shipped_names
from replayer.models.geometry import TokenBytes
from replayer.planning.plan import Plan, PlanOptions
from replayer.questions.cells import CellPlanner, GridCell
from tests.replayer.ordering import strategies
from tests.replayer.prediction.worlds import planned
from tests.replayer.questions.counting_oracle import Oracle
from tests.support import traces
from tests.support.arrangements import arranged
from tests.support.command_line import here
from tracegen.schema import ENUMS, Columns, Trace

SECOND = 10**9


def simulated(trace: Trace, *options: PlanOptions, threads: int = 1) -> list[dict[str, Any]]:
    cells = [GridCell(number, "test", one) for number, one in enumerate(options)]
    return CellPlanner(trace, cells, threads).plan_all()


def small(usable: Any, **more: Any) -> PlanOptions:
    """Tiers of so many units of one byte a token."""
    gpu, cpu, nvme = (None if limit is None else Decimal(limit) / 2**30 for limit in usable)
    capacities = (gpu or Decimal(0), cpu or Decimal(0), nvme)
    return PlanOptions(TokenBytes(1), capacities, headroom=Decimal(1), **more)


def test_the_case_worked_by_hand() -> None:
    """cpu 3, nvme 4; a=0 (2), b=1 (1), c=2 (2), d=3 (4): the plan of docs/waterfall.md's table, with two more reads.

    w a, w b, r a: hit in cpu. w c: b and a go to nvme. w d: b and a are dropped unread there, d is stored in nvme.
    r a: miss; d is dropped unread, c demoted, a stored in cpu. d(ecode) a: hit in cpu. r c: hit in nvme.
    Requests 0 (w a, w b), 1 (r a, w c), 2 (w d), 3 (r a, d a), 4 (r c): three have reads, 1 and 4 hit them all.
    The decode read is a read and a hit of the plan, and in no hit rate but that of all ops.
    Request 3 arrives 90 s after the first: in the second minute that has requests.
    """
    steps: list[traces.Step] = [
        ("w", 0, 2), ("w", 1, 1), ("r", 0, 2), ("w", 2, 2), ("w", 3, 4), ("r", 0, 2), ("d", 0, 2), ("r", 2, 2)
    ]  # fmt: skip
    requests = [0, 0, 1, 1, 2, 3, 3, 4]
    times = [at * SECOND for at in (0, 0, 10, 10, 20, 90, 90, 100)]
    (cell,) = simulated(traces.Held(traces.columns(steps, requests, time_ns=times)), small((0, 3, 4)))
    expected = {
        "ops": 8, "reads": 4, "hits": 3, "misses": 1, "requests": 5, "reading_requests": 3, "hit_requests": 2,
        "prompt_tokens": 2 + 1 + 2 + 2 + 4 + 2 + 2,  # the decode read is no prompt
        "spared_tokens": 2 + 2, "spared_tokens_nvme": 2, "hits_cpu": 2, "hits_nvme": 1,
        "hit_rate_ops": 2 / 3, "hit_rate_all_ops": 3 / 8, "hit_rate_tokens": 4 / 15, "hit_rate_requests": 2 / 3,
        "demotions_cpu": 3, "evictions_cpu": 3, "drops_nvme": 3, "free_drops_nvme": 0,
        "entries_nvme": 4, "unread_entries_nvme": 3,  # b, a, d; c is read
        "entries_cpu": 4, "unread_entries_cpu": 2,  # b and c; a twice, read both times
        "write_bytes_nvme": 1 + 2 + 4 + 2, "read_bytes_nvme": 2,
        "write_bytes_per_day_nvme": 9 / 100 * 86_400, "drive_writes_per_day": 9 / 100 * 86_400 / 4,
        "peak_write_gib_s_nvme": 7 / 2**30 / 60,  # of the first minute
        "peak_bytes_nvme": 4, "peak_objects_nvme": 2, "peak_objects_cpu": 2,
        "bound_ops": 1, "bound_tokens": 6 / 15, "bound_requests": 1,
    }  # fmt: skip
    assert {name: cell[name] for name in expected} == pytest.approx(expected, rel=1e-12)


def test_a_drop_is_free_if_a_slower_tier_holds_the_object() -> None:
    """gpu 2 over cpu 4, each object in both at once: gpu evicts for nothing, cpu loses objects."""
    steps: list[traces.Step] = [("w", key, 2) for key in range(3)]
    rules = replace(load_arrangement("vllm"), chunk_tokens=0)
    (cell,) = simulated(traces.Held(traces.columns(steps)), small((2, 4, 0), arrangement=rules))
    assert (cell["free_drops_gpu"], cell["drops_gpu"], cell["evictions_gpu"]) == (2, 0, 0)
    assert (cell["free_drops_cpu"], cell["drops_cpu"], cell["evictions_cpu"]) == (0, 1, 1)


def test_a_trace_of_seconds_has_a_peak_over_its_own_length() -> None:
    trace = traces.Held(traces.columns([("w", 0, 1), ("w", 1, 3)], time_ns=[59 * SECOND, 63 * SECOND]))
    (cell,) = simulated(trace, small((0, 0, None)))
    assert (cell["peak_write_gib_s_nvme"], cell["drive_writes_per_day"]) == (1 / 2**30, None)


def test_what_arrives_at_once_has_no_pace() -> None:
    trace = traces.Held(traces.columns([("w", 0, 1), ("r", 0, 1)], time_ns=[5, 5]))
    (cell,) = simulated(trace, small((0, 0, None)))
    assert {value for name, value in cell.items() if "_gib_s_" in name or "_per_day" in name} == {None}


def test_plan_prints_hits_and_the_life_of_a_drive(tmp_path: Path) -> None:
    """200 tokens of 24,576 bytes are written in 2 s, and 100 of them go on to a drive that bears 1 TB."""
    steps = [("w", 0, 100), ("w", 1, 100), ("r", 0, 100)]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps, time_ns=[0, SECOND, 2 * SECOND]))
    sizes = ("--cpu-mem-gb", "0.003", "--storage-capacity-gb", "1", "--set", "headroom=1")
    drive = ("--drive-tb", "0.5", "--tbw", "1", "--json")
    found = json.loads(here("replayer", "plan", trace.path, "--model", "tiny-1b", *sizes, *drive).stdout)
    assert found["hit_rate_tokens"] == pytest.approx(1 / 3)
    assert (found["write_bytes_cpu"], found["span_s"]) == (200 * 24_576, 2)
    figures = {figure["name"]: figure["value"] for figure in found["figures"]}
    per_day = 100 * 24_576 / 2 * 86_400
    assert figures["rated_drive_writes_per_day"] == pytest.approx(per_day / 5e11)
    assert figures["drive_days"] == pytest.approx(1e12 / per_day)


ARRANGEMENTS = st.one_of(
    st.builds(arranged, st.sampled_from(["waterfall", "spillover"]), st.booleans()),
    st.builds(
        lambda name, tokens: replace(load_arrangement(name), chunk_tokens=tokens),
        st.sampled_from(shipped_names()),
        st.sampled_from([0, 2]),
    ),
)


def columns(picks: list[Any], sizes: list[int]) -> Columns:
    batch = strategies.columns(picks, sizes)
    batch["time_ns"] *= 7_000_000  # microseconds between ops become seconds, and some traces last minutes
    batch["source"] = (batch["key"] % len(ENUMS["source"])).astype(batch["source"].dtype)
    return batch


@settings(max_examples=80, deadline=None)
@given(
    strategies.rows,
    st.lists(st.integers(1, 5), min_size=10, max_size=10),
    strategies.capacities,
    ARRANGEMENTS,
    st.booleans(),
    strategies.device,
    strategies.demand,
)
def test_counts_are_those_of_the_moves(
    picks: Any, sizes: Any, limits: Any, arrangement: Any, follows_reference: bool, device: Any, demand: Any
) -> None:
    batch = columns(picks, sizes)
    trace = traces.Held(batch)
    options = small(limits, arrangement=arrangement)
    if follows_reference:
        order = strategies.Order("reference", "test", (device, device, device))
        options = replace(options, order=order, demand=demand)
    plan = Plan(trace, options)
    oracle = Oracle(batch, dict(enumerate(plan.workload.spared_tokens().tolist())))
    for one in planned(plan):
        oracle.take(one)
    (cell,) = simulated(trace, options, threads=2)
    expected = oracle.cell()
    assert {name: cell[name] for name in expected} == expected
    summary = plan.simulate()
    assert cell["recomputed_tokens"] == summary.recomputed_tokens
    for code, tier in enumerate(("gpu", "cpu", "nvme")):
        assert cell[f"peak_bytes_{tier}"] == getattr(summary.peak_bytes, tier)
        assert cell[f"peak_objects_{tier}"] == summary.peak_objects[code]
    if not follows_reference and not arrangement.chunk_tokens:
        for name in ("ops", "tokens", "requests"):
            assert (cell[f"hit_rate_{name}"] or 0) <= (cell[f"bound_{name}"] or 0)
