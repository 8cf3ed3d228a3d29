"""KV objects of sessions: what each turn prefills, reads of earlier turns, and saves.

A session's objects are numbered as it is scheduled. Without blocks a turn is one object, its saved answer
another. In a trace of blocks the tokens of a session (shared prompt, turns, with `save_decode` answers) are
cut every `block_tokens` tokens, so that a block stands for all before it; a last, partial block is an object
of its own, which the next turn replaces.
"""

from dataclasses import dataclass

import numpy as np

from tracegen.arrays import Ints
from tracegen.recipe.recipe import Recipe
from tracegen.sources.sessions import Sessions
from tracegen.workload.turns import ObjectRanges, no_ranges


@dataclass(frozen=True)
class SessionObjects:
    """The objects of some sessions; rows are turns, session by session.

    Attributes:
        tokens: of each object, shape (objects,).
        session_first: lowest object of the turn's session, shape (turns,).
        history: objects of earlier turns that the turn reads, one range.
        own: objects that the turn prefills: one range; of blocks a second one for a partial block.
        saved: objects of its generated tokens: no range without `save_decode`, else as `own`.
    """

    tokens: Ints
    session_first: Ints
    history: ObjectRanges
    own: ObjectRanges
    saved: ObjectRanges


def number_session_objects(recipe: Recipe, sessions: Sessions, prompt_tokens: Ints, begin: int) -> SessionObjects:
    """Number the objects of some sessions.

    Args:
        recipe: blocks, history and whether answers are saved.
        sessions: `context` without the shared prompt.
        prompt_tokens: tokens of the shared prompt before each session, shape (sessions,).
        begin: number of the first object.
    """
    turns = sessions.turns
    session = np.repeat(np.arange(len(turns)), turns)
    first_turn = np.cumsum(turns) - turns
    saved_tokens = sessions.generated if recipe.save_decode else np.zeros_like(sessions.generated)
    if recipe.block_tokens:
        return _number_blocks(recipe, sessions, session, first_turn, saved_tokens, prompt_tokens, begin)
    return _number_turns(recipe, sessions, first_turn[session], saved_tokens, begin)


def _number_turns(
    recipe: Recipe, sessions: Sessions, first_turn: Ints, saved_tokens: Ints, begin: int
) -> SessionObjects:
    """Number one object per turn, and one for its answer if that is saved."""
    saves = (saved_tokens > 0).astype(np.int64)
    ends = np.cumsum(1 + saves)
    own = begin + ends - 1 - saves
    session_first = own[first_turn]
    oldest = session_first
    if recipe.history == "previous":
        previous = np.concatenate([own[:1], own[:-1]])
        oldest = np.where(own > session_first, previous, own)
    tokens = np.zeros(int(ends[-1]), np.int64)
    tokens[own - begin] = sessions.context
    tokens[(own + 1 - begin)[saves > 0]] = saved_tokens[saves > 0]
    saved = _stack((own + 1, saves)) if recipe.save_decode else no_ranges(len(own))
    return SessionObjects(
        tokens,
        session_first,
        history=_stack((oldest, own - oldest)),
        own=_stack((own, np.ones_like(own))),
        saved=saved,
    )


def _number_blocks(
    recipe: Recipe,
    sessions: Sessions,
    session: Ints,
    first_turn: Ints,
    saved_tokens: Ints,
    prompt_tokens: Ints,
    begin: int,
) -> SessionObjects:
    """Number full blocks by their place in the session, then two objects a turn for partial blocks."""
    block = recipe.block_tokens
    added = sessions.context + saved_tokens
    total = np.cumsum(added)
    end = prompt_tokens[session] + total - (total - added)[first_turn][session]
    stored = end - saved_tokens
    start = stored - sessions.context
    shared = prompt_tokens // block
    full = (end // block)[first_turn + sessions.turns - 1] - shared
    objects = full + 2 * sessions.turns
    first = begin + np.cumsum(objects) - objects
    block_zero = (first - shared)[session]  # the number that the block of token 0 would have
    partial = (first + full - 2 * first_turn)[session] + 2 * np.arange(len(session))
    tokens = np.full(int(objects.sum()), block)
    tokens[partial - begin] = stored % block
    tokens[partial + 1 - begin] = end % block
    has_partial = (stored % block > 0).astype(np.int64)
    own = _stack((block_zero + start // block, stored // block - start // block), (partial, has_partial))
    saved = no_ranges(len(session))
    if recipe.save_decode:
        saves_partial = ((saved_tokens > 0) & (end % block > 0)).astype(np.int64)
        full_saved = block_zero + stored // block, end // block - stored // block
        saved = _stack(full_saved, (partial + 1, saves_partial))
    history = _stack((first[session], start // block - shared[session]))
    return SessionObjects(tokens, first[session], history, own, saved)


def _stack(*ranges: tuple[Ints, Ints]) -> ObjectRanges:
    """Put (first, count) pairs of shape (turns,) next to one another, as ranges of shape (turns, ranges)."""
    return ObjectRanges(
        np.stack([first for first, _ in ranges], axis=1), np.stack([count for _, count in ranges], axis=1)
    )
