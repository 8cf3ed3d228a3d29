"""The turns of sessions: their objects, class of service, decoding and retrieval."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints, positions
from tracegen.randomness.draws import Purpose, chance, choose, draw
from tracegen.recipe.recipe import Recipe
from tracegen.schema import ENUMS
from tracegen.sources.sessions import Sessions, Source
from tracegen.workload.session_objects import number_session_objects
from tracegen.workload.shared_objects import SharedObjects, list_ingestion_times
from tracegen.workload.turns import NEVER_NS, RangeWidths, Turns

_BATCH = ENUMS["qos"].index("batch")


class TurnBuilder:
    """Makes turns of the sessions of a recipe and of its documents.

    Args:
        recipe: prompts, phrases, blocks, decoding and retrieval.
        sources: of the sessions.
        shared: the objects that sessions share.
    """

    def __init__(self, recipe: Recipe, sources: Sequence[Source], shared: SharedObjects) -> None:
        self._recipe = recipe
        self._shared = shared
        self._contains_prefix = np.array([source.contains_prefix for source in sources])
        self._retrieval_shares = [
            recipe.rag.share if source.retrieves is None else source.retrieves for source in sources
        ]

    def build(
        self,
        number: Ints,
        source: Ints,
        sessions: Sessions,
        time_ns: Ints,
        slot: int,
        first_object: int,
    ) -> tuple[Turns, Ints]:
        """Make the turns of some sessions.

        Args:
            number: the recipe's numbers of the sessions, shape (sessions,).
            source: index of each session's source, shape (sessions,).
            sessions: their turns; `pause_ns` as it is in the trace.
            time_ns: start of each turn, shape (turns,).
            slot: of the first of these sessions.
            first_object: number of their first object.

        Returns:
            The turns, session by session, and the tokens of the sessions' objects.
        """
        recipe = self._recipe
        row = np.repeat(np.arange(len(number)), sessions.turns)
        session = number[row]
        turn = positions(sessions.turns)
        user = number % recipe.users
        prompt, prompt_tokens = self._shared.prompts.draw(number, user)
        phrase, phrase_tokens = self._shared.phrases.draw(session, turn)
        context = self._own_context(source[row], sessions, turn, prompt_tokens[row], phrase_tokens)
        own_sessions = Sessions(sessions.turns, context, sessions.generated, sessions.pause_ns)
        objects = number_session_objects(recipe, own_sessions, prompt_tokens, first_object)
        turns = Turns(
            time_ns=time_ns,
            think_ns=sessions.pause_ns,
            user=recipe.documents + user[row],
            session=session,
            turn=turn,
            slot=slot + row,
            qos=self._draw_qos(number)[row],
            generated=sessions.generated,
            is_decoded=(context <= (recipe.decode_max_context or NEVER_NS)) & recipe.rereads,
            is_retrieval=self._draw_retrievals(source[row], session, turn),
            is_document=np.zeros(len(row), np.bool_),
            session_first=objects.session_first,
            prompt_first=prompt.first[row],
            prompt_count=prompt.count[row],
            phrase_first=phrase.first,
            phrase_count=phrase.count,
            history_first=objects.history.first,
            history_count=objects.history.count,
            own_first=objects.own.first,
            own_count=objects.own.count,
            saved_first=objects.saved.first,
            saved_count=objects.saved.count,
        )
        return turns, objects.tokens

    def _own_context(
        self,
        source: Ints,
        sessions: Sessions,
        turn: Ints,
        prompt_tokens: Ints,
        phrase_tokens: Ints,
    ) -> Ints:
        """Return the tokens each turn prefills beyond shared prompt and phrase; shape (turns,)."""
        growth = self._recipe.context_growth
        carries_prompt = turn == 0 if growth else np.ones(len(turn), np.bool_)
        shared = phrase_tokens + np.where(carries_prompt, prompt_tokens, 0)
        rest = np.maximum(1, sessions.context - shared)
        context = np.where(self._contains_prefix[source], rest, sessions.context)
        if growth and not self._recipe.save_decode:
            last_answer = np.concatenate([[0], sessions.generated[:-1]])
            context += np.where(turn > 0, last_answer, 0)
        return context

    def _draw_qos(self, session: Ints) -> Ints:
        weights = [getattr(self._recipe.qos, name) for name in ENUMS["qos"]]
        return choose(draw(self._recipe.seed, Purpose.QOS, session), weights)

    def _draw_retrievals(self, source: Ints, session: Ints, turn: Ints) -> NDArray[np.bool_]:
        is_retrieval = np.zeros(len(turn), np.bool_)
        if self._recipe.retrieves:
            bits = draw(self._recipe.seed, Purpose.RETRIEVES, session, turn)
            for number, share in enumerate(self._retrieval_shares):
                is_retrieval |= (source == number) & chance(bits, float(share))
        return is_retrieval

    def build_ingestion(self, shard: tuple[int, int], end_ns: int) -> Turns:
        """Make a turn for each document that a shard ingests before `end_ns`."""
        recipe = self._recipe
        widths = RangeWidths(
            prompt=self._shared.prompts.levels,
            phrase=int(recipe.common.share > 0),
            history=1,
            own=_own_ranges(recipe),
            saved=_own_ranges(recipe) * recipe.save_decode,
        )
        if self._shared.corpus is None:
            return Turns.zeros(0, widths)
        time_ns = list_ingestion_times(recipe)
        objects = self._shared.corpus.document_objects()
        in_shard = np.arange(len(time_ns)) % shard[1] == shard[0]
        document = np.flatnonzero(in_shard & (time_ns < end_ns))
        turns = Turns.zeros(len(document), widths)
        turns.own_first[:, :1] = objects.first[document]
        turns.own_count[:, :1] = objects.count[document]
        return replace(
            turns,
            time_ns=time_ns[document],
            user=document,
            session=document - recipe.documents,
            slot=np.arange(len(document)),
            qos=np.full(len(document), _BATCH),
            is_document=np.ones(len(document), np.bool_),
            session_first=np.full(len(document), NEVER_NS),
        )


def _own_ranges(recipe: Recipe) -> int:
    return 2 if recipe.block_tokens else 1
