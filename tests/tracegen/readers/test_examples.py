"""An example of each format, worked by hand."""

from pathlib import Path

from tests.tracegen.readers.reading import MS, S, agent, conversation, jsonl, read, read_rows, turn
from tracegen.formats.rows import Call


def test_mooncake_of_dynamo_and_aiperf(file: Path) -> None:
    """A header gives the block size; later turns come a delay after the end of the turn before."""
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
    """Equal ids of different plays are different blocks."""
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


def test_weka(file: Path) -> None:
    """A partial tail may have an id. A sub-agent has its own session. Calls are in order of time."""
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
    """SemiAnalysis counts from the conversation's start. A document has one dialect."""
    relative = conversation(turn(0, 1), agent(100, turn(0, 2), agent(5, turn(1, 3)), turn(150, 4)), turn(300, 5))
    assert [call.time_ns // S for call in read("weka", file, relative)] == [0, 100, 106, 250, 300]
    absolute = conversation(turn(0, 1), agent(100, turn(99.5, 2), agent(105, turn(106, 3)), turn(250, 4)), turn(300, 5))
    assert [call.time_ns / S for call in read("weka", file, absolute)] == [0, 99.5, 106, 250, 300]


def test_burstgpt(file: Path) -> None:
    """API calls have no sessions; a failed request has no response."""
    text = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\r\n"
        "19440110.0,1722ac82-0a46,43,GPT-4,906,446,1352,Conversation log\r\n"
        "19440161.5,,2,ChatGPT,36,0,36,API log\r\n"
    )
    assert read("burstgpt", file, text) == [
        Call(19440110 * S, 906, 446, session="1722ac82-0a46", user="1722ac82-0a46"),
        Call(19_440_161_500 * MS, 36, 0),
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


def test_logs_by_the_names_of_their_columns(file: Path) -> None:
    """Times are seconds, dates or ms; names of JSON may be nested; ids of tokens become names of 512 and all before."""
    text = "at,prompt,out,session\n2025-11-22T09:26:40.25Z,812,95,u7\n1763803601,9,0,\n"
    expected = [Call(1_763_803_600_250 * MS, 812, 95, session="u7", user="u7"), Call(1_763_803_601 * S, 9, 0)]
    assert read("csv", file, text, columns="time=at,answer=out") == expected
    rows = [{"created": 1, "usage": {"in": 7, "out": 2}, "user": 0}, {"created": 0.5, "usage": {"in": 1, "out": 2}}]
    columns = "prompt=usage.in,answer=usage.out,session=user"
    late = [Call(S, 7, 2, session=0, user=0), Call(S // 2, 1, 2)]
    assert read("jsonl", file, jsonl(*rows), columns=f"time=created,{columns}") == late
    assert [call.time_ns for call in read("jsonl", file, jsonl(*rows), columns=f"time_ms=created,{columns}")] == [
        MS,
        MS // 2,
    ]
    prompts = (list(range(1030)), list(range(1024)), [7, *range(1, 1024)])
    text = jsonl(*({"time": 0, "answer": 1, "its": {"ids": ids}} for ids in prompts))
    found = read("jsonl", file, text, columns="ids=its.ids")
    assert [call.input_tokens for call in found] == [1030, 1024, 1024]
    first, same, other = (list(call.blocks or []) for call in found)
    assert first[:2] == same
    assert (len(first), len({*first, *other})) == (3, 5), "a block after another beginning is another block"


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
