"""Tiers, the places of objects during a replay: one line of `BACKENDS` each."""

from collections.abc import Callable
from typing import Final

from replayer.tiers.base import Tier
from replayer.tiers.cpu import CpuTier
from replayer.tiers.disk import FileTier, SlabTier
from replayer.tiers.gds import GdsTier
from replayer.tiers.gpu import GpuTier
from replayer.tiers.native import NullTier
from replayer.tiers.request import TierRequest

BACKENDS: Final[dict[str, Callable[[TierRequest], Tier]]] = {
    "gpu": GpuTier.from_request,
    "cpu": CpuTier.from_request,
    "files": FileTier.from_request,
    "slab": SlabTier.from_request,
    "gds": GdsTier.from_request,
    "null": NullTier.from_request,
}
"""How to open a tier, by the name of its backend: gpu, cpu, or a layout of the nvme tier."""
