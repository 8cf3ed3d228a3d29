"""The objects that another lab's block ids name: partial blocks and chains."""

from array import array
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from tracegen.arrays import Ints
from tracegen.errors import InputError
from tracegen.exchange.options import ImportOptions
from tracegen.formats.rows import Call
from tracegen.schema import MULTI_TURN, SYSTEM, USER


class BlockObjects:
    """Objects by the ids of their blocks, and objects of turns with a known length only.

    `block_tokens` is None if the source has no blocks, or each has its own. `counts` counts blocks whose
    length changes.
    """

    def __init__(self, options: ImportOptions, block_tokens: int | None, counts: Counter[str]) -> None:
        self._options = options
        self._block_tokens = block_tokens
        self._counts = counts
        self._numbers: dict[Hashable, dict[Hashable, int]] = {}  # by scope and name
        self._links: dict[tuple[int, Hashable], int] = {}  # by the link before and the block's id
        self._tokens = array("q")  # by object
        self._owners = array("q")  # session that touched each object first, -1 before

    def find(self, call: Call) -> list[int]:
        """Return the objects of a call's blocks, in order; new names get new objects."""
        ids = call.blocks or []
        tokens = self._count_tokens(call)
        is_partial = bool(tokens) and tokens[-1] < (self._block_tokens or 0)
        if self._options.tail == "drop" and is_partial:
            ids = ids[:-1]
            tokens = tokens[:-1]
        names: Sequence[Hashable] = ids
        if self._options.chain:
            names = self._chain([(call.scope, block) for block in ids])
        elif len(set(names)) < len(names):
            raise InputError("a block occurs twice in a request", "tell its places apart with `chain`")
        numbers = self._numbers.setdefault(call.scope, {})
        named_tokens = zip(names, tokens, strict=True)
        return [self._find_object(numbers, name, size) for name, size in named_tokens]

    def add(self, tokens: int) -> int:
        """Add an object of these tokens; return its number."""
        self._tokens.append(tokens)
        self._owners.append(-1)
        return len(self._tokens) - 1

    def tokens(self, objects: Ints) -> Ints:
        """Return the tokens of these objects."""
        tokens: Ints = np.frombuffer(self._tokens, np.int64)[objects]
        return tokens

    def touch(self, objects: Sequence[int], session: int) -> list[int]:
        """Return the sources of objects, none twice, for a session: new, its own, or another's prefix.

        New objects belong to the session from now on.
        """
        sources = []
        for number in objects:
            owner = self._owners[number]
            if owner < 0:
                self._owners[number] = session
                sources.append(USER)
            else:
                sources.append(MULTI_TURN if owner == session else SYSTEM)
        return sources

    def forget(self, scope: Hashable) -> None:
        """Forget the names of a scope that does not come again; None, that of all files, stays."""
        if scope is not None:
            self._numbers.pop(scope, None)

    def _count_tokens(self, call: Call) -> list[int]:
        """Return the tokens of each block of a call."""
        if call.tokens is not None:
            unit = self._options.bytes_per_token or 1
            return [-(-size // unit) for size in call.tokens]
        blocks = len(call.blocks or [])
        size = self._block_tokens or 0
        last = size
        if self._options.tail != "full":
            last = min(size, call.input_tokens - size * (blocks - 1))
        return [size] * (blocks - 1) + [last] * (blocks > 0)

    def _chain(self, names: Sequence[Hashable]) -> list[Hashable]:
        """Return names that stand for a block and all before it."""
        links: list[Hashable] = []
        last = -1
        for name in names:
            last = self._links.setdefault((last, name), len(self._links))
            links.append(last)
        return links

    def _find_object(self, numbers: dict[Hashable, int], name: Hashable, tokens: int) -> int:
        if name not in numbers:
            numbers[name] = self.add(tokens)
        number = numbers[name]
        self._counts["blocks_of_another_length"] += self._tokens[number] != tokens
        return number
