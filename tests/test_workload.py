"""From sessions to ops, as the format's specification says; any recipe yields a valid trace."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracegen import workload
from tracegen.invariants import Invariants
from tracegen.recipe import Prefix, Qos, Recipe
from tracegen.schema import DTYPES, ENUMS, Columns, Fingerprint
from tracegen.sessions import Sessions

PLAIN = Recipe(users=1, think_s=(0, 0), prefix=Prefix(share=0), qos=Qos(0, 0, 1))


def sessions(*chats: list[tuple[int, int]]) -> Sessions:
    flat = np.array([turn for chat in chats for turn in chat], np.int64).reshape(-1, 2)
    return Sessions(np.array([len(chat) for chat in chats]), flat[:, 0], flat[:, 1], {}, {})


def ops(recipe: Recipe, given_sessions: Sessions) -> Columns:
    parts = list(workload.ops(recipe, workload.schedule(recipe, given_sessions)))
    return {name: np.concatenate([part[name] for part in parts]) for name in DTYPES}


def rows(batch: Columns, *names: str) -> list[tuple[Any, ...]]:
    columns = [[ENUMS[name][code] for code in batch[name]] if name in ENUMS else batch[name].tolist() for name in names]
    return list(zip(*columns, strict=True))


def test_a_conversation_worked_by_hand() -> None:
    """Two turns, 5 tokens asked and 70 answered, then 3 and 0, with a shared prompt; B = 32, 30 ms per token.

    Turn 1: prompt written, 5 tokens prefilled, loaded, then batches of 32, 32 and 6 tokens at 0, 960 and 1,920 ms.
    Turn 2 begins after 70 × 30 = 2,100 ms: prompt read, turn 1 read, 3 tokens prefilled, nothing decoded.
    """
    recipe = replace(PLAIN, prefix=Prefix(share=1, tokens=(800,)))
    batch = ops(recipe, sessions([(5, 70), (3, 0)]))
    found = rows(batch, "time_ns", "turn", "step", "phase", "op", "source", "key", "tokens", "new_tokens")
    ms = 1_000_000
    assert found == [
        (0, 1, 0, "prefill", "write", "system", 0, 800, 0),
        (0, 1, 1, "prefill", "write", "user", 1, 5, 0),
        (0, 1, 2, "decode", "read", "user", 1, 5, 0),
        (0, 1, 3, "decode", "read", "user", 1, 5, 32),
        (960 * ms, 1, 4, "decode", "read", "user", 1, 5, 32),
        (1920 * ms, 1, 5, "decode", "read", "user", 1, 5, 6),
        (2100 * ms, 2, 0, "prefill", "read", "system", 0, 800, 0),
        (2100 * ms, 2, 1, "prefill", "read", "multi_turn", 1, 5, 0),
        (2100 * ms, 2, 2, "prefill", "write", "user", 2, 3, 0),
    ]


def test_tokens_generated_without_decode_ops_stand_on_the_last_op() -> None:
    batch = ops(replace(PLAIN, decode_max_context=4), sessions([(5, 70), (4, 10)]))
    assert rows(batch, "turn", "phase", "new_tokens") == [
        (1, "prefill", 70),
        (2, "prefill", 0),
        (2, "prefill", 0),
        (2, "decode", 0),
        (2, "decode", 10),
    ]


def test_history() -> None:
    chat = sessions([(1, 0), (2, 0), (3, 0)])
    reads = {
        history: [
            row[1:] for row in rows(ops(replace(PLAIN, history=history), chat), "op", "turn", "key") if row[0] == "read"
        ]
        for history in ("all", "previous")
    }
    assert reads == {"all": [(2, 0), (3, 0), (3, 1)], "previous": [(2, 0), (3, 1)]}


def test_users_take_conversations_in_turn() -> None:
    batch = ops(replace(PLAIN, users=2), sessions(*[[(i + 1, 10)] for i in range(5)]))
    users = {token: user for op, token, user in rows(batch, "op", "tokens", "user_id") if op == "write"}
    assert users == {1: 0, 2: 1, 3: 0, 4: 1, 5: 0}


def test_think_time_lies_between_a_users_requests() -> None:
    recipe = replace(PLAIN, users=3, think_s=(0.5, 2))
    batch = ops(recipe, sessions(*[[(1, 10), (1, 20)] for _ in range(30)]))
    first = np.unique(batch["request_id"], return_index=True)[1]
    starts, pauses, users = (batch[name][first] for name in ("time_ns", "think_ns", "user_id"))
    generated = np.zeros(len(first), np.int64)
    np.add.at(generated, batch["request_id"], batch["new_tokens"])
    for user in range(3):
        mine = users == user
        ends = starts[mine] + generated[mine] * 30_000_000
        assert (starts[mine][1:] - ends[:-1] == pauses[mine][1:]).all()
        assert pauses[mine][0] == 0
        assert (pauses[mine][1:] >= 500_000_000).all()
        assert (pauses[mine][1:] <= 2_000_000_000).all()
    assert pauses[pauses > 0].mean() == pytest.approx(1.25e9, rel=0.1)


def test_poisson_arrivals_have_their_rate_and_spread() -> None:
    """4 per second: counts of one-second bins have mean and variance 4, gaps the exponential's coefficient 1."""
    count = 20_000
    recipe = replace(PLAIN, users=count, session_rate=4)
    arrivals = workload.schedule(recipe, sessions(*[[(1, 0)]] * count)).time_ns
    bins = np.bincount(arrivals // 10**9)[:-1]
    gaps = np.diff(arrivals)
    assert bins.mean() == pytest.approx(4, rel=0.02)
    assert bins.var() == pytest.approx(4, rel=0.1)
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.03)
    fewer = workload.schedule(recipe, sessions(*[[(1, 0)]] * 1500)).time_ns
    assert (fewer == arrivals[:1500]).all(), "more sessions never move the earlier ones"


