"""The order of a plan: the trace's, a reference system's, or a run's (docs/ordering.md)."""

import ctypes
import hashlib
import importlib.resources
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta, Struct, to_builtins
from msgspec.structs import astuple
from numpy.typing import NDArray

from replayer.bindings.compiled import DeviceStruct
from replayer.planning.pace import Pace
from replayer.planning.workload import Workload
from replayer.record.columns import ORDERED_PLAN_VERSION, PLAN_VERSION
from replayer.record.conditions import OrderInfo, Tier
from replayer.record.options import TIERS
from replayer.record.reading import parts, read_run
from tracegen.errors import InputError
from tracegen.typed_files import convert, load_toml, suggest

DEFAULT_REFERENCE: Final = "nvme-7"
_SHIPPED: Final = importlib.resources.files("replayer") / "references"

_Amount = Annotated[int, Meta(ge=1, le=10**15)]
_Nanoseconds = Annotated[int, Meta(ge=0, le=10**15)]


class Device(Struct, frozen=True):
    """A tier of a reference system; the fields are in the order of DeviceStruct.

    Attributes:
        read_bytes_per_s: bandwidth of all reads together.
        write_bytes_per_s: bandwidth of all writes together.
        streams: number of transfers that together reach the bandwidth; a single one gets an equal
            share of it.
        read_latency_ns: time before a read transfers bytes.
        write_latency_ns: time before a write transfers bytes.
    """

    read_bytes_per_s: _Amount
    write_bytes_per_s: _Amount
    streams: _Amount
    read_latency_ns: _Nanoseconds
    write_latency_ns: _Nanoseconds


class _Reference(Struct, frozen=True):
    """A reference system as its file describes it."""

    gpu: Device
    cpu: Device
    nvme: Device


@dataclass(frozen=True)
class Order:
    """The sequence in which a plan decides ops.

    Attributes:
        kind: `trace`; `reference`; `engine`: that of the arrangement's scheduler; `run`: that of an
            earlier run; `live`: decided during the replay.
        name: name of the reference or engine, or directory of the run.
        devices: devices of the reference: gpu, cpu and nvme.
        op_ids: ops of the run in its order, shape (ops,).
        otherwise: of `engine`: the order of plans that its scheduler cannot make.
        instead: why it is not the engine's.
    """

    kind: Literal["trace", "reference", "engine", "run", "live"] = "trace"
    name: str | None = None
    devices: tuple[Device, Device, Device] | None = None
    op_ids: NDArray[np.int64] | None = None
    otherwise: "Order | None" = None
    instead: str | None = None

    def structs(self) -> "ctypes.Array[DeviceStruct] | None":
        """Return the devices as compiled code reads them; None without devices."""
        if self.devices is None:
            return None
        return (DeviceStruct * len(TIERS))(*(DeviceStruct(*astuple(device)) for device in self.devices))

    def to_info(self) -> OrderInfo:
        """Return the order as run.json records it."""
        profile: dict[Tier, dict[str, Any]] | None = None
        if self.devices is not None:
            profile = to_builtins(_Reference(*self.devices))
        # run.json names the ops of a run by a digest: that run may be moved or removed.
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
        # Open requests that take no time start when the trace says, on any system.
        text = "trace" if pace.kind == "open" and not pace.takes_time else "reference"
    if text == "trace":
        return Order()
    kind, _, name = text.partition(":")
    if kind == "reference":
        return load_reference(name or DEFAULT_REFERENCE)
    if (Path(text) / "run.json").exists():
        return read_order(Path(text))
    raise InputError(
        "is neither an order nor a run directory",
        "pass trace, engine, reference, reference:NAME|FILE, or the directory of a run",
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
    if name in shipped:
        with importlib.resources.as_file(_SHIPPED / f"{name}.toml") as path:
            return make_reference(name, load_toml(path, "", "order"))
    path = Path(name)
    remedy = f"name a TOML file, or {suggest(name, shipped)}"
    return replace(make_reference(name, load_toml(path, remedy, "order")), name=path.name)


def make_reference(name: str, profile: object) -> Order:
    """Return the order of a reference system.

    Args:
        name: its name.
        profile: a table for each tier with the fields of `Device`, as run.json records it.

    Raises:
        InputError: the profile does not describe a reference system.
    """
    system = convert(profile, _Reference, f"reference:{name}", "order")
    return Order("reference", name, astuple(system))


def read_order(path: Path) -> Order:
    """Return the order of an earlier run, from its log.

    Raises:
        InputError: the path is not a run, or its log lacks ops.
    """
    info = read_run(path)
    if (info.conditions.order or OrderInfo()).kind == "trace":
        return Order()
    names = ["position", "op_id"]
    is_first = [("seq", "=", 0)]
    tables = [pq.read_table(part.absolute(), columns=names, filters=is_first) for part in parts(path)]
    ordered = pa.concat_tables(tables).sort_by("position")
    position, op_id = (ordered[name].to_numpy() for name in names)
    # Beyond them, a cut run has ops whose predecessors are lacking.
    kept = position < (len(position) if info.executed_ops is None else info.executed_ops)
    if not np.array_equal(position[kept], np.arange(kept.sum())):
        raise InputError("its log lacks ops", "name a run that ended", subject=path, setting="order")
    return Order("run", str(path), op_ids=op_id[kept])


def find_rows(order: Order, workload: Workload, *, is_closed: bool) -> NDArray[np.int32] | None:
    """Return the rows of a workload in the order of a run, shape (ops,); None: it is not a run's.

    Args:
        order: of the plan.
        workload: the selected ops of the trace.
        is_closed: whether users ask only when they have their answer.

    Raises:
        InputError: the run executed other ops, or its users asked earlier.
    """
    if order.op_ids is None:
        return None
    op_ids = workload.op_ids()
    # op_ids ascend in a workload.
    rows = np.searchsorted(op_ids, order.op_ids)
    is_known = not len(rows) or rows.max() < len(op_ids)
    if not is_known or not np.array_equal(op_ids[rows], order.op_ids):
        raise InputError(
            "it executed ops that this trace, or this selection of its ops, does not have",
            "name the trace that the run replayed, and select the same ops",
            subject=order.name,
            setting="order",
        )
    if is_closed and not workload.has_whole_requests(rows):
        raise InputError(
            "users in it ask again before they have their answer, unlike with `pace=closed`",
            "pass the pace of that run",
            subject=order.name,
            setting="order",
        )
    return rows.astype(np.int32)
