"""In what order a plan is made: the trace's, a reference system's, an earlier run's (docs/ordering.md)."""

import hashlib
import importlib.resources
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from replayer.bindings.compiled import DeviceStruct
from replayer.planning.pace import Pace
from replayer.record.columns import ORDERED_PLAN_VERSION, PLAN_VERSION, TIERS
from replayer.record.reading import parts, read_run
from replayer.record.run_info import OrderInfo
from tracegen.errors import InputError

DEFAULT_REFERENCE: Final = "nvme-7"
_SHIPPED: Final = importlib.resources.files("replayer.references")
_MOST: Final = 10**15  # of any number in a reference


@dataclass(frozen=True)
class Device:
    """A tier of a reference system.

    Attributes:
        read_bytes_per_s, write_bytes_per_s: of all transfers of that side together.
        streams: so many transfers together reach that; one alone gets its share of them.
        read_latency_ns, write_latency_ns: before a transfer begins.
    """

    read_bytes_per_s: int
    write_bytes_per_s: int
    streams: int
    read_latency_ns: int
    write_latency_ns: int


@dataclass(frozen=True)
class Order:
    """The order in which a plan's ops are decided.

    Attributes:
        kind: trace; reference; run: as an earlier run had it; live: as it comes, decided while it is replayed.
        name: of the reference, or the run's directory.
        devices: of the reference, per tier.
        op_ids: of a run: the ops in order, till the workload is known.
    """

    kind: Literal["trace", "reference", "run", "live"] = "trace"
    name: str | None = None
    devices: tuple[Device, Device, Device] | None = None
    op_ids: NDArray[np.int64] | None = None

    def structs(self) -> Any:
        """The devices as the core reads them; None where there are none."""
        if self.devices is None:
            return None
        return (DeviceStruct * len(TIERS))(
            *(DeviceStruct(*(getattr(device, item.name) for item in fields(Device))) for device in self.devices)
        )

    def described(self) -> dict[str, Any]:
        """What run.json says of it."""
        profile = None
        if self.devices is not None:
            profile = {tier: asdict(device) for tier, device in zip(TIERS, self.devices, strict=True)}
        digest = hashlib.sha256(self.op_ids.tobytes()).hexdigest() if self.op_ids is not None else None
        return {"kind": self.kind, "name": self.name, "profile": profile, "ops_digest": digest}

    @property
    def plan_version(self) -> int:
        """What the plan's fingerprint begins with."""
        return PLAN_VERSION if self.kind == "trace" else ORDERED_PLAN_VERSION


def parse(text: str | None, pace: Pace) -> Order:
    """The order that --order names; None: the default of the pace.

    Raises:
        InputError: there is no such reference or run.
    """
    if text is None:
        text = "trace" if pace.kind == "open" and not pace.takes_time else "reference"
    if text == "trace":
        return Order()
    if text == "live":
        return Order("live")
    kind, _, name = text.partition(":")
    if kind == "reference":
        return reference(name or DEFAULT_REFERENCE)
    if (Path(text) / "run.json").exists():
        return of_run(Path(text))
    raise InputError(f"--order {text} is none; pass trace, reference, reference:NAME|FILE, or a run's directory.")


def reference(name: str) -> Order:
    """A reference system that is shipped, or that a file describes.

    Raises:
        InputError: it is unknown, or no reference.
    """
    shipped = {one.name.removesuffix(".toml"): one for one in _SHIPPED.iterdir() if one.name.endswith(".toml")}
    try:
        text = (shipped[name] if name in shipped else Path(name)).read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except OSError as error:
        raise InputError(
            f"--order reference:{name}: {error.strerror}; name a TOML file, or one of {', '.join(sorted(shipped))}."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--order reference:{name} is not TOML: {error}.") from None
    return replace(profiled(name, content), name=name if name in shipped else Path(name).name)


def profiled(name: str, profile: Any) -> Order:
    """A reference system as run.json describes it.

    Raises:
        InputError: it is no reference.
    """
    if not isinstance(profile, dict) or set(profile) != set(TIERS):
        raise InputError(f"--order reference:{name}: it must have the tables {', '.join(TIERS)} and no others.")
    gpu, cpu, nvme = (_device(name, tier, profile[tier]) for tier in TIERS)
    return Order("reference", name, (gpu, cpu, nvme))


def _device(name: str, tier: str, table: Any) -> Device:
    names = [item.name for item in fields(Device)]
    if not isinstance(table, dict) or set(table) != set(names):
        raise InputError(f"--order reference:{name}: {tier} must have {', '.join(names)} and nothing else.")
    for key, value in table.items():
        least = 0 if key.endswith("latency_ns") else 1
        if type(value) is not int or not least <= value < _MOST:
            raise InputError(f"--order reference:{name}: {tier}.{key} = {value!r} must be a whole number from {least}.")
    return Device(**table)


def of_run(path: Path) -> Order:
    """The order that a run had.

    Raises:
        InputError: it is no run, or its log does not say.
    """
    info = read_run(path)
    if (info.conditions.order or OrderInfo()).kind == "trace":
        return Order()
    positions, op_ids = [], []
    for part in parts(path):
        table = pq.read_table(part.absolute(), columns=["position", "op_id", "seq"])
        first = table.filter(pc.equal(table["seq"], 0))
        positions.append(first["position"].to_numpy())
        op_ids.append(first["op_id"].to_numpy())
    position, op_id = np.concatenate(positions), np.concatenate(op_ids)
    order = np.argsort(position)
    executed = info.executed_ops
    most = len(position) if executed is None else executed
    kept = order[position[order] < most]
    if not np.array_equal(position[kept], np.arange(len(kept))):
        raise InputError(f"--order {path}: its log lacks ops; name a run that ended.")
    return Order("run", str(path), op_ids=op_id[kept])
