"""The objects that another lab's block ids name: tails, chains and coarser blocks."""

from array import array
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tracegen.errors import InputError
from tracegen.formats.rows import Call


@dataclass(frozen=True)
class ImportOptions:
    """What an import may change.

    Attributes:
        seed: of jitter, of the sample, of the sessions of length-only traces and of the classes of service.
        jitter_s: each session is moved by up to so much, uniformly.
        tail: a last, partial block counts with its tokens, as a full one, or not at all.
        rechunk: tokens of the blocks to make, a multiple of the source's; 0: as they are.
        sessions: what becomes of requests of known length alone that name no session: `guess` joins them, with `none`
            each has one of its own.
        sample_sessions: share of the sessions to keep.
        max_idle_gap_s: longer pauses between the requests of a session are shortened to this; 0: no limit.
        speedup: all times are divided by this.
        decode_reads: None: for length-only traces, not for blocks, whose KV is loaded once.
        shared_ids: several files are parts of one trace: their ids mean the same.
        chain: blocks that hold the same after different beginnings are different.
        bytes_per_token: where the source counts bytes.
    """

    seed: int = 0
    jitter_s: float = 0
    tail: Literal["partial", "full", "drop"] = "partial"
    rechunk: int = 0
    sessions: Literal["guess", "none"] = "guess"
    sample_sessions: float = 1
    max_idle_gap_s: float = 0
    speedup: float = 1
    decode_reads: bool | None = None
    decode_token_ms: float = 30
    chain: bool = False
    shared_ids: bool = False
    bytes_per_token: int = 0


class Blocks:
    """Objects by the names that blocks have, and those of turns of which only the length is known.

    Args:
        options: tail, rechunk, chain and bytes_per_token.
        size: tokens of the source's blocks; None where it has none or each its own.
        chained: whether a block's id stands for all before it.

    Attributes:
        tokens: of each object.
        owners: the session that touched each object first, -1 before.
        counts: blocks whose length is another than where they were named first.
    """

    def __init__(self, options: ImportOptions, size: int | None, *, chained: bool) -> None:
        self._options, self._size = options, size
        self._group = self._check_rechunk(size, chained)
        self._numbers: dict[Hashable, dict[Hashable, int]] = {}  # by scope and name
        self._links: dict[tuple[int, Hashable], int] = {}
        self.tokens, self.owners = array("q"), array("q")
        self.counts: Counter[str] = Counter()

    def _check_rechunk(self, block: int | None, chained: bool) -> int:
        wanted = self._options.rechunk
        if not wanted or wanted == block:
            return 1
        if not block or wanted % block:
            raise InputError(f"--rechunk {wanted} must be a multiple of the source's block size ({block or 'none'}).")
        if not (chained or self._options.chain):
            raise InputError(f"--rechunk {wanted}: these ids do not stand for what is before them; add --chain.")
        return wanted // block

    def of(self, call: Call) -> list[int]:
        """The objects of a request's blocks, in order."""
        ids = call.blocks or []
        tokens = self._even(call.input_tokens, len(ids))
        if call.tokens is not None:
            each = self._options.bytes_per_token or 1
            tokens = [-(-size // each) for size in call.tokens]
        if self._options.tail == "drop" and self._size and tokens and tokens[-1] < self._size:
            ids, tokens = ids[:-1], tokens[:-1]
        names: list[Hashable] = list(ids)
        if self._options.chain:
            names = self._chained([(call.scope, one) for one in ids])
        elif len(set(names)) < len(names):
            raise InputError(
                "these ids name contents, and one occurs twice in a request; tell them apart with --chain."
            )
        if self._group > 1:
            ends = [*range(self._group - 1, len(names), self._group)]
            ends += [len(names) - 1] * (len(names) % self._group > 0)
            sums = np.add.reduceat(tokens, range(0, len(tokens), self._group)).tolist() if tokens else []
            names, tokens = [names[end] for end in ends], sums
        numbers = self._numbers.setdefault(call.scope, {})
        return [self._object(numbers, name, size) for name, size in zip(names, tokens, strict=True)]

    def forget(self, scope: Hashable) -> None:
        """Forget the names of a scope that does not come again; None stays, as it is that of all files."""
        if scope is not None:
            self._numbers.pop(scope, None)

    def _even(self, prompt: int, blocks: int) -> list[int]:
        size = self._size or 0
        last = size if self._options.tail == "full" else min(size, prompt - size * (blocks - 1))
        return [size] * (blocks - 1) + [last] * (blocks > 0)

    def _chained(self, names: list[Hashable]) -> list[Hashable]:
        """Names that stand for a block and all before it."""
        links: list[Hashable] = []
        last = -1
        for name in names:
            last = self._links.setdefault((last, name), len(self._links))
            links.append(last)
        return links

    def _object(self, numbers: dict[Hashable, int], name: Hashable, tokens: int) -> int:
        if name not in numbers:
            numbers[name] = self.new(tokens)
        number = numbers[name]
        self.counts["blocks_of_another_length"] += self.tokens[number] != tokens
        return number

    def new(self, tokens: int) -> int:
        """Another object of so many tokens."""
        self.tokens.append(tokens)
        self.owners.append(-1)
        return len(self.tokens) - 1
