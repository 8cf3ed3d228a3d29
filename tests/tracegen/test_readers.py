"""Readers of other labs' traces: an example of each worked by hand, what is refused and why, and arbitrary bytes."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.paths import ROOT
from tracegen.blocks import ImportOptions
from tracegen.exchange import Output, import_trace
from tracegen.formats import azure, bailian, burstgpt, calls, kvcache_simulator, mlcommons, mooncake, weka
from tracegen.formats.calls import Call, Rows
from tracegen.schema import InputError

S, MS = 10**9, 10**6
ALL: dict[str, ModuleType] = {
    "mooncake": mooncake,
    "bailian": bailian,
    "weka": weka,
    "burstgpt": burstgpt,
    "azure": azure,
    "mlcommons": mlcommons,
    "kvcache-simulator": kvcache_simulator,
}
AZURE = ROOT.parent / "shared" / "data" / "AzureLLMInferenceTrace_conv.csv"
MOONCAKE = AZURE.with_name("mooncake_conversation_trace.jsonl")


def read(format_: str, path: Path, content: str | bytes | None = None, *, skip_bad: bool = False) -> list[Call]:
    return read_rows(format_, path, content, skip_bad=skip_bad)[0]


def read_rows(
    format_: str, path: Path, content: str | bytes | None = None, *, skip_bad: bool = False
) -> tuple[list[Call], Rows]:
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    rows = Rows(path, skip_bad=skip_bad)
    return list(ALL[format_].read(rows)), rows


def jsonl(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace"


# Examples worked by hand


def test_mooncake(file: Path) -> None:
    found = read(
        "mooncake",
        file,
        jsonl(
            {"timestamp": 0, "input_length": 1025, "output_length": 5, "hash_ids": [0, 1, 2]},
            {"timestamp": 3000.5, "input_length": 1024, "output_length": 0, "hash_ids": [0, 3]},
            {"timestamp": 3001, "input_length": 7, "output_length": 1},
            {"timestamp": 3001, "input_length": 0, "output_length": 1, "hash_ids": []},
        ),
    )
    assert found == [
        Call(0, 1025, 5, [0, 1, 2]),
        Call(3000_500_000, 1024, 0, [0, 3]),
        Call(3001 * MS, 7, 1),
        Call(3001 * MS, 0, 1, []),
    ]


def test_mooncake_of_dynamo_and_aiperf(file: Path) -> None:
    """A header with the block size; sessions whose later turns come a delay after the one before has ended."""
    found, rows = read_rows(
        "mooncake",
        file,
        jsonl(
            {"schema": "of a kind", "block_size": 16},
            {"session_id": "a", "created_time": 5, "input_tokens": 16, "output_tokens": 2, "hash_ids": [9]},
            {"session_id": 7, "timestamp": 6, "input_length": 1, "output_length": 1, "hash_ids": [8], "delay": None},
            {"session_id": "a", "delay": 2.5, "input_length": 33, "output_length": 1, "hash_ids": [9, 10, 11]},
            {"session_id": 7, "delay_ms": 1, "timestamp": 9, "input_length": 1, "output_length": 1, "hash_ids": [8]},
        ),
    )
    assert found == [
        Call(5 * MS, 16, 2, [9], session="a", user="a"),
        Call(6 * MS, 1, 1, [8], session=7, user=7),
        Call(6 * MS, 33, 1, [9, 10, 11], session="a", user="a", delay_ns=2_500_000),
        Call(9 * MS, 1, 1, [8], session=7, user=7, delay_ns=MS),
    ]
    assert (rows.block_tokens, rows.left_out) == (16, {"headers": 1})


def test_mooncake_of_dynamo_for_agents(file: Path) -> None:
    """Ids that are alike only within a play do not meet those of another."""
    header = {"schema": "dynamo.agentic_mooncake", "version": 2, "block_size": 8, "hash_id_scope": "local"}
    row = {"session_id": "s", "model": "m", "input_length": 8, "output_length": 1, "hash_ids": [0]}
    rows = [row | {"play_id": play, "not_before_ms": time} for play, time in (("p", 0), ("q", 0), ("p", 1.5))]
    assert [(call.scope, call.session, call.time_ns) for call in read("mooncake", file, jsonl(header, *rows))] == [
        ("p", ("p", "s"), 0),
        ("q", ("q", "s"), 0),
        ("p", ("p", "s"), 1_500_000),
    ]
    everywhere = read("mooncake", file, jsonl(header | {"hash_id_scope": "global"}, *rows))
    assert {call.scope for call in everywhere} == {None}


def test_bailian(file: Path) -> None:
    """Seconds; chat 9 goes on with 3, and 4 with 9; 5's parent is not in the file; content may repeat."""

    def row(chat: int, parent: int, time: float, tokens: int, *ids: int) -> dict[str, Any]:
        lengths = {"input_length": tokens, "output_length": 132, "type": "text", "turn": 1}
        return {"chat_id": chat, "parent_chat_id": parent, "timestamp": time, **lengths, "hash_ids": ids}

    found = read(
        "bailian",
        file,
        jsonl(row(3, -1, 0.0, 17, 0, 1), row(9, 3, 61.114, 48, 0, 0, 2), row(5, 77, 62, 1, 6), row(4, 9, 63, 16, 0)),
    )
    assert found == [
        Call(0, 17, 132, [0, 1], session=3, user=3),
        Call(61_114 * MS, 48, 132, [0, 0, 2], session=3, user=3),
        Call(62 * S, 1, 132, [6], session=5, user=5),
        Call(63 * S, 16, 132, [0], session=3, user=3),
    ]


