"""Plain second implementations of eviction policies, written from docs/policy-rules.md alone, and a tier for them.

Those here order their objects by one number or in one list; `oracle_queues.py` has the others.
"""

from dataclasses import dataclass, field


@dataclass
class Tier:
    """What a policy may ask: sizes and parents by key, next uses by position, and the op that is decided."""

    capacity: int
    sizes: list[int]
    parents: list[int]
    next_use: list[float]
    position: int = 0
    last_touch: dict[int, int] = field(default_factory=dict)
    inside: set[int] = field(default_factory=set)


class Policy:
    def __init__(self, tier: Tier) -> None:
        self.tier = tier

    def ask(self, key: int) -> None: ...

    def enter(self, key: int) -> None: ...

    def touch(self, key: int) -> None: ...

    def victim(self, incoming: int) -> int:
        raise NotImplementedError

    def leave(self, key: int, evicted: bool) -> None: ...


class Lru(Policy):
    def victim(self, incoming: int) -> int:
        return min(self.tier.inside, key=lambda key: self.tier.last_touch[key])


class Belady(Policy):
    """Among objects of the same next use, which never comes, the one that was touched first."""

    def victim(self, incoming: int) -> int:
        last = self.tier.last_touch
        return max(self.tier.inside, key=lambda key: (self.tier.next_use[last[key]], -last[key]))


class LeafLru(Policy):
    def victim(self, incoming: int) -> int:
        parents = {self.tier.parents[key] for key in self.tier.inside}
        return min(self.tier.inside - parents, key=lambda key: self.tier.last_touch[key])


class Fifo(Policy):
    def __init__(self, tier: Tier) -> None:
        super().__init__(tier)
        self.queue: list[int] = []  # the oldest first

    def enter(self, key: int) -> None:
        self.queue.append(key)

    def victim(self, incoming: int) -> int:
        return self.queue[0]

    def leave(self, key: int, evicted: bool) -> None:
        self.queue.remove(key)


class Clock(Fifo):
    def __init__(self, tier: Tier) -> None:
        super().__init__(tier)
        self.used: set[int] = set()

    def touch(self, key: int) -> None:
        self.used.add(key)

    def victim(self, incoming: int) -> int:
        while self.queue[0] in self.used:
            self.used.remove(self.queue[0])
            self.queue.append(self.queue.pop(0))
        return self.queue[0]

    def leave(self, key: int, evicted: bool) -> None:
        super().leave(key, evicted)
        self.used.discard(key)


class Sieve(Clock):
    def __init__(self, tier: Tier) -> None:
        super().__init__(tier)
        self.hand = 0  # an index of the queue; its length: begin again

    def victim(self, incoming: int) -> int:
        while True:
            self.hand %= len(self.queue)
            if self.queue[self.hand] not in self.used:
                return self.queue[self.hand]
            self.used.remove(self.queue[self.hand])
            self.hand += 1
            if self.hand == len(self.queue):
                self.hand = 0

    def leave(self, key: int, evicted: bool) -> None:
        if self.queue.index(key) < self.hand:
            self.hand -= 1
        super().leave(key, evicted)
        if self.hand == len(self.queue):
            self.hand = 0


class Lfu(Policy):
    def __init__(self, tier: Tier) -> None:
        super().__init__(tier)
        self.uses: dict[int, int] = {}
        self.changed: dict[int, int] = {}  # the position at which the count became what it is

    def enter(self, key: int) -> None:
        self.uses[key] = 1
        self.changed[key] = self.tier.position

    def touch(self, key: int) -> None:
        self.uses[key] += 1
        self.changed[key] = self.tier.position

    def victim(self, incoming: int) -> int:
        return min(self.tier.inside, key=lambda key: (self.uses[key], self.changed[key]))


class Gdsf(Lfu):
    def __init__(self, tier: Tier) -> None:
        super().__init__(tier)
        self.inflation = self.at_ask = 0.0
        self.rank: dict[int, float] = {}

    def ask(self, key: int) -> None:
        self.at_ask = self.inflation

    def enter(self, key: int) -> None:
        super().enter(key)
        self.rank[key] = self.at_ask + 1 / self.tier.sizes[key]

    def touch(self, key: int) -> None:
        super().touch(key)
        self.rank[key] = self.inflation + self.uses[key] / self.tier.sizes[key]

    def victim(self, incoming: int) -> int:
        return min(self.tier.inside, key=lambda key: (self.rank[key], self.changed[key]))

    def leave(self, key: int, evicted: bool) -> None:
        if evicted:
            self.inflation = self.rank[key]


@dataclass
class Outcome:
    hits: int = 0
    misses: int = 0
    bypasses: int = 0
    deletes: int = 0
    evicted: list[tuple[int, int]] = field(default_factory=list)


def run_oracle(kind: type[Policy], tier: Tier, keys: list[int], deletes: list[bool]) -> Outcome:
    """Run ops as `run_policy` does."""
    policy, outcome = kind(tier), Outcome()
    for tier.position, (key, is_delete) in enumerate(zip(keys, deletes, strict=True)):
        if is_delete:
            if key in tier.inside:
                outcome.deletes += 1
                policy.leave(key, False)
                tier.inside.remove(key)
            continue
        tier.last_touch[key] = tier.position
        if key in tier.inside:
            outcome.hits += 1
            policy.touch(key)
            continue
        outcome.misses += 1
        policy.ask(key)
        if tier.sizes[key] > tier.capacity:
            outcome.bypasses += 1
            continue
        while sum(tier.sizes[one] for one in tier.inside) + tier.sizes[key] > tier.capacity:
            victim = policy.victim(key)
            outcome.evicted.append((tier.position, victim))
            policy.leave(victim, True)
            tier.inside.remove(victim)
        policy.enter(key)
        tier.inside.add(key)
    return outcome
