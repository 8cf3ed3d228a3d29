"""Bad rows are refused by file, line and reason, or counted exactly; the good rows are kept."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tracegen.readers.reading import GOOD, HEADERS, LINES, agent, conversation, jsonl, read, read_rows, turn
from tracegen.errors import InputError
from tracegen.exchange.convert import import_trace
from tracegen.exchange.options import ImportOptions
from tracegen.formats import rows as calls
from tracegen.formats import weka
from tracegen.outputs import TraceOutput

NO_INTEGER = [*'-1 true 1.5 "1" NaN Infinity -Infinity 1e400 null [] {} "\\ud800"'.split(), "9" * 309]
NO_TIME = '-1 true "1" NaN Infinity 1e400 null [1] 1e300'.split()
NO_IDS = f'null 3 "3" [true,1] [1.0,2] ["1",2] [-1,1] [{2**64},1] [NaN,1] [1] [1,2,3]'.split()


def with_field(format_: str, field: str, value: str) -> bytes:
    """Return a row's JSON with one field replaced by literal text."""
    marked = json.dumps(GOOD[format_] | {field: "here"})
    return marked.replace('"here"', value).encode()


LENGTHS = {
    "jsonl": ["input_length", "output_length"],
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
    *((format_, "hash_ids", value) for format_ in GOOD if "hash_ids" in GOOD[format_] for value in NO_IDS),
    *((format_, "timestamp", value) for format_ in ("mooncake", "bailian", "jsonl") for value in NO_TIME),
    *((format_, "session_id", value) for format_ in ("mooncake", "jsonl") for value in ("1.5", "true", "[]", "{}")),
    *(("mooncake", field, value) for field in ("delay", "delay_ms") for value in ("-1", '"1"', "true", "1e300")),
    ("mooncake", "hash_ids", "[1, 1]"),
    *(("kvcache-simulator", "block_size", value) for value in ("0", "-64", "32", "64.5", '"64"')),
    *(("kvcache-simulator", "block_tokens", value) for value in ("[64]", "[64, 0]", "[64, 64.0]", "[64, true]", "64")),
    ("kvcache-simulator", "block_tokens", "[64, 2147483648]"),
    ("kvcache-simulator", "input_length", "0"),
]


def bad_rows() -> Iterator[tuple[str, bytes, str]]:
    """Yield (format, line, beginning of the reason)."""
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
    yield (
        "mooncake",
        b'{"delay": 1, "input_length": 1, "output_length": 1}',
        "delay: the row has neither a session nor a timestamp",
    )
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
        number, column = {
            "burstgpt": ("472", "Request tokens"),
            "azure": ("374", "ContextTokens"),
            "csv": ("472", "prompt"),
        }.get(format_, ("131072", "Object_Size_Bytes"))
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
        "",
    ):
        yield "azure", f"{value},374,44".encode(), "TIMESTAMP: "
    for column in ("Write", "Prefill"):
        yield "mlcommons", LINES["mlcommons"].replace(column, "delete").encode(), "Operation: "
    yield "mlcommons", LINES["mlcommons"].replace(",a,", ",,").encode(), "Key: missing"
    yield "mlcommons", LINES["mlcommons"].replace("131072", "0").encode(), "Object_Size_Bytes: "


def test_every_bad_row_is_refused_or_counted(file: Path) -> None:
    """This is one test, not hundreds: each row takes a millisecond."""
    for format_, bad, reason in bad_rows():
        good = json.dumps(GOOD[format_]).encode() if format_ in GOOD else LINES[format_].encode()
        head = [HEADERS[format_].encode()] if format_ in HEADERS else []
        content = b"\n".join([*head, good, bad, b"", good, bad]) + b"\n"
        with pytest.raises(InputError) as caught:
            read(format_, file, content)
        text = str(caught.value)
        assert text.startswith(f"{file}, line {len(head) + 2}: {reason}"), (format_, bad[:200], text)
        assert len(text) < 400, text
        assert "; correct it, or leave bad rows out with `skip_bad`" in text
        text.encode()
        found, rows = read_rows(format_, file, content, skip_bad=True)
        assert found == read(format_, file, b"\n".join([*head, good, good])), (format_, bad[:200])
        assert sum(rows.skipped.values()) == 2, (format_, bad[:200], rows.skipped)
        assert len(rows.skipped) == 1


def test_a_bad_first_row_does_not_affect_the_others(file: Path) -> None:
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
    ("{}", "requests: not a list"),
    (conversation(turn(0, 1)) + "{}", "not JSON"),
    (conversation(requests=[7]), "requests: not a list"),
    (conversation(agent(1, turn(1, 1)) | {"requests": None}), "requests: not a list"),
    (conversation(turn(-1, 1)), "t: "),
    (conversation({"in": 1, "out": 1, "hash_ids": []}), "t: missing"),
    (conversation(turn(0, 1, out=-1)), "out: "),
    (conversation(turn(0, 1, 1)), "hash_ids: an id occurs twice"),
    (conversation(turn(0, 1, tokens=63)), None),
    (conversation(turn(0, 1, tokens=128)), "hash_ids: 1 blocks of 64 for 128 tokens"),
    (conversation(turn(0, 1), agent(1, turn(1, 1), turn(2, 5, 5))), "hash_ids: an id occurs twice"),
    (conversation(turn(0, 1), hash_id_scope="mine"), "hash_id_scope: neither"),
    (conversation(turn(0, 1), block_size=0), "block_size: "),
    (conversation(agent(4e9, turn(0, 1), agent(4e9, turn(0, 1)))), "t: too large for a time"),
    ('{"requests":[' * 100_000, "not JSON"),
]


@pytest.mark.parametrize(("content", "reason"), WEKA_BAD, ids=lambda value: str(value)[:30] if value else "fine")
def test_a_conversation_with_a_bad_request_is_refused_or_skipped_whole(
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


def test_agents_may_nest_as_deep_as_json_allows(file: Path) -> None:
    """Each level has its own start, and none ends in a RecursionError."""
    for depth in (3, 100, 300, 400, 450, 500):
        text = '{"t":1,"type":"subagent","requests":[' * depth + json.dumps(turn(0, 1)) + "]}" * depth
        found, rows = read_rows("weka", file, '{"requests":[' + text + "]}", skip_bad=True)
        assert len(found) + rows.skipped["not JSON"] == 1


def test_a_long_document_of_one_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The length of a line is limited only in formats with a row per line."""
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
        ("mlcommons", "\n".join([HEADERS["mlcommons"], *(f"{t},Read,{t},Tier-0,{t},Decode" for t in (5, 9, 7, 8))])),
    ],
)
def test_rows_are_in_order_of_time(file: Path, format_: str, content: str) -> None:
    file.write_text(content)
    output = file.with_suffix(".parquet")
    options = ImportOptions(bytes_per_token=int(format_ == "mlcommons"))
    with pytest.raises(InputError, match=rf"{file}, line {4 if format_ in HEADERS else 3}: time goes back: "):
        import_trace(format_, [file], options, TraceOutput(output))
    found = import_trace(format_, [file], options, TraceOutput(output), skip_bad=True)
    assert found.counts["skipped: time goes back"] == 1
    assert found.counts["requests"] == 3