def turn(t: float, *ids: int, tokens: int = -1, out: int = 1) -> dict[str, Any]:
    times = {"api_time": 1.0, "think_time": 0.0}
    return {"t": t, "type": "n", "model": "m", "in": tokens if tokens >= 0 else 64 * len(ids), "out": out} | {
        "hash_ids": ids,
        **times,
    }


def conversation(*requests: dict[str, Any], **changes: Any) -> str:
    head = {
        "id": "c",
        "models": ["m"],
        "block_size": 64,
        "hash_id_scope": "local",
        "tool_tokens": 9,
        "system_tokens": 1,
    }
    return json.dumps(head | {"requests": requests} | changes, indent=1)


def agent(t: float, *requests: dict[str, Any]) -> dict[str, Any]:
    return {"t": t, "type": "subagent", "agent_id": "a", "requests": requests}


def test_weka(file: Path) -> None:
    """Partial tails have no id (or have one); a sub-agent has a session of its own; calls are in order of time."""
    text = conversation(
        turn(0.0, 1, 2, tokens=191, out=320), agent(7.0, turn(9.5, 1, 3), turn(8, 5, 6, tokens=65)), turn(8.5, 1, 2)
    )
    (first, second, third, fourth), rows = read_rows("weka", file, text)
    main, scope = (file, "c"), (file, "c")
    sub = (main, 1)
    assert first == Call(0, 191, 320, [1, 2], session=main, user=main, scope=scope)
    assert second == Call(8 * S, 65, 1, [5, 6], session=sub, user=sub, scope=scope)
    assert third == Call(8500 * MS, 128, 1, [1, 2], session=main, user=main, scope=scope)
    assert fourth == Call(9500 * MS, 128, 1, [1, 3], session=sub, user=sub, scope=scope)
    assert rows.block_tokens == 64


def test_weka_times_of_sub_agents_count_from_their_start_in_one_dialect(file: Path) -> None:
    """kv-cache-tester writes them so, SemiAnalysis from the conversation's start; one document is all of one."""
    relative = conversation(turn(0, 1), agent(100, turn(0, 2), agent(5, turn(1, 3)), turn(150, 4)), turn(300, 5))
    assert [call.time_ns // S for call in read("weka", file, relative)] == [0, 100, 106, 250, 300]
    absolute = conversation(turn(0, 1), agent(100, turn(99.5, 2), agent(105, turn(106, 3)), turn(250, 4)), turn(300, 5))
    assert [call.time_ns / S for call in read("weka", file, absolute)] == [0, 99.5, 106, 250, 300]


def test_weka_ids_meet_only_where_they_are_global(file: Path) -> None:
    text = conversation(turn(0, 1), hash_id_scope="global", block_size=32, requests=[turn(0, 1, 2, tokens=64)])
    (call,), rows = read_rows("weka", file, text)
    assert (call.scope, rows.block_tokens) == (None, 32)
    other = file.with_name("other")
    scopes = {call.scope for path in (file, other) for call in read("weka", path, conversation(turn(0, 1)))}
    assert len(scopes) == 2


def test_burstgpt(file: Path) -> None:
    """Older files have no sessions, API calls of newer ones neither; a failed request has no response."""
    old = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
    )
    assert read("burstgpt", file, old + "45.5,GPT-4,10,0,10,API log\n") == [
        Call(5 * S, 472, 18),
        Call(45_500 * MS, 10, 0),
    ]
    new = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\r\n"
        "19440110.0,1722ac82-0a46,43,GPT-4,906,446,1352,Conversation log\r\n"
        "19440161.0,,2,ChatGPT,36,29,65,API log\r\n"
    )
    assert read("burstgpt", file, new) == [
        Call(19440110 * S, 906, 446, session="1722ac82-0a46", user="1722ac82-0a46"),
        Call(19440161 * S, 36, 29),
    ]


