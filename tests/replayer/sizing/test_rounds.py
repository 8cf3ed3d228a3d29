"""Rounds of a conversation: the closed form against plans, and Mooncake's numbers."""

from decimal import Decimal

import pytest

from replayer.models.known import MODELS
from replayer.options.resolving import overlay_recipe, resolve_plan
from replayer.planning.plan import Plan
from replayer.sizing.halves import Halves, RequestCounts
from replayer.sizing.rounds import Rounds
from tests.support import traces

QWEN3_8B = MODELS["qwen3-8b"].sizes("fp16")
CLIENTS, ROUNDS, MIB = 4, 5, 1 << 20


def test_mooncakes_hits_fall_in_round_seven() -> None:
    rounds = Rounds(clients=20, rounds=10, tokens=4096)
    assert QWEN3_8B.per_token == 147_456
    assert rounds.working_sets(QWEN3_8B)[6] == 84_557_168_640
    assert rounds.first_above(QWEN3_8B, 80 * 10**9) == 7
    assert rounds.first_above(QWEN3_8B, 80 * 2**30) == 8  # in GiB, the answer would be another one
    assert rounds.first_above(QWEN3_8B, 84_557_168_640) == 8
    assert rounds.first_above(QWEN3_8B, rounds.working_sets(QWEN3_8B)[-1]) is None
    assert rounds.clients_that_fit(QWEN3_8B, 80 * 10**9) == 13


def first_round_with_a_miss(pool_turns: int) -> int | None:
    """Plan the rounds with LRU and a pool of so many turns of 1 MiB."""
    steps, requests = [], []
    for number in range(ROUNDS):
        for client in range(CLIENTS):
            steps += [("r", client * ROUNDS + turn, 8) for turn in range(number)]
            steps.append(("w", client * ROUNDS + number, 8))
            requests += [number * CLIENTS + client] * (number + 1)
    trace = traces.Held(traces.columns(steps, requests))
    pool = Decimal(pool_turns) / 1024
    _, options = resolve_plan(
        trace,
        overlay_recipe(
            trace,
            {"model": "llama3.1-8b", "headroom": 1, "order": "trace", "cpu_mem_gb": pool, "storage_capacity_gb": 0},
        ),
    )
    plan = Plan(trace, options)
    counts = RequestCounts(plan.workload)
    for stretch in plan.planner().stretches():
        counts.add(stretch)
    halves = Halves(plan.workload)
    for number in range(ROUNDS):
        halves.masks["whole"][:] = False
        halves.masks["whole"][number * CLIENTS : (number + 1) * CLIENTS] = True
        hits, reads = counts.part(halves, "whole").of("ops")
        if hits < reads:
            return number + 1
    return None


@pytest.mark.parametrize("pool_turns", range(1, CLIENTS * ROUNDS + 1))
def test_a_plan_falls_in_the_round_of_the_closed_form(pool_turns: int) -> None:
    """A pool that lacks one turn at the end of a round loses it in the next round's first read."""
    sizes = MODELS["llama3.1-8b"].sizes("fp16")
    closed = Rounds(CLIENTS, ROUNDS, 8).first_above(sizes, pool_turns * MIB)
    if closed is not None and pool_turns % CLIENTS == CLIENTS - 1:
        closed = closed + 1 if closed < ROUNDS else None
    if closed == 1:  # nothing is read in the first round
        closed = 2
    assert first_round_with_a_miss(pool_turns) == closed
