"""run.json as frozen types: decoded once, with the path of the field in errors, and encoded by the replayer.

A field without a default is in every run.json. A field with the default None is absent or null where it means nothing,
and in the files of runs that died before it was known.
"""

import json
from typing import Any, Final, Literal

import msgspec

from replayer.record.columns import PREDICTED_RUN_VERSION
from replayer.record.conditions import Conditions, Tier
from replayer.record.options import DurationOrigin, ProfileKind, WarningKind
from replayer.record.run_parts import Count, Integer, Machine, Number, Positive, RankCount, Seconds, Table, Unfinished

Status = Literal["running", "complete", "incomplete", "failed"]


class TierCounts(msgspec.Struct, frozen=True, kw_only=True):
    """A count for each tier."""

    gpu: Count
    cpu: Count
    nvme: Count


class PairCounts(msgspec.Struct, frozen=True, kw_only=True):
    """A count for each pair of tiers."""

    gpu_cpu: Count = msgspec.field(name="gpu>cpu")
    gpu_nvme: Count = msgspec.field(name="gpu>nvme")
    cpu_nvme: Count = msgspec.field(name="cpu>nvme")
    # An engine's scheduler brings objects up; no other rules copy that way.
    cpu_gpu: Count | msgspec.UnsetType = msgspec.field(name="cpu>gpu", default=msgspec.UNSET)
    nvme_cpu: Count | msgspec.UnsetType = msgspec.field(name="nvme>cpu", default=msgspec.UNSET)


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a plan or of its execution; `copies` is left out if nothing is copied."""

    ops: Count
    reads: Count | None = None
    hits: TierCounts
    misses: Count
    stores: TierCounts
    demotions: PairCounts
    copies: PairCounts | msgspec.UnsetType = msgspec.UNSET
    promotions: Count
    drops: Count
    bypasses: Count
    recomputed_tokens: Count
    read_bytes: TierCounts
    write_bytes: TierCounts


class PlanInfo(Totals, frozen=True, kw_only=True):
    """The plan's totals, and what its fingerprint and checkpoints are."""

    peak_bytes: TierCounts | None = None
    plan_fingerprint: str | None = None
    plan_checkpoints: tuple[str, ...] | None = None


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A source of conversations, or a tokenizer."""

    name: str | None = None
    licence: str | None = None
    sha256: str | None = None
    digest: str | None = None


class TraceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The trace: its file and its metadata."""

    fingerprint: str
    path: str | None = None
    ops: Count | None = None
    seed: int | None = None
    recipe: Table | None = None
    generator: str | None = None
    tokenizer: Named | None = None
    block_tokens: Count | None = None
    prefix_chained: bool | None = None
    sources: tuple[Named, ...] | None = None
    counts: dict[str, Integer] | None = None
    part: dict[str, Count] | None = None
    format_version: Count | None = None


class Precondition(msgspec.Struct, frozen=True, kw_only=True):
    """The data written to the nvme tier before the run."""

    gib: Number | None = None
    s: Seconds | None = None


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """This rank's clock against rank 0's; `zero_ns` is the log's time 0 on rank 0's clock, since the epoch."""

    offset_ns: Integer | None = None
    round_trip_ns: Count | None = None
    zero_ns: Integer | None = None


