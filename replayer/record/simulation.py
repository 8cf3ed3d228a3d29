"""The table that `replayer simulate` writes: a row per cell. Its columns, metadata and reading."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from replayer.record.conditions import OrderInfo
from replayer.record.options import TIERS
from replayer.record.run_info import PredictionInfo
from tracegen.errors import InputError
from tracegen.outputs import open_output
from tracegen.schema import ENUMS

SIMULATION_VERSION: Final = 1
_METADATA_KEY: Final = b"kv-simulation"

CellValue = int | float | str | bool | None
Cell = dict[str, CellValue]
"""A row of the table, by column."""


@dataclass(frozen=True)
class CellColumn:
    """A column of the table.

    Attributes:
        name: of the column; `{tier}` and `{source}` stand for one column per tier or source.
        type: of its values.
        text: what it means.
        nullable: null where it does not apply.
    """

    name: str
    type: pa.DataType
    text: str
    nullable: bool = False

    def spread(self) -> list["CellColumn"]:
        """Return the column of each tier, or of each source; else the column alone."""
        for mark, words in (("{tier}", TIERS), ("{source}", ENUMS["source"])):
            if mark in self.name:
                return [
                    replace(self, name=self.name.replace(mark, word), text=self.text.replace(mark, word))
                    for word in words
                ]
        return [self]


def _columns(kind: pa.DataType, texts: Mapping[str, str]) -> list[CellColumn]:
    # What is no count has no value where it would be a share of nothing.
    return [CellColumn(name, kind, text, kind == pa.float64()) for name, text in texts.items()]


_GENERAL: Final = (
    # What was planned
    CellColumn("cell", pa.int64(), "number of the cell; the last axis changes fastest"),
    CellColumn("model", pa.string(), "name of the model"),
    CellColumn("bytes_per_token", pa.int64(), "KV cache bytes of a token"),
    *_columns(
        pa.float64(),
        {
            "gpu_mem_gb": "GPU memory for KV, GiB",
            "cpu_mem_gb": "CPU memory for KV, GiB",
            "storage_capacity_gb": "NVMe capacity for KV, GiB; null: unlimited",
            "headroom": "share of gpu and cpu that the plan may fill",
        },
    ),
    CellColumn(
        "{tier}_usable_bytes",
        pa.int64(),
        "bytes that objects may fill in {tier}; 0: no such tier, null: unlimited",
        nullable=True,
    ),
    *_columns(
        pa.string(),
        {
            "arrangement": "name of the rules: waterfall, an engine's, or a file's",
            "policy": "which object goes first: of all tiers, or by tier, as in gpu=lru,cpu=arc",
            "lookup": "independent or contiguous",
            "order": "trace, reference:NAME, or run:NAME",
        },
    ),
    *_columns(pa.float64(), {"ttl_s": "seconds from an object's last use until it expires; 0: never"}),
    CellColumn("chunk_tokens", pa.int64(), "tokens of a chunk; 0: objects are those of the trace"),
    # Counts and rates of the whole cell
    *_columns(
        pa.int64(),
        {
            "ops": "ops of the trace",
            "reads": "ops that read an object",
            "requests": "requests",
            "reading_requests": "requests whose prefill reads",
            "prompt_tokens": "tokens of all prefill ops",
            "hits": "reads that find their object",
            "misses": "reads that do not",
            "hit_requests": "those of them all of whose prefill reads hit",
            "spared_tokens": "tokens of prefill reads that hit: prefill need not compute them",
            "recomputed_tokens": "tokens of ops with a miss or a bypass",
            "bypasses": "writes and recomputed reads of objects that no tier can hold",
            "promotions": "hits whose object moves to a faster tier",
        },
    ),
    *_columns(
        pa.float64(),
        {
            "hit_rate_ops": "hits of prefill reads ÷ prefill reads: decode reads are in no hit rate",
            "hit_rate_tokens": "spared_tokens ÷ prompt_tokens",
            "hit_rate_requests": "hit_requests ÷ reading_requests",
            "hit_rate_all_ops": "hits ÷ ops, decode reads included: first writes count as misses",
            "bound_ops": "hit_rate_ops with unlimited memory",
            "bound_tokens": "hit_rate_tokens with unlimited memory",
            "bound_requests": "hit_rate_requests with unlimited memory",
        },
    ),
    # Of each tier
    *_columns(
        pa.int64(),
        {
            "hits_{tier}": "hits in {tier}",
            "spared_tokens_{tier}": "spared_tokens of hits in {tier}",
            "stores_{tier}": "objects that the host writes to {tier}",
            "entries_{tier}": "objects that come to {tier}: stored, demoted or copied",
            "unread_entries_{tier}": "entries that no hit in {tier} reads before they leave",
            "demotions_{tier}": "objects evicted from {tier} to a slower tier",
            "drops_{tier}": "objects dropped from {tier} that no slower tier holds",
            "free_drops_{tier}": "objects dropped from {tier} that a slower tier holds",
            "evictions_{tier}": "demotions_{tier} + drops_{tier}",
            "peak_bytes_{tier}": "the most bytes in {tier} at a time",
            "peak_objects_{tier}": "the most objects in {tier} at a time",
            "read_bytes_{tier}": "bytes read from {tier}",
            "write_bytes_{tier}": "bytes written to {tier}",
        },
    ),
    *_columns(
        pa.float64(),
        {
            "read_bytes_per_day_{tier}": "read_bytes_{tier} per day of the trace's own time",
            "write_bytes_per_day_{tier}": "write_bytes_{tier} per day of the trace's own time",
            "peak_read_gib_s_{tier}": "GiB/s read from {tier} in its busiest minute",
            "peak_write_gib_s_{tier}": "GiB/s written to {tier} in its busiest minute",
        },
    ),
    # Of each source of objects
    *_columns(
        pa.int64(),
        {
            "reads_{source}": "prefill reads of objects of the source {source}",
            "hits_{source}": "hits among them",
            "prompt_tokens_{source}": "prompt_tokens in objects of the source {source}",
            "spared_tokens_{source}": "spared_tokens among them",
        },
    ),
    *_columns(pa.float64(), {"drive_writes_per_day": "write_bytes_per_day_nvme ÷ nvme_usable_bytes"}),
)

_TIMES: Final = _columns(
    pa.float64(),
    {
        "elapsed_s": "seconds that a replay of the cell is predicted to take",
        "wall_clock_tok_s": "tokens generated ÷ elapsed_s",
        "{tier}_read_p95_ms": "P95 of the time to read an object from {tier}, in ms",
        "ttfb_p95_ms": "P95 of the storage part of the time to first token, in ms",
    },
)
"""Columns of predicted times, as `analysis` defines them."""

_RULE_COLUMNS: Final = ("policy", "ttl_s", "chunk_tokens")
_AXIS_COLUMNS: Final = (*("model", "gpu_mem_gb", "cpu_mem_gb", "storage_capacity_gb", "arrangement"), *_RULE_COLUMNS)

SIMULATION_COLUMNS: Final = tuple(column for general in _GENERAL for column in general.spread())
"""All columns in their order, without those of times."""

PREDICTED_COLUMNS: Final = tuple(column for general in _TIMES for column in general.spread())
"""The columns that follow if times were predicted."""


class SimulationInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The table's record about itself.

    Attributes:
        version: of the format.
        release: of the replayer.
        trace: its path.
        trace_fingerprint: of the trace.
        ops: of the trace, as selected.
        span_s: seconds from its first request to its last.
        order: in which ops were planned.
        axes: names of the setting columns that differ between cells.
        settings: all other settings, as they were given.
        prediction: the profile that times are predicted from; None: there are no times.
    """

    version: int
    release: str
    trace: str
    trace_fingerprint: str
    ops: int
    span_s: float
    order: OrderInfo
    axes: tuple[str, ...]
    settings: dict[str, str]
    prediction: PredictionInfo | None = None

    def columns(self) -> tuple[CellColumn, ...]:
        """Return the columns of the table."""
        return SIMULATION_COLUMNS + (() if self.prediction is None else PREDICTED_COLUMNS)