def test_shares_of_prompts_and_classes() -> None:
    batch = ops(Recipe(users=20), sessions(*[[(1, 0)]] * 8000))
    prompts = batch["tokens"][batch["source"] == ENUMS["source"].index("system")]
    assert len(prompts) / 8000 == pytest.approx(0.2, abs=0.015)
    assert [(prompts == n).mean() for n in (800, 1200, 2000)] == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.04)
    classes = np.bincount(batch["qos"][np.unique(batch["request_id"], return_index=True)[1]]) / 8000
    assert classes == pytest.approx([0.15, 0.35, 0.5], abs=0.02)


def test_cuts_keep_the_earliest_requests() -> None:
    chats = sessions(*[[(1, 40), (1, 40)] for _ in range(20)])
    recipe = replace(PLAIN, users=4, think_s=(0.1, 3))
    whole = workload.schedule(recipe, chats)
    some = workload.schedule(replace(recipe, requests=13), chats)
    early = workload.schedule(replace(recipe, duration_s=5), chats)
    assert (some.time_ns == whole.time_ns[:13]).all()
    assert len(early.time_ns) == (whole.time_ns < 5 * 10**9).sum() > 0


turn = st.tuples(st.integers(1, 60), st.integers(0, 100))
recipes = st.builds(
    Recipe,
    seed=st.integers(0, 2**64 - 1),
    users=st.integers(1, 9),
    session_rate=st.sampled_from([0, 0.5, 20]),
    think_s=st.sampled_from([(0, 0), (0, 1), (0.5, 0.5)]),
    history=st.sampled_from(["all", "previous"]),
    decode_batch=st.integers(1, 40),
    decode_token_ms=st.sampled_from([0, 0.5, 30]),
    decode_max_context=st.sampled_from([0, 30]),
    duration_s=st.sampled_from([0, 2]),
    requests=st.sampled_from([0, 7]),
    prefix=st.builds(Prefix, share=st.sampled_from([0, 0.5, 1]), tokens=st.just((10, 20))),
)


@settings(max_examples=150)
@given(recipes, st.lists(st.lists(turn, min_size=1, max_size=5), min_size=1, max_size=12))
def test_any_recipe_yields_a_valid_trace(recipe: Recipe, chats: list[list[tuple[int, int]]]) -> None:
    requests = workload.schedule(recipe, sessions(*chats))
    if not len(requests.time_ns):
        return
    parts = list(workload.ops(recipe, requests))
    count = sum(len(part["op_id"]) for part in parts)
    invariants = Invariants(count)
    problems = [problem for part in parts for problem in invariants.feed(part)]
    assert not [*problems, *invariants.finish({})]
    generated = sum(int(part["new_tokens"].sum()) for part in parts)
    assert generated == requests.generated.sum()


@pytest.mark.parametrize("block", [1, 3, 10_000])
def test_block_size_does_not_show(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chats = sessions(*[[(1 + i % 7, i % 90), (2, 33)] for i in range(50)])
    recipe = Recipe(users=5)
    prints = []
    for size in (workload.REQUESTS_PER_BLOCK, block):
        monkeypatch.setattr(workload, "REQUESTS_PER_BLOCK", size)
        fingerprint = Fingerprint()
        for part in workload.ops(recipe, workload.schedule(recipe, chats)):
            fingerprint.update(part)
        prints.append(fingerprint.hexdigest())
    assert prints[0] == prints[1]
