"""Sizes found by bisection, against all sizes one by one."""

import itertools
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from replayer.options.resolving import overlay_recipe, resolve_plan
from replayer.planning.counts import Minutes, PlanCounts
from replayer.planning.plan import Plan
from replayer.questions.size import Sized, Sizing
from replayer.questions.sizes import (
    Judged,
    MemorySize,
    SizePlanner,
    Wanted,
    halve,
    index_of,
    size_gib,
    size_mib,
)
from replayer.record.options import BYS, By
from tests.support import traces
from tracegen.schema import Trace

MODEL = "llama3.1-8b"  # 131,072 bytes per token: 8 tokens are a MiB
MINUTE_NS = 60 * 10**9


def make_trace(keys: int = 40, rounds: int = 4, **changes: object) -> Trace:
    """Write keys of 1 MiB, then read the k-th of them k times as often as the last."""
    steps = [("w", key, 8) for key in range(keys)]
    for number in range(rounds):
        steps += [("r", key, 8) for key in range(keys) if key % (number + 1) == 0]
    count = len(steps)
    times = {"time_ns": np.arange(count) * MINUTE_NS // 4}
    return traces.Held(traces.columns(steps, **(times | changes)))


def planner_of(trace: Trace, wanted: Wanted, **settings: object) -> SizePlanner:
    chosen = {"model": MODEL, "headroom": Decimal(1), "order": "trace", **settings}
    _, options = resolve_plan(trace, overlay_recipe(trace, chosen))
    return SizePlanner(Plan(trace, options), wanted)


def answer(trace: Trace, rate: str, by: By = "ops", **more: Any) -> Sized:
    return Sizing(planner_of(trace, Wanted(hit_rate=Decimal(rate), by=by, **more))).find()


def choose(trace: Trace, rate: str, **more: Any) -> tuple[Sized, Judged]:
    """The answer, and the sizes that it found."""
    found = answer(trace, rate, **more)
    assert found.chosen is not None
    return found, found.chosen


def mib(gib: float | Decimal | None) -> float:
    assert gib is not None
    return float(gib) * 1024


def test_every_size_has_an_index_and_steps_are_at_most_a_32nd() -> None:
    sizes = [size_mib(index) for index in range(400)]
    assert sizes == sorted(set(sizes))
    for wanted in [*range(5000), 10**6, 10**6 + 1]:
        index = index_of(wanted << 20)
        assert size_mib(index) >= wanted
        assert not index or size_mib(index - 1) < wanted
    assert all(big - small <= max(1, small / 32) for small, big in itertools.pairwise(sizes))
    assert index_of(1) == 1
    assert [size_mib(halve(index_of(size << 20))) for size in (0, 1, 7, 64, 66, 100)] == [0, 0, 3, 32, 33, 50]
    assert size_gib(index_of(3 << 29)) == Decimal("1.5")


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("rate", ["0.3", "0.6"])
def test_the_size_found_is_the_least_of_all(by: By, rate: str) -> None:
    wanted = Wanted(hit_rate=Decimal(rate), by=by)
    planner = planner_of(make_trace(), wanted)
    sizes = [MemorySize(size_gib(index), Decimal(0)) for index in range(planner.most_cpu + 1)]
    missed = [planner.judge(memory).missed for memory in sizes]
    assert missed == sorted(missed, reverse=True), "LRU is monotone for equal sizes"
    least = next((memory for memory, names in zip(sizes, missed, strict=True) if not names), sizes[-1])
    for guess in (None, *range(0, planner.most_cpu + 5, 7)):
        assert planner.find_cpu(Decimal(0), guess) == least


def test_the_counts_of_both_halves_are_those_of_a_plan() -> None:
    trace = make_trace()
    planner = planner_of(trace, Wanted(hit_rate=Decimal(1), by="ops"))
    assert planner.judge(MemorySize(Decimal(0), Decimal(0))).hit_rate == 0
    for cpu, nvme in ((0, 7), (5, 0), (5, 7)):
        memory = MemorySize(Decimal(cpu) / 1024, Decimal(nvme) / 1024)
        options = replace(planner.plan.options, capacity_gib=(Decimal(0), memory.cpu, memory.nvme))
        plan = Plan(trace, options)
        whole, halves = plan.count(PlanCounts(plan.workload, Minutes(plan.workload))), planner.count(memory)
        for by in BYS:
            assert np.sum([halves.hits_of(by, part) for part in (0, 1)], axis=0).tolist() == list(whole.hits_of(by))
        assert (halves.bytes.sum(0) == whole.bytes.sum(0)).all()
        hits, reads = whole.hits_of("ops")
        assert planner.judge(memory).hit_rate == hits / reads


def test_one_step_less_of_either_tier_misses_a_target() -> None:
    found, chosen = choose(make_trace(), "0.6")
    assert chosen.missed == ()
    assert {size.missed for size in found.one_step_smaller} == {("hit rate",)}
    assert found.binds == ("hit rate",)
    assert [pair.cpu_gib for pair in found.pairs] == sorted(pair.cpu_gib for pair in found.pairs)
    assert (found.pairs[-1].nvme_gib, chosen.cpu_gib) == (0, 0), "NVMe alone has the least DRAM"


@pytest.mark.parametrize(("price_dram", "unused"), [(1, "nvme_gib"), (10, "cpu_gib")])
def test_prices_choose_among_the_pairs(price_dram: int, unused: str) -> None:
    found, chosen = choose(make_trace(), "0.6", price_dram=Decimal(price_dram), price_nvme=Decimal(2))
    assert getattr(chosen, unused) == 0
    assert chosen.cost == min(pair.cost for pair in found.pairs)  # type: ignore[type-var]


def test_a_given_dram_leaves_the_least_nvme_and_the_reverse() -> None:
    four = Decimal(4) / 1024
    _, with_dram = choose(make_trace(), "0.6", cpu=four)
    assert with_dram.cpu_gib == float(four)
    _, with_nvme = choose(make_trace(), "0.6", nvme=Decimal(str(with_dram.nvme_gib)))
    assert with_nvme.cpu_gib <= with_dram.cpu_gib


def test_drive_writes_bind_the_nvme() -> None:
    _, free = choose(make_trace(), "0.6", cpu=Decimal(0))
    limit = (free.drive_writes_per_day or 0) / 3
    found, chosen = choose(make_trace(), "0.6", cpu=Decimal(0), dwpd=limit)
    assert 0 < (chosen.drive_writes_per_day or 0) <= limit
    assert found.binds == ("drive writes",)
    assert mib(chosen.nvme_gib) > mib(free.nvme_gib)


def test_bandwidth_binds_the_dram() -> None:
    _, free = choose(make_trace(), "0.6")
    limit = (free.nvme_gib_s or 0) / 2
    found, chosen = choose(make_trace(), "0.6", nvme_gib_s=limit)
    assert 0 < (chosen.nvme_gib_s or 0) <= limit
    assert chosen.cpu_gib > 0
    assert any("bandwidth" in pair.missed for pair in found.pairs)


def test_a_rate_above_the_bound_has_no_size() -> None:
    found = answer(make_trace(), "0.9", by="tokens")
    assert found.chosen is None
    assert found.binds == ("hit rate",)
    assert found.bound.hit_rate == 84 / 124


def test_the_second_half_judges_what_the_first_one_chose() -> None:
    """The second half reads twice as many keys: what was enough for the first is too little."""
    first = [("w", key, 8) for key in range(10)] + [("r", key, 8) for key in range(10)] * 3
    second = [("w", key, 8) for key in range(10, 30)] + [("r", key, 8) for key in range(10, 30)]
    trace = traces.Held(traces.columns(first + second))
    found = answer(trace, "0.9")
    assert found.halves is not None
    assert found.halves.first.hit_rate == 1.0
    assert mib(found.halves.first.nvme_gib) == 10
    assert found.halves.second.hit_rate == 0.0
    assert found.halves.second.missed == ("hit rate",)


def test_the_cliff_is_where_a_loop_stops_fitting() -> None:
    """A loop over 32 keys hits always under LRU, or never."""
    steps = [("w", key, 8) for key in range(32)] + [("r", key, 8) for key in range(32)] * 5
    found, chosen = choose(traces.Held(traces.columns(steps)), "1")
    assert mib(chosen.nvme_gib) == 32
    assert found.cliff is not None
    cliff = [(mib(size.nvme_gib), size.hit_rate) for size in found.curve[found.cliff : found.cliff + 2]]
    assert cliff == [(32, 1.0), (16, 0.0)]


def test_a_trace_in_which_all_comes_at_once_has_no_days() -> None:
    trace = traces.Held(traces.columns([("w", 0, 8), ("r", 0, 8)], time_ns=[0, 0]))
    _, chosen = choose(trace, "1", dwpd=1e-5)
    assert chosen.drive_writes_per_day is None
