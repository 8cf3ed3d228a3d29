"""Plain second implementations of the policies with several queues, from docs/policy-rules.md alone."""

import math

from tests.replayer.policies.oracle import Policy, Tier

Queue = list[int]
"""Keys, the oldest first."""


class Queues(Policy):
    def __init__(self, tier: Tier) -> None:
        super().__init__(tier)
        self.queues: dict[str, Queue] = {}

    def of(self, key: int) -> str | None:
        return next((name for name, queue in self.queues.items() if key in queue), None)

    def bytes(self, *names: str) -> int:
        return sum(self.tier.sizes[key] for name in names for key in self.queues[name])

    def move(self, key: int, to: str | None) -> None:
        name = self.of(key)
        if name is not None:
            self.queues[name].remove(key)
        if to is not None:
            self.queues[to].append(key)


class Arc(Queues):
    def __init__(self, tier: Tier) -> None:
        super().__init__(tier)
        self.queues = {"T1": [], "T2": [], "B1": [], "B2": []}
        self.p = 0.0
        self.was: str | None = None
        self.leaves_a_ghost = True

    def ask(self, key: int) -> None:
        self.was = self.of(key)
        if self.was is None:
            return
        own, other = self.bytes(self.was), self.bytes("B1" if self.was == "B2" else "B2")
        step = self.tier.sizes[key] * max(other / own, 1)
        self.p = min(self.p + step, self.tier.capacity) if self.was == "B1" else max(self.p - step, 0)
        self.move(key, None)

    def enter(self, key: int) -> None:
        self.move(key, "T2" if self.was else "T1")

    def touch(self, key: int) -> None:
        self.move(key, "T2")

    def victim(self, incoming: int) -> int:
        t1, t2, b1, b2 = self.queues.values()
        capacity, self.leaves_a_ghost = self.tier.capacity, True
        if self.was is None:
            if self.bytes("T1", "B1") + self.tier.sizes[incoming] > capacity:
                if b1:
                    b1.pop(0)
                elif t1:
                    self.leaves_a_ghost = False
                    return t1[0]
            elif self.bytes("T1", "T2", "B1", "B2") >= 2 * capacity and b2:
                b2.pop(0)
        above = self.bytes("T1") > self.p or (self.bytes("T1") == self.p and self.was == "B2")
        return t1[0] if (t1 and above) or not t2 else t2[0]

    def leave(self, key: int, evicted: bool) -> None:
        ghosts = "B1" if key in self.queues["T1"] else "B2"
        self.move(key, ghosts if evicted and self.leaves_a_ghost else None)


class S3Fifo(Queues):
    def __init__(self, tier: Tier) -> None:
        super().__init__(tier)
        self.queues = {"small": [], "main": [], "ghosts": []}
        self.small = tier.capacity // 10
        self.main = tier.capacity - self.small
        self.uses: dict[int, int] = {}
        self.returns = self.evicts = False

    def ask(self, key: int) -> None:
        self.returns = self.of(key) == "ghosts"
        self.move(key, None)

    def enter(self, key: int) -> None:
        filling = not self.evicts and self.bytes("small") >= self.small
        self.move(key, "main" if self.returns or filling else "small")
        self.uses[key] = 0

    def touch(self, key: int) -> None:
        self.uses[key] = min(self.uses[key] + 1, 3)

    def victim(self, incoming: int) -> int:
        self.evicts = True
        small, main = self.queues["small"], self.queues["main"]
        while self.bytes("main") <= self.main and small:
            key = small[0]
            if self.uses[key] < 2:
                return key
            while small and self.uses[small[0]] >= 2:
                self.uses[small[0]] = 0
                self.move(small[0], "main")
            if small:
                return small[0]
        while self.uses[main[0]]:
            self.uses[main[0]] -= 1
            main.append(main.pop(0))
        return main[0]

    def leave(self, key: int, evicted: bool) -> None:
        from_small = self.of(key) == "small"
        self.move(key, None)
        if evicted and from_small and self.tier.sizes[key] <= self.main:
            while self.bytes("ghosts") + self.tier.sizes[key] > self.main:
                self.queues["ghosts"].pop(0)
            self.move(key, "ghosts")


