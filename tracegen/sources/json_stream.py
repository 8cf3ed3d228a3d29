"""Streaming JSON: the objects of a JSON array, or of JSON lines, without holding the whole text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tracegen.errors import InputError

ENTRY_CHARS: Final = 1 << 28  # longest entry
_INCOMPLETE_CHARS: Final = 16  # so near the end an error may mean that more text follows
# Entries are objects: what is outside of them only separates them, in an array as in lines.
_BETWEEN: Final = re.compile(r"[\s,\[\]]*")
_DECODE: Final = json.JSONDecoder().raw_decode


def read_entries(source: Path, chunks: Iterator[str]) -> Iterator[Any]:
    """Yield the decoded entries of a JSON array or of JSON lines, whose text comes in chunks, cut anywhere.

    Raises:
        InputError: the text is cut off or not JSON, or an entry is too deep or too long.
    """
    text = ""
    entry = place = depth = 0
    # At least as much again as is held, so that a long entry is decoded rarely.
    while more := _take(chunks, len(text) - place + 1):
        text = text[place:] + more
        place = 0
        while between := _BETWEEN.match(text, place):  # always: it may be empty
            depth += between[0].count("[") - between[0].count("]")
            place = between.end()
            try:
                value, place = _DECODE(text, place)
            except (ValueError, RecursionError) as error:
                if _may_be_incomplete(error, text, place):
                    break
                reason = getattr(error, "msg", None) or "nested too deep, or a number of thousands of digits"
                problem = f"not JSON at entry {entry}: {reason}"
                raise InputError(problem, "correct it, or name another file", subject=source) from None
            yield value
            entry += 1
    if place < len(text) or depth > 0:
        raise InputError(f"the file is cut off in entry {entry}", "download or write it again", subject=source)


def _take(chunks: Iterator[str], least: int) -> str:
    """Return at least this number of characters, or all that are left."""
    parts = []
    for chunk in chunks:
        parts.append(chunk)
        least -= len(chunk)
        if least <= 0:
            break
    return "".join(parts)


def _may_be_incomplete(error: Exception, text: str, place: int) -> bool:
    """Return whether the value at this place may be cut off by the end of the text."""
    if place == len(text):
        return True
    if not isinstance(error, json.JSONDecodeError) or error.pos == place or len(text) - place > ENTRY_CHARS:
        return False
    return error.msg.startswith("Unterminated string") or error.pos > len(text) - _INCOMPLETE_CHARS
