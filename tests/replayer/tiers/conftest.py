"""Fixtures for both layouts of the nvme tier."""

from pathlib import Path
from typing import Any

import pytest

from replayer.tiers.disk import FileTier, SlabTier
from replayer.tiers.request import BlockIO
from tests.replayer.tiers.contract import MIB, Disk


@pytest.fixture(params=["files", "slab"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """Make tiers of either layout."""

    def make(place: Path = tmp_path, **io: Any) -> Any:
        if request.param == "files":
            return FileTier(place, "test", BlockIO(**io))
        return SlabTier(place, "test", 8 * MIB, BlockIO(**io))

    return make
