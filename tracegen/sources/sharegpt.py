"""Conversations from a file in ShareGPT's format: a JSON array (or lines) of {id, conversations: [{from, value}]}.

The file is streamed. Its known flaws (`docs/sharegpt.md`) are mended or dropped by rule and counted; a file that is not
of the format is refused, because a benchmark on another workload than the one named is worse than none.
"""

import codecs
import hashlib
import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from tracegen.arrays import Ints, ranges
from tracegen.errors import InputError, check_is_file
from tracegen.randomness.draws import Purpose, between, draw
from tracegen.recipe.recipe import Recipe
from tracegen.sources.sessions import Origin, Sessions
from tracegen.sources.tokenizers import Tokenizer, count_all
from tracegen.times import to_ns

ROLES: Final = dict.fromkeys(("human", "user"), "Q") | dict.fromkeys(
    ("gpt", "assistant", "chatgpt", "bing", "bard"), "A"
)
ROLES["system"] = "S"
_BATCH_CHARS: Final = 1 << 18
_CHUNK: Final = 1 << 20
_ENTRY_MAX: Final = 1 << 28
_BLANKS: Final = re.compile(r"\s*")
_DECODE: Final = json.JSONDecoder().raw_decode

Turn = tuple[int, int]
Message = tuple[str, str]
Progress = Callable[[int], object]


class ShareGPT:
    """The sessions of a ShareGPT file in the order that the seed gives them; session s takes the s-th, then again.

    Args:
        recipe: its `sharegpt` table names the file, the limits and the seed.
        tokenizer: counts the tokens of every message.
        progress: called with the number of bytes read, as they are.

    Raises:
        InputError: the file is missing, empty, not JSON, not ShareGPT, or holds no usable turn.
    """

    count: int | None
    contains_prefix = False
    retrieves: float | None = None

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, progress: Progress) -> None:
        settings, self._recipe = recipe.sharegpt, recipe
        path = Path(settings.path)
        usable, flaws, sha256 = _conversations(path, settings.glue, tokenizer, progress)
        order = np.argsort(draw(recipe.seed, Purpose.SAMPLE, np.arange(len(usable))), kind="stable")
        chosen = [usable[i] for i in order[: settings.max_conversations or None]]
        self.count = self._conversations = len(chosen)
        self._turns = np.array([len(turns) for turns in chosen], np.int64)
        self._first = np.cumsum(self._turns) - self._turns
        context, generated = np.array([turn for turns in chosen for turn in turns], np.int64).T
        for name, values, limit in (
            ("context_clamped", context, settings.max_context_tokens),
            ("generation_clamped", generated, settings.max_generation_tokens),
        ):
            flaws[name] = int((values > limit).sum()) if limit else 0
        self._context = np.maximum(np.minimum(context, settings.max_context_tokens or context), 1)
        self._generated = np.minimum(generated, settings.max_generation_tokens or generated)
        self.origin = Origin(
            [{"name": path.name, "sha256": sha256, "licence": settings.licence}],
            {name: number for name, number in sorted(flaws.items()) if number}
            | {"conversations": len(usable), "conversations_used": len(chosen)},
        )

    def sessions(self, number: Ints, user: Ints) -> Sessions:  # noqa: ARG002 (a file knows no users)
        """The sessions of these numbers, had by these users; shapes (sessions,)."""
        taken = number % self._conversations
        turns = self._turns[taken]
        places = ranges(self._first[taken], turns)
        turn = ranges(np.zeros(len(turns), np.int64), turns)
        bits = draw(self._recipe.seed, Purpose.THINK, np.repeat(number, turns), turn)
        pause = between(bits, *map(to_ns, self._recipe.think_s))
        return Sessions(turns, self._context[places], self._generated[places], pause)


def _conversations(
    path: Path, glue: bool, tokenizer: Tokenizer, progress: Progress
) -> tuple[list[list[Turn]], Counter[str], str]:
    """The conversations with a turn in them, the file's flaws by name, and its sha256."""
    digest, flaws = hashlib.sha256(), Counter[str]()
    segments, texts = _Segments(), values_of(path, _chunks(path, digest, progress))
    for entry in count_all(tokenizer, _batches(_messages(texts, path, flaws))):
        segments.add(*entry)
    conversations = [_turns(messages, flaws) for messages in segments.conversations(glue, flaws)]
    usable = [turns for turns in conversations if turns]
    flaws["conversations_without_a_turn"] = len(conversations) - len(usable)
    if not usable:
        raise InputError(f"{path} holds no question of any user; name a ShareGPT file with conversations in it.")
    return usable, flaws, digest.hexdigest()


