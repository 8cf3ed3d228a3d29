"""Chunks of prompts in blocks whose answers are stored: each token is stored once, as positions in sessions say."""

import pytest

from tests.replayer.arrangements.compiled_plan import arranged
from tests.replayer.arrangements.tiers import TABLE, ops_of, stored_tokens
from tests.support import traces
from tracegen.recipes.recipe import Mix, Prefix, Recipe
from tracegen.schema import ENUMS, Columns

BLOCK = 64
SYSTEM = ENUMS["source"].index("system")


def true_tokens(batch: Columns, chunk: int) -> int:
    """Count the tokens of chunks up to the last token of each answer, which is not saved.

    A session's tokens stay where they are; whole blocks of a shared prompt are the same in all sessions.
    """
    chunks = set[tuple[str, int, int]]()
    for request in range(int(batch["request_id"].max()) + 1):
        own = {name: column[batch["request_id"] == request] for name, column in batch.items()}
        shared = own["key"][own["source"] == SYSTEM]
        saved = int(own["tokens"][own["phase"] == 0].sum() + own["new_tokens"].sum()) - 1
        for end in range(chunk, saved + 1, chunk):
            place, session = (end - 1) // BLOCK, int(own["session_id"][0])
            is_shared = place < len(shared)
            chunks.add(("block", int(shared[place]), end) if is_shared else ("session", session, end))
    return chunk * len(chunks)


@pytest.mark.parametrize("chunk", [1, 16, 64, 256])
def test_each_token_of_a_session_is_stored_once(chunk: int) -> None:
    recipe = Recipe(
        users=6, requests=120, context_growth=True, block_tokens=BLOCK, save_decode=True,
        mix=Mix(personas=1), prefix=Prefix(share=0.7, tokens=(500, 1000)),
    )  # fmt: skip
    batch = traces.made(recipe)
    table = {"chunk_tokens": chunk, "unsaved_tokens": 1}
    plan = arranged(batch, table, (0, 1 << 40, 0), block=BLOCK)
    assert sum(stored_tokens(ops_of(batch, BLOCK), TABLE | table).values()) == true_tokens(batch, chunk)
    assert plan.workload.sizes().sum() == plan.workload.spared_tokens().sum() == true_tokens(batch, chunk)
