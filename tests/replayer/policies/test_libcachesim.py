"""Misses equal to libCacheSim's, to the integer, and bounds that hold between policies."""

import random
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.imports import EXCERPT, imported, ops
from tests.support.policies import KINDS, run_policy

THEIRS = {
    "lru": "LRU", "fifo": "FIFO", "lfu": "LFU", "clock": "Clock", "sieve": "Sieve", "arc": "ARC", "slru": "SLRU",
    "s3fifo": "S3FIFO", "wtinylfu": "WTinyLFU", "gdsf": "GDSF", "belady": "Belady",
}  # fmt: skip
SAME_BY_BYTES = sorted(THEIRS.keys() - {"arc", "slru", "wtinylfu"})
"""Those whose rule means the same whatever the unit of sizes is; docs/policy-rules.md says what differs in the others."""
CAPACITIES = (500, 1000, 1500, 2500, 5000)
"""Multiples of 500: so shares of the capacity need no rounding, which libCacheSim does in another way."""

Keys = NDArray[np.int64]


@pytest.fixture(scope="module")
def excerpt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Keys, Keys]:
    """Keys of the ops of Mooncake's excerpt, and the tokens of each key."""
    columns = ops(imported("mooncake", EXCERPT, tmp_path_factory.mktemp("trace") / "t.parquet"))
    tokens = np.zeros(int(columns["key"].max()) + 1, np.int64)
    tokens[columns["key"]] = columns["tokens"]
    return columns["key"], tokens


@cache
def skewed() -> Keys:
    """Make 30,000 ops on 8,000 keys, few of which are hot: so many hits that the sketch of wtinylfu is halved."""
    draw = random.Random(18)
    return np.array([int(8000 * draw.random() ** 6) for _ in range(30_000)])


def their_misses(name: str, capacity: int, keys: Keys, sizes: Keys) -> int:
    lib = pytest.importorskip("libcachesim")
    tier, request = getattr(lib, THEIRS[name])(cache_size=capacity, hashpower=16), lib.Request()
    later: dict[int, int] = {}
    next_use = [2**63 - 1] * len(keys)
    for position in reversed(range(len(keys))):
        next_use[position] = later.get(keys[position], 2**63 - 1)
        later[keys[position]] = position
    misses = 0
    for key, size, following in zip(keys.tolist(), sizes[keys].tolist(), next_use, strict=True):
        request.obj_id, request.obj_size, request.next_access_vtime = key, size, following
        misses += not tier.get(request)
    return misses


def our_misses(name: str, capacity: int, keys: Keys, sizes: Keys) -> int:
    return run_policy(name, capacity, keys, sizes, parents=[-1] * len(sizes)).misses


@pytest.mark.parametrize("name", THEIRS)
def test_misses_are_those_of_libcachesim_at_equal_sizes(name: str, excerpt: tuple[Keys, Keys]) -> None:
    for keys in (excerpt[0], skewed()):
        sizes = np.ones(int(keys.max()) + 1, np.int64)
        ours = [our_misses(name, capacity, keys, sizes) for capacity in CAPACITIES]
        assert ours == [their_misses(name, capacity, keys, sizes) for capacity in CAPACITIES]


@pytest.mark.parametrize("name", SAME_BY_BYTES)
def test_misses_are_those_of_libcachesim_by_bytes(name: str, excerpt: tuple[Keys, Keys]) -> None:
    keys, tokens = excerpt
    capacities = [512 * objects for objects in CAPACITIES]
    ours = [our_misses(name, capacity, keys, tokens) for capacity in capacities]
    assert ours == [their_misses(name, capacity, keys, tokens) for capacity in capacities]


@pytest.mark.parametrize("name", KINDS)
def test_the_unit_of_sizes_does_not_matter(name: str) -> None:
    keys = skewed()[:10_000]
    ones = np.ones(int(keys.max()) + 1, np.int64)
    unit = 1 << 17  # a power of two: the ranks of gdsf are floating-point numbers
    for capacity in (500, 1000):
        assert our_misses(name, capacity, keys, ones) == our_misses(name, unit * capacity, keys, unit * ones)


@pytest.mark.parametrize("capacity", [1, 10, 100, *CAPACITIES])
def test_no_policy_misses_less_than_belady_at_equal_sizes(capacity: int, excerpt: tuple[Keys, Keys]) -> None:
    for keys in (excerpt[0], skewed()):
        sizes = np.ones(int(keys.max()) + 1, np.int64)
        misses = {name: our_misses(name, capacity, keys, sizes) for name in KINDS}
        assert min(misses.values()) == misses["belady"]