def find_axes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return the names of the columns of settings that differ between cells.

    What follows from the arrangement, as its policy may, is left out.
    """
    arrangements = {cell["arrangement"] for cell in cells}

    def differs(name: str) -> bool:
        if name in _RULE_COLUMNS:
            return len({(cell["arrangement"], cell[name]) for cell in cells}) > len(arrangements)
        return len({cell[name] for cell in cells}) > 1

    return tuple(name for name in _AXIS_COLUMNS if differs(name))


def write_simulation(cells: Sequence[Cell], info: SimulationInfo, path: Path) -> None:
    """Write the table; it appears under its name once it is whole.

    Raises:
        InputError: it cannot be written.
    """
    fields = [pa.field(one.name, one.type, one.nullable, {"text": one.text}) for one in info.columns()]
    metadata = {_METADATA_KEY: msgspec.json.encode(info)}
    table = pa.Table.from_pylist(list(cells), schema=pa.schema(fields, metadata=metadata))
    with open_output(path, force=True) as file:
        pq.write_table(table, file, compression="zstd")


def read_simulation(path: Path) -> tuple[pa.Table, SimulationInfo]:
    """Read a table that `replayer simulate` wrote.

    Raises:
        InputError: the file cannot be read, is not such a table, or is of a newer format.
    """
    try:
        table = pq.read_table(path.absolute())  # Arrow takes a relative a:b for a URL
        content = (table.schema.metadata or {})[_METADATA_KEY]
        info = msgspec.json.decode(content, type=SimulationInfo)
    except FileNotFoundError:
        raise InputError("no such file", "name a table", subject=path) from None
    except (OSError, ValueError, KeyError, pa.ArrowException, msgspec.DecodeError):
        raise InputError("is not a table that `replayer simulate` wrote", "write it again", subject=path) from None
    if info.version != SIMULATION_VERSION:
        problem = f"has version {info.version}, and this release reads {SIMULATION_VERSION}"
        raise InputError(problem, "install the newer release", subject=path)
    return table, info