def test_azure(file: Path) -> None:
    """Seven fractional digits, more than a datetime holds; 1,700,158,546 s is 2023-11-16 18:15:46 in UTC."""
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805901,374,44\r\n"
        "2023-11-16T20:15:46.680591+02:00,1,2\r\n2023-11-16 18:15:47Z,1,0"
    )
    assert read("azure", file, text) == [
        Call(1_700_158_546_680_590_100, 374, 44),
        Call(1_700_158_546_680_591_000, 1, 2),
        Call(1_700_158_547_000_000_000, 1, 0),
    ]


def test_mlcommons(file: Path) -> None:
    """Evictions are left out; a thread's clock was read before its row's turn came."""
    text = (
        "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n"
        "1740553426.194021,Write,131072,Tier-0,layer0/user0,Prefill\n"
        "1740553426.194308,Write,65536,Tier-2,b,Prefill\n"
        "1740553426.194300,Read,131072,Tier-0,layer0/user0,Decode\n"
        "1740553426.194521,Write,131072,Tier-2,layer0/user0,Evict\n"
    )
    found, rows = read_rows("mlcommons", file, text)
    sizes = [(0, 194021, 131072), (1, 194308, 65536), (0, 194308, 131072)]
    assert found == [
        Call(
            1740553426 * S + time * 1000,
            size,
            0,
            [key],
            session=(file, key),
            user=(file, key),
            scope=file,
            tokens=[size],
            is_decode=number == 2,
        )
        for number, (key, time, size) in enumerate(sizes)
    ]
    assert rows.left_out == {"evictions": 1}


def test_kvcache_simulator(file: Path) -> None:
    found, rows = read_rows(
        "kvcache-simulator",
        file,
        jsonl(
            {"block_size": 64, "hash_ids": [2001, 2002], "input_length": 128},
            {"hash_ids": [2001], "input_length": 100, "output_length": 7, "timestamp": 12},
            {"block_size": 64, "hash_ids": [2001, 2003], "input_length": 70, "block_tokens": [64, 6]},
        ),
    )
    assert found == [
        Call(0, 128, 0, [2001, 2002]),
        Call(0, 100, 7, [2001]),
        Call(0, 70, 0, [2001, 2003], tokens=[64, 6]),
    ]
    assert rows.block_tokens == 64


@pytest.mark.skipif(not AZURE.exists(), reason="no shared data")
def test_published_files() -> None:
    found = read("azure", AZURE)
    assert len(found) == 19366
    assert found[0] == Call(1_700_158_546_680_590_000, 374, 44)
    found = read("mooncake", MOONCAKE)
    assert len(found) == 12031
    assert sum(len(call.blocks or []) for call in found) == 288_500
    assert len({block for call in found for block in call.blocks or []}) == 182_790


# Bad rows: refused by file, line and reason, or counted, exactly, and the good rows kept

GOOD = {
    "mooncake": {"timestamp": 1, "input_length": 513, "output_length": 1, "hash_ids": [0, 1]},
    "bailian": {"chat_id": 1, "parent_chat_id": -1, "timestamp": 1, "input_length": 17, "output_length": 1}
    | {"type": "text", "turn": 1, "hash_ids": [0, 1]},
    "kvcache-simulator": {"block_size": 64, "hash_ids": [1, 2], "input_length": 128, "output_length": 1},
}
HEADERS = {
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens",
    "mlcommons": "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase",
}
LINES = {
    "burstgpt": "5,ChatGPT,472,18,490,Conversation log",
    "azure": "2023-11-16 18:15:46.6805901,374,44",
    "mlcommons": "1740553426.194021,Write,131072,Tier-0,a,Prefill",
}
NO_INTEGER = [
    "-1",
    "true",
    "1.5",
    '"1"',
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "null",
    "[]",
    "{}",
    '"\\ud800"',
    "9" * 309,
]
NO_TIME = ["-1", "true", '"1"', "NaN", "Infinity", "1e400", "null", "[1]", "1e300"]
NO_IDS = [
    "null",
    "3",
    '"3"',
    "[true, 1]",
    "[1.0, 2]",
    '["1", 2]',
    "[-1, 1]",
    f"[{2**63}, 1]",
    "[NaN, 1]",
    "[1]",
    "[1, 2, 3]",
]


