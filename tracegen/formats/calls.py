"""What readers of other labs' traces yield, and the files they read: rows in order, each good, refused or counted."""

import csv
import gzip
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa

from tracegen.schema import InputError

LINE_MAX: Final = 1 << 26  # bytes; the longest honest line (1 M blocks of 64-bit ids) is far below
RATIO_MAX: Final = 1000  # more text than this per compressed byte is a bomb, not a trace
TOKENS_MAX: Final = 1 << 28  # per request: over 100 times the longest context there is
_CHUNK: Final = 1 << 20

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


class Rows:
    """A text file of rows, plain, .gz or .zst: hashed while it is read, one line held at a time.

    Args:
        path: the file.
        skip_bad: count bad rows by reason instead of refusing the file.
        progress: called with the number of bytes read, as they are.

    Attributes:
        skipped: bad rows that were left out, by reason.
        left_out: rows that are good but not a request's, by what they are.
        line: the number of the line that was read last.
        block_tokens: of the file, where it says so itself.
    """

    def __init__(self, path: Path, *, skip_bad: bool = False, progress: Progress = lambda _: None) -> None:
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
        number, held = 0, b""
        for chunk in self._chunks():
            *whole, held = (held + chunk).split(b"\n")
            for line in whole:
                number += 1
                yield from self._text(number, line)
            if len(held) > LINE_MAX:
                raise InputError(
                    f"{self.path}, line {number + 1}: longer than {LINE_MAX >> 20} MiB; no trace has such lines."
                )
        yield from self._text(number + 1, held)

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line, value) of a file of JSON objects, one a line; what is none of these is a bad row."""
        for number, text in self.lines():
            with self.row(number):
                yield number, parse_object(text)

    def table(self, *required: str) -> Iterator[tuple[int, dict[str, str]]]:
        """(line, {column: text}) of a CSV file with a header line that names at least the columns `required`."""
        lines = self.lines()
        header = next(csv.reader([next(lines, (0, ""))[1]]), [])
        names = [name.strip().lstrip("\ufeff") for name in header]
        if missing := [name for name in required if name not in names]:
            raise InputError(
                f"{self.path}, line 1: no column {missing[0]} among {', '.join(names)[:200]!r}; name a file of this"
                " format, comma-separated, with its header line."
            )
        for number, text in lines:
            with self.row(number):
                values = next(csv.reader([text]), [])
                if len(values) != len(names):
                    raise BadRowError(f"number of columns: {len(values)} where the header has {len(names)}")
                yield number, dict(zip(names, values, strict=True))

    def _text(self, number: int, line: bytes) -> Iterator[tuple[int, str]]:
        self.line = number
        if not line.strip():
            return
        with self.row(number):
            if b"\0" in line:
                raise BadRowError("NUL bytes: this is no text")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise BadRowError(f"not UTF-8: {error.reason}") from None
            yield number, text.rstrip("\r")

    def _chunks(self) -> Iterator[bytes]:
        written = 0
        try:
            with self.path.open("rb") as file:
                opened: Any = _Counted(file, self._count)
                if self.path.suffix == ".gz":
                    opened = gzip.GzipFile(fileobj=opened)
                elif self.path.suffix == ".zst":
                    opened = pa.CompressedInputStream(pa.PythonFile(opened, "r"), "zstd")
                while chunk := opened.read(_CHUNK):
                    written += len(chunk)
                    if written > RATIO_MAX * max(self._raw, _CHUNK):
                        raise InputError(
                            f"{self.path} expands to over {RATIO_MAX} times its size: a bomb, not a trace."
                        )
                    yield chunk
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            reason = (getattr(error, "strerror", None) or str(error)).strip().splitlines()[0]
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


def integer(row: dict[str, Any], *names: str, least: int = 0, most: int = TOKENS_MAX) -> int:
    """The whole number under the first of `names` that the row has.

    Raises:
        BadRowError: none is there, it is no whole number, or it lies outside least … most.
    """
    name, value = _first(row, names)
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadRowError(f"{name}: {str(value)[:40]!r} is no whole number")
    if not least <= number <= most:
        raise BadRowError(f"{name}: {number} is not from {least} to {most}")
    return number


def nanoseconds(row: dict[str, Any], *names: str, unit: int) -> int:
    """The time under the first of `names` that the row has, `unit` nanoseconds each, exactly as written in decimal.

    Raises:
        BadRowError: none is there, it is no number, negative, or beyond 146 years.
    """
    name, value = _first(row, names)
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("nan")
    if isinstance(value, bool) or not number.is_finite():
        raise BadRowError(f"{name}: {str(value)[:40]!r} is no number")
    if not 0 <= number * unit < 2**62:
        raise BadRowError(f"{name}: {str(value)[:40]} is negative or absurd")
    return int((number * unit).to_integral_value())


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


def _first(row: dict[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    for name in names:
        if row.get(name) not in (None, ""):
            return name, row[name]
    raise BadRowError(f"{names[0]}: missing")
