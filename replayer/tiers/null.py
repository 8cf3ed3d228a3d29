"""The null tier: keeps nothing and takes no time, so that a run shows what the replayer costs."""

from typing import Self

from replayer.bindings.compiled import call
from replayer.tiers.native import NativeTier
from replayer.tiers.request import TierRequest

_new_null = call("tier_null")


class NullTier(NativeTier):
    """A tier that keeps nothing: its reads cannot be verified."""

    keeps_bytes = False

    def __init__(self) -> None:
        super().__init__(_new_null())

    @classmethod
    def from_request(cls, _request: TierRequest) -> Self:
        """Open the tier."""
        return cls()
