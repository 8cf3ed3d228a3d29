"""Each policy evicts what its oracle evicts, op by op: random keys, sizes, capacities, deletes and prefixes."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replayer.policies import oracle, oracle_queues
from tests.replayer.policies.oracle import Policy, Tier, run_oracle
from tests.support.policies import KINDS, OneTier, run_policy

ORACLES: dict[str, type[Policy]] = {
    "lru": oracle.Lru, "fifo": oracle.Fifo, "lfu": oracle.Lfu, "clock": oracle.Clock, "sieve": oracle.Sieve,
    "arc": oracle_queues.Arc, "slru": oracle_queues.Slru, "s3fifo": oracle_queues.S3Fifo,
    "wtinylfu": oracle_queues.WTinyLfu, "gdsf": oracle.Gdsf, "leaf-lru": oracle.LeafLru, "belady": oracle.Belady,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    capacity: int
    keys: list[int]
    deletes: list[bool]
    sizes: list[int]
    parents: list[int]

    def next_use(self) -> list[float]:
        later: dict[int, float] = {}
        found = []
        for position in reversed(range(len(self.keys))):
            found.append(later.get(self.keys[position], float("inf")))
            later[self.keys[position]] = position
        return found[::-1]

    def run(self, name: str) -> OneTier:
        return run_policy(name, self.capacity, self.keys, self.sizes, self.deletes, self.parents)

    def tier(self) -> Tier:
        return Tier(self.capacity, self.sizes, self.parents, self.next_use())


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Ops are bytes: keys come alike, or low ones more often; great bytes are deletes, if the case has some."""
    count = draw(st.integers(2, 24))
    most = draw(st.sampled_from([1, 1, 7, 100]))
    skewed = draw(st.booleans())
    sizes = [1 + byte % most for byte in draw(st.binary(min_size=count, max_size=count))]
    parents = [byte % (key + 1) - 1 for key, byte in enumerate(draw(st.binary(min_size=count, max_size=count)))]
    ops = draw(st.binary(min_size=draw(st.sampled_from([0, 200])), max_size=400))
    keys = [byte * byte * count >> 16 if skewed else byte % count for byte in ops]
    last = draw(st.sampled_from([255, 255, 230]))
    capacity = sum(sizes) * draw(st.integers(1, 100)) // 100
    return Case(max(capacity, 1), keys, [byte > last for byte in ops], sizes, parents)


def test_every_policy_has_an_oracle() -> None:
    assert list(KINDS) == list(ORACLES)
    assert [name for name, kind in KINDS.items() if kind.needs_future] == ["belady"]
    assert [name for name, kind in KINDS.items() if kind.needs_parent] == ["leaf-lru"]


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_policies_evict_what_their_oracles_evict(name: str, case: Case) -> None:
    ours, tier = case.run(name), case.tier()
    theirs = run_oracle(ORACLES[name], tier, case.keys, case.deletes)
    assert ours.evicted == theirs.evicted
    assert (ours.hits, ours.misses) == (theirs.hits, theirs.misses)
    assert (ours.bypasses, ours.deletes) == (theirs.bypasses, theirs.deletes)
    assert ours.used == sum(case.sizes[key] for key in tier.inside)


@pytest.mark.parametrize(("count", "most", "part"), [(60, 9, 3), (300, 30, 2)])
@pytest.mark.parametrize("name", ORACLES)
def test_policies_evict_what_their_oracles_evict_in_long_runs(name: str, count: int, most: int, part: int) -> None:
    """Few keys halve the sketch more than once; many fill the window with objects that win a place they do not fit."""
    draw = random.Random(18)
    sizes = [draw.randint(1, most) for _ in range(count)]
    parents = [draw.randint(-1, key - 1) for key in range(count)]
    keys = [int(count * draw.random() ** 2) for _ in range(4000)]
    case = Case(sum(sizes) // part, keys, [False] * len(keys), sizes, parents)
    theirs = run_oracle(ORACLES[name], case.tier(), keys, case.deletes)
    assert case.run(name).evicted == theirs.evicted
    assert len(theirs.evicted) > 500


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=40, deadline=None)
@given(case=cases())
def test_the_account_holds(name: str, case: Case) -> None:
    """No victim is elsewhere, the tier never holds too much, and what entered either left or is there."""
    ours = case.run(name)
    assert ours.strays == 0
    assert ours.used <= ours.peak <= case.capacity
    assert ours.hits + ours.misses + sum(case.deletes) == len(case.keys)
    held = (ours.misses - ours.bypasses) - ours.evictions - ours.deletes
    assert held >= 0
    assert (held == 0) == (ours.used == 0)
    assert held <= ours.used