def with_field(format_: str, field: str, value: str) -> bytes:
    """A row's JSON where one field has been written by hand."""
    marked = json.dumps(GOOD[format_] | {field: "here"})
    return marked.replace('"here"', value).encode()


LENGTHS = {
    "mooncake": ["input_length", "output_length"],
    "bailian": ["input_length", "output_length", "chat_id", "parent_chat_id"],
    "kvcache-simulator": ["input_length", "output_length"],
}
OPTIONAL = {
    ("mooncake", "hash_ids"),
    ("kvcache-simulator", "output_length"),
    ("kvcache-simulator", "block_size"),
    ("bailian", "type"),
    ("bailian", "turn"),
}
FINE = {
    ("bailian", "parent_chat_id", "-1"),
    ("bailian", "hash_ids", "[1]"),  # no id for the partial last block
    ("kvcache-simulator", "hash_ids", "[1, 1]"),
    ("kvcache-simulator", "output_length", "null"),
    ("mooncake", "hash_ids", "null"),
}
FIELDS = [
    *((format_, field, value) for format_ in GOOD for field in LENGTHS[format_] for value in NO_INTEGER),
    *((format_, field, str(2**63)) for format_ in GOOD for field in LENGTHS[format_]),
    *((format_, "input_length", str(2**28 + 1)) for format_ in GOOD),
    *((format_, "hash_ids", value) for format_ in GOOD for value in NO_IDS),
    *((format_, "timestamp", value) for format_ in ("mooncake", "bailian") for value in NO_TIME),
    *(("mooncake", "session_id", value) for value in ("1.5", "true", "[]", "{}")),
    *(("mooncake", field, value) for field in ("delay", "delay_ms") for value in ("-1", '"1"', "true", "1e300")),
    ("mooncake", "hash_ids", "[1, 1]"),
    *(("kvcache-simulator", "block_size", value) for value in ("0", "-64", "32", "64.5", '"64"')),
    *(("kvcache-simulator", "block_tokens", value) for value in ("[64]", "[64, 0]", "[64, 64.0]", "[64, true]", "64")),
    ("kvcache-simulator", "block_tokens", "[64, 2147483648]"),
    ("kvcache-simulator", "input_length", "0"),
]


def bad_rows() -> Iterator[tuple[str, bytes, str]]:
    """(format, line, how the reason begins)."""
    for format_, good in GOOD.items():
        text = json.dumps(good).encode()
        yield format_, text[:-1], "not JSON"
        yield format_, text.replace(b",", b";"), "not JSON"
        yield format_, b"[" + text + b"]", "no JSON object"
        yield format_, b"7", "no JSON object"
        yield format_, b"{}", ""
        yield format_, text[:5] + b"\0" + text[5:], "NUL bytes"
        yield format_, text.replace(b"input", b"in\xffput"), "not UTF-8"
        yield format_, text[:-1] + b', "x": "\xed\xa0\x80"}', "not UTF-8"  # a lone surrogate
        yield format_, b'{"x":' * 100_000, "not JSON"
        yield format_, with_field(format_, "input_length", "9" * 5000), "not JSON"
        for depth in range(800, 1000, 5):  # what can still be parsed may be too deep to be written
            yield format_, with_field(format_, "input_length", "[" * depth + "]" * depth), ""
        for field in sorted(good):
            if (format_, field) not in OPTIONAL:
                missing = {name: value for name, value in good.items() if name != field}
                yield format_, json.dumps(missing).encode(), f"{field}: "
    for format_, field, value in FIELDS:
        if (format_, field, value) not in FINE:
            yield format_, with_field(format_, field, value), field.removesuffix("_ms")
    yield "mooncake", b'{"delay": 1, "input_length": 1, "output_length": 1}', "delay: of no session"
    yield "mooncake", with_field("mooncake", "hash_ids", "[1]"), "hash_ids: 1 blocks of 512 for 513 tokens"
    yield from bad_lines()


