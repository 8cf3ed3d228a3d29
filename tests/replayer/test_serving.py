"""The order of a serving engine (docs/serving.md): the compiled engine against the plain one, and against vLLM itself."""

import json
import os
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
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
from tests.replayer.serving_oracle import NoEnd, Serving
from tests.replayer.serving_parts import Engine
from tests.support import traces
from tests.support.command_line import here, sentence
from tests.support.run_json import run_json
from tracegen.errors import InputError
from tracegen.recipes.recipe import Mix, Persona, Prefix, Recipe
from tracegen.schema import ENUMS, Columns

PARTS = int(os.environ.get("SERVING_PARTS", "1"))  # of 250 cases each
REACHED = ("preempted", "loads", "promoted", "not promoted", "refused", "admitted again", "dropped")


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
    pace: Any = load.pace
    room = (engine.gpu * engine.block, engine.cpu * engine.block, None if engine.nvme else 0)
    options = PlanOptions(
        TokenBytes(1),
        gib_of(room),
        headroom=Decimal(1),
        arrangement=replace(load_arrangement("vllm"), scheduler=scheduler, chunk_tokens=0),
        order=Order("engine", "vllm"),
        demand=Demand(Pace(pace, load.speedup), load.workers),
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


@pytest.mark.parametrize("part", range(PARTS))
def test_move_by_move_as_the_oracle(part: int) -> None:
    seen = Counter[str]()
    for seed in range(250 * part, 250 * part + 250):
        batch, engine, load = drawn(seed)
        oracle = Serving(ops_of(batch, engine.block), engine, load)
        try:
            oracle.run()
        except NoEnd:
            seen["no end"] += 1
            with pytest.raises(InputError, match="push each other"):
                planned(batch, engine, load)
            continue
        rows, roles, account = planned(batch, engine, load)
        assert rows == oracle.rows, seed
        assert roles == oracle.roles, seed
        assert account == (oracle.step, oracle.count["preempted"]), seed
        seen += oracle.count
    assert all(seen[what] >= 5 for what in REACHED), seen


AGENTS = Recipe(
    seed=0,
    users=12,
    duration_s=40,
    context_growth=True,
    block_tokens=64,
    save_decode=True,
    mix=Mix(0, 1, 0),
    personas={"agent": Persona((500, 3000), (20, 150), think_s=(0.2, 2), continues=0.9, max_turns=10, question=(50, 500))},
    prefix=Prefix(share=1, tokens=(500, 1000), products=2, product_tokens=250),
)  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "counts"),
    [
        (Engine(64, 150, 300, False, 128, 2048, 15_000_000, 16384, 1, 1, 1), (3426, 2151, 2232, 0, 0, 5)),
        (Engine(64, 120, 400, False, 8, 1024, 15_000_000, 16384, 3, 1, 1), (3359, 3384, 1344, 0, 0, 4)),
        (Engine(64, 130, 150, True, 128, 2048, 15_000_000, 16384, 2, 2, 3), (3375, 3439, 1479, 1211, 5707, 1)),
    ],
)
def test_counts_of_vllm_itself(engine: Engine, counts: tuple[int, ...]) -> None:
    """Hits in gpu and in slower tiers, blocks stored, written and read, preemptions: of vLLM 0.32's scheduler."""
    rows, _, (_, preemptions) = planned(traces.made(AGENTS), engine, Load("closed", 1))
    moves = Counter((move, source, target) for _, _, move, _, source, target, _ in rows)
    from_nvme = moves["hit", 2, -1]
    stored = moves["copy", 0, 1] + moves["store", -1, 1] - from_nvme
    nvme = moves["copy", 1, 2], from_nvme + moves["copy", 2, 1]
    assert (moves["hit", 0, -1], moves["hit", 1, -1] + from_nvme, stored, *nvme, preemptions) == counts


def test_two_users_on_four_blocks() -> None:
    """The case of docs/serving.md: keys 0 (a), 1 (b) and 2 (c)."""
    batch = traces.columns(
        [("w", 0, 4), ("w", 1, 4), ("r", 0, 4), ("w", 2, 4), ("d", 2, 4)], [0, 0, 1, 1, 1],
        time_ns=[0] * 5, new_tokens=[0, 6, 0, 5, 1],
    )  # fmt: skip
    engine = Engine(4, 4, 0, False, 8, 8, 1000, 10**9, 1, 1, 1)
    rows, roles, account = planned(batch, engine, Load("closed", 1))
    assert rows == [
        (0, 0, "store", 0, -1, 0, False),
        (1, 0, "store", 1, -1, 0, False),
        (2, 0, "hit", 0, 0, -1, False),
        (3, 0, "store", 2, -1, 0, False),
        (4, 0, "drop", 2, 0, -1, True),
        (4, 1, "store", 2, -1, 0, True),
        (4, 2, "drop", 1, 0, -1, True),
        (4, 3, "hit", 2, 0, -1, False),
    ]
    assert roles == [(0, "write"), (1, "write"), (2, "read"), (3, "write"), (4, "read")]
    assert account == (12, 1)


SMALL = replace(
    AGENTS,
    users=4,
    duration_s=2,
    block_tokens=16,
    personas={"agent": Persona((20, 60), (5, 20), think_s=(0.1, 0.5), continues=0.8, max_turns=4, question=(5, 20))},
    prefix=Prefix(share=1, tokens=(10, 30), products=2, product_tokens=5),
)
TIERS = ("--model", "llama3.1-8b", "--engine", "vllm", "--gpu-mem-gb", "40M", "--cpu-mem-gb", "100M")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of requests of up to some 150 tokens, 128 KiB each."""
    path = tmp_path_factory.mktemp("serving") / "small.parquet"
    return traces.write(path, traces.made(SMALL), prefix_chained=True, block_tokens=16).path


def test_a_run_in_the_order_of_an_engine_is_valid(trace: Path, tmp_path: Path) -> None:
    places = ("--gpu-device", "cpu", "--cache-dir", tmp_path, "-o", tmp_path / "run")
    done = here("replayer", "run", trace, *TIERS, *places)
    assert done.returncode == 0, done.stderr
    info = run_json(tmp_path / "run")
    planned = json.loads(here("replayer", "plan", trace, "--like", tmp_path / "run", "--json").stdout)
    assert planned["plan_fingerprint"] == info["plan"]["plan_fingerprint"] == info["executed_fingerprint"]
    assert planned["order"]["kind"] == "engine"
    checked = here("analysis", "check", tmp_path / "run", "--trace", trace)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_what_an_engine_cannot_plan_is_refused_with_a_remedy(trace: Path, tmp_path: Path) -> None:
    whole = traces.write(tmp_path / "t.parquet", traces.made(replace(SMALL, block_tokens=0))).path
    plan = ("replayer", "plan", trace, "--order", "engine")
    model = TIERS[:4]
    sentence(here(*plan, *model, "--cpu-mem-gb", "1"), "no gpu tier", "gpu-mem-gb")
    sentence(here("replayer", "plan", whole, *plan[3:], *TIERS), "not one of blocks", "trace of blocks")
    sentence(here(*plan, *TIERS, "--storage-capacity-gb", "1"), "no capacity", "--storage-capacity-gb 0")
    sentence(here(*plan, "--model", "llama3.1-8b", "--cpu-mem-gb", "1", "--gpu-mem-gb", "1"), "no scheduler", "engine")
    short = ("--gpu-mem-gb", "4M", "--storage-capacity-gb", "0")
    sentence(here(*plan, *model, *short), "blocks of 16 tokens", "room for 1", "--gpu-mem-gb")
