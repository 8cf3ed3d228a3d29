"""The turns of sessions, and the requests that they become.

The steps of prefill are: shared prompt, common phrase, history, retrieved chunks, the turn's own
objects. A step without objects is left out. Objects of generated tokens are saved after decoding.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import IdTable, Ints, positions, ranges
from tracegen.draws import Purpose, chance, choose, draw
from tracegen.recipes.recipe import Recipe
from tracegen.schema import COMMON, ENUMS, MULTI_TURN, RAG, SYSTEM, USER
from tracegen.sources.sessions import Sessions, Source
from tracegen.workload.objects import SharedObjects, list_ingestion_times, number_session_objects
from tracegen.workload.ops import Requests
from tracegen.workload.turns import NEVER_NS, ObjectRanges, Turns, no_ranges

_BATCH: Final = ENUMS["qos"].index("batch")


class _Kind(NamedTuple):
    """The source of a range's objects, and the step that touches them."""

    source: int
    step: int


_CHUNKS: Final = 3
_OWN: Final = 4
_SAVED: Final = 5


class TurnBuilder:
    """Makes turns of the sessions of a recipe and of its documents, and requests of turns."""

    def __init__(self, recipe: Recipe, sources: Sequence[Source], shared: SharedObjects) -> None:
        self._recipe = recipe
        self._shared = shared
        self._contains_prefix = np.array([source.contains_prefix for source in sources])
        self._retrieval_shares = [
            recipe.rag.share if source.retrieves is None else source.retrieves for source in sources
        ]
        own = 2 if recipe.block_tokens else 1  # a partial block is a range of its own
        self._kinds = [
            *[_Kind(SYSTEM, 0)] * shared.prompts.levels,
            *[_Kind(COMMON, 1)] * (recipe.common.share > 0),
            _Kind(MULTI_TURN, 2),
            *[_Kind(USER, _OWN)] * own,
            *[_Kind(USER, _SAVED)] * own * recipe.save_decode,
        ]

    def build(
        self, number: Ints, source: Ints, sessions: Sessions, time_ns: Ints, slot: int, first_object: int
    ) -> tuple[Turns, Ints]:
        """Make the turns of some sessions, session by session, and the tokens of their objects.

        Args:
            number: the recipe's numbers of the sessions, shape (sessions,).
            source: index of each session's source, shape (sessions,).
            sessions: their turns; `pause_ns` as it is in the trace.
            time_ns: start of each turn, shape (turns,).
            slot: of the first of these sessions.
            first_object: number of their first object.
        """
        recipe = self._recipe
        row = np.repeat(np.arange(len(number)), sessions.turns)
        session = number[row]
        turn = positions(sessions.turns)
        user = number % recipe.users
        prompt, prompt_tokens = self._shared.prompts.draw(number, user)
        phrase, phrase_tokens = self._shared.phrases.draw(session, turn)
        context = self._own_context(source[row], sessions, turn, prompt_tokens[row], phrase_tokens)
        own = number_session_objects(recipe, replace(sessions, context=context), prompt_tokens, first_object)
        objects = ObjectRanges.join([prompt.take(row), phrase, own.objects])
        qos_weights = [getattr(recipe.qos, name) for name in ENUMS["qos"]]
        turns = Turns(
            time_ns=time_ns,
            think_ns=sessions.pause_ns,
            user=recipe.documents + user[row],
            session=session,
            turn=turn,
            slot=slot + row,
            qos=choose(draw(recipe.seed, Purpose.QOS, number), qos_weights)[row],
            generated=sessions.generated,
            is_decoded=(context <= (recipe.decode_max_context or NEVER_NS)) & recipe.rereads,
            is_retrieval=self._draw_retrievals(source[row], session, turn),
            is_document=np.zeros(len(row), np.bool_),
            session_first=own.session_first,
            first=objects.first,
            count=objects.count,
        )
        return turns, own.tokens

    def _own_context(
        self, source: Ints, sessions: Sessions, turn: Ints, prompt_tokens: Ints, phrase_tokens: Ints
    ) -> Ints:
        """Return the tokens each turn prefills beyond shared prompt and phrase; shape (turns,)."""
        growth = self._recipe.context_growth
        carries_prompt = (turn == 0) | (not growth)
        shared = phrase_tokens + np.where(carries_prompt, prompt_tokens, 0)
        rest = np.maximum(1, sessions.context - shared)
        context = np.where(self._contains_prefix[source], rest, sessions.context)
        if growth and not self._recipe.save_decode:
            last_answer = np.concatenate([[0], sessions.generated[:-1]])
            context += np.where(turn > 0, last_answer, 0)
        return context

    def _draw_retrievals(self, source: Ints, session: Ints, turn: Ints) -> NDArray[np.bool_]:
        is_retrieval = np.zeros(len(turn), np.bool_)
        if self._recipe.retrieves:
            bits = draw(self._recipe.seed, Purpose.RETRIEVES, session, turn)
            for number, share in enumerate(self._retrieval_shares):
                is_retrieval |= (source == number) & chance(bits, float(share))
        return is_retrieval

    def build_ingestion(self, end_ns: int) -> Turns:
        """Make a turn for each document that is ingested before `end_ns`."""
        if self._shared.corpus is None:
            return Turns.zeros(0, no_ranges(0, len(self._kinds)))
        time_ns = list_ingestion_times(self._recipe)
        document = np.flatnonzero(time_ns < end_ns)
        own = self._kinds.index(_Kind(USER, _OWN))
        objects = no_ranges(len(document), len(self._kinds))
        ingested = self._shared.corpus.document_objects().take(document)
        objects.first[:, own] = ingested.first[:, 0]
        objects.count[:, own] = ingested.count[:, 0]
        return replace(
            Turns.zeros(len(document), objects),
            time_ns=time_ns[document],
            user=document,
            session=document - self._recipe.documents,
            slot=np.arange(len(document)),
            qos=np.full(len(document), _BATCH),
            is_document=np.ones(len(document), np.bool_),
            session_first=np.full(len(document), NEVER_NS),
        )

    def make_requests(self, turns: Turns, tokens: IdTable, *, session: Ints, user: Ints, live: int) -> Requests:
        """Make a request of each turn, in order of (time, user, session), with dense ids of session and user.

        No later turn touches an unshared object below `live`. `tokens` are those of every object.
        """
        objects, kinds = self._add_chunks(turns)
        step = np.array([kind.step for kind in kinds])
        source = np.tile(np.array([kind.source for kind in kinds], np.uint8), (len(turns), 1))
        source[turns.is_document[:, None] & (step == _OWN)] = RAG
        count = objects.count.ravel()
        number = ranges(objects.first.ravel(), count)
        return Requests(
            time_ns=turns.time_ns,
            think_ns=turns.think_ns,
            user=user,
            session=session,
            turn=turns.turn + 1,
            qos=turns.qos,
            generated=turns.generated,
            is_decoded=turns.is_decoded,
            is_decode=np.zeros(len(turns), np.bool_),
            touch_count=objects.count[:, step <= _OWN].sum(axis=1),
            own_count=objects.count[:, step == _OWN].sum(axis=1),
            saved_count=objects.count[:, step == _SAVED].sum(axis=1),
            object=number,
            source=np.repeat(source.ravel(), count),
            step=np.repeat(_leave_out_steps(objects.count, step).ravel(), count),
            tokens=tokens[number],
            live=live,
        )

    def _add_chunks(self, turns: Turns) -> tuple[ObjectRanges, list[_Kind]]:
        """Return the ranges of some turns, with the chunks they retrieve before their own objects."""
        rows = np.flatnonzero(turns.is_retrieval)
        if self._shared.corpus is None or not len(rows):
            return ObjectRanges(turns.first, turns.count), self._kinds
        chunks = self._shared.corpus.retrieve(turns.session[rows], turns.turn[rows], turns.time_ns[rows])
        width = chunks.first.shape[1]
        own = self._kinds.index(_Kind(USER, _OWN))
        first = np.insert(turns.first, [own] * width, 0, axis=1)
        count = np.insert(turns.count, [own] * width, 0, axis=1)
        first[rows, own : own + width] = chunks.first
        count[rows, own : own + width] = chunks.count
        return ObjectRanges(first, count), [*self._kinds[:own], *[_Kind(RAG, _CHUNKS)] * width, *self._kinds[own:]]


def _leave_out_steps(count: Ints, step: Ints) -> Ints:
    """Return the step of each range, shape (turns, ranges), after steps without objects are left out."""
    steps = range(_OWN + 1)
    present = np.stack([(count[:, step == number] > 0).any(axis=1) for number in steps], axis=1)
    number: Ints = np.cumsum(present, axis=1) - present
    return number[:, np.minimum(step, _OWN)]
