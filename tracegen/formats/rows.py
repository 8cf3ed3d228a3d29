"""Files of other labs, read row by row; their values, parsed within limits; the requests that readers yield.

Every row is good, makes the import refuse the file, or is skipped and counted.
"""

import csv
import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import pyarrow as pa

from tracegen.errors import InputError, check_is_file, quote_value
from tracegen.progress import Advance

T = TypeVar("T")
LINE_MAX: Final = 1 << 26  # bytes; the longest real line (1 M blocks of 64-bit ids) is far below
RATIO_MAX: Final = 1000  # more text than this per compressed byte is a decompression bomb
RATIO_FROM: Final = 1 << 16  # compressed bytes; shorter files may be more repetitive
DECODE_BATCH: Final = 32  # tokens generated per decode read
_CHUNK: Final = 1 << 20
_CUT: Final = ("not JSON", "number of columns", "not CSV")  # what a row is whose end is missing
_OWN_LOG: Final = "csv and jsonl with `columns` read any log: docs/your-own-log.md"
_DATE: Final = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00Z")
_UNITS: Final = {1: "ns", 10**6: "ms", 10**9: "s"}
TIME_MAX: Final = 1 << 62  # nanoseconds, 146 years: sums of two times stay within 64 bits
BlockIds = list[Annotated[int, msgspec.Meta(ge=0)]]
TOKENS_MAX: Final = 1 << 28  # per request: over 100 times the longest context there is
# Exponents and digits are limited, so that no arithmetic on a number can overflow or take long.
_NUMBER: Final = re.compile(r"[+-]?\d{1,40}(\.\d{0,40})?([eE][+-]?\d{1,3})?", re.ASCII)


class BadRowError(ValueError):
    """A row that is not of its format; `kind` is the field or the fault, by which skipped rows are counted."""

    def __init__(self, kind: str, reason: str = "") -> None:
        super().__init__(f"{kind}: {reason}" if reason else kind)
        self.kind = kind


class TextFields(dict[str, str]):
    """A row of a table, whose numbers are text; in JSON a number in quotes is not a number."""


Row = Mapping[str, Any]
"""A row: a JSON object, or TextFields of a table."""


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRowError("not JSON", str(error).splitlines()[0]) from None
    if not isinstance(value, dict):
        raise BadRowError("no JSON object")
    return value


def parse_integer(row: Row, *names: str, least: int = 0, most: int = TOKENS_MAX) -> int:
    """Parse the whole number under the first of `names` that the row has.

    A BadRowError says that the row lacks all of them, or that it is not a whole number from `least` to `most`.
    """
    name, value = _first_value(row, names)
    number = value if type(value) is int else _parse_decimal(row, name, value)
    if not least <= number <= most:
        raise BadRowError(name, f"{quote_value(value)} is not from {least} to {most}")
    if number != int(number):
        raise BadRowError(name, f"{quote_value(value)} is not a whole number")
    return int(number)


def parse_nanoseconds(row: Row, *names: str, unit: int) -> int:
    """Parse the time under the first of `names` that the row has; `unit` is in ns.

    A BadRowError says that the row lacks all of them, or that it is no number, negative, or 146 years or more.
    """
    name, value = _first_value(row, names)
    number = _parse_decimal(row, name, value) * unit
    if not 0 <= number < TIME_MAX:
        raise BadRowError(name, f"{quote_value(value)} is negative or too large for a time in {_UNITS[unit]}")
    return int(number.to_integral_value())


def parse_time(row: Row, name: str, unit: int) -> int:
    """Parse a time, a number of `unit` ns from any zero or a date and time; return it in ns, of a date since 1970.

    A BadRowError says that it is neither, negative or before 1970, or 146 years or more.
    """
    match = _DATE.fullmatch(str(row.get(name)).strip())
    if not match:
        return parse_nanoseconds(row, name, unit=unit)
    with suppress(ValueError):
        since = datetime.fromisoformat(match[1] + (match[3] or "Z")) - _EPOCH
        # Of the fraction datetime would drop what is below a microsecond.
        time = (since.days * 86400 + since.seconds) * 10**9 + int((match[2] or "0").ljust(9, "0"))
        if 0 <= time < TIME_MAX:
            return time
    raise BadRowError(name, f"{match[0]!r} is no date and time since 1970, or too late for a trace")


def parse_name(row: Row, *names: str) -> str | int | None:
    """Return the name of a session under the first of `names` that the row has, None if it has none."""
    value = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    if value is None or type(value) is str or type(value) is int:
        return value
    raise BadRowError(names[0], "neither text nor a number")


