"""Sessions become ops as the format's specification says; any recipe makes a valid trace."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.traces import joined
from tests.support.workloads import recipes, rows
from tracegen.arrays import Ints, ranges, to_ns
from tracegen.draws import Purpose, between, draw
from tracegen.generate import batches, open_sources
from tracegen.recipes.recipe import Mix, Persona, Prefix, Qos, Rag, Recipe
from tracegen.schema import Columns, Fingerprint, Metadata
from tracegen.sources.sessions import Origin, Sessions, Source
from tracegen.trace.invariants import TraceCheck
from tracegen.workload import ops as ops_of
from tracegen.workload import user_clock
from tracegen.workload.schedule import Schedule, list_users

PLAIN = Recipe(users=1, think_s=(0, 0), prefix=Prefix(share=0), qos=Qos(0, 0, 1), mix=Mix(sharegpt=1))


class Chats:
    """A source of given conversations, paced as ShareGPT's are."""

    contains_prefix = False
    retrieves: float | None = None
    origin = Origin()

    def __init__(self, recipe: Recipe, chats: list[list[tuple[int, int]]]) -> None:
        self.count: int | None = len(chats)
        self._think_ns = [to_ns(limit) for limit in recipe.think_s]
        self._seed = recipe.seed
        self._turns = np.array([len(chat) for chat in chats])
        self._flat = np.array([turn for chat in chats for turn in chat], np.int64).reshape(-1, 2)

    def sessions(self, number: Ints, user: Ints) -> Sessions:
        chat = number % len(self._turns)
        turns = self._turns[chat]
        places = ranges((np.cumsum(self._turns) - self._turns)[chat], turns)
        turn = ranges(np.zeros_like(turns), turns)
        pause = between(draw(self._seed, Purpose.THINK, np.repeat(number, turns), turn), *self._think_ns)
        return Sessions(turns, *self._flat[places].T, pause)


def make_ops_of(recipe: Recipe, chats: list[list[tuple[int, int]]]) -> Columns:
    recipe = replace(recipe, mix=Mix(sharegpt=1))
    sources: list[Source] = [Chats(recipe, chats)]
    return joined(list(batches(recipe, sources, list_users(recipe, sources))))


def start_times(recipe: Recipe, chats: list[list[tuple[int, int]]]) -> Ints:
    """Return the time of every request."""
    batch = make_ops_of(recipe, chats)
    times: Ints = batch["time_ns"][np.unique(batch["request_id"], return_index=True)[1]]
    return times