def bad_lines() -> Iterator[tuple[str, bytes, str]]:
    for format_, good in LINES.items():
        line = good.encode()
        yield format_, line.replace(b",", b";"), "number of columns: 1"
        yield format_, line + b",", "number of columns: "
        yield format_, line[: line.rindex(b",")], "number of columns: "
        yield format_, line + b"\0", "NUL bytes"
        yield format_, line + b"\xff", "not UTF-8"
        yield format_, b'"' + b"x" * 200_000, "not CSV"
        yield format_, line.replace(b",", b"\r,", 1), "not CSV"
        number, column = {"burstgpt": ("472", "Request tokens"), "azure": ("374", "ContextTokens")}.get(
            format_, ("131072", "Object_Size_Bytes")
        )
        for value in ("-1", "1.5", "x", "", "nan", "inf", "1_000", "0x10", "٣", "1e999999999", "9" * 5000, "9" * 30):
            yield format_, good.replace(number, value).encode(), f"{column}: "
    for value in ("-1", "x", "", "nan", "inf", "1e400", "1e999999999", "1_0", "5000000000", "1 2"):
        yield "burstgpt", LINES["burstgpt"].replace("5,", value + ",", 1).encode(), "Timestamp: "
        yield "mlcommons", LINES["mlcommons"].replace("1740553426.194021", value).encode(), "Timestamp: "
    for value in (
        "2023-11-16",
        "2023-13-16 18:15:46",
        "2023-11-16 18:15:46.",
        "2023-11-16 18:15:46.1234567890",
        "2023-11-16 18:15:46+9:00",
        "2023-11-16 18:15:46+99:99",
        "1969-12-31 23:59:59",
        "9999-12-31 23:59:59-14:00",
        "0001-01-01 00:00:00+14:00",
        "٢٠٢٣-11-16 18:15:46",
        "46",
        "",
    ):
        yield "azure", f"{value},374,44".encode(), "TIMESTAMP: "
    for column in ("Write", "Prefill"):
        yield "mlcommons", LINES["mlcommons"].replace(column, "delete").encode(), "Operation: "
    yield "mlcommons", LINES["mlcommons"].replace(",a,", ",,").encode(), "Key: missing"
    yield "mlcommons", LINES["mlcommons"].replace("131072", "0").encode(), "Object_Size_Bytes: "


def test_every_bad_row_is_refused_or_counted(file: Path) -> None:
    """Not parametrised: hundreds of rows, a millisecond each."""
    for format_, bad, reason in bad_rows():
        good = json.dumps(GOOD[format_]).encode() if format_ in GOOD else LINES[format_].encode()
        head = [HEADERS[format_].encode()] if format_ in HEADERS else []
        content = b"\n".join([*head, good, bad, b"", good, bad]) + b"\n"
        with pytest.raises(InputError) as caught:
            read(format_, file, content)
        text = str(caught.value)
        assert text.startswith(f"{file}, line {len(head) + 2}: {reason}"), (format_, bad[:200], text)
        assert len(text) < 400, text
        assert text.endswith("; mend it, or leave such rows out with --skip-bad.")
        text.encode()
        found, rows = read_rows(format_, file, content, skip_bad=True)
        assert found == read(format_, file, b"\n".join([*head, good, good])), (format_, bad[:200])
        assert sum(rows.skipped.values()) == 2, (format_, bad[:200], rows.skipped)
        assert len(rows.skipped) == 1


def test_a_bad_first_row_says_nothing_about_the_others(file: Path) -> None:
    row = {"block_size": 64, "hash_ids": [1, 2], "input_length": 128}
    found, rows = read_rows(
        "kvcache-simulator", file, jsonl(row | {"block_size": 8, "hash_ids": []}, row), skip_bad=True
    )
    assert (len(found), rows.skipped) == (1, {"hash_ids": 1})
    with pytest.raises(InputError, match=r"line 1: output_length: missing"):
        read("mooncake", file, jsonl({"timestamp": 0, "input_length": 1}))
    with pytest.raises(InputError, match=r"line 1: input_length: missing"):
        read("mooncake", file, jsonl({"timestamp": 0, "output_length": 1}))  # no header