def parse_block_ids(row: Row, name: str = "hash_ids", *, unique: bool = True) -> list[int]:
    """Return the list of block ids under `name`.

    A BadRowError says that it is no list of whole numbers of 64 bits, or, with `unique`, an id occurs twice.
    """
    ids = parse_typed(row, name, BlockIds)
    if max(ids, default=0) >= 2**64:
        raise BadRowError(name, "an id has more than 64 bits")
    if unique and len(set(ids)) != len(ids):
        raise BadRowError(name, "an id occurs twice in one request")
    return ids


def parse_typed(row: Row, name: str, kind: type[T]) -> T:
    """Return the list or nested object under `name` as a type; a BadRowError says how it differs."""
    try:
        return msgspec.convert(row.get(name), kind)
    except msgspec.ValidationError as error:
        raise BadRowError(name, str(error)) from None


def check_block_count(blocks: int, tokens: int, size: int, *, tail: bool) -> None:
    """Refuse a wrong number of blocks of `size` for a prompt; a partial last one may, with `tail` must, have an id."""
    if blocks != -(-tokens // size) and (tail or blocks != tokens // size):
        raise BadRowError("hash_ids", f"{blocks} blocks of {size} for {tokens} tokens")


def _parse_decimal(row: Row, name: str, value: object) -> Decimal:
    is_text = isinstance(row, TextFields) and isinstance(value, str)
    text = str(value).strip() if type(value) in (int, float) or is_text else ""
    if not _NUMBER.fullmatch(text):
        raise BadRowError(name, f"{quote_value(value)} is not a number, or has too many digits")
    return Decimal(text)


def _first_value(row: Row, names: tuple[str, ...]) -> tuple[str, Any]:
    for name in names:
        if row.get(name) not in (None, ""):
            return name, row[name]
    raise BadRowError(names[0], "missing")


@dataclass(slots=True)
class Call:
    """One request as another lab recorded it."""

    time_ns: int  # arrival on the source's clock, in nanoseconds; with `delay_ns` the earliest arrival
    input_tokens: int  # tokens of the prompt, including the history
    output_tokens: int  # tokens generated
    # ids of the prompt's blocks, in order: numbers, hashes, any names; None if the source records only lengths
    blocks: Sequence[Hashable] | None = None
    session: Hashable = None  # name of the session; None if the request has no session
    user: Hashable = None  # name of the user; None if each session has a user of its own
    # pause after the end of the user's previous request, in nanoseconds; None if `time_ns` is the arrival
    delay_ns: int | None = None
    scope: Hashable = None  # name of the scope of the block ids; equal ids of different scopes are different blocks
    tokens: list[int] | None = None  # tokens of each block; None if they follow from the format's block size
    is_decode: bool = False  # decoding reads the blocks, not prefill


def follow(requests: Iterable[tuple[Call, int]]) -> Iterator[Call]:
    """Yield calls, given by start with their ends in ns, with the pause since their user's last ended, at least 0."""
    ends: dict[Hashable, int] = {}
    for call, end_ns in requests:
        if call.user is not None:
            last = ends.get(call.user)
            call.delay_ns = None if last is None else max(0, call.time_ns - last)
            ends[call.user] = max(end_ns, last or 0)
        yield call


class Rows:
    """A text file of rows, plain, .gz or .zst; one line is held at a time.

    `advance` is called with the numbers of bytes read; a token takes nominally `token_ns`;
    `columns` says which of the file's mean what, if its format does not.
    """

    def __init__(
        self,
        path: Path,
        *,
        skip_bad: bool = False,
        advance: Advance = lambda _bytes: None,
        token_ns: int = 0,
        columns: str = "",
    ) -> None:
        self.path = path
        self.columns = columns
        self.batch_ns = DECODE_BATCH * token_ns  # nominal time to generate the tokens of a decode read
        self.skipped = Counter[str]()  # bad rows, by kind
        self.left_out = Counter[str]()  # good rows that are not requests, by kind
        self.line = 0  # read last
        self.unit = "line"  # what is numbered
        self.block_tokens: int | None = None  # if the file says so itself
        self._is_cut = False  # whether the line read last has no end
        self._skip_bad = skip_bad
        self._advance = advance

    @contextmanager
    def row(self, line: int) -> Iterator[None]:
        """Let a BadRowError inside refuse the file, or skip and count the row.

        Raises:
            InputError: a row is bad and bad rows are not skipped; names the line.
        """
        try:
            yield
        except BadRowError as error:
            if not self._skip_bad:
                remedy = "correct it, or leave bad rows out with `skip_bad`"
                if self._is_cut and error.kind in _CUT:
                    remedy = "the file ends within this row: copy it again, or leave the row out with `skip_bad`"
                elif error.kind == "not JSON":  # most likely a file of another format
                    remedy += f"; {_OWN_LOG}"
                raise self.refuse(str(error), remedy, line) from None
            self.skipped[error.kind] += 1

    def refuse(self, problem: str, remedy: str, line: int | None = None) -> InputError:
        """Make the error of a file that no skipped row would mend, such as one whose recorder dropped events."""
        return InputError(problem, remedy, subject=f"{self.path}, {self.unit} {line or self.line}")

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (number from 1, bytes without the end) of every line that is not blank.

        Raises:
            InputError: the file cannot be read or decompressed, is a decompression bomb, or has an
                endless line.
        """
        held = bytearray()
        number = 0
        for part in chain(self.chunks(), [None]):
            self._is_cut = part is None and bool(held)
            chunk = part or b"\n"
            if b"\n" not in chunk:
                held += chunk
                if len(held) > LINE_MAX:
                    problem = f"longer than {LINE_MAX >> 20} MiB"
                    raise self.refuse(problem, "name a file of this format", number + 1)
                continue
            *lines, rest = bytes(held + chunk).split(b"\n")
            held = bytearray(rest)
            for line in lines:
                number += 1
                if line.strip():
                    self.line = number
                    yield number, line

    def take_block_tokens(self, name: str, tokens: int) -> None:
        """Take the tokens of a block from the field `name`; a BadRowError says that rows before had others."""
        if tokens < 1 or self.block_tokens not in (None, tokens):
            raise BadRowError(name, f"{tokens} is below 1, or is not {self.block_tokens} as before")
        self.block_tokens = tokens

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (line, object) of a file of JSON objects, one a line; other lines are bad rows."""
        for number, line in self.lines():
            with self.row(number):
                yield number, parse_object(_decode(line))

    def text(self, most: int) -> str:
        """Return the whole file as text.

        Raises:
            BadRowError: the file is longer than `most` bytes, or is not text.
            InputError: as `table`.
        """
        self.line = 1
        chunks = []
        size = 0
        for chunk in self.chunks():
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                raise BadRowError("too long", f"over {most >> 20} MiB in one document")
        return _decode(b"".join(chunks))

    def table(self, *required: str) -> Iterator[tuple[int, TextFields]]:
        """Yield (line, fields) of a CSV file whose header names at least the columns `required`.

        Raises:
            InputError: the file cannot be read or decompressed, is a decompression bomb, has an
                endless line or no such header, or a row is bad and bad rows are not skipped.
        """
        lines = self.lines()
        number, header = next(lines, (1, b""))
        try:
            names = [name.strip() for name in _split_csv(header)]
        except BadRowError as error:
            raise self.refuse(str(error), "name a file of this format", number) from None
        if missing := [name for name in required if name not in names]:
            problem = f"no column {missing[0]} among {', '.join(names)[:200]!r}"
            remedy = f"name a file of this format, comma-separated, with its header line; {_OWN_LOG}"
            raise self.refuse(problem, remedy, number)
        for number, line in lines:
            with self.row(number):
                values = _split_csv(line)
                if len(values) != len(names):
                    reason = f"{len(values)}, but the header has {len(names)}"
                    raise BadRowError("number of columns", reason)
                yield number, TextFields(zip(names, values, strict=True))

    def chunks(self) -> Iterator[bytes]:
        """Yield the decompressed bytes of the file."""
        check_is_file(self.path, "a file of this format")
        codec = {".gz": "gzip", ".zst": "zstd"}.get(self.path.suffix)
        decompressed = compressed = 0  # bytes
        try:
            with self.path.open("rb") as file:
                stream: Any = pa.CompressedInputStream(file, codec) if codec else file
                while chunk := stream.read(_CHUNK):
                    decompressed += len(chunk)
                    self._advance(file.tell() - compressed)
                    compressed = file.tell()
                    if decompressed > RATIO_MAX * max(compressed, RATIO_FROM):
                        problem = f"{self.path} expands to over {RATIO_MAX} times its size"
                        raise InputError(f"{problem}: a decompression bomb", "name a trace")
                    yield chunk
        except (OSError, pa.ArrowException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            problem = f"cannot read it ({reason.strip().splitlines()[0]})"
            remedy = "name a readable, complete file"
            raise InputError(problem, remedy, subject=self.path) from None


def _decode(text: bytes) -> str:
    if b"\0" in text:
        raise BadRowError("NUL bytes", "this is not text")
    try:
        return text.removeprefix(BOM_UTF8).removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise BadRowError("not UTF-8", error.reason) from None


def _split_csv(line: bytes) -> list[str]:
    try:
        return next(csv.reader([_decode(line)]), [])
    except csv.Error as error:
        raise BadRowError("not CSV", str(error)) from None
