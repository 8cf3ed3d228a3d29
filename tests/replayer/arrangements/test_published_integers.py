"""Integers that engines' projects published, as closed forms and as plans of tiny traces."""

from math import floor

import numpy as np
import pytest

from replayer.planning.plan import Plan
from tests.replayer.arrangements.compiled_plan import arranged, rows_of
from tests.support import traces
from tracegen.schema import Columns

PAGE = {"copies": "inclusive", "lookup": "contiguous", "chunk_tokens": 64, "unsaved_tokens": 1}
UNLIMITED = (0, 1 << 40, 0)
QWEN3_8B = 147_456
"""Bytes of KV cache per token: 36 layers × 8 heads × 128 elements × 2 (keys, values) × 2 bytes."""


def chat(rounds: int, asked: int, answered: int, users: int = 1) -> Columns:
    """Users in turn: each request reads its user's history, then writes a prompt and its answer."""
    steps: list[traces.Step] = []
    requests: list[int] = []
    key = 0
    history: list[list[tuple[int, int]]] = [[] for _ in range(users)]
    for turn in range(rounds):
        for user in range(users):
            new = [(key, asked), (key + 1, answered)] if answered else [(key, asked)]
            key += len(new)
            steps += [("r", *known) for known in history[user]] + [("w", *made) for made in new]
            requests += [turn * users + user] * (len(history[user]) + len(new))
            history[user] += new
    batch = traces.columns(steps, requests)
    if answered:  # every other write of a request is its answer, which is decoded
        is_write = batch["op"] == 0
        batch["phase"] = (is_write & (batch["key"] % 2 == 1)).astype(batch["phase"].dtype)
    return batch


def hit_shares(plan: Plan, batch: Columns) -> list[float]:
    """The share of each request's prompt tokens that hits spare."""
    stored = plan.workload._key["stored"]
    requests = int(batch["request_id"][-1]) + 1
    spared = np.zeros(requests)
    for op_id, _, move, key, *_ in rows_of(plan):
        if move == "hit":
            spared[batch["request_id"][op_id]] += stored[key]
    prompts = np.where(batch["phase"] == 0, batch["tokens"], 0)
    asked = np.bincount(batch["request_id"], weights=prompts)
    return [float(share) for share in spared / asked]


def test_a_client_of_sglang_hits_all_but_a_partial_page() -> None:
    """sglang#33984: 4,096 tokens a turn, 1 generated, pages of 64."""
    batch = chat(9, 4096, 1)
    shares = hit_shares(arranged(batch, PAGE, UNLIMITED), batch)
    published = [0, 0.499939, 0.666558, 0.749863, 0.799844, 0.833164, 0.856964, 0.874813, 0.888696]
    closed = [64 * max(0, floor((4097 * r - 1) / 64)) / (4096 + 4097 * r) for r in range(9)]
    assert shares == pytest.approx(closed, abs=1e-15)
    assert shares == pytest.approx(published, abs=5e-7)


def test_many_clients_of_sglang_hit_alike() -> None:
    """sglang#27010: 128 clients, 512 tokens a turn, 64 generated: 9r − 1 of 9r + 8 pages."""
    batch = chat(5, 512, 64, users=128)
    shares = hit_shares(arranged(batch, PAGE, UNLIMITED), batch)
    for request, share in enumerate(shares):
        turn = request // 128
        assert share == pytest.approx(max(0, 9 * turn - 1) / (9 * turn + 8), abs=1e-15)


def test_sglang_refuses_half_of_the_prefetches() -> None:
    """sglang#27619: of 24 requests, 12 may fetch 3,840 of 4,096 tokens: 0.46875 of all tokens."""
    limit, asked, known = 18_227, 4096, 3840
    steps = [("w", key, known) for key in range(24)]
    steps += [step for key in range(24) for step in (("r", key, known), ("w", 24 + key, asked - known))]
    batch = traces.columns(steps, [*range(24), *(24 + i // 2 for i in range(48))])
    # Eight requests arrive at a time: each is decided before any of them has its prompt.
    order = list(range(24))
    for begin in range(0, 24, 8):
        order += [24 + 2 * request for request in range(begin, begin + 8)]
        order += [24 + 2 * request + 1 for request in range(begin, begin + 8)]
    limits = {"fetch_tokens": 256, "fetch_in_flight": limit}
    table = {"copies": "inclusive", "lookup": "contiguous", "cpu": limits}
    plan = arranged(batch, table, UNLIMITED, order=order)
    shares = hit_shares(plan, batch)[24:]
    assert limit // asked == 4, "four of eight requests may fetch"
    assert sorted(shares) == [0] * 12 + [known / asked] * 12
    assert sum(shares) / 24 == 0.46875


def test_the_working_set_of_mooncakes_page_outgrows_its_pool_in_round_7() -> None:
    """20 clients × 10 rounds × 4,096 tokens of Qwen3-8B, a pool of 80 GB: hits fall in round 7."""
    pool = 80 * 10**9
    batch = chat(10, 4096, 0, users=20)
    assert 20 * 6 * 4096 * QWEN3_8B <= pool < 20 * 7 * 4096 * QWEN3_8B == 84_557_168_640
    plan = arranged(batch, {"lookup": "contiguous"}, (0, pool, 0), QWEN3_8B)
    shares = np.array(hit_shares(plan, batch)).reshape(10, 20).mean(1)
    whole = np.arange(10) / (np.arange(10) + 1)
    assert shares[:6] == pytest.approx(whole[:6])
    assert shares[6] < 0.7 * whole[6], "rounds are counted from 1"
    assert (shares[7:] == 0).all()