WEKA_BAD = [
    ("", "not JSON"),
    ("[]", "no JSON object"),
    ("{}", "requests: not a list"),
    (conversation(turn(0, 1))[:-2], "not JSON"),
    (conversation(turn(0, 1)) + "{}", "not JSON"),
    (conversation(requests=7), "requests: not a list"),
    (conversation(requests=[7]), "requests: not a list"),
    (conversation(agent(1, turn(1, 1)) | {"requests": None}), "requests: not a list"),
    (conversation(turn(-1, 1)), "t: "),
    (conversation(turn(0, 1) | {"t": "0"}), "t: "),
    (conversation(turn(float("nan"), 1)), "t: "),
    (conversation({"in": 1, "out": 1, "hash_ids": []}), "t: missing"),
    (conversation(turn(0, 1, out=-1)), "out: "),
    (conversation(turn(0, 1) | {"in": True}), "in: "),
    (conversation(turn(0, 1) | {"in": None}), "in: missing"),
    (conversation(turn(0, 1, tokens=2**28 + 1)), "in: "),
    (conversation(turn(0, 1, 1)), "hash_ids: an id occurs twice"),
    (conversation(turn(0, 2**63)), "hash_ids: an id is not"),
    (conversation(turn(0) | {"hash_ids": {}}), "hash_ids: not a list"),
    (conversation(turn(0, 1, tokens=63)), None),
    (conversation(turn(0, 1, tokens=128)), "hash_ids: 1 blocks of 64 for 128 tokens"),
    (conversation(turn(0, 1), agent(1, turn(1, 1), turn(2, 5, 5))), "hash_ids: an id occurs twice"),
    (conversation(turn(0, 1), hash_id_scope="mine"), "hash_id_scope: neither"),
    (conversation(turn(0, 1), hash_id_scope=["local"]), "hash_id_scope: neither"),
    (conversation(turn(0, 1), block_size=0), "block_size: "),
    (conversation(turn(0, 1), block_size="64"), "block_size: "),
    (conversation(agent(4e9, turn(0, 1), agent(4e9, turn(0, 1)))), "t: absurd"),
    ('{"requests":[' * 100_000, "not JSON"),
    (conversation(turn(0, 1)) + "\0", "NUL bytes"),
    (conversation(turn(0, 1)).replace('"t": 0', '"t": ' + "9" * 5000), "not JSON"),
    (conversation(turn(0, 1)).encode() + b"\xff", "not UTF-8"),
]


@pytest.mark.parametrize(("content", "reason"), WEKA_BAD, ids=lambda value: str(value)[:30] if value else "fine")
def test_a_conversation_with_a_flaw_is_refused_or_counted_whole(
    file: Path, content: str | bytes, reason: str | None
) -> None:
    if reason is None:
        assert read("weka", file, content)
        return
    with pytest.raises(InputError) as caught:
        read("weka", file, content)
    assert str(caught.value).startswith(f"{file}, line 1: {reason}")
    found, rows = read_rows("weka", file, content, skip_bad=True)
    assert (found, rows.skipped.total()) == ([], 1)


def test_agents_within_agents_as_deep_as_json_goes(file: Path) -> None:
    """Each level has a start of its own, and none of it ends in a RecursionError."""
    for depth in (3, 100, 300, 400, 450, 500):
        text = '{"t":1,"type":"subagent","requests":[' * depth + json.dumps(turn(0, 1)) + "]}" * depth
        found, rows = read_rows("weka", file, '{"requests":[' + text + "]}", skip_bad=True)
        assert len(found) + rows.skipped["not JSON"] == 1


