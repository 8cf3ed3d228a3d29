"""What readers of other labs' traces yield, and the files they read: rows in order, each good, refused or counted."""

import csv
import gzip
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa

from tracegen.errors import InputError, check_is_file

LINE_MAX: Final = 1 << 26  # bytes; the longest honest line (1 M blocks of 64-bit ids) is far below
RATIO_MAX: Final = 1000  # more text than this per compressed byte is a bomb, not a trace
RATIO_FROM: Final = 1 << 16  # compressed bytes; a shorter file may be ever so repetitive
TIME_MAX: Final = 1 << 62  # nanoseconds, 146 years: what is added to it stays within 64 bits
DECODE_BATCH: Final = 32  # tokens generated per decode read
TOKENS_MAX: Final = 1 << 28  # per request: over 100 times the longest context there is
_CHUNK: Final = 1 << 20
# Exponents and digits are bounded so that no arithmetic on a number can overflow or take long.
_NUMBER: Final = re.compile(r"[+-]?\d{1,40}(\.\d{0,40})?([eE][+-]?\d{1,3})?", re.ASCII)

Progress = Callable[[int], object]


class BadRowError(ValueError):
    """A row that is not of its format; the text says why, without file and line."""


@dataclass(slots=True)
class Call:
    """One request as another lab recorded it; readers only translate into these.

    Attributes:
        time_ns: arrival on the source's clock, nanoseconds; with `delay_ns` the earliest time it may have.
        input_tokens: prompt, history included.
        output_tokens: generated.
        blocks: ids of the prompt's blocks in order, or None where the source knows lengths only.
        session: what names the session, or None where the request stands alone.
        user: what names the user, or None: each session its own.
        delay_ns: pause after the session's request before has ended (a closed loop), or None: `time_ns` counts.
        scope: ids of blocks are alike only within one scope.
        tokens: of each block, where they are not the format's; else None.
        is_decode: the blocks are read by decoding, not by prefill.
    """

    time_ns: int
    input_tokens: int
    output_tokens: int
    blocks: list[int] | None = None
    session: Hashable = None
    user: Hashable = None
    delay_ns: int | None = None
    scope: Hashable = None
    tokens: list[int] | None = None
    is_decode: bool = False


class Fields(dict[str, str]):
    """A row of a table, where numbers are text; in JSON a number in quotes is none."""


