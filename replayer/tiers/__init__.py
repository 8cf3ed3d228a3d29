"""Tiers, the places of objects during a replay: one line of `BACKENDS` each."""

from collections.abc import Callable
from typing import Final

from replayer.tiers.disk import FileTier, SlabTier
from replayer.tiers.gds import GdsTier
from replayer.tiers.gpu import GpuTier
from replayer.tiers.native import CpuTier, NativeTier, NullTier
from replayer.tiers.request import TierRequest

BACKENDS: Final[dict[str, Callable[[TierRequest], NativeTier]]] = {
    "gpu": GpuTier,
    "cpu": CpuTier,
    "files": FileTier,
    "slab": SlabTier,
    "gds": GdsTier,
    "null": NullTier,
}
"""How to open a tier, by the name of its backend: gpu, cpu, or a layout of the nvme tier."""