def test_a_long_document_of_one_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are bounded where a line is a row, not where a file is one."""
    monkeypatch.setattr(calls, "LINE_MAX", 100)
    text = conversation(*(turn(i, 1) for i in range(20)))
    assert len(read("weka", file, text.replace("\n", ""))) == 20
    monkeypatch.setattr(weka, "DOCUMENT_MAX", 1000)
    with pytest.raises(InputError, match="too long"):
        read("weka", file, text)


@pytest.mark.parametrize(
    ("format_", "content"),
    [
        ("mooncake", jsonl(*(GOOD["mooncake"] | {"timestamp": t} for t in (5, 9, 8, 9)))),
        ("bailian", jsonl(*(GOOD["bailian"] | {"timestamp": t} for t in (5, 9, 8, 9)))),
        ("burstgpt", "\n".join([HEADERS["burstgpt"], *(f"{t},m,{t * 9},1,1,API log" for t in (5, 9, 8, 9))])),
        ("azure", "\n".join([HEADERS["azure"], *(f"2023-11-16 18:15:4{t},{t * 9},1" for t in (5, 9, 8, 9))])),
        ("mlcommons", "\n".join([HEADERS["mlcommons"], *(f"{t},Read,{t},Tier-0,{t},Decode" for t in (5, 9, 7, 8))])),
    ],
)
def test_rows_are_in_order_of_time(file: Path, format_: str, content: str) -> None:
    file.write_text(content)
    output = file.with_suffix(".parquet")
    options = ImportOptions(bytes_per_token=int(format_ == "mlcommons"))
    with pytest.raises(InputError, match=rf"{file}, line {4 if format_ in HEADERS else 3}: time goes back: "):
        import_trace(format_, [file], options, Output(output, quiet=True))
    found = import_trace(format_, [file], options, Output(output, skip_bad=True, quiet=True))
    assert found.counts["skipped: time goes back"] == 1
    assert found.counts["requests"] == 3


# Bad files


@pytest.mark.parametrize("format_", ALL)
def test_no_file_to_read(tmp_path: Path, format_: str) -> None:
    with pytest.raises(InputError, match=rf"{tmp_path} is a folder, not a file; name a file of this format"):
        read(format_, tmp_path)
    with pytest.raises(InputError, match=r"gone: cannot read it \(No such file or directory\)"):
        read(format_, tmp_path / "gone")


@pytest.mark.parametrize("format_", ALL)
@pytest.mark.parametrize("content", ["", "\n \n\r\n", "\ufeff"])
def test_an_empty_file(file: Path, format_: str, content: str) -> None:
    if format_ in GOOD:  # of rows it has none: what that means is for the import to say
        assert read(format_, file, content, skip_bad=True) == []
        return
    with pytest.raises(InputError, match=r"no column|not JSON"):
        read(format_, file, content)


@pytest.mark.parametrize("format_", HEADERS)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_table_without_its_header(file: Path, format_: str, skip_bad: bool) -> None:
    header, line = HEADERS[format_], LINES[format_]
    for content in (line, header.replace(",", ";"), header.replace(",", "\t"), header.replace("T", "t"), header[1:]):
        with pytest.raises(InputError, match=rf"{file}, line 1: no column \w+.*; name a file of this format"):
            read(format_, file, f"{content}\n{line}\n", skip_bad=skip_bad)
    for content in ("a\rb\n" + line, '"' + "x" * 200_000 + "\n" + line):
        with pytest.raises(InputError, match=rf"{file}, line 1: not CSV: .*; name a file of this format"):
            read(format_, file, content, skip_bad=skip_bad)
    assert len(read(format_, file, "\ufeff" + header.replace(",", " , ") + f"\r\n\r\n{line}\r\n")) == 1


def compressed(path: Path, content: bytes, suffix: str) -> Path:
    path = path.with_suffix(suffix)
    if suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    else:
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as out:
            out.write(content)
    return path


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files(file: Path, suffix: str) -> None:
    """Also of several parts one after another; the hash is that of the file as it lies there."""
    row = jsonl(GOOD["mooncake"]).encode()
    path = compressed(file, row, suffix)
    path.write_bytes(path.read_bytes() * 2)
    found, rows = read_rows("mooncake", path)
    assert len(found) == 2
    file.write_bytes(path.read_bytes())
    plain = Rows(file, skip_bad=True)
    assert list(plain.lines()) == []
    assert plain.sha256 == rows.sha256


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("format_", ["mooncake", "weka", "azure"])
def test_compressed_files_that_are_cut_or_are_none(file: Path, format_: str, suffix: str) -> None:
    lines = {"mooncake": jsonl(GOOD["mooncake"]), "weka": conversation(turn(0, 1)), "azure": HEADERS["azure"] + "\n"}
    whole = compressed(file, lines[format_].encode(), suffix).read_bytes()
    for content in (whole[:3], whole[: len(whole) // 2], whole[:-1], whole + b"junk", lines[format_].encode()):
        for skip_bad in (False, True):
            with pytest.raises(InputError, match=r"cannot read it \(.+\); name a readable, whole file"):
                read(format_, file.with_suffix(suffix), content, skip_bad=skip_bad)


def bomb(path: Path, piece: bytes, mebibytes: int) -> Path:
    packer = zlib.compressobj(9, wbits=31)
    block = piece * ((1 << 20) // len(piece))
    with path.open("wb") as out:
        for _ in range(mebibytes):
            out.write(packer.compress(block))
        out.write(packer.flush())
    return path


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("format_", ["mooncake", "weka", "azure"])
def test_bombs(tmp_path: Path, format_: str, skip_bad: bool) -> None:
    """1 : 1029 is the most that gzip does; zstd's are far smaller."""
    path = tmp_path / "bomb.zst"
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as out:
        for _ in range(80):
            out.write(b"\n" * (1 << 20))
    assert path.stat().st_size < 1 << 16
    with pytest.raises(InputError, match=rf"{path} expands to over 1000 times its size: a bomb, not a trace"):
        read(format_, path, skip_bad=skip_bad)


