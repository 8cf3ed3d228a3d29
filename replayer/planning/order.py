"""The order of a plan: the trace's, a reference system's, or a run's (docs/ordering.md)."""

import ctypes
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
from replayer.record.conditions import OrderInfo, Tier
from replayer.record.reading import parts, read_run
from tracegen.errors import InputError
from tracegen.typed_files import suggest

DEFAULT_REFERENCE: Final = "nvme-7"
_SHIPPED: Final = importlib.resources.files("replayer.references")
_LIMIT: Final = 10**15  # numbers of a reference must be below it


@dataclass(frozen=True)
class Device:
    """A tier of a reference system.

    Attributes:
        read_bytes_per_s: bandwidth of all reads together.
        write_bytes_per_s: bandwidth of all writes together.
        streams: number of transfers that together reach the bandwidth; a single one gets an equal
            share of it.
        read_latency_ns: time before a read transfers bytes.
        write_latency_ns: time before a write transfers bytes.
    """

    read_bytes_per_s: int
    write_bytes_per_s: int
    streams: int
    read_latency_ns: int
    write_latency_ns: int


@dataclass(frozen=True)
class Order:
    """The sequence in which a plan decides ops.

    Attributes:
        kind: `trace`; `reference`; `run`: that of an earlier run; `live`: decided during the
            replay.
        name: name of the reference, or directory of the run.
        devices: devices of the reference: gpu, cpu and nvme.
        op_ids: ops of the run in its order, shape (ops,).
    """

    kind: Literal["trace", "reference", "run", "live"] = "trace"
    name: str | None = None
    devices: tuple[Device, Device, Device] | None = None
    op_ids: NDArray[np.int64] | None = None

    def structs(self) -> "ctypes.Array[DeviceStruct] | None":
        """Return the devices as compiled code reads them; None without devices."""
        if self.devices is None:
            return None
        names = [field.name for field in fields(Device)]
        return (DeviceStruct * len(TIERS))(
            *(DeviceStruct(*(getattr(device, name) for name in names)) for device in self.devices)
        )

    def to_info(self) -> OrderInfo:
        """Return the order as run.json records it."""
        profile: dict[Tier, dict[str, Any]] | None = None
        if self.devices is not None:
            gpu, cpu, nvme = map(asdict, self.devices)
            profile = {"gpu": gpu, "cpu": cpu, "nvme": nvme}
        digest = None
        if self.op_ids is not None:
            digest = hashlib.sha256(self.op_ids.tobytes()).hexdigest()
        return OrderInfo(kind=self.kind, name=self.name, profile=profile, ops_digest=digest)

    @property
    def plan_version(self) -> int:
        """Version of plans in this order; their fingerprint begins with it."""
        return PLAN_VERSION if self.kind == "trace" else ORDERED_PLAN_VERSION


def parse_order(text: str | None, pace: Pace) -> Order:
    """Return the order that the setting `order` names; for None the default of the pace.

    Raises:
        InputError: there is no reference or run of that name.
    """
    if text is None:
        text = "trace" if pace.kind == "open" and not pace.takes_time else "reference"
    if text == "trace":
        return Order()
    if text == "live":
        return Order("live")
    kind, _, name = text.partition(":")
    if kind == "reference":
        return load_reference(name or DEFAULT_REFERENCE)
    if (Path(text) / "run.json").exists():
        return read_order(Path(text))
    raise InputError(
        "is neither an order nor a run directory",
        "pass trace, reference, reference:NAME|FILE, or the directory of a run",
        subject=text,
        setting="order",
    )


def shipped_references() -> list[str]:
    """Return the names of the reference systems that ship with the tool."""
    return sorted(path.name.removesuffix(".toml") for path in _SHIPPED.iterdir() if path.name.endswith(".toml"))


def load_reference(name: str) -> Order:
    """Return the order of a reference system that is shipped, or that a TOML file describes.

    Raises:
        InputError: there is no file of that name, or it does not describe a reference system.
    """
    shipped = shipped_references()
    try:
        text = (_SHIPPED / f"{name}.toml" if name in shipped else Path(name)).read_text(encoding="utf-8")
        profile = tomllib.loads(text)
    except OSError as error:
        raise _reference_error(name, str(error.strerror), f"name a TOML file, or {suggest(name, shipped)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _reference_error(name, f"is not TOML ({error})", "mend the file") from None
    order = make_reference(name, profile)
    return replace(order, name=name if name in shipped else Path(name).name)


def make_reference(name: str, profile: object) -> Order:
    """Return the order of a reference system.

    Args:
        name: its name.
        profile: a table for each tier with the fields of `Device`, as run.json records it.

    Raises:
        InputError: the profile does not describe a reference system.
    """
    if not isinstance(profile, dict) or set(profile) != set(TIERS):
        tables = f"{', '.join(TIERS[:-1])} and {TIERS[-1]}"
        raise _reference_error(
            name,
            f"must have the tables {tables}, and no others",
            "mend the file",
        )
    gpu, cpu, nvme = (_make_device(name, tier, profile[tier]) for tier in TIERS)
    return Order("reference", name, (gpu, cpu, nvme))


def _make_device(name: str, tier: str, table: object) -> Device:
    keys = [field.name for field in fields(Device)]
    if not isinstance(table, dict) or set(table) != set(keys):
        raise _reference_error(
            name,
            f"{tier} must have {', '.join(keys)}, and nothing else",
            "mend the file",
        )
    for key, value in table.items():
        low = 0 if key.endswith("latency_ns") else 1
        if type(value) is not int or not low <= value < _LIMIT:
            raise _reference_error(
                name,
                f"{tier}.{key} is {value!r}, not a whole number from {low} to below 10^15",
                "mend the file",
            )
    return Device(**table)


def _reference_error(name: str, problem: str, remedy: str) -> InputError:
    return InputError(problem, remedy, subject=f"reference:{name}", setting="order")


def read_order(path: Path) -> Order:
    """Return the order of an earlier run, from its log.

    Raises:
        InputError: the path is not a run, or its log lacks ops.
    """
    info = read_run(path)
    if (info.conditions.plan.order or OrderInfo()).kind == "trace":
        return Order()
    positions: list[NDArray[np.int64]] = []
    op_ids: list[NDArray[np.int64]] = []
    for part in parts(path):
        table = pq.read_table(part.absolute(), columns=["position", "op_id", "seq"])
        first_moves = table.filter(pc.equal(table["seq"], 0))
        positions.append(first_moves["position"].to_numpy())
        op_ids.append(first_moves["op_id"].to_numpy())
    position = np.concatenate(positions)
    op_id = np.concatenate(op_ids)
    sequence = np.argsort(position)
    executed = info.executed_ops
    end = len(position) if executed is None else executed
    kept = sequence[position[sequence] < end]
    if not np.array_equal(position[kept], np.arange(len(kept))):
        raise InputError(
            "its log lacks ops",
            "name a run that ended",
            subject=path,
            setting="order",
        )
    return Order("run", str(path), op_ids=op_id[kept])
