"""The ShareGPT reader: turns, flaws that are mended or dropped, files that are refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tracegen.arrays import Ints
from tracegen.errors import InputError
from tracegen.recipes.recipe import Recipe, ShareGPTFile
from tracegen.sources import sharegpt
from tracegen.sources.tokenizers import Tokenizer

WORDS = Tokenizer("words", "", lambda texts: [len(text.split()) for text in texts], 1)


def entry(name: object, *turns: tuple[str, str | None]) -> dict[str, Any]:
    return {"id": name, "conversations": [{"from": role, "value": text} for role, text in turns]}


class Read(NamedTuple):
    turns: Ints
    context: Ints
    generated: Ints
    counts: dict[str, int]


def chats(recipe: Recipe) -> Read:
    source = sharegpt.ShareGPTSource(recipe, WORDS, lambda _: None)
    number = np.arange(source.count or 0)
    sessions = source.sessions(number, number)
    return Read(sessions.turns, sessions.context, sessions.generated, source.origin.counts)


def read(path: Path, content: object, **settings: Any) -> Read:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return chats(replace(Recipe(), sharegpt=ShareGPTFile(path=str(path), **settings)))


def turns(sessions: Read) -> list[list[tuple[int, int]]]:
    """[(context, generated)] per session, in an order that no seed decides."""
    flat = iter(zip(sessions.context.tolist(), sessions.generated.tolist(), strict=True))
    return sorted([[next(flat) for _ in range(count)] for count in sessions.turns])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chats.json"


def test_a_turn_is_a_question_with_its_answer(file: Path) -> None:
    said = [("human", "one two"), ("gpt", "x"), ("user", "three"), ("assistant", "y z")]
    said += [("human", "q"), ("chatgpt", "a"), ("human", "q"), ("bing", "a"), ("human", "q"), ("bard", "a")]
    assert turns(read(file, [entry("a_0", *said)])) == [[(2, 1), (1, 2), (1, 1), (1, 1), (1, 1)]]


def test_flaws_are_mended_or_dropped_and_counted(file: Path) -> None:
    read_back = read(
        file,
        [
            entry("a_0", ("gpt", "nobody asked"), ("human", "q q"), ("gpt", "a")),
            entry("b_0", ("system", "be nice"), ("human", "q"), ("human", "more"), ("gpt", "a"), ("gpt", "b")),
            entry("c_0", ("human", "  \n"), ("gpt", "answer to nothing")),
            entry("d_0", ("human", "q"), ("gpt", "a"), ("human", "unanswered")),
            entry("e_0"),
            entry("f_0", ("human", "q"), ("tool", "ignored"), ("gpt", None), ("human", "again"), ("gpt", "a")),
        ],
    )
    assert turns(read_back) == [[(1, 1), (1, 0)], [(2, 1)], [(2, 1)], [(4, 2)]]
    assert read_back.counts == {
        "answers_without_question": 2,
        "conversations": 4,
        "conversations_used": 4,
        "conversations_without_a_turn": 2,
        "empty_turns": 2,
        "entries": 6,
        "questions_without_answer": 1,
        "unknown_roles": 1,
    }


def pair(words: int) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("human", "q " * words), ("gpt", "a")


def test_a_segment_continues_the_one_that_ends_where_it_begins(file: Path) -> None:
    """The number is the place of the first message in the whole conversation (hRPPgZT_0 has 11, hRPPgZT_11 follows)."""
    entries = [
        entry("x_3", ("gpt", "late answer"), *pair(3)),  # begins with the answer to x_0's last question
        entry("y_0", *pair(9)),
        entry("x_0", *pair(1), ("human", "q q")),
        entry("x_6", *pair(4)),
    ]
    assert turns(read(file, entries)) == [[(1, 1), (2, 2), (3, 1), (4, 1)], [(9, 1)]]
    alone = turns(read(file, entries, glue=False))
    assert alone == [[(1, 1), (2, 0)], [(3, 1)], [(4, 1)], [(9, 1)]]


def test_numbered_conversations_are_not_segments(file: Path) -> None:
    """identity_0, identity_1, …: each has two messages, so none begins where another ends."""
    read_back = read(file, [entry(f"identity_{i}", *pair(i + 1)) for i in range(6)])
    assert turns(read_back) == [[(i + 1, 1)] for i in range(6)]
    assert "segments_glued" not in read_back.counts


def test_segments_are_not_joined_across_a_missing_one(file: Path) -> None:
    assert turns(read(file, [entry("x_0", *pair(1)), entry("x_5", *pair(2))])) == [[(1, 1)], [(2, 1)]]


def test_any_id_is_accepted(file: Path) -> None:
    read_back = read(file, [entry(7, *pair(1)), entry("", *pair(2)), entry("_2", *pair(3)), {"conversations": []}])
    assert turns(read_back) == [[(1, 1)], [(2, 1)], [(3, 1)]]


def test_limits_clamp_turns_and_count_them(file: Path) -> None:
    read_back = read(
        file, [entry("a_0", ("human", "q " * 50), ("gpt", "a " * 40))], max_context_tokens=8, max_generation_tokens=4
    )
    assert turns(read_back) == [[(8, 4)]]
    assert read_back.counts["context_clamped"] == read_back.counts["generation_clamped"] == 1


def test_a_sample_is_drawn_by_seed_from_the_whole_file(file: Path) -> None:
    entries = [entry(f"c{i}_0", *pair(i + 1)) for i in range(200)]
    picks = []
    for seed in (0, 0, 1):
        file.write_text(json.dumps(entries))
        recipe = Recipe(seed=seed, sharegpt=ShareGPTFile(path=str(file), max_conversations=20))
        picks.append(chats(recipe).context.tolist())
    assert picks[0] == picks[1] != picks[2]
    assert max(picks[0]) > 100, "the sample reaches past the head"


@pytest.mark.parametrize("indent", [None, 1])
def test_lines_arrays_and_texts_with_a_byte_order_mark_read_alike(file: Path, indent: int | None) -> None:
    entries = [entry(f"c{i}_0", ("human", "né 😀 " * (i + 1)), ("gpt", "a]},{[")) for i in range(30)]
    array = json.dumps(entries, indent=indent, ensure_ascii=False)
    lines = "\n".join(json.dumps(one) for one in entries)
    assert turns(read(file, array)) == turns(read(file, "\ufeff" + array)) == turns(read(file, lines))


BAD = {
    "blank": (" \n ", "no question"),
    "not JSON": ("hello", "not JSON at entry 0"),
    "turns without text": ('[{"id": "a", "conversations": ["hi"]}]', "not ShareGPT: entry 0"),
    "a value that is a number": (
        '[{"id": "a", "conversations": [{"from": "human", "value": 3}]}]',
        "not ShareGPT: entry 0",
    ),
    "broken inside": ('[{"conversations": [}]' + " " * 50, "not JSON at entry 0"),
    "cut off inside": ('[{"conversations": [{"from": "human", "value": "hel', "cut off in entry 0"),
    "cut off between": ('[{"conversations": []}', "cut off in entry 1"),
    "text after it": ('[{"conversations": []}] x', "not JSON at entry 1"),
    "an empty array": ("[]", "no question"),
    "answers only": ('[{"id": "a_0", "conversations": [{"from": "gpt", "value": "x"}]}]', "no question"),
    "nested too deep": ('{"conversations": ' + "[" * 200_000, "nested too deep"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_of_another_format_is_refused(file: Path, name: str) -> None:
    content, reason = BAD[name]
    with pytest.raises(InputError) as refused:
        read(file, content)
    assert str(file) in str(refused.value)
    assert reason in str(refused.value)


def test_a_file_that_is_no_text_or_missing_is_refused(file: Path) -> None:
    file.write_bytes(b'[{"conversations": [{"from": "human", "value": "\xff\xfe"}]}]')
    with pytest.raises(InputError, match="not UTF-8"):
        chats(Recipe(sharegpt=ShareGPTFile(path=str(file))))
    with pytest.raises(InputError, match="cannot read the file"):
        chats(Recipe(sharegpt=ShareGPTFile(path=str(file.parent / "none.json"))))
