"""Parts of run.json: the ranges of its numbers, the machine, the requests left unfinished."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

_INT64: Final = 2**63 - 1
Count = Annotated[int, Meta(ge=0, le=_INT64)]
Positive = Annotated[int, Meta(ge=1, le=_INT64)]
Integer = Annotated[int, Meta(ge=-_INT64, le=_INT64)]
# A run.json may claim any number of ranks, and readers look for each.
RankCount = Annotated[int, Meta(ge=1, lt=1 << 20)]
Number = Annotated[int, Meta(ge=0, le=10**12)] | Annotated[float, Meta(ge=0, le=1e12)]
"""The upper limits of numbers keep what readers compute from them, in nanoseconds, below 2^63."""
Seconds = Annotated[int, Meta(ge=0, le=10**9)] | Annotated[float, Meta(ge=0, le=1e9)]
# Those of a plan are limited as the options are that decide it, so that it can be made again.
Milliseconds = Annotated[float, Meta(ge=0, le=1e6)]
Rate = Annotated[float, Meta(ge=1e-3, lt=1e12)]
Depth = Annotated[int, Meta(ge=1, lt=1 << 31)]
Workers = Annotated[int, Meta(ge=1, le=10_000)]
Headroom = Annotated[str, Meta(pattern=r"^(1(\.0{1,30})?|0\.(?=0*[1-9])\d{1,30})\Z")]
# An object has fewer than 2^31 tokens: its bytes then stay within 63 bits.
MOST_TOKEN_BYTES: Final = 1 << 30
MOST_STATE_BYTES: Final = 1 << 40
BytesPerToken = Annotated[int, Meta(ge=1, lt=MOST_TOKEN_BYTES)]
StateBytes = Annotated[int, Meta(ge=1, lt=MOST_STATE_BYTES)]
Tokens = Annotated[int, Meta(ge=1, lt=1 << 31)]

Table = dict[str, Any]
"""A table whose keys others define: a recipe, rules, versions of packages."""


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """The drive that holds the nvme tier."""

    filesystem: str | None = None
    mount_point: str | None = None
    mount_options: str | None = None
    device: str | None = None
    device_model: str | None = None


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """The GPU; `emulated` says that host memory stands in for it."""

    device: str | None = None
    emulated: bool | None = None
    memory_bytes: Count | None = None
    torch: str | None = None
    runtime: str | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and the software of a run."""

    host: str | None = None
    cpu: str | None = None
    cores: Positive | None = None
    host_cores: Positive | None = None
    memory_bytes: Count | None = None
    kernel: str | None = None
    python: str | None = None
    code_sha256: str | None = None
    core_sha256: str | None = None
    packages: Table | None = None
    storage: Storage | None = None
    gpu: Gpu | None = None


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """The requests that were due before the cut and are not done: a value each in every column.

    `in_prefill`: 1 if ops of its prefill are not done, else 0.
    """

    request_id: tuple[Count, ...] = ()
    qos: tuple[Count, ...] = ()
    due_ns: tuple[Count, ...] = ()
    in_prefill: tuple[Count, ...] = ()

    def __post_init__(self) -> None:
        columns = (self.request_id, self.qos, self.due_ns, self.in_prefill)
        if len({len(column) for column in columns}) > 1:
            raise ValueError("unfinished has columns of unequal lengths")
