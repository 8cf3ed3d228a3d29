"""Rows and requests of a trace, as the reader of an export should find them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from tracegen.exchange import convert
from tracegen.formats import FORMATS
from tracegen.formats.export import Export
from tracegen.schema import Trace

STEPS = [("w", 0, 5), ("w", 1, 7), ("r", 0, 5), ("d", 1, 7), ("x", 0, 5), ("r", 1, 7), ("r", 1, 7)]


def export_trace(
    name: str, trace: Trace, output: Path, bytes_per_token: int = 1000, *, force: bool = False
) -> dict[str, int]:
    """Write a trace in a format; bytes are for the formats that count them."""
    size = bytes_per_token if FORMATS[name].counts_bytes else 0
    return convert.export_trace(name, Export(trace, output, size, force))


def rows_of(trace: Trace) -> Iterator[dict[str, Any]]:
    """Return the ops as another library reads them."""
    return pl.read_parquet(trace.path).iter_rows(named=True)


def requests_of(trace: Trace) -> list[dict[str, Any]]:
    """Return what each request of a trace prefills and generates, collected op by op."""
    found: dict[int, dict[str, Any]] = {}
    for row in rows_of(trace):
        one = found.setdefault(row["request_id"], row | {"keys": [], "prompt": 0, "generated": 0})
        one["generated"] += row["new_tokens"]
        if row["phase"] == "prefill" and row["op"] != "delete":
            one["keys"].append(row["key"])
            one["prompt"] += row["tokens"]
    return [one for one in found.values() if one["keys"]]


BATCHES = Trace.batches
