"""The machine of a run, as run.json describes it."""

import msgspec

from replayer.record.number_types import Count, Positive, Table


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