class Rows:
    """A text file of rows, plain, .gz or .zst: hashed while it is read, one line held at a time.

    Args:
        path: the file.
        skip_bad: count bad rows by reason instead of refusing the file.
        progress: called with the number of bytes read, as they are.
        token_ns: nominal time to generate a token.

    Attributes:
        batch_ns: nominal time to generate the tokens of a decode read.
        skipped: bad rows that were left out, by reason.
        left_out: rows that are good but not a request's, by what they are.
        line: the number of the line that was read last.
        block_tokens: of the file, where it says so itself.
    """

    def __init__(
        self, path: Path, *, skip_bad: bool = False, progress: Progress = lambda _: None, token_ns: int = 0
    ) -> None:
        self.batch_ns = DECODE_BATCH * token_ns
        self.path, self.skipped, self.left_out = path, Counter[str](), Counter[str]()
        self.line = 0
        self.block_tokens: int | None = None
        self._skip_bad, self._progress = skip_bad, progress
        self._digest, self._raw = hashlib.sha256(), 0

    @property
    def sha256(self) -> str:
        """Of the file as it lies on disk, once it has been read to its end."""
        return self._digest.hexdigest()

    @contextmanager
    def row(self, line: int) -> Iterator[None]:
        """Within it a BadRowError refuses the file, naming the line, or is counted and the row left out."""
        try:
            yield
        except BadRowError as error:
            if not self._skip_bad:
                raise InputError(
                    f"{self.path}, line {line}: {error}; mend it, or leave such rows out with --skip-bad."
                ) from None
            self.skipped[str(error).split(":")[0]] += 1

    def lines(self) -> Iterator[tuple[int, str]]:
        """(number from 1, text without its end) of every line that is not blank.

        Raises:
            InputError: the file cannot be read or decompressed, or expands as only a bomb does.
        """
        number, held = 0, bytearray()
        for chunk in self._chunks():
            end = chunk.rfind(b"\n") + 1
            whole = bytes(held + chunk[:end]) if end else b""
            if whole.isspace():  # perhaps a million blank lines
                number, whole = number + whole.count(b"\n"), b""
            for line in whole.split(b"\n")[:-1]:
                number += 1
                yield from self._text(number, line)
            if end:
                held.clear()
            held += chunk[end:]
            if len(held) > LINE_MAX:
                raise InputError(
                    f"{self.path}, line {number + 1}: longer than {LINE_MAX >> 20} MiB; no trace has such lines."
                )
        yield from self._text(number + 1, bytes(held))

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line, value) of a file of JSON objects, one a line; what is none of these is a bad row."""
        for number, text in self.lines():
            with self.row(number):
                yield number, parse_object(text)

    def text(self, most: int) -> str:
        """All of the file.

        Raises:
            BadRowError: it is longer than `most` bytes, or no text.
            InputError: as `lines`.
        """
        self.line = 1
        parts, size = [], 0
        for chunk in self._chunks():
            parts.append(chunk)
            size += len(chunk)
            if size > most:
                raise BadRowError(f"too long: over {most >> 20} MiB in one document")
        return _decoded(b"".join(parts), "utf-8-sig")

    def table(self, *required: str) -> Iterator[tuple[int, Fields]]:
        """(line, {column: text}) of a CSV file with a header line that names at least the columns `required`.

        Raises:
            InputError: as `lines`, or there is no such header.
        """
        lines = self.lines()
        line, header = next(lines, (1, ""))
        with self._whole_file(line):
            names = [name.strip() for name in _values(header)]
        if missing := [name for name in required if name not in names]:
            raise InputError(
                f"{self.path}, line {line}: no column {missing[0]} among {', '.join(names)[:200]!r}; name a file of"
                " this format, comma-separated, with its header line."
            )
        for number, text in lines:
            with self.row(number):
                values = _values(text)
                if len(values) != len(names):
                    raise BadRowError(f"number of columns: {len(values)} where the header has {len(names)}")
                yield number, Fields(zip(names, values, strict=True))

    @contextmanager
    def _whole_file(self, line: int) -> Iterator[None]:
        """Within it a BadRowError refuses the file, whatever is to be done with bad rows."""
        try:
            yield
        except BadRowError as error:
            raise InputError(f"{self.path}, line {line}: {error}; name a file of this format.") from None

    def _text(self, number: int, line: bytes) -> Iterator[tuple[int, str]]:
        self.line = number
        if not line.strip():
            return
        with self.row(number):
            yield number, _decoded(line, "utf-8-sig" if number == 1 else "utf-8").rstrip("\r")

    def _chunks(self) -> Iterator[bytes]:
        written = 0
        check_is_file(self.path, "a file of this format")
        try:
            with self.path.open("rb") as file:
                opened: Any = _Counted(file, self._count)
                if self.path.suffix == ".gz":
                    opened = gzip.GzipFile(fileobj=opened)
                elif self.path.suffix == ".zst":
                    opened = pa.CompressedInputStream(pa.PythonFile(opened, "r"), "zstd")
                while chunk := opened.read(_CHUNK):
                    written += len(chunk)
                    if written > RATIO_MAX * max(self._raw, RATIO_FROM):
                        raise InputError(
                            f"{self.path} expands to over {RATIO_MAX} times its size: a bomb, not a trace."
                        )
                    yield chunk
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip().splitlines()[0]
            raise InputError(f"{self.path}: cannot read it ({reason}); name a readable, whole file.") from None

    def _count(self, data: bytes) -> None:
        self._digest.update(data)
        self._raw += len(data)
        self._progress(len(data))


class _Counted:
    """The bytes of a file, shown to somebody as they pass."""

    closed = False

    def __init__(self, file: BinaryIO, seen: Callable[[bytes], None]) -> None:
        self._file, self._seen = file, seen

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._seen(data)
        return data

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        BadRowError: it is something else.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRowError(f"not JSON: {str(error).splitlines()[0]}") from None
    if not isinstance(value, dict):
        raise BadRowError("no JSON object")
    return value


def integer(row: Mapping[str, Any], *names: str, least: int = 0, most: int = TOKENS_MAX) -> int:
    """The whole number under the first of `names` that the row has.

    Raises:
        BadRowError: none is there, it is no whole number, or it lies outside least … most.
    """
    name, value = _first(row, names)
    number = value if type(value) is int else _decimal(row, name, value)
    if not least <= number <= most:
        raise BadRowError(f"{name}: {_shown(value)} is not from {least} to {most}")
    if number != int(number):
        raise BadRowError(f"{name}: {_shown(value)} is no whole number")
    return int(number)


def nanoseconds(row: Mapping[str, Any], *names: str, unit: int) -> int:
    """The time under the first of `names` that the row has, `unit` nanoseconds each, exactly as written in decimal.

    Raises:
        BadRowError: none is there, it is no number, negative, or beyond 146 years.
    """
    name, value = _first(row, names)
    number = _decimal(row, name, value) * unit
    if not 0 <= number < TIME_MAX:
        raise BadRowError(f"{name}: {_shown(value)} is negative or absurd")
    return int(number.to_integral_value())


def _decimal(row: Mapping[str, Any], name: str, value: object) -> Decimal:
    is_number = type(value) in (int, float) or (isinstance(row, Fields) and isinstance(value, str))
    text = str(value).strip() if is_number else ""
    if not _NUMBER.fullmatch(text):
        raise BadRowError(f"{name}: {_shown(value)} is no number, or an absurd one")
    return Decimal(text)


def _shown(value: object) -> str:
    """For a message; of what is nested the kind, as that may be too deep to be written."""
    return repr(str(value)[:40]) if isinstance(value, str | int | float) else f"a {type(value).__name__}"


def block_ids(row: dict[str, Any], name: str = "hash_ids", *, unique: bool = True) -> list[int]:
    """The list of block ids under `name`.

    Raises:
        BadRowError: it is no list of whole numbers from 0 to 2^63 - 1, or one occurs twice where each must be `unique`.
    """
    found = row.get(name)
    if not isinstance(found, list) or not all(type(one) is int for one in found):
        raise BadRowError(f"{name}: not a list of whole numbers")
    if found and not (min(found) >= 0 and max(found) < 2**63):
        raise BadRowError(f"{name}: an id is not from 0 to 2^63 - 1")
    if unique and len(set(found)) != len(found):
        raise BadRowError(f"{name}: an id occurs twice in one request")
    return found


def check_count(blocks: int, tokens: int, size: int, *, tail: bool) -> None:
    """That so many blocks of `size` hold so many tokens.

    Args:
        blocks: their number.
        tokens: of the prompt.
        size: tokens of a block.
        tail: a last, partial block must have an id; else it may.

    Raises:
        BadRowError: it is another number.
    """
    if blocks != -(-tokens // size) and (tail or blocks != tokens // size):
        raise BadRowError(f"hash_ids: {blocks} blocks of {size} for {tokens} tokens")


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    for name in names:
        if row.get(name) not in (None, ""):
            return name, row[name]
    raise BadRowError(f"{names[0]}: missing")


def _decoded(text: bytes, encoding: str) -> str:
    if b"\0" in text:
        raise BadRowError("NUL bytes: this is no text")
    try:
        return text.decode(encoding)
    except UnicodeDecodeError as error:
        raise BadRowError(f"not UTF-8: {error.reason}") from None


def _values(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error as error:
        raise BadRowError(f"not CSV: {error}") from None
