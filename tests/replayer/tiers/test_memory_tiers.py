"""The null tier and the cpu tier."""

from pathlib import Path

import pytest

from replayer.tiers.base import Tier
from replayer.tiers.native import NullTier
from tests.replayer.tiers.contract import ArenaContract, TierContract, cpu_tier


class TestNullTier(TierContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> Tier:
        return NullTier()


class TestCpuTier(ArenaContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> Tier:
        return self.make(32 << 20)

    def make(self, size: int) -> Tier:
        return cpu_tier(size, objects=10)