class Warmup(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the warm-up: the first op after it, and the time since the log's time 0."""

    ops: Count | None = None
    end_ns: Count | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Times of the execution since the log's time 0: the limit, the cut, the last start, the drain, the stop."""

    duration_s: Seconds | None = None
    duration_by: DurationOrigin | None = None
    cut_s: Seconds | None = None
    issued_s: Seconds | None = None
    drain_s: Seconds | None = None
    drain_limit_s: Seconds | None = None
    stopped_s: Seconds | None = None


class Warning(msgspec.Struct, frozen=True, kw_only=True):  # noqa: A001 (run.json's word)
    """Something that the replayer noticed."""

    kind: WarningKind
    text: str


class PredictionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The profile that the times are from."""

    profile: str
    kind: ProfileKind
    source: str | None = None
    profile_sha256: str
    speeds: dict[Tier, Number] | None = None


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The run.json of one process."""

    run_version: Positive
    status: Status
    reason: str | None
    prediction: PredictionInfo | None = None
    started: str | None = None
    rank: Count | None = None
    trace: TraceInfo
    plan: PlanInfo | None
    payload_nonce: str | None = None
    conditions: Conditions
    machine: Machine = Machine()
    warnings: tuple[Warning, ...]
    precondition: Precondition | None = None
    clock: Clock | None = None
    executed_ops: Count | None = None
    executed_fingerprint: str | None = None
    executed: Totals | None = None
    warmup: Warmup | None = None
    window: Window | None = None
    unfinished: Unfinished | None = None

    @property
    def cut_s(self) -> float | None:
        """The time at which the run was cut, in s since the log's time 0; None if it was not."""
        return None if self.window is None else self.window.cut_s

    @property
    def zero_ns(self) -> int | None:
        """The log's time 0 on rank 0's clock, in ns since the epoch; None if the run died before it was known."""
        return None if self.clock is None else self.clock.zero_ns

    @property
    def warmup_end_ns(self) -> int | None:
        """The end of the warm-up, in ns since the log's time 0; None if no op after it started."""
        return None if self.warmup is None else self.warmup.end_ns

    @property
    def device(self) -> str | None:
        """The block device under the cache directory."""
        return None if self.machine.storage is None else self.machine.storage.device

    @property
    def plan_fingerprint(self) -> str | None:
        """The fingerprint of the whole plan; None if the file does not name it."""
        return None if self.plan is None else self.plan.plan_fingerprint

    @property
    def ops_executed(self) -> int | None:
        """The number of ops executed (`executed_ops` is a position instead); None if the run was killed."""
        return self.executed_ops if self.executed is None else self.executed.ops

    def __post_init__(self) -> None:
        is_live = self.conditions.placement == "live"  # its plan is known when it has ended
        if self.plan is None and not is_live:
            raise ValueError("plan is null, not an object")
        if (self.run_version == PREDICTED_RUN_VERSION) != (self.prediction is not None):
            # A reader that does not know predictions must not take one for a measurement.
            raise ValueError("prediction: only runs of version 3 have one, and each has one")


class RanksInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The run.json above those of several ranks."""

    run_version: Positive
    ranks: RankCount
    status: Status
    reason: str | None = None
    executed_ops: Count | None = None
    clocks: tuple[Clock, ...] | None = None

    @property
    def ops_executed(self) -> int | None:
        """The number of ops that all ranks executed together; None if one was killed."""
        return self.executed_ops


RARE: Final = ("windowed_bytes_per_token", "attention_window", "state_bytes_per_object", "gpu", "rules")


def to_json(info: RunInfo | RanksInfo) -> dict[str, Any]:
    """Convert a run.json to what JSON has; fields are in the order of the type."""
    content: dict[str, Any] = json.loads(msgspec.json.encode(info))
    if isinstance(info, RunInfo):
        content["conditions"] = to_plain(info.conditions)
        if info.prediction is None:  # measured runs are written as before there were predictions
            del content["prediction"]
    return content


def encode(info: RunInfo | RanksInfo) -> bytes:
    """Encode a run.json as it is on the disk: UTF-8, indented by one space."""
    return json.dumps(to_json(info), indent=1).encode()


def to_plain(value: msgspec.Struct) -> dict[str, Any]:
    """Convert a part of run.json to what JSON has: dicts, lists, numbers, text and None.

    The fields that only some models, arrangements and machines have (RARE) are left out if they are None.
    """
    plain: dict[str, Any] = json.loads(msgspec.json.encode(value))
    if isinstance(value, Conditions):
        plain |= plain.pop("unknown")
    return {name: field for name, field in plain.items() if field is not None or name not in RARE}
