"""Recordings of engines that lost something, or hold the same in another form."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.imports import imported
from tests.support.paths import ROOT
from tests.tracegen.readers.reading import jsonl, read, read_rows
from tracegen.errors import InputError

DATA = ROOT / "tests" / "data" / "imports"
LCT = gzip.decompress((DATA / "lmcache.lct.gz").read_bytes())
MESSAGES = (DATA / "vllm-events.msgpack").read_bytes()


def batches() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / "vllm-events.jsonl").read_text().splitlines()]


def test_events_are_the_same_in_msgpack_and_as_lists(file: Path) -> None:
    """Before vLLM 0.32 an event was a list."""
    calls = read("vllm-events", DATA / "vllm-events.jsonl")
    assert read("vllm-events", file, MESSAGES) == calls
    rows = batches()
    for row in rows:
        row["events"] = [[*event.values()] for event in row["events"]]
        for event in row["events"]:
            event[2:2] = [None] * (event[0] == "BlockRemoved")
    found = read("vllm-events", file, jsonl(*rows))
    assert [(call.blocks, call.output_tokens) for call in found] == [
        (call.blocks, call.output_tokens) for call in calls
    ]


def test_events_as_a_trace_hold_each_block_once(tmp_path: Path) -> None:
    found = imported("vllm-events", DATA / "vllm-events.jsonl", tmp_path / "t.parquet").metadata
    assert [found.counts[name] for name in ("requests", "ops", "keys")] == [7, 45, 20]
    assert (found.block_tokens, found.prefix_chained) == (16, True)


def test_events_that_were_dropped_are_refused(file: Path) -> None:
    rows = batches()
    for skip_bad in (False, True):
        with pytest.raises(
            InputError, match=r"line 4: batch 4 follows batch 2: batches were dropped.*; record each run"
        ):
            read("vllm-events", file, jsonl(*rows[:3], *rows[4:]), skip_bad=skip_bad)
    calls, found = read_rows("vllm-events", file, jsonl(*rows[5:]))  # recorded from the sixth batch on
    assert [call.input_tokens for call in calls] == [112, 96, 48]
    assert found.left_out["blocks after unknown ones"] == 3 + 7


def test_other_tiers_and_groups_are_left_out(file: Path) -> None:
    rows = batches()
    for row in rows:
        row["events"] += [event | other for other in ({"medium": "CPU"}, {"group_idx": 1}) for event in row["events"]]
    calls, found = read_rows("vllm-events", file, jsonl(*rows))
    assert calls == read("vllm-events", DATA / "vllm-events.jsonl")
    assert found.left_out["events of other tiers or groups"] == 2 * sum(len(row["events"]) for row in batches())


@pytest.mark.parametrize(("format_", "data"), [("vllm-events", MESSAGES), ("lmcache", LCT)])
def test_a_cut_recording_is_refused_with_its_place(file: Path, format_: str, data: bytes) -> None:
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + 4 + int.from_bytes(data[starts[-1] :][:4], "big"))
    for cut in {*range(starts[-4] + 1, len(data), 7)} - {*starts}:
        record = sum(start < cut for start in starts)
        with pytest.raises(
            InputError, match=rf"record {record}: .* begins at byte {starts[record - 1]}; copy the file"
        ):
            read(format_, file, data[:cut], skip_bad=True)


def test_a_recording_of_look_ups_names_the_chunks_of_the_log(file: Path) -> None:
    log = read("lmcache", DATA / "lmcache.jsonl")
    recorded, rows = read_rows("lmcache", file, LCT)
    assert [(call.blocks, call.scope) for call in recorded] == [(call.blocks, "tiny") for call in log]
    assert [call.input_tokens for call in recorded] == [64, 32, 96, 48]  # of whole chunks
    assert rows.left_out == {"calls that look nothing up": 15, "repeated look-ups": 1}
    events = LCT.replace(b"storage", b"journal", 1)
    with pytest.raises(InputError, match=r"record 1: .* 'journal'.* no look-ups; record version 1 with trace-level"):
        read("lmcache", file, events)


def test_a_span_that_lost_attributes_is_refused(file: Path) -> None:
    content = (DATA / "otel.jsonl").read_text().replace('"flags": 768', '"droppedAttributesCount": 2', 1)
    with pytest.raises(InputError, match=r"line 1: span \w+ has lost 2 attributes; record again with a larger OTEL"):
        read("otel", file, content, skip_bad=True)
