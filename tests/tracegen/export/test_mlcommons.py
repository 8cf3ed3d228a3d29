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


def test_mlcommons_rows(small: Trace, tmp_path: Path) -> None:
    export_trace("mlcommons", small, tmp_path / "io.csv")
    lines = (tmp_path / "io.csv").read_text().splitlines()
    assert lines[:3] == [
        "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase",
        "0.000000000,Write,5000,Tier-2,key_000000000000,Prefill",
        "1.500000000,Write,7000,Tier-2,key_000000000001,Prefill",
    ]
    assert lines[4] == "4.500000000,Read,7000,Tier-2,key_000000000001,Decode"
    assert len(lines) == 7
