"""The order of a serving engine (docs/serving.md): the compiled engine against the plain one, and against vLLM itself."""

import os
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from replayer.arrangements.arrangement import SchedulerRules
from replayer.arrangements.loading import load_arrangement
from replayer.models.geometry import TokenBytes
from replayer.planning.counts import PlanCounts
from replayer.planning.order import Order
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan import Plan, PlanOptions
from replayer.schema import MOVES
from tests.replayer.arrangements.compiled_plan import gib_of
from tests.replayer.arrangements.tiers import ops_of
from tests.replayer.order_ledgers import Load, ceil_div
from tests.replayer.serving_oracle import Engine, NoEnd, Serving
from tests.support import traces
from tracegen.recipes.recipe import Mix, Persona, Prefix, Recipe
from tracegen.schema import ENUMS, Columns

CASES = int(os.environ.get("SERVING_CASES", "250"))


def drawn(seed: int) -> tuple[Columns, Engine, Load]:
    """A small trace of blocks, an engine that can just hold its longest request or more, and a load."""
    chance = random.Random(seed)
    pick = chance.choice
    block = chance.randint(4, 8)
    recipe = Recipe(
        seed=seed,
        users=chance.randint(2, 6),
        think_s=(0, 0.5),
        context_growth=True,
        block_tokens=block,
        save_decode=pick([True, True, False]),
        decode_reads=pick([True, False]),
        decode_batch=4,
        decode_token_ms=pick([1, 30]),
        duration_s=2,
        requests=14,
        prefix=Prefix(share=pick([0, 0.5, 1]), tokens=(3, 4 * block), products=2, product_tokens=5),
        personas={
            "one": Persona(
                context=(1, 2 * block),
                generation=(0, pick([3, 12, 24, 40])),
                think_s=(0, 0.3),
                continues=0.8,
                max_turns=5,
                question=(1, 6),
            )
        },
        mix=Mix(0, 1, 0),
    )
    batch = traces.made(recipe)
    batch["op"][np.array([chance.random() < 0.01 for _ in batch["op"]], bool)] = pick([1, 2])
    for name in ("time_ns", "think_ns"):
        batch[name] //= pick([1000, 100_000, 10**7])
    tokens = np.where(batch["phase"] == 0, batch["tokens"], 0) + batch["new_tokens"]
    longest = ceil_div(int(np.bincount(batch["request_id"], tokens).max()), block)
    cpu = pick([0, 3, 8, 30])
    engine = Engine(
        block, longest + pick([0, 0, 1, 3, 12]), cpu, cpu > 0 and pick([False, True]), pick([1, 2, 3, 4, 4]),
        pick([4, 7, 16, 64]), pick([1000, 15000]), pick([10**6, 333_333_333]), *(chance.randint(1, 4) for _ in range(3)),
    )  # fmt: skip
    return batch, engine, Load(pick(["closed", "open", "asap"]), chance.randint(1, 6), pick([1, 3.7]))


def planned(batch: Columns, engine: Engine, load: Load) -> tuple[list[Any], list[Any], tuple[int, int]]:
    """The compiled plan: moves, roles, and the engine's steps and preemptions."""
    scheduler = SchedulerRules(
        engine.seqs, engine.budget, engine.step_ns / 1e6, engine.tokens_per_s, engine.transfer, engine.read, engine.write
    )  # fmt: skip
    room = (engine.gpu * engine.block, engine.cpu * engine.block, None if engine.nvme else 0)
    options = PlanOptions(
        TokenBytes(1),
        gib_of(room),
        headroom=Decimal(1),
        arrangement=replace(load_arrangement("vllm"), scheduler=scheduler, chunk_tokens=0),
        order=Order("engine", "vllm"),
        demand=Demand(Pace(load.pace, load.speedup), load.workers),
    )
    plan = Plan(traces.Held(batch, prefix_chained=True, block_tokens=engine.block), options)
    rows, roles, planner = list[Any](), list[Any](), plan.planner()
    for stretch in planner.stretches():
        told = PlanCounts(plan.workload).list_moves(stretch).tolist()
        aside = stretch.moves["background"].tolist()
        rows += [(i, s, MOVES[m], *rest[:3], bool(one)) for (i, s, m, *rest), one in zip(told, aside, strict=True)]
        roles += [(row, ENUMS["op"][role]) for row, role, _ in stretch.ops.tolist()]
    account = planner.account()
    return rows, roles, (account.steps, account.preemptions)


def test_move_by_move_as_the_oracle() -> None:
    """SERVING_CASES=10000 compares more; what the cases reach is counted."""
    seen = Counter[str]()
    for seed in range(CASES):
        batch, engine, load = drawn(seed)
        oracle = Serving(ops_of(batch, engine.block), engine, load)
        try:
            oracle.run()
        except NoEnd:
            seen["no end"] += 1
            with pytest.raises(AssertionError, match="cannot go on"):
                planned(batch, engine, load)
            continue
        rows, roles, account = planned(batch, engine, load)
        assert rows == oracle.rows, seed
        assert roles == oracle.roles, seed
        assert account == (oracle.step, oracle.count["preempted"]), seed
        seen += oracle.count
    print(seen)
