"""Streaming JSON: the entries of a JSON array, or of JSON lines, without holding the whole text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tracegen.errors import InputError

ENTRY_CHARS: Final = 1 << 28  # longest entry
_INCOMPLETE_CHARS: Final = 16  # so near the end an error may mean that more text follows
_BLANKS: Final = re.compile(r"\s*")
_DECODE: Final = json.JSONDecoder().raw_decode


def read_entries(source: Path, chunks: Iterator[str], wanted: str) -> Iterator[Any]:
    """Yield the decoded entries of a JSON array or of JSON lines, whose text comes in chunks, cut anywhere.

    `wanted` is what to name instead of a file that is no JSON, e.g. "a ShareGPT file".

    Raises:
        InputError: the text is empty, cut off or not JSON, or an entry is too deep or too long.
    """
    stream = _JsonStream(source, chunks)
    first = stream.peek()
    if not first:
        raise InputError("the file is empty", f"name {wanted}", subject=source)
    if first == "[":
        stream.skip()
        yield from _read_array(stream, source)
    elif first == "{":
        entry = 0
        while stream.peek():
            yield stream.decode(entry)
            entry += 1
    else:
        problem = f"not JSON: the file begins with {first!r}, not with '[' or '{{'"
        raise InputError(problem, f"name {wanted}", subject=source)


def _read_array(stream: "_JsonStream", source: Path) -> Iterator[Any]:
    """Yield the entries of an array after its bracket."""
    entry = 0
    while (mark := stream.peek()) and mark != "]":
        if entry:
            if mark != ",":
                problem = f"not JSON: no comma after entry {entry - 1}"
                raise InputError(problem, "correct it", subject=source)
            stream.skip()
            stream.peek()
        yield stream.decode(entry)
        entry += 1
    if not mark:
        problem = f"the file is cut off after entry {entry - 1}"
        raise InputError(problem, "download or write it again", subject=source)
    stream.skip()
    if rest := stream.peek():
        raise InputError(f"not JSON: {rest!r} follows the array", "remove it", subject=source)


class _JsonStream:
    """JSON text, held from the next value to the end of the last chunk only."""

    def __init__(self, source: Path, chunks: Iterator[str]) -> None:
        self._source = source
        self._chunks = chunks
        self._text = ""
        self._position = 0

    def peek(self) -> str:
        """Skip blanks; return the next character, or an empty string at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._position)
            assert blanks is not None  # the pattern matches an empty string, too
            self._position = blanks.end()
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._read_on():
                return ""

    def skip(self) -> None:
        """Skip one character."""
        self._position += 1

    def decode(self, entry: int) -> Any:
        """Decode the value that begins here, of this number; read on while it may only be incomplete."""
        while True:
            problem = ""
            try:
                value, self._position = _DECODE(self._text, self._position)
                return value
            except json.JSONDecodeError as error:
                if not self._may_be_incomplete(error):
                    problem = f"not JSON at entry {entry}: {error.msg}"
            except RecursionError:
                problem = f"entry {entry} is nested too deep"
            except ValueError:
                problem = f"entry {entry} has a number of thousands of digits"
            if problem:
                raise InputError(problem, "correct or remove it", subject=self._source)
            if not self._read_on():
                problem = f"the file is cut off in entry {entry}"
                raise InputError(problem, "download or write it again", subject=self._source)

    def _may_be_incomplete(self, error: json.JSONDecodeError) -> bool:
        near_end = error.pos > len(self._text) - _INCOMPLETE_CHARS
        is_cut = error.msg.startswith("Unterminated string") or near_end
        return is_cut and len(self._text) - self._position <= ENTRY_CHARS

    def _read_on(self) -> bool:
        """Return whether there was more text: at least as much as is held, so that long entries are decoded rarely."""
        held = self._text[self._position :]
        wanted = max(1, len(held))
        parts = [held]
        for chunk in self._chunks:
            parts.append(chunk)
            wanted -= len(chunk)
            if wanted <= 0:
                break
        self._text = "".join(parts)
        self._position = 0
        return len(self._text) > len(held)
