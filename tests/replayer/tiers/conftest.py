"""Fixtures for both layouts of the nvme tier."""

from pathlib import Path
from typing import Any

import pytest

from replayer.tiers.request import BlockIO
from tests.replayer.tiers.contract import MIB, Disk, file_tier, slab_tier


@pytest.fixture(params=["files", "slab"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """Make tiers of either layout."""

    def make(place: Path = tmp_path, **io: Any) -> Any:
        if request.param == "files":
            return file_tier(place, io=BlockIO(**io))
        return slab_tier(place, 8 * MIB, io=BlockIO(**io))

    return make
