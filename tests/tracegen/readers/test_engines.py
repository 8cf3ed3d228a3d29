"""Records of engines: files that they wrote or that were worked by hand from their page, and what is wrong with others."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.command_line import Run
from tests.support.imports import imported, ops
from tests.support.paths import ROOT
from tests.tracegen.readers.reading import MS, jsonl, read, read_rows
from tracegen.errors import InputError
from tracegen.schema import Trace

FILES = ROOT / "tests" / "data" / "imports"
CALLS = json.loads((FILES / "calls.json").read_text())
BAD = json.loads((FILES / "bad.json").read_text())


@pytest.mark.parametrize("format_", CALLS)
def test_calls_are_those_worked_by_hand(format_: str) -> None:
    """In calls.json: time in ms, session, user, delay in ms, tokens of prompt and answer, blocks."""
    found, rows = read_rows(format_, FILES / f"{format_}.jsonl")
    times = [(call.time_ns // MS, None if call.delay_ns is None else call.delay_ns // MS) for call in found]
    assert [
        [time, call.session, call.user, delay, call.input_tokens, call.output_tokens, call.blocks]
        for (time, delay), call in zip(times, found, strict=True)
    ] == CALLS[format_]["calls"]
    assert rows.left_out == CALLS[format_]["left_out"]


def test_dynamo_as_a_trace_keeps_the_gaps_and_the_blocks(run: Run, tmp_path: Path) -> None:
    done = run("tracegen", "import", "dynamo", FILES / "dynamo.jsonl", "-o", tmp_path / "t.parquet")
    assert "1 sub-agent ran alongside others: in the trace no caller waits" in done.stderr
    trace = Trace(tmp_path / "t.parquet")
    counts = [trace.metadata.counts[name] for name in ("requests", "sessions", "users", "keys", "tokens_generated")]
    assert counts == [7, 5, 3, 9, 53]
    of = ops(trace)
    assert of["tokens"][of["op"] == 1].sum() == 4 * 64
    assert sorted(of["think_ns"][of["think_ns"] > 0] // MS) == [100, 100, 100, 200]


def test_segments_of_one_recording_share_ids_and_none_may_be_missing(tmp_path: Path) -> None:
    lines = (FILES / "dynamo.jsonl").read_text().splitlines(keepends=True)
    for number in range(3):
        (tmp_path / f"trace.{number:06}.jsonl").write_text("".join(lines[3 * number : 3 * number + 3]))
    whole = imported("dynamo", tmp_path, tmp_path / "t.parquet").metadata.counts
    assert (whole["keys"], whole["requests"]) == (9, 7)
    (tmp_path / "trace.000001.jsonl").unlink()
    with pytest.raises(InputError, match=r"trace\.000002\.jsonl follows trace\.000001\.jsonl, which is missing"):
        imported("dynamo", tmp_path, tmp_path / "t.parquet")


def test_sglang_counts_pages_by_their_bytes_and_refuses_half_a_restore(tmp_path: Path) -> None:
    of = ops(imported("sglang", FILES / "sglang.jsonl", tmp_path / "t.parquet", bytes_per_token=131072))
    assert of["key"].tolist() == [0, 1, 2, 3, 0, 1]
    assert of["tokens"].tolist() == [16] * 6
    *rest, _ = (FILES / "sglang.jsonl").read_text().splitlines(keepends=True)
    with pytest.raises(InputError, match=r"line 9: ends within a restore.*; stop the server"):
        read("sglang", tmp_path / "cut", "".join(rest))


@pytest.mark.parametrize(("format_", "place", "value", "reason"), BAD)
def test_a_wrong_record_is_refused_or_counted(file: Path, format_: str, place: str, value: Any, reason: str) -> None:
    good = [json.loads(line) for line in (FILES / f"{format_}.jsonl").read_text().splitlines()]
    first = next((row for row in good if "request" in row or row.get("kind") == "read"), good[0])
    bad = deepcopy(first)
    inner = bad
    *parts, last = place.split(".")
    for part in parts:
        inner = inner[int(part) if isinstance(inner, list) else part]
    inner[int(last) if isinstance(inner, list) else last] = value
    with pytest.raises(InputError, match=rf"{file}, line 2: {reason}"):
        read(format_, file, jsonl(first, bad))
    found, rows = read_rows(format_, file, jsonl(*good[:1], bad, *good[1:]), skip_bad=True)
    assert (len(found), rows.skipped.total()) == (len(CALLS[format_]["calls"]), 1)


times = st.tuples(st.integers(0, 30), st.integers(0, 9))
work = st.lists(st.tuples(st.sampled_from("abcd"), times), min_size=1, max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(work=work, callers=st.dictionaries(st.sampled_from("bcd"), st.sampled_from("abc"), max_size=3))
def test_users_of_dynamo_do_one_thing_at_a_time(
    file: Path, work: list[tuple[str, tuple[int, int]]], callers: dict[str, str]
) -> None:
    """Of a session apart from its caller, a request overlaps one of the caller's user."""
    first = json.loads((FILES / "dynamo.jsonl").read_text().splitlines()[0])
    spans: dict[str, list[tuple[int, int]]] = {}
    rows = []
    for number, (session, (start, took)) in enumerate(work):
        spans.setdefault(session, []).append((start, start + took))
        agent = {"session_id": session, "parent_session_id": callers.get(session)}
        request = first["request"] | {"request_id": str(number), "request_received_ms": start, "total_time_ms": took}
        rows.append(first | {"agent_context": agent, "request": request})
    users = {call.session: call.user for call in read("dynamo", file, jsonl(*rows))}

    def overlap(one: str, other: str) -> bool:
        return any(a < d and c < b for a, b in spans[one] for c, d in spans[other])

    for one, user in users.items():
        assert not any(overlap(one, other) for other in users if users[other] == user and other != one)
        caller = callers.get(one)
        if user == one and caller in users and min(spans[caller]) < min(spans[one]) and caller != one:
            assert any(overlap(one, other) for other in users if users[other] == users[caller])
