"""Conversations from a file in ShareGPT's format.

The format is a JSON array, or lines, of {id, conversations: [{from, value}]}. The file is streamed.
Its known flaws (`docs/sharegpt.md`) are mended or dropped by rule, and counted. A file of another
format is refused: a benchmark of a workload that nobody named misleads.
"""

import codecs
import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from tracegen.arrays import Ints, positions, ranges, to_ns
from tracegen.draws import Purpose, between, draw
from tracegen.errors import InputError, check_is_file
from tracegen.progress import Advance
from tracegen.recipes.recipe import Recipe
from tracegen.sources.json_stream import read_entries
from tracegen.sources.sessions import Origin, Sessions
from tracegen.sources.tokenizers import Tokenizer, count_batches

ROLES: Final = {
    **dict.fromkeys(("human", "user"), "Q"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard"), "A"),
    "system": "S",
}
"""Question, answer or system text, by the name of the role in a file."""
_BATCH_ENTRIES: Final = 64  # some hundred thousand characters of the public files
_CHUNK_BYTES: Final = 1 << 20
_WANTED: Final = "a ShareGPT file"
_NOT_COUNTED: Final = " "  # the role of a message that has no text or an unknown role


class Turn(NamedTuple):
    """A question and its answer, in tokens."""

    context: int
    generated: int


class Message(msgspec.Struct):
    """A message of an entry; one without text is dropped."""

    role: str = msgspec.field(name="from")
    text: str | None = msgspec.field(name="value", default=None)


class Entry(msgspec.Struct):
    """An entry of the file."""

    conversations: list[Message]
    id: Any = None


class Segment(NamedTuple):
    """An entry, with its texts as tokens."""

    identity: str  # its id
    # a letter of each message, as in ROLES, or `_NOT_COUNTED`: each keeps its place, which decides which segments are
    # joined
    roles: str
    tokens: "array[int]"  # of the messages that are counted


class ShareGPTSource:
    """The sessions of a ShareGPT file, in an order that the seed gives, over and over.

    Raises:
        InputError: the file is missing, empty, not JSON or not ShareGPT, or has no usable turn.
    """

    count: int | None
    contains_prefix = False
    retrieves: float | None = None

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, advance: Advance) -> None:
        settings = recipe.sharegpt
        path = Path(settings.path)
        usable, flaws, sha256 = _read_conversations(path, settings.glue, tokenizer, advance)
        bits = draw(recipe.seed, Purpose.SAMPLE, np.arange(len(usable)))
        order = np.argsort(bits, kind="stable")[: settings.max_conversations or None]
        sample = [usable[number] for number in order]
        context, generated = np.array([turn for turns in sample for turn in turns], np.int64).T
        self.count = len(sample)
        self._recipe = recipe
        self._turns = np.array([len(turns) for turns in sample], np.int64)
        self._first = np.cumsum(self._turns) - self._turns
        self._context = np.maximum(_clamp(context, settings.max_context_tokens), 1)
        self._generated = _clamp(generated, settings.max_generation_tokens)
        flaws["context_clamped"] = int((self._context < context).sum())
        flaws["generation_clamped"] = int((self._generated < generated).sum())
        self.origin = Origin(
            files=[{"name": path.name, "sha256": sha256, "licence": settings.licence}],
            counts={
                **{name: number for name, number in sorted(flaws.items()) if number},
                "conversations": len(usable),
                "conversations_used": len(sample),
            },
        )

    def sessions(self, number: Ints, user: Ints) -> Sessions:  # noqa: ARG002 (of no user)
        """Return the sessions of these numbers; both arguments have shape (sessions,)."""
        conversation = number % len(self._turns)
        turns = self._turns[conversation]
        rows = ranges(self._first[conversation], turns)
        bits = draw(self._recipe.seed, Purpose.THINK, np.repeat(number, turns), positions(turns))
        pause = between(bits, *map(to_ns, self._recipe.think_s))
        return Sessions(turns, self._context[rows], self._generated[rows], pause)


def _clamp(tokens: Ints, limit: int) -> Ints:
    return np.minimum(tokens, limit or tokens)


