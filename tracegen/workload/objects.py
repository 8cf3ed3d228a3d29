"""Which KV objects there are: prompts, phrases and chunks that requests share, and what each session stores itself.

Objects have numbers: the shared ones first, then those of each session as it is scheduled. In a trace of blocks the
sequence of a session (prompt, turns, with `save_decode` answers) is cut every `block_tokens` tokens, so that a block
stands for all before it; a last, partial block is an object of its own, which the next turn replaces.
"""

import numpy as np

from tracegen.arrays import Ints
from tracegen.randomness.draws import Purpose, between, chance, choose, draw, zipf_weights
from tracegen.recipe.recipe import Recipe
from tracegen.sources.sessions import Sessions


class Shared:
    """Objects that requests of several sessions share.

    Attributes:
        tokens: of each object, shape (count,).
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self._block, self._sizes = recipe, recipe.block_tokens, list[Ints]()
        self.count = 0
        if recipe.prefix.share:
            self._add_prefixes()
        if recipe.common.share:
            self._phrases = np.array(recipe.common.tokens, np.int64)
            self._phrase_first, self._phrase_count = self._add(self._phrases)
        if recipe.retrieves:
            self._add_documents()
        self.tokens = np.concatenate([*self._sizes, np.zeros(0, np.int64)])

    def _add(self, tokens: Ints) -> tuple[Ints, Ints]:
        """Objects that stand alone, each cut into blocks: (first, count) of each."""
        block = self._block or tokens
        count = -(-tokens // block)
        first = self.count + np.cumsum(count) - count
        sizes = np.repeat(np.broadcast_to(block, tokens.shape), count)
        sizes[np.cumsum(count) - 1] = tokens - (count - 1) * block
        self._sizes.append(sizes)
        self.count += int(count.sum())
        return first, count

    def _add_prefixes(self) -> None:
        """Prompts, level by level; the tables hold (first object, objects) per level and node, and where it ends."""
        prefix = self._recipe.prefix
        self._fans = [len(prefix.tokens)] + [n for n in (prefix.products, prefix.tenants) if n]
        own = [np.array(prefix.tokens, np.int64)]
        own += [np.array([prefix.product_tokens])] if prefix.products else []
        own += [np.array([prefix.tenant_tokens])] if prefix.tenants else []
        self._levels, end = [], np.zeros(1, np.int64)
        for fan, tokens in zip(self._fans, own, strict=True):
            begin = np.repeat(end, fan)
            end = begin + np.resize(tokens, len(begin))
            count = end // self._block - begin // self._block if self._block else np.ones(len(end), np.int64)
            first = self.count + np.cumsum(count) - count
            self._sizes.append(np.full(int(count.sum()), self._block) if self._block else end - begin)
            self.count += int(count.sum())
            self._levels.append((first, count, end))

    def prefixes(self, session: Ints, user: Ints) -> tuple[Ints, Ints, Ints]:
        """The shared prompt of each session: first object and objects, shape (sessions, levels), and its tokens."""
        prefix, seed = self._recipe.prefix, self._recipe.seed
        if not prefix.share:
            none = np.zeros((len(session), 0), np.int64)
            return none, none, np.zeros(len(session), np.int64)
        carried = chance(draw(seed, Purpose.PREFIX_CARRIED, session), prefix.share)
        node = choose(draw(seed, Purpose.PREFIX_CHOICE, session), zipf_weights(len(prefix.tokens)))
        nodes = [node]
        for purpose, stream, fan in (
            (Purpose.PRODUCT, session, prefix.products),
            (Purpose.TENANT, user, prefix.tenants),
        ):
            if fan:
                node = node * fan + choose(draw(seed, purpose, stream), zipf_weights(fan))
                nodes.append(node)
        first = np.stack([level[0][n] for level, n in zip(self._levels, nodes, strict=True)], axis=1)
        count = np.stack([level[1][n] for level, n in zip(self._levels, nodes, strict=True)], axis=1)
        return first, count * carried[:, None], self._levels[-1][2][node] * carried

    def phrases(self, session: Ints, turn: Ints) -> tuple[Ints, Ints, Ints]:
        """The common phrase that each request begins with: first object, objects, tokens; none: 0 objects."""
        common, seed = self._recipe.common, self._recipe.seed
        if not common.share:
            none = np.zeros(len(session), np.int64)
            return none, none, none
        carried = chance(draw(seed, Purpose.PHRASE_CARRIED, session, turn), common.share)
        choice = choose(draw(seed, Purpose.PHRASE_CHOICE, session, turn), zipf_weights(len(self._phrases)))
        return self._phrase_first[choice], self._phrase_count[choice] * carried, self._phrases[choice] * carried

    def _add_documents(self) -> None:
        rag, recipe = self._recipe.rag, self._recipe
        low, high = rag.document_tokens or ((1024, 4096) if recipe.bytes_per_token > 2**18 else (4000, 12000))
        lengths = between(draw(recipe.seed, Purpose.DOCUMENT_TOKENS, np.arange(rag.documents)), low, high)
        size = max(1, min(rag.chunk_tokens, rag.chunk_mib * 2**20 // recipe.bytes_per_token))
        chunks = -(-lengths // size)
        tokens = np.full(int(chunks.sum()), size)
        tokens[np.cumsum(chunks) - 1] = lengths - (chunks - 1) * size
        self.document_chunks = chunks
        self._document_first = np.cumsum(chunks) - chunks
        self._chunk_first, self._chunk_count = self._add(tokens)
        self._of_document = _weights(rag.documents_by, rag.documents)
        self._of_chunk = _weights(rag.chunks_by, int(chunks.max()))

    def ingested(self) -> tuple[Ints, Ints, Ints]:
        """When each document is ingested (ns), its first object, its objects."""
        documents = np.arange(self._recipe.rag.documents)
        every = int(self._recipe.rag.ingest_s * 10**9) // self._recipe.rag.documents
        first = self._chunk_first[self._document_first]
        ends = np.append(first[1:], self._chunk_first[-1] + self._chunk_count[-1])
        return documents * every, first, ends - first

    def retrieved(self, session: Ints, turn: Ints, time_ns: Ints) -> tuple[Ints, Ints]:
        """The chunks that each request retrieves: (first object, objects), shape (requests, top_k).

        Each is drawn by document, among those ingested by then, and rank of the chunk in it; one that was drawn before
        gives way to the next chunk of the corpus, round to the first.
        """
        rag, seed = self._recipe.rag, self._recipe.seed
        every = int(rag.ingest_s * 10**9) // rag.documents
        known = np.minimum(time_ns // every + 1, rag.documents) if every else np.full(len(time_ns), rag.documents)
        corpus = self._document_first[known - 1] + self.document_chunks[known - 1]
        chosen = np.full((len(session), rag.top_k), -1, np.int64)
        for k in range(rag.top_k):
            document = choose(draw(seed, Purpose.DOCUMENT, session, turn * rag.top_k + k), self._of_document, known)
            chunk = choose(
                draw(seed, Purpose.CHUNK, session, turn * rag.top_k + k), self._of_chunk, self.document_chunks[document]
            )
            picked = self._document_first[document] + chunk
            for _ in range(k):
                drawn = (chosen[:, :k] == picked[:, None]).any(axis=1)
                if not drawn.any():
                    break
                picked = np.where(drawn, (picked + 1) % corpus, picked)
            chosen[:, k] = np.where(k < corpus, picked, -1)
        return self._chunk_first[chosen], np.where(chosen >= 0, self._chunk_count[chosen], 0)


def _weights(law: str, count: int) -> Ints:
    return zipf_weights(count) if law == "zipf" else np.ones(count, np.int64)


class Layout:
    """Which objects each turn of some sessions has for its own, its history and what it saves.

    Attributes:
        tokens: of the sessions' objects, shape (objects,).
        columns: first objects and numbers of objects, shape (turns,), session by session: `history` and `histories` of
            the turns before; `own`, `owns` and, of a last, partial block, `tail`, `tails` of the turn itself; `saved`,
            `saves`, `saved_tail`, `saved_tails` of its generated tokens; `first` of the session.
    """

    def __init__(self, recipe: Recipe, sessions: Sessions, prefix: Ints, begin: int) -> None:
        turns = sessions.turns
        self._session = np.repeat(np.arange(len(turns)), turns)
        self._start = np.cumsum(turns) - turns
        self._save = sessions.generated if recipe.save_decode else np.zeros_like(sessions.generated)
        if recipe.block_tokens:
            self.tokens, self.columns = self._blocks(recipe.block_tokens, sessions, prefix, begin)
        else:
            self.tokens, self.columns = self._whole(recipe.history, sessions, begin)

    def _whole(self, history: str, sessions: Sessions, begin: int) -> tuple[Ints, dict[str, Ints]]:
        """One object per turn, and one for its answer where that is saved."""
        saves = (self._save > 0).astype(np.int64)
        ends = np.cumsum(1 + saves)
        own = begin + ends - 1 - saves
        first = own[self._start][self._session]
        before = np.concatenate([own[:1], own[:-1]])
        oldest = first if history == "all" else np.where(own > first, before, own)
        tokens = np.zeros(int(ends[-1]), np.int64)
        tokens[own - begin] = sessions.context
        tokens[(own + 1 - begin)[saves > 0]] = self._save[saves > 0]
        columns = {"first": first, "history": oldest, "histories": own - oldest, "own": own, "owns": np.ones_like(own)}
        return tokens, columns | ({"saved": own + 1, "saves": saves} if self._save.any() else {})

    def _blocks(self, block: int, sessions: Sessions, prefix: Ints, begin: int) -> tuple[Ints, dict[str, Ints]]:
        """Full blocks by their place in the session's sequence, then two places a turn for partial ones."""
        session, added = self._session, np.cumsum(sessions.context + self._save)
        end = prefix[session] + added - (added - sessions.context - self._save)[self._start][session]
        stored = end - self._save
        start = stored - sessions.context
        shared = prefix // block
        full = (end // block)[self._start + sessions.turns - 1] - shared
        objects = full + 2 * sessions.turns
        first = begin + np.cumsum(objects) - objects
        place = (first - shared)[session]
        tail = (first + full - 2 * self._start)[session] + 2 * np.arange(len(session))
        tokens = np.full(int(objects.sum()), block)
        tokens[tail - begin], tokens[tail + 1 - begin] = stored % block, end % block
        return tokens, {
            "first": first[session],
            "history": first[session],
            "histories": start // block - shared[session],
            "own": place + start // block,
            "owns": stored // block - start // block,
            "tail": tail,
            "tails": (stored % block > 0).astype(np.int64),
            "saved": place + stored // block,
            "saves": end // block - stored // block,
            "saved_tail": tail + 1,
            "saved_tails": ((self._save > 0) & (end % block > 0)).astype(np.int64),
        }
