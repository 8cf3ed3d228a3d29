"""KV objects: those that sessions share (prompts, common phrases, chunks of documents), then those of sessions.

Shared objects have the first numbers, from 0. In a trace of blocks a prompt is cut every
`block_tokens` tokens of the path from its system prompt on; the rest of it is in the first block of
its session.

A session's objects are numbered as it is scheduled: what each turn prefills, reads of earlier turns,
and saves. Without blocks a turn is one object, its saved answer another. In a trace of blocks the
tokens of a session (shared prompt, turns, with `save_decode` answers) are cut every `block_tokens`
tokens, so that a block stands for all before it; a last, partial block is an object of its own,
which the next turn replaces.
"""

from dataclasses import dataclass

import numpy as np

from tracegen.arrays import Ints, positions
from tracegen.draws import Purpose, between, chance, choose, draw, zipf_weights
from tracegen.recipes.recipe import Rag, Recipe
from tracegen.sources.sessions import Sessions
from tracegen.workload.turns import ObjectRanges, no_ranges

_WIDE_TOKEN_BYTES = 2**18  # models with more KV per token get shorter documents


class _ObjectList:
    """Token counts of objects, numbered in the order in which they are added."""

    def __init__(self) -> None:
        self.count = 0
        self._tokens: list[Ints] = [np.zeros(0, np.int64)]

    def add(self, tokens: Ints) -> int:
        """Add objects of these tokens; return the number of the first."""
        self._tokens.append(tokens)
        self.count += len(tokens)
        return self.count - len(tokens)

    def add_texts(self, tokens: Ints, block_tokens: int) -> tuple[Ints, Ints]:
        """Add texts, each cut into blocks of its own; return (first, count) of each."""
        count, sizes = cut_evenly(tokens, block_tokens or tokens)
        return self.add(sizes) + np.cumsum(count) - count, count

    def tokens(self) -> Ints:
        """Return the tokens of each object, shape (count,)."""
        return np.concatenate(self._tokens)