def _read_conversations(
    path: Path, glue: bool, tokenizer: Tokenizer, advance: Advance
) -> tuple[list[list[Turn]], Counter[str], str]:
    """Return the conversations that have a turn, the file's flaws by name, and its sha256."""
    digest = hashlib.sha256()
    flaws = Counter[str]()
    segments: list[Segment] = []
    entries = read_entries(path, _read_chunks(path, digest, advance))
    for batch, counts in count_batches(tokenizer, _batch(_parse_entries(entries, path, flaws))):
        tokens = iter(counts)
        for segment in batch:
            segment.tokens.extend(islice(tokens, len(segment.roles.replace(_NOT_COUNTED, ""))))
        segments += batch
    chains = _join_segments(segments, glue, flaws)
    conversations = [_pair_turns(chain, flaws) for chain in chains]
    usable = [turns for turns in conversations if turns]
    flaws["conversations_without_a_turn"] = len(conversations) - len(usable)
    if not usable:
        raise InputError("the file has no question of a user", f"name {_WANTED} with conversations", subject=path)
    return usable, flaws, digest.hexdigest()


def _read_chunks(source: Path, digest: Any, advance: Advance) -> Iterator[str]:
    """Yield the text of a file; add its bytes to a digest and report their number."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    check_is_file(source, _WANTED)
    try:
        with source.open("rb") as file:
            while data := file.read(_CHUNK_BYTES):
                digest.update(data)
                advance(len(data))
                yield decoder.decode(data)
            decoder.decode(b"", final=True)
    except OSError as error:
        problem = f"cannot read the file ({error.strerror})"
        raise InputError(problem, f"name {_WANTED}", subject=source) from None
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 text ({error.reason})"
        raise InputError(problem, f"name {_WANTED}", subject=source) from None


def _parse_entries(entries: Iterator[Any], source: Path, flaws: Counter[str]) -> Iterator[tuple[Segment, list[str]]]:
    """Yield every entry, before its texts are counted, and these texts; count empty messages and unknown roles."""
    for number, content in enumerate(entries):
        try:
            entry = msgspec.convert(content, Entry)
        except msgspec.ValidationError as error:
            raise InputError(f"not ShareGPT: entry {number}: {error}", f"name {_WANTED}", subject=source) from None
        roles = ""
        texts = []
        for message in entry.conversations:
            text = message.text or ""
            role = ROLES.get(message.role, _NOT_COUNTED) if text.strip() else _NOT_COUNTED
            flaws["empty_turns"] += not text.strip()
            flaws["unknown_roles"] += message.role not in ROLES
            roles += role
            if role != _NOT_COUNTED:
                texts.append(text)
        flaws["entries"] += 1
        identity = f"entry {number}" if entry.id is None else str(entry.id)
        yield Segment(identity, roles, array("i")), texts


def _batch(entries: Iterator[tuple[Segment, list[str]]]) -> Iterator[tuple[list[Segment], list[str]]]:
    """Yield batches of entries, and the texts of each batch."""
    while batch := list(islice(entries, _BATCH_ENTRIES)):
        yield [segment for segment, _ in batch], [text for _, texts in batch for text in texts]


def _join_segments(segments: list[Segment], glue: bool, flaws: Counter[str]) -> list[list[Segment]]:
    """Return the segments of each conversation, in the order of first segments.

    The number after the last `_` of an id is the place of the segment's first message in its
    conversation. A segment continues the one with the same base that ends where it begins; any
    other begins a conversation.
    """
    groups: dict[str | int, list[tuple[int, int]]] = {}  # an entry that is no segment: by its number
    for number, segment in enumerate(segments):
        base, _, place = segment.identity.rpartition("_")
        if glue and base and re.fullmatch(r"\d{1,18}", place, re.ASCII):
            groups.setdefault(base, []).append((int(place), number))
        else:
            groups[number] = [(0, number)]
    chains: list[list[int]] = []
    for group in groups.values():
        end = -1
        for begin, number in sorted(group):
            if begin == end:
                chains[-1].append(number)
                flaws["segments_glued"] += 1
            else:
                chains.append([number])
            end = begin + max(1, len(segments[number].roles))
    return [[segments[number] for number in chain] for chain in sorted(chains)]


def _pair_turns(chain: list[Segment], flaws: Counter[str]) -> list[Turn]:
    """Return the turns of a conversation.

    A system text counts with the question after it. Consecutive messages of one role are one. An
    answer without a question is dropped; a question without an answer is prefilled and generates
    nothing.
    """
    roles = "".join(segment.roles for segment in chain).replace(_NOT_COUNTED, "")
    counts = [count for segment in chain for count in segment.tokens]
    turns: list[Turn] = []
    system = question = answer = 0
    for role, tokens in zip(roles, counts, strict=True):
        if role == "S":
            system += tokens
        elif role == "A":
            flaws["answers_without_question"] += not question
            answer += tokens if question else 0
        else:
            if answer:
                turns.append(Turn(question, answer))
                question = answer = 0
            question += system + tokens
            system = 0
    if question:
        turns.append(Turn(question, answer))
        flaws["questions_without_answer"] += not answer
    return turns