def test_bombs_of_newlines_spaces_and_zeros_in_gzip(tmp_path: Path) -> None:
    for piece in (b"\n", b" ", b"\0"):
        with pytest.raises(InputError, match=r"a bomb, not a trace|no trace has such lines"):
            read("mooncake", bomb(tmp_path / "bomb.gz", piece, 80), skip_bad=True)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_line_that_never_ends(file: Path, monkeypatch: pytest.MonkeyPatch, skip_bad: bool) -> None:
    """In a file with a hole, which takes no room."""
    monkeypatch.setattr(calls, "LINE_MAX", 4 << 20)
    with file.open("wb") as out:
        out.write(jsonl(GOOD["mooncake"]).encode())
        out.truncate(100 << 20)
    with pytest.raises(InputError, match=rf"{file}, line 2: longer than 4 MiB; no trace has such lines"):
        read("mooncake", file, skip_bad=skip_bad)
    file.write_bytes(b" " * (6 << 20))
    with pytest.raises(InputError, match=rf"{file}, line 1: longer than 4 MiB"):
        read("azure", file, skip_bad=skip_bad)


def test_lines_are_numbered_across_blank_ones(file: Path) -> None:
    """Also where a piece of the file as it is read holds nothing else."""
    blank = b" \n" * (3 << 19)
    file.write_bytes(b"a\n" + blank + b"  b\r\n\n c")
    assert list(Rows(file).lines()) == [(1, "a"), ((3 << 19) + 2, "  b"), ((3 << 19) + 4, " c")]


# Anything

NAMES = ["timestamp", "delay", "input_length", "output_length", "hash_ids", "session_id", "chat_id", "parent_chat_id"]
NAMES += ["block_size", "block_tokens", "play_id", "hash_id_scope", "requests", "t", "type", "in", "out", "id"]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
plausible = st.integers(0, 600) | st.lists(st.integers(0, 5), max_size=4) | st.sampled_from(["local", "subagent", "1"])
values = st.recursive(
    plausible | scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=12,
)
documents = st.dictionaries(st.sampled_from(NAMES), values, max_size=10).map(lambda row: json.dumps(row).encode())
cells = st.sampled_from(["1", "0", "2023-11-16 18:15:46", "Write", "Prefill", "", '"', "1e9"]) | st.text(max_size=6)
lines = st.lists(cells, max_size=7).map(lambda row: ",".join(row).encode(errors="surrogatepass"))
contents = st.binary(max_size=300) | st.lists(documents | lines | st.binary(max_size=40), max_size=6).map(b"\n".join)


@pytest.mark.parametrize("format_", ALL)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=contents, suffix=st.sampled_from(["", "", ".gz", ".zst"]), skip_bad=st.booleans())
def test_anything_is_read_or_refused(file: Path, format_: str, content: bytes, suffix: str, skip_bad: bool) -> None:
    head = HEADERS[format_].encode() + b"\n" if format_ in HEADERS and not suffix else b""
    try:
        found = read(format_, file.with_suffix(suffix), head + content, skip_bad=skip_bad)
    except InputError as caught:
        found, error = [], str(caught)
        assert error.startswith(str(file))
        assert not (skip_bad and "--skip-bad" in error)
    for call in found:
        assert 0 <= call.time_ns < 2**62
        assert 0 <= (call.delay_ns or 0) < 2**62
        assert call.input_tokens >= 0
        assert call.output_tokens >= 0
        assert all(0 <= block < 2**63 for block in call.blocks or [])
        assert call.tokens is None or len(call.tokens) == len(call.blocks or [])
        hash((call.session, call.user, call.scope))
