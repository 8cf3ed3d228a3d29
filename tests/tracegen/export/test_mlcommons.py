"""MLCommons' rows, read back."""

import csv
from decimal import Decimal
from pathlib import Path

from tests.tracegen.export.exports import export_trace, rows_of
from tracegen.schema import Trace


def test_mlcommons_record_by_record(office: Trace, tmp_path: Path) -> None:
    counts = export_trace("mlcommons", office, tmp_path / "io.csv")
    with (tmp_path / "io.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert counts == {"rows": len(found), "deletes_left_out": 0}
    for row, op in zip(found, rows_of(office), strict=True):
        assert Decimal(row.pop("Timestamp")) * 10**9 == op["time_ns"]
        assert int(row.pop("Key").removeprefix("key_")) == op["key"]
        size, phase = str(op["tokens"] * 1000), op["phase"].capitalize()
        assert row == {"Operation": op["op"].capitalize(), "Object_Size_Bytes": size, "Tier": "Tier-2", "Phase": phase}
    assert {row["phase"] for row in rows_of(office)} == {"prefill", "decode"}
