"""The null tier and the cpu tier."""

from pathlib import Path

import pytest

from replayer.tiers.native import NativeTier, NullTier
from tests.replayer.tiers.contract import ArenaContract, TierContract, cpu_tier


class TestNullTier(TierContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> NativeTier:
        return NullTier()


class TestCpuTier(ArenaContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> NativeTier:
        return self.make(32 << 20)

    def make(self, size: int) -> NativeTier:
        return cpu_tier(size, objects=10)
