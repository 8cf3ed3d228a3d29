"""Eviction policies in plain Python: an object is told of by its key; `held` has the recency of each in the tier."""

from collections.abc import Mapping
from typing import Any, Protocol


class Policy(Protocol):
    """Which object of a tier is evicted first."""

    def ask(self, key: int) -> None: ...
    def enter(self, key: int) -> None: ...
    def touch(self, key: int) -> None: ...
    def victim(self) -> int: ...
    def leave(self, key: int, evicted: bool) -> None: ...


class Lru:
    """The object that was touched the longest ago, in whatever tier it was then."""

    def __init__(self, held: Mapping[int, Any], parents: Mapping[int, int | None]) -> None:
        self.held, self.parents = held, parents
        self.keys: list[int] = []  # by entry

    def ask(self, key: int) -> None:
        pass

    def enter(self, key: int) -> None:
        self.keys.append(key)

    def touch(self, key: int) -> None:
        pass

    def victim(self) -> int:
        return min(self.keys, key=lambda key: self.held[key].recency)

    def leave(self, key: int, evicted: bool) -> None:
        self.keys.remove(key)


class LeafLru(Lru):
    """The least recent object that is no other's parent."""

    def victim(self) -> int:
        parents = {self.parents.get(key) for key in self.keys}
        return min((key for key in self.keys if key not in parents), key=lambda key: self.held[key].recency)


class Fifo(Lru):
    """The object that entered the longest ago."""

    def victim(self) -> int:
        return self.keys[0]


class Lfu(Lru):
    """The object of the fewest entries and touches; of several, the one whose last was the longest ago."""

    def __init__(self, held: Mapping[int, Any], parents: Mapping[int, int | None]) -> None:
        super().__init__(held, parents)
        self.times: dict[int, int] = {}

    def enter(self, key: int) -> None:
        super().enter(key)
        self.times[key] = 1

    def touch(self, key: int) -> None:
        self.keys.remove(key)
        self.keys.append(key)
        self.times[key] += 1

    def victim(self) -> int:
        return min(self.keys, key=lambda key: self.times[key])

    def leave(self, key: int, evicted: bool) -> None:
        super().leave(key, evicted)
        del self.times[key]


class Clock(Lru):
    """First in, first out; but an object that was touched goes around once more."""

    def __init__(self, held: Mapping[int, Any], parents: Mapping[int, int | None]) -> None:
        super().__init__(held, parents)
        self.touched: set[int] = set()

    def touch(self, key: int) -> None:
        self.touched.add(key)

    def victim(self) -> int:
        while self.keys[0] in self.touched:
            self.touched.remove(self.keys[0])
            self.keys.append(self.keys.pop(0))
        return self.keys[0]

    def leave(self, key: int, evicted: bool) -> None:
        super().leave(key, evicted)
        self.touched.discard(key)


class Sieve(Clock):
    """A hand goes from the oldest object to the newest, and around; what was touched stays where it is, once."""

    def __init__(self, held: Mapping[int, Any], parents: Mapping[int, int | None]) -> None:
        super().__init__(held, parents)
        self.hand: int | None = None  # None: the oldest

    def after(self, key: int) -> int | None:
        place = self.keys.index(key) + 1
        return self.keys[place] if place < len(self.keys) else None

    def victim(self) -> int:
        while True:
            key = self.keys[0] if self.hand is None else self.hand
            if key not in self.touched:
                self.hand = key
                return key
            self.touched.remove(key)
            self.hand = self.after(key)

    def leave(self, key: int, evicted: bool) -> None:
        if key == self.hand:
            self.hand = self.after(key)
        super().leave(key, evicted)


POLICIES = {"lru": Lru, "fifo": Fifo, "lfu": Lfu, "clock": Clock, "sieve": Sieve, "leaf-lru": LeafLru}
