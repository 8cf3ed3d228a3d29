"""The conditions of a run: what two runs must share to be compared.

run.json has them in one table. Their classes extend one another, so that each group is known by its names.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from replayer.record.options import DEVICE_LAYOUTS, TIERS, Decode, Layout, Lookup, PaceKind, Placement, Verify
from replayer.record.run_parts import (
    BytesPerToken,
    Count,
    Depth,
    Headroom,
    Milliseconds,
    Number,
    Positive,
    RankCount,
    Rate,
    Seconds,
    StateBytes,
    Table,
    Tokens,
    Workers,
)

Tier = Literal["gpu", "cpu", "nvme"]
OrderKind = Literal["trace", "reference", "engine", "live", "run"]
IoEngine = Literal["psync", "uring"]
# Types cannot be computed from tuples; this keeps the two alike.
assert get_args(Tier) == TIERS


class TierSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of each tier; None is unlimited."""

    gpu: Count | None
    cpu: Count | None
    nvme: Count | None


class OrderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The order in which the plan was made; `profile` holds the devices of a reference system."""

    kind: OrderKind = "trace"
    name: str | None = None
    profile: dict[Tier, dict[str, Number]] | None = None
    ops_digest: str | None = None


class WarmupCondition(msgspec.Struct, frozen=True, kw_only=True):
    """The warm-up that was asked for; `steady`: until the run is steady, as its log says."""

    ops: Count | None = None
    s: Seconds | None = None
    steady: bool | msgspec.UnsetType = msgspec.UNSET


class PlanConditions(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions that decide a plan, together with the trace."""

    model: str
    bytes_per_token: BytesPerToken
    windowed_bytes_per_token: BytesPerToken | None = None
    attention_window: Tokens | None = None
    state_bytes_per_object: StateBytes | None = None
    usable_bytes: TierSizes
    headroom: Headroom | None = None
    arrangement: str | None = None
    rules: Table | None = None
    promote: bool | None = None
    lookup: Lookup | None = None
    decode: Decode | None = None
    users: Positive | None = None
    part: tuple[Count, Count] | None = None
    cycles: Positive | None = None
    order: OrderInfo | None = None
    placement: Placement | None = None
    ranks: RankCount | None = None

    def __post_init__(self) -> None:
        if self.part is not None and self.part[0] >= self.part[1]:
            raise ValueError(f"part is {list(self.part)}, not a part and how many there are")
        if (self.windowed_bytes_per_token or 0) > self.bytes_per_token:
            raise ValueError("windowed_bytes_per_token is more than bytes_per_token")


class LoadConditions(PlanConditions, frozen=True, kw_only=True):
    """The conditions of the load, which decide a plan, too, unless it keeps the trace's order."""

    workers: Workers
    pace: PaceKind
    speedup: Rate | None = None
    token_ms: Milliseconds | None = None
    prefill_tok_s: Rate | None = None
    request_depth: Depth | None = None
    max_concurrent_allocs: Positive | None = None
    window_ops: Count | None = None
    window_bytes: Count | None = None


class SpanConditions(LoadConditions, frozen=True, kw_only=True):
    """The part of the plan that was to be executed, and the part of that which is measured."""

    duration_s: Seconds | None = None
    drain_s: Seconds | None = None
    ops: Positive | None = None
    warmup: WarmupCondition | None = None

    @property
    def begins_steady(self) -> bool:
        """Whether the measured time begins when the run is steady."""
        return self.warmup is not None and self.warmup.steady is True


class DeviceConditions(SpanConditions, frozen=True, kw_only=True):
    """The ways in which tiers were reached; a prediction has them from its profile."""

    precondition_gib: Number | None = None
    layout: Layout | None = None
    direct: bool | None
    io_bytes: Count | None = None
    io_depth: Count | None = None
    io_engine: IoEngine | None = None
    fsync: str | None = None
    verify: Verify
    gpu_device: str | None = None
    gpu_read: str | None = None
    gds: bool | None = None
    throttle: dict[Tier, dict[str, Number]] | None = None

    @property
    def has_simulated_nvme(self) -> bool:
        """Whether the nvme tier is a layout that is not on a drive."""
        return self.layout is not None and self.layout not in DEVICE_LAYOUTS


class Conditions(DeviceConditions, frozen=True, kw_only=True):
    """The conditions of a run; `unknown` are those of later releases, by name, which run.json has beside the others."""

    unknown: Table = {}


CONDITION_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "plan": tuple(PlanConditions.__annotations__),
    "load": tuple(LoadConditions.__annotations__),
    "span": tuple(SpanConditions.__annotations__),
    "devices": tuple(DeviceConditions.__annotations__),
}
"""The names of the conditions in each group."""


def set_unknown_apart(named: Mapping[str, object]) -> Table:
    """Return the table of run.json with `unknown` ones in a table of their own."""
    known = DeviceConditions.__struct_fields__
    unknown = {name: value for name, value in named.items() if name not in known}
    return {name: value for name, value in named.items() if name in known} | {"unknown": unknown}
