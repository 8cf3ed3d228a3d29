"""The null tier and the cpu tier."""

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.tiers.base import Tier
from replayer.tiers.cpu import CpuTier
from replayer.tiers.native import NullTier
from tests.replayer.tiers.contract import TierContract, check_every_fragment_is_used, find_damage, put


class TestNullTier(TierContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> Tier:
        return NullTier()


class TestCpuTier(TierContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> Tier:
        return CpuTier(32 << 20)

    def test_a_full_tier_refuses_further_objects(self) -> None:
        tier = CpuTier(10_000)
        put(tier, 1, 6000)
        with pytest.raises(OSError, match="arena") as refused:
            tier.create(2, 4001)
        assert refused.value.errno == errno.ENOMEM
        put(tier, 2, 4000)
        assert find_damage(tier, 1, 6000) is None

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3000)), max_size=60))
    def test_an_object_fits_however_fragmented_the_arena_is(self, steps: list[tuple[int, int]]) -> None:
        check_every_fragment_is_used(CpuTier(8000, objects=10), 8000, steps)