def test_a_conversation_becomes_the_ops_worked_out_by_hand() -> None:
    """Two turns, 5 tokens asked and 70 answered, then 3 and 0, with a shared prompt; B = 32, 30 ms per token.

    Turn 1: prompt written, 5 tokens prefilled, loaded, then batches of 32, 32 and 6 tokens at 0, 960 and 1,920 ms.
    Turn 2 begins after 70 × 30 = 2,100 ms: prompt read, turn 1 read, 3 tokens prefilled, nothing decoded.
    """
    recipe = replace(PLAIN, prefix=Prefix(share=1, tokens=(800,)))
    batch = make_ops_of(recipe, [[(5, 70), (3, 0)]])
    listed = rows(batch, "time_ns", "turn", "step", "phase", "op", "source", "key", "tokens", "new_tokens")
    ms = 1_000_000
    assert listed == [
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


def test_a_conversation_becomes_the_blocks_worked_out_by_hand() -> None:
    """A prompt of 10 tokens, turns of 5 and 6, 3 generated after each and stored, blocks of 4.

    The sequence: 10 of the prompt, 5, 3, 6, 3. Turn 1 prefills 15 tokens: the prompt alone fills blocks 0 and 1, block 2
    holds its last 2 tokens and 2 of the turn, the other 3 are a partial block. With the answer the session has 18
    tokens: block 3 is full, 2 are in a partial one. Turn 2 finds blocks 0 to 3 and prefills up to 24: blocks 4 and 5. With the answer
    the session has 27 tokens: 3 in a partial block.
    """
    recipe = replace(PLAIN, block_tokens=4, save_decode=True, prefix=Prefix(share=1, tokens=(10,)))
    batch = make_ops_of(recipe, [[(5, 3), (6, 3)]])
    assert rows(batch, "turn", "step", "phase", "op", "source", "key", "tokens", "new_tokens") == [
        (1, 0, "prefill", "write", "system", 0, 4, 0),
        (1, 0, "prefill", "write", "system", 1, 4, 0),
        (1, 1, "prefill", "write", "user", 2, 4, 0),
        (1, 1, "prefill", "write", "user", 3, 3, 3),
        (1, 2, "decode", "write", "user", 4, 4, 0),
        (1, 2, "decode", "write", "user", 5, 2, 0),
        (2, 0, "prefill", "read", "system", 0, 4, 0),
        (2, 0, "prefill", "read", "system", 1, 4, 0),
        (2, 1, "prefill", "read", "multi_turn", 2, 4, 0),
        (2, 1, "prefill", "read", "multi_turn", 4, 4, 0),
        (2, 2, "prefill", "write", "user", 6, 4, 0),
        (2, 2, "prefill", "write", "user", 7, 4, 3),
        (2, 3, "decode", "write", "user", 8, 3, 0),
    ]


def test_the_last_op_generates_the_tokens_if_there_are_no_decode_reads() -> None:
    batch = make_ops_of(replace(PLAIN, decode_max_context=4), [[(5, 70), (4, 10)]])
    assert rows(batch, "turn", "phase", "new_tokens") == [
        (1, "prefill", 70),
        (2, "prefill", 0),
        (2, "prefill", 0),
        (2, "decode", 0),
        (2, "decode", 10),
    ]


def test_a_turn_reads_all_earlier_turns_or_the_previous_one() -> None:
    chat = [[(1, 0), (2, 0), (3, 0)]]
    reads = {
        history: [
            row[1:]
            for row in rows(make_ops_of(replace(PLAIN, history=history), chat), "op", "turn", "key")
            if row[0] == "read"
        ]
        for history in ("all", "previous")
    }
    assert reads == {"all": [(2, 0), (3, 0), (3, 1)], "previous": [(2, 0), (3, 1)]}


def test_a_user_pauses_between_requests() -> None:
    recipe = replace(PLAIN, users=3, think_s=(0.5, 2))
    batch = make_ops_of(recipe, [[(1, 10), (1, 20)] for _ in range(30)])
    first = np.unique(batch["request_id"], return_index=True)[1]
    starts, pauses, users = (batch[name][first] for name in ("time_ns", "think_ns", "user_id"))
    generated = np.zeros(len(first), np.int64)
    np.add.at(generated, batch["request_id"], batch["new_tokens"])
    for user in range(3):
        own = users == user
        ends = starts[own] + generated[own] * 30_000_000
        assert (starts[own][1:] - ends[:-1] == pauses[own][1:]).all()
        assert pauses[own][0] == 0
    assert pauses[pauses > 0].min() >= 500_000_000
    assert pauses.max() <= 2_000_000_000


def test_more_sessions_never_move_the_arrivals_of_earlier_ones() -> None:
    recipe = replace(PLAIN, users=2000, session_rate=4)
    fewer, more = (start_times(recipe, [[(1, 0)]] * count) for count in (1500, 2000))
    assert (fewer == more[:1500]).all()


def test_classes_of_service_have_their_shares() -> None:
    batch = make_ops_of(Recipe(users=20), [[(1, 0)]] * 8000)
    classes = np.bincount(batch["qos"][np.unique(batch["request_id"], return_index=True)[1]]) / 8000
    assert classes == pytest.approx([0.15, 0.35, 0.5], abs=0.02)


def test_limits_keep_the_earliest_requests() -> None:
    chats = [[(1, 40), (1, 40)] for _ in range(20)]
    recipe = replace(PLAIN, users=4, think_s=(0.1, 3))
    whole = start_times(recipe, chats)
    assert (start_times(replace(recipe, requests=13), chats) == whole[:13]).all()
    assert len(start_times(replace(recipe, duration_s=5), chats)) == (whole < 5 * 10**9).sum() > 0


turn = st.tuples(st.integers(1, 60), st.integers(0, 100))
chats = st.lists(st.lists(turn, min_size=1, max_size=5), min_size=1, max_size=12)


def generate_batches(recipe: Recipe, given_chats: list[list[tuple[int, int]]]) -> list[Columns]:
    sources = [Chats(recipe, given_chats) if name == "sharegpt" else None for name in recipe.weights]
    others = open_sources(replace(recipe, mix=replace(recipe.mix, sharegpt=0)), Metadata(0, {}, ""))
    every: list[Source] = [source or others.pop(0) for source in sources]
    return [batch for batch in batches(recipe, every, list_users(recipe, every)) if len(batch["op_id"])]


@settings(max_examples=100)
@given(recipes, chats)
def test_any_recipe_makes_a_valid_trace(recipe: Recipe, given_chats: list[list[tuple[int, int]]]) -> None:
    if recipe.think_s[1] == 0 and recipe.mix.personas:
        recipe = replace(recipe, think_s=(0, 1))  # users without pause in an endless source are refused
    recipe.check()
    parts = generate_batches(recipe, given_chats)
    if not parts:
        return
    count = sum(len(part["op_id"]) for part in parts)
    check = TraceCheck(count, Metadata(0, {}, ""))
    for part in parts:
        check.feed(part)
    check.finish()
    assert [problem.column for problem in check.problems] == ["fingerprint"], "none is recorded"


@settings(max_examples=50)
@given(recipes)
def test_listed_users_are_those_with_a_request(recipe: Recipe) -> None:
    recipe = replace(recipe, mix=replace(recipe.mix, sharegpt=0, personas=recipe.mix.personas or 1))
    sources = open_sources(recipe, Metadata(0, {}, ""))
    turns = [batch.user for batch in Schedule(recipe, sources).batches()]
    users = np.unique(np.concatenate([np.zeros(0, np.int64), *turns]))
    assert list_users(recipe, sources).tolist() == users.tolist()


@pytest.mark.parametrize(("seed", "users", "turns"), [(798, 3, 4), (1284, 3, 4), (1374, 2, 3)])
def test_no_user_is_forgotten_while_another_has_no_session_left(seed: int, users: int, turns: int) -> None:
    """One user has no session left, and no turn waits, before the other's next session: one in 400 recipes."""
    person = Persona(generation=(0, 4000), think_s=(0.1, 100), max_turns=1)
    recipe = Recipe(
        seed=seed, users=users, duration_s=60, prefix=Prefix(share=0), mix=Mix(personas=1),
        personas={"chatbot": person, "coding": Persona(weight=0), "document": Persona(weight=0)},
    )  # fmt: skip
    schedule = Schedule(recipe, open_sources(recipe, Metadata(0, {}, "")))
    assert sum(map(len, schedule.batches())) == turns


@pytest.mark.parametrize("rows", [1, 30, 10**7])
def test_the_trace_does_not_depend_on_the_size_of_batches(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(
        users=7, requests=400, mix=Mix(personas=1, rag=1), rag=Rag(share=0.5), block_tokens=64, save_decode=True
    )
    prints = []
    for size, each in ((ops_of.ROWS_PER_SORT, user_clock.SESSIONS_PER_STEP), (rows, 3)):
        monkeypatch.setattr(ops_of, "ROWS_PER_SORT", size)
        monkeypatch.setattr(user_clock, "SESSIONS_PER_STEP", each)
        fingerprint = Fingerprint()
        for part in generate_batches(recipe, [[(1, 1)]]):
            fingerprint.update(part)
        prints.append(fingerprint.hexdigest())
    assert prints[0] == prints[1]
