"""Mooncake and kvcache-simulator requests, read back and replayed by the simulator."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support import traces
from tests.tracegen.export.exports import BATCHES, export_trace, requests_of
from tracegen.errors import InputError
from tracegen.schema import Trace


@pytest.mark.parametrize("format_", ["mooncake", "kvcache-simulator"])
def test_requests_record_by_record(
    format_: str, office: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trace, "batches", lambda self, size=0, more=(): BATCHES(self, 199))
    counts = export_trace(format_, office, tmp_path / "t.jsonl")
    found = [json.loads(line, parse_float=Decimal) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    if format_ == "mooncake":
        assert found.pop(0) == {"block_size": 64}, "a header, as its blocks are not of 512 tokens"
    wanted = requests_of(office)
    assert counts["requests"] == len(found) == len(wanted) == 80
    assert counts["blocks"] == sum(len(one["keys"]) for one in wanted)
    several = {one["session_id"] for one in wanted if one["turn"] > 1}
    for row, one in zip(found, wanted, strict=True):
        same = {"input_length": one["prompt"], "output_length": one["generated"], "hash_ids": one["keys"]}
        if format_ == "kvcache-simulator":
            same["block_size"] = 64
        else:
            same["timestamp"] = Decimal(one["time_ns"]) / 10**6
            same |= {"session_id": f"s{one['session_id']}"} if one["session_id"] in several else {}
            same |= {"delay": Decimal(one["think_ns"]) / 10**6} if one["turn"] > 1 else {}
        assert row == same


def test_an_interleaved_prefill_is_refused(tmp_path: Path) -> None:
    batch = traces.columns([("w", 0, 8), ("w", 1, 8), ("w", 2, 8)], requests=[0, 1, 0], step=[0, 0, 1])
    trace = traces.write(tmp_path / "t.parquet", batch, block_tokens=8)
    with pytest.raises(InputError, match="row 2: the prefill of request 0 continues"):
        export_trace("mooncake", trace, tmp_path / "o")
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]