class _JsonStream:
    """JSON text, held only from the value being read to the end of the last chunk."""

    def __init__(self, source: Path, chunks: Iterator[str]) -> None:
        self._source, self._chunks = source, chunks
        self._text, self.pos = "", 0

    def peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            self.pos = _BLANKS.match(self._text, self.pos).end()  # type: ignore[union-attr]  # it matches emptiness too
            if self.pos < len(self._text):
                return self._text[self.pos]
            if not self._more():
                return ""

    def value(self, entry: int) -> Any:
        """Decode the value that begins here, reading on while it may merely be incomplete."""
        while True:
            try:
                value, self.pos = _DECODE(self._text, self.pos)
                return value
            except json.JSONDecodeError as error:
                incomplete = error.msg.startswith("Unterminated string") or error.pos > len(self._text) - 16
                if not incomplete or len(self._text) - self.pos > _ENTRY_MAX:
                    raise InputError(f"{self._source} is not JSON at entry {entry}: {error.msg}; mend it.") from None
            except RecursionError:
                raise InputError(f"{self._source}: entry {entry} is nested too deep for ShareGPT's format.") from None
            except ValueError:
                raise InputError(
                    f"{self._source}: entry {entry} has a number of thousands of digits; mend it."
                ) from None
            if not self._more():
                raise InputError(f"{self._source} is cut off in entry {entry}; download or write it anew.")

    def _more(self) -> bool:
        """Read on; at least as much as is held, so that a long entry is not decoded over and over."""
        held, self.pos = self._text[self.pos :], 0
        parts, wanted = [held], max(1, len(held))
        for chunk in self._chunks:
            parts.append(chunk)
            wanted -= len(chunk)
            if wanted <= 0:
                break
        self._text = "".join(parts)
        return len(self._text) > len(held)


def values_of(source: Path, chunks: Iterator[str]) -> Iterator[Any]:
    """The values of a JSON array or of JSON lines, wherever the chunks of its text end.

    Raises:
        InputError: `source` is named as not being such a text.
    """
    stream, entry = _JsonStream(source, chunks), 0
    first = stream.peek()
    if first not in ("[", "{"):
        what = f"is not JSON: it begins with {first!r}, not with '[' or '{{'" if first else "is empty"
        raise InputError(f"{source} {what}; name a ShareGPT file.")
    stream.pos += first == "["
    while (mark := stream.peek()) and (first == "{" or mark != "]"):
        if first == "[" and entry:
            if mark != ",":
                raise InputError(f"{source} is not JSON: no comma after entry {entry - 1}; mend it.")
            stream.pos += 1
            stream.peek()
        yield stream.value(entry)
        entry += 1
    if first == "[":
        if not mark:
            raise InputError(f"{source} is cut off after entry {entry - 1}; download or write it anew.")
        stream.pos += 1
        if rest := stream.peek():
            raise InputError(f"{source} is not JSON: {rest!r} follows the array; mend it.")


