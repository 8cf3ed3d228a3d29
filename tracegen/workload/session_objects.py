"""KV objects of sessions: what each turn prefills, reads of earlier turns, and saves.

A session's objects are numbered as it is scheduled. Without blocks a turn is one object, its saved
answer another. In a trace of blocks the tokens of a session (shared prompt, turns, with
`save_decode` answers) are cut every `block_tokens` tokens, so that a block stands for all before
it; a last, partial block is an object of its own, which the next turn replaces.
"""

from dataclasses import dataclass

import numpy as np

from tracegen.arrays import Ints, positions
from tracegen.recipes.recipe import Recipe
from tracegen.sources.sessions import Sessions
from tracegen.workload.turns import ObjectRanges


@dataclass(frozen=True)
class SessionObjects:
    """The objects of some sessions; rows are turns, session by session."""

    tokens: Ints  # of each object, shape (objects,)
    session_first: Ints  # lowest object of the turn's session, shape (turns,)
    # ranges of what each turn touches: history, what it prefills, and with `save_decode` its generated tokens. In a
    # trace of blocks each of the last two has a second range, for a partial block.
    objects: ObjectRanges


def number_session_objects(recipe: Recipe, sessions: Sessions, prompt_tokens: Ints, begin: int) -> SessionObjects:
    """Number the objects of some sessions, from `begin` on.

    The sessions' `context` is without the shared prompt, whose tokens are given.
    """
    saved_tokens = sessions.generated if recipe.save_decode else np.zeros_like(sessions.generated)
    if recipe.block_tokens:
        return _number_blocks(recipe, sessions, saved_tokens, prompt_tokens, begin)
    return _number_turns(recipe, sessions, saved_tokens, begin)


def _number_turns(recipe: Recipe, sessions: Sessions, saved_tokens: Ints, begin: int) -> SessionObjects:
    """Number one object per turn, and one for its answer if that is saved."""
    saves = (saved_tokens > 0).astype(np.int64)
    ends = np.cumsum(1 + saves)
    own = begin + ends - 1 - saves
    first_turn = np.cumsum(sessions.turns) - sessions.turns
    session_first = np.repeat(own[first_turn], sessions.turns)
    oldest = session_first
    if recipe.history == "previous":
        previous = np.concatenate([own[:1], own[:-1]])
        oldest = np.where(own > session_first, previous, own)
    tokens = np.zeros(int(ends[-1]), np.int64)
    tokens[own - begin] = sessions.context
    tokens[(own + 1 - begin)[saves > 0]] = saved_tokens[saves > 0]
    columns = [(oldest, own - oldest), (own, np.ones_like(own))]
    if recipe.save_decode:
        columns.append((own + 1, saves))
    return SessionObjects(tokens, session_first, ObjectRanges.stack(*columns))


def _number_blocks(
    recipe: Recipe, sessions: Sessions, saved_tokens: Ints, prompt_tokens: Ints, begin: int
) -> SessionObjects:
    """Number full blocks by place in the session, then two objects a turn for partial blocks."""
    block = recipe.block_tokens
    turns = sessions.turns
    session = np.repeat(np.arange(len(turns)), turns)
    end = _end_tokens(sessions, saved_tokens, prompt_tokens)
    stored = end - saved_tokens
    history = (stored - sessions.context) // block
    shared = prompt_tokens // block
    full = end[np.cumsum(turns) - 1] // block - shared
    objects = full + 2 * turns
    first = begin + np.cumsum(objects) - objects
    block_zero = (first - shared)[session]  # the number that the block of token 0 would have
    partial = (first + full)[session] + 2 * positions(turns)
    tokens = np.full(int(objects.sum()), block)
    tokens[partial - begin] = stored % block
    tokens[partial + 1 - begin] = end % block
    columns = [
        (first[session], history - shared[session]),
        (block_zero + history, stored // block - history),
        (partial, (stored % block > 0).astype(np.int64)),
    ]
    if recipe.save_decode:
        saves_partial = (saved_tokens > 0) & (end % block > 0)
        columns.append((block_zero + stored // block, end // block - stored // block))
        columns.append((partial + 1, saves_partial.astype(np.int64)))
    return SessionObjects(tokens, first[session], ObjectRanges.stack(*columns))


def _end_tokens(sessions: Sessions, saved_tokens: Ints, prompt_tokens: Ints) -> Ints:
    """Return the tokens of the session up to the end of each turn's answer; shape (turns,)."""
    added = sessions.context + saved_tokens
    total = np.cumsum(added)
    first_turn = np.cumsum(sessions.turns) - sessions.turns
    before_session = (total - added)[first_turn]
    end: Ints = total + np.repeat(prompt_tokens - before_session, sessions.turns)
    return end