class Segmented(Queues):
    """Segments named by digits; the limits are bytes, the lowest segment's first."""

    def __init__(self, tier: Tier, limits: list[int]) -> None:
        super().__init__(tier)
        self.limits = dict(zip("0123", limits, strict=False))
        self.queues = {name: [] for name in self.limits}

    def enter(self, key: int) -> None:
        room = [name for name in self.limits if self.bytes(name) + self.tier.sizes[key] <= self.limits[name]]
        self.move(key, (room or ["0"])[0])

    def touch(self, key: int) -> None:
        names = list(self.limits)
        at = names.index(self.of(key) or "")
        at = min(at + 1, len(names) - 1)
        self.move(key, names[at])
        for name in reversed(names[1 : at + 1]):
            while self.bytes(name) > self.limits[name]:
                self.move(self.queues[name][0], names[names.index(name) - 1])

    def victim(self, incoming: int) -> int:
        return next(queue[0] for queue in self.queues.values() if queue)

    def leave(self, key: int, evicted: bool) -> None:
        self.move(key, None)


class Slru(Segmented):
    def __init__(self, tier: Tier) -> None:
        quarter = tier.capacity // 4
        super().__init__(tier, [tier.capacity - 3 * quarter, quarter, quarter, quarter])


MASK = (1 << 64) - 1
PRIMES = (
    11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261,
)  # fmt: skip


def xxh64(key: int, seed: int) -> int:
    """Hash an integer of eight bytes, as XXH64's specification says."""
    p1, p2, p3, p4, p5 = PRIMES

    def rotate(bits: int, by: int) -> int:
        return (bits << by | bits >> 64 - by) & MASK

    state = (seed + p5 + 8) & MASK
    state ^= rotate(key * p2 & MASK, 31) * p1 & MASK
    state = (rotate(state, 27) * p1 + p4) & MASK
    state = (state ^ state >> 33) * p2 & MASK
    state = (state ^ state >> 29) * p3 & MASK
    return state ^ state >> 32


class WTinyLfu(Policy):
    def __init__(self, tier: Tier) -> None:
        super().__init__(tier)
        self.window: Queue = []
        self.most = tier.capacity - tier.capacity // 100
        self.main = Segmented(tier, [self.most // 5, self.most - self.most // 5])
        objects = min(int(self.most * len(tier.sizes) / sum(tier.sizes)), len(tier.sizes))
        self.counters = [0] * max(math.ceil(-math.log(0.001) / math.log(2) ** 2 * objects), 20)
        self.hit_bytes = 0
        self.winner: int | None = None

    def places(self, key: int) -> list[int]:
        a, b = (xxh64(key, seed) & 0xFFFFFFFF for seed in (0x12345678, 0x12344321))
        return [(a + i * b & 0xFFFFFFFF) % len(self.counters) for i in range(10)]

    def estimate(self, key: int) -> int:
        return min(self.counters[place] for place in self.places(key))

    def count(self, key: int) -> None:
        for place in self.places(key):
            self.counters[place] += 1

    def main_has_room(self, key: int) -> bool:
        return self.main.bytes("0", "1") + self.tier.sizes[key] <= self.most

    def enter(self, key: int) -> None:
        self.window.append(key)
        self.count(key)

    def touch(self, key: int) -> None:
        if key in self.window:
            self.window.remove(key)
            self.window.append(key)
            return
        self.main.touch(key)
        self.count(key)
        self.hit_bytes += self.tier.sizes[key]
        if self.hit_bytes // 32 >= self.most:
            self.hit_bytes = 0
            self.counters = [counter // 2 for counter in self.counters]

    def victim(self, incoming: int) -> int:
        while self.window and self.main_has_room(self.window[0]):
            self.count(self.window[0])
            self.main.enter(self.window.pop(0))
        if not self.window:
            return self.main.victim(incoming)
        candidate = self.window[0]
        rival = self.main.victim(incoming) if self.main.bytes("0", "1") else None
        wins = rival is not None and self.estimate(candidate) > self.estimate(rival)
        self.count(candidate)
        if rival is None or not wins:
            return candidate
        self.winner = candidate
        return rival

    def leave(self, key: int, evicted: bool) -> None:
        if key in self.window:
            self.window.remove(key)
        self.main.leave(key, evicted)
        winner, self.winner = self.winner, None
        if winner is not None and self.main_has_room(winner):
            self.window.remove(winner)
            self.main.enter(winner)