def cut_evenly(tokens: Ints, piece: int | Ints) -> tuple[Ints, Ints]:
    """Cut texts into pieces, the last of each with the rest; return their number in each, and their tokens."""
    count = -(-tokens // piece)
    sizes = np.repeat(np.broadcast_to(piece, tokens.shape), count)
    sizes[np.cumsum(count) - 1] = tokens - (count - 1) * piece
    return count, sizes


@dataclass(frozen=True)
class _Level:
    """A level of a prompt tree, a row per node: objects, and tokens from the root to its end."""

    first: Ints
    count: Ints
    end: Ints


class PromptTree:
    """Shared prompts as a tree: system, product and tenant prompts."""

    def __init__(self, recipe: Recipe, objects: _ObjectList) -> None:
        self._prefix = recipe.prefix
        self._seed = recipe.seed
        self._levels: list[_Level] = []
        if recipe.prefix.share:
            self._add_levels(recipe.block_tokens, objects)

    def _add_levels(self, block: int, objects: _ObjectList) -> None:
        prefix = self._prefix
        sizes = [(len(prefix.tokens), np.array(prefix.tokens, np.int64))]
        if prefix.products:
            sizes.append((prefix.products, np.array([prefix.product_tokens])))
        if prefix.tenants:
            sizes.append((prefix.tenants, np.array([prefix.tenant_tokens])))
        end = np.zeros(1, np.int64)
        for fan, tokens in sizes:
            begin = np.repeat(end, fan)
            end = begin + np.resize(tokens, len(begin))
            count = end // block - begin // block if block else np.ones(len(end), np.int64)
            first = objects.add(np.full(int(count.sum()), block) if block else end - begin)
            self._levels.append(_Level(first + np.cumsum(count) - count, count, end))

    @property
    def levels(self) -> int:
        """Number of levels; 0 if the recipe shares no prompts."""
        return len(self._levels)

    def draw(self, session: Ints, user: Ints) -> tuple[ObjectRanges, Ints]:
        """Draw the shared prompt of each session, whose user keeps the tenant for good.

        Return its objects, a range per level, and its tokens, shape (sessions,); 0 without a prompt.
        """
        if not self._levels:
            return no_ranges(len(session)), np.zeros(len(session), np.int64)
        carried = chance(draw(self._seed, Purpose.PREFIX_CARRIED, session), self._prefix.share)
        nodes = self._draw_nodes(session, user)
        path = list(zip(self._levels, nodes, strict=True))
        first = np.stack([level.first[node] for level, node in path], axis=1)
        count = np.stack([level.count[node] for level, node in path], axis=1)
        tokens = self._levels[-1].end[nodes[-1]] * carried
        return ObjectRanges(first, count * carried[:, None]), tokens

    def _draw_nodes(self, session: Ints, user: Ints) -> list[Ints]:
        """Draw the node of each session on each level, numbered parent by parent."""
        prefix = self._prefix
        bits = draw(self._seed, Purpose.PREFIX_CHOICE, session)
        nodes = [choose(bits, zipf_weights(len(prefix.tokens)))]
        for purpose, stream, fan in (
            (Purpose.PRODUCT, session, prefix.products),
            (Purpose.TENANT, user, prefix.tenants),
        ):
            if fan:
                child = choose(draw(self._seed, purpose, stream), zipf_weights(fan))
                nodes.append(nodes[-1] * fan + child)
        return nodes


class Phrases:
    """Common phrases with which a share of the requests begin."""

    def __init__(self, recipe: Recipe, objects: _ObjectList) -> None:
        self._seed = recipe.seed
        self._share = recipe.common.share
        self._tokens = np.array(recipe.common.tokens, np.int64)
        if self._share:
            first, count = objects.add_texts(self._tokens, recipe.block_tokens)
            self._first = first
            self._count = count

    def draw(self, session: Ints, turn: Ints) -> tuple[ObjectRanges, Ints]:
        """Draw the phrase of each turn.

        Return its objects, one range, or none if the recipe has no phrases, and its tokens, shape (turns,).
        """
        if not self._share:
            return no_ranges(len(session)), np.zeros(len(session), np.int64)
        carried = chance(draw(self._seed, Purpose.PHRASE_CARRIED, session, turn), self._share)
        bits = draw(self._seed, Purpose.PHRASE_CHOICE, session, turn)
        choice = choose(bits, zipf_weights(len(self._tokens)))
        count = self._count[choice] * carried
        ranges = ObjectRanges(self._first[choice][:, None], count[:, None])
        return ranges, self._tokens[choice] * carried


class Corpus:
    """Documents in chunks, ingested one after another, and the chunks that requests retrieve."""

    def __init__(self, recipe: Recipe, objects: _ObjectList) -> None:
        rag = recipe.rag
        self._rag = rag
        self._seed = recipe.seed
        self._ingest_gap_ns = _ingest_gap_ns(rag)
        wide = recipe.bytes_per_token > _WIDE_TOKEN_BYTES
        low, high = rag.document_tokens or ((1024, 4096) if wide else (4000, 12000))
        bits = draw(recipe.seed, Purpose.DOCUMENT_TOKENS, np.arange(rag.documents))
        chunk_tokens = min(rag.chunk_tokens, rag.chunk_mib * 2**20 // recipe.bytes_per_token)
        chunks, sizes = cut_evenly(between(bits, low, high), max(1, chunk_tokens))
        chunk_first, chunk_count = objects.add_texts(sizes, recipe.block_tokens)
        self._chunks = chunks  # of each document
        self._first_chunk = np.cumsum(chunks) - chunks
        self._chunk_first = chunk_first
        self._chunk_count = chunk_count
        self._document_weights = _weights(rag.documents_by, rag.documents)
        self._chunk_weights = _weights(rag.chunks_by, int(self._chunks.max()))

    def document_objects(self) -> ObjectRanges:
        """Return the objects of each document, one range; shape (documents, 1)."""
        first = self._chunk_first[self._first_chunk]
        ends = np.append(first[1:], self._chunk_first[-1] + self._chunk_count[-1])
        return ObjectRanges(first[:, None], (ends - first)[:, None])

    def retrieve(self, session: Ints, turn: Ints, time_ns: Ints) -> ObjectRanges:
        """Draw the chunks that each request retrieves: one range each, shape (requests, top_k).

        Each is drawn by document, among those ingested by then, and by rank in it. A chunk that the
        request has drawn already gives way to the next of the corpus, the last to the first.
        """
        rag = self._rag
        known = np.full(len(time_ns), rag.documents)
        if self._ingest_gap_ns:
            known = np.minimum(time_ns // self._ingest_gap_ns + 1, rag.documents)
        corpus = self._first_chunk[known - 1] + self._chunks[known - 1]
        chosen = np.full((len(session), rag.top_k), -1, np.int64)
        for k in range(rag.top_k):
            index = turn * rag.top_k + k
            chunk = _skip_chosen(self._draw_chunk(session, index, known), chosen[:, :k], corpus)
            chosen[:, k] = np.where(k < corpus, chunk, -1)
        count = np.where(chosen >= 0, self._chunk_count[chosen], 0)
        return ObjectRanges(self._chunk_first[chosen], count)

    def _draw_chunk(self, session: Ints, index: Ints, known: Ints) -> Ints:
        """Draw a chunk for each request among its first `known` documents; shape (requests,)."""
        bits = draw(self._seed, Purpose.DOCUMENT, session, index)
        document = choose(bits, self._document_weights, known)
        bits = draw(self._seed, Purpose.CHUNK, session, index)
        rank = choose(bits, self._chunk_weights, self._chunks[document])
        return self._first_chunk[document] + rank


def list_ingestion_times(recipe: Recipe) -> Ints:
    """Return when each document is ingested, in ns, shape (documents,)."""
    return np.arange(recipe.documents) * _ingest_gap_ns(recipe.rag)


def _ingest_gap_ns(rag: Rag) -> int:
    return int(rag.ingest_s * 10**9) // rag.documents


def _skip_chosen(chunk: Ints, chosen: Ints, corpus: Ints) -> Ints:
    """Move each chunk on, modulo its corpus, until it is not among its row of `chosen`."""
    for _ in range(chosen.shape[1]):
        repeated = (chosen == chunk[:, None]).any(axis=1)
        if not repeated.any():
            break
        chunk = np.where(repeated, (chunk + 1) % corpus, chunk)
    return chunk


def _weights(law: str, count: int) -> Ints:
    return zipf_weights(count) if law == "zipf" else np.ones(count, np.int64)


class SharedObjects:
    """All objects that sessions share, numbered from 0."""

    def __init__(self, recipe: Recipe) -> None:
        objects = _ObjectList()
        self.prompts = PromptTree(recipe, objects)
        self.phrases = Phrases(recipe, objects)
        self.corpus = Corpus(recipe, objects) if recipe.retrieves else None
        self.count = objects.count
        self.tokens = objects.tokens()


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