def _chunks(source: Path, digest: Any, progress: Progress) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    check_is_file(source, "a ShareGPT file")
    try:
        with source.open("rb") as file:
            while data := file.read(_CHUNK):
                digest.update(data)
                progress(len(data))
                yield decoder.decode(data)
            decoder.decode(b"", final=True)
    except OSError as error:
        raise InputError(
            f"{source}: cannot read it ({error.strerror}); name a ShareGPT file with --sharegpt."
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is not UTF-8 text ({error.reason}); name a ShareGPT JSON file.") from None


def _messages(values: Iterator[Any], source: Path, flaws: Counter[str]) -> Iterator[tuple[str, list[Message]]]:
    """(id, [(role, text)]) of every entry, empty texts and unknown roles marked by an empty role."""
    for number, value in enumerate(values):
        turns = value.get("conversations") if isinstance(value, dict) else None
        if not isinstance(turns, list):
            raise InputError(f"{source} is not ShareGPT: entry {number} has no list `conversations`.")
        messages = []
        for turn in turns:
            role = turn.get("from") if isinstance(turn, dict) else None
            text = turn.get("value") if isinstance(turn, dict) else None
            if not isinstance(role, str) or not isinstance(text, str | None):
                raise InputError(
                    f"{source} is not ShareGPT: entry {number} has a turn that is not {{from, value}} text."
                )
            known = ROLES.get(role, "")
            flaws["empty_turns"] += not (text and text.strip())
            flaws["unknown_roles"] += not known
            messages.append((known if text and text.strip() else "", text or ""))
        flaws["entries"] += 1
        yield str(value.get("id", f"entry {number}")), messages


Batch = tuple[list[tuple[str, str]], list[str]]


def _batches(entries: Iterator[tuple[str, list[Message]]]) -> Iterator[Batch]:
    """([(id, roles)], texts of all messages that count) of some 256 Ki characters each."""
    batch: list[tuple[str, str]] = []
    texts: list[str] = []
    chars = 0
    for identity, messages in entries:
        # Roles are one letter per message, a space where the message does not count: its place does, for gluing.
        batch.append((identity, "".join(role or " " for role, _ in messages)))
        kept = [text for role, text in messages if role]
        texts += kept
        chars += sum(map(len, kept))
        if chars > _BATCH_CHARS:
            yield batch, texts
            batch, texts, chars = [], [], 0
    yield batch, texts


class _Segments:
    """Entries with token counts in place of texts, and the rule that glues them into conversations."""

    def __init__(self) -> None:
        self._entries: list[tuple[str, str, int]] = []  # id, roles, where its token counts begin
        self._tokens = array("i")

    def add(self, entries: list[tuple[str, str]], tokens: list[int]) -> None:
        begin = len(self._tokens)
        self._tokens.extend(tokens)
        for identity, roles in entries:
            self._entries.append((identity, roles, begin))
            begin += len(roles) - roles.count(" ")

    def conversations(self, glue: bool, flaws: Counter[str]) -> Iterator[list[tuple[str, int]]]:
        """[(role, tokens)] of every conversation, in the file's order of first segments.

        The number after the last `_` of an id is the place of the segment's first message in the whole conversation.
        A segment continues the one of the same base that ends where it begins; any other stands alone.
        """
        bases: dict[str, list[tuple[int, int]]] = {}
        for number, (identity, _, _) in enumerate(self._entries):
            base, _, place = identity.rpartition("_")
            named = glue and bool(base) and re.fullmatch(r"\d{1,18}", place, re.ASCII) is not None
            bases.setdefault(base if named else f"{number} alone", []).append((int(place) if named else 0, number))
        chains: list[list[int]] = []
        for segments in bases.values():
            end = -1
            for begin, number in sorted(segments):
                if begin == end:
                    chains[-1].append(number)
                    flaws["segments_glued"] += 1
                else:
                    chains.append([number])
                end = begin + max(1, len(self._entries[number][1]))
        for chain in sorted(chains):
            yield [message for number in chain for message in self._counted(number)]

    def _counted(self, number: int) -> Iterator[tuple[str, int]]:
        _, roles, begin = self._entries[number]
        for offset, role in enumerate(roles.replace(" ", "")):
            yield role, self._tokens[begin + offset]


def _turns(messages: list[tuple[str, int]], flaws: Counter[str]) -> list[Turn]:
    """(context, generated) tokens of each turn: a question with what stands before it, and its answer.

    A system text counts with the question after it; consecutive texts of one side are one; an answer to nothing is
    dropped; a question that nobody answered is prefilled and generates nothing.
    """
    turns: list[Turn] = []
    system = question = answer = 0
    for role, tokens in messages:
        if role == "S":
            system += tokens
        elif role == "A":
            flaws["answers_without_question"] += not question
            answer += tokens if question else 0
        else:
            if answer:
                turns.append((question, answer))
                question = answer = 0
            question, system = question + system + tokens, 0
    if question:
        turns.append((question, answer))
        flaws["questions_without_answer"] += not answer
    return turns
