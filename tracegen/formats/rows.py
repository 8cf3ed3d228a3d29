"""Files of other labs, read row by row, and the requests that readers yield.

Every row is good, makes the import refuse the file, or is skipped and counted.
"""

import csv
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tracegen.errors import InputError, check_is_file
from tracegen.formats.values import BadRowError, TextFields, parse_object
from tracegen.progress import Advance

LINE_MAX: Final = 1 << 26  # bytes; the longest real line (1 M blocks of 64-bit ids) is far below
RATIO_MAX: Final = 1000  # more text than this per compressed byte is a decompression bomb
RATIO_FROM: Final = 1 << 16  # compressed bytes; shorter files may be more repetitive
DECODE_BATCH: Final = 32  # tokens generated per decode read
_CHUNK: Final = 1 << 20
_OWN_LOG: Final = "docs/your-own-log.md makes one of any log"


@dataclass(slots=True)
class Call:
    """One request as another lab recorded it."""

    time_ns: int  # arrival on the source's clock, in nanoseconds; with `delay_ns` the earliest arrival
    input_tokens: int  # tokens of the prompt, including the history
    output_tokens: int  # tokens generated
    blocks: list[int] | None = None  # ids of the prompt's blocks, in order; None if the source records only lengths
    session: Hashable = None  # name of the session; None if the request has no session
    user: Hashable = None  # name of the user; None if each session has a user of its own
    # pause after the end of the session's previous request, in nanoseconds; None if `time_ns` is the arrival
    delay_ns: int | None = None
    scope: Hashable = None  # name of the scope of the block ids; equal ids of different scopes are different blocks
    tokens: list[int] | None = None  # tokens of each block; None if they follow from the format's block size
    is_decode: bool = False  # decoding reads the blocks, not prefill


class Rows:
    """A text file of rows, plain, .gz or .zst; one line is held at a time.

    `advance` is called with the numbers of bytes read; a token takes nominally `token_ns`.
    """

    def __init__(
        self, path: Path, *, skip_bad: bool = False, advance: Advance = lambda _bytes: None, token_ns: int = 0
    ) -> None:
        self.path = path
        self.batch_ns = DECODE_BATCH * token_ns  # nominal time to generate the tokens of a decode read
        self.skipped = Counter[str]()  # bad rows, by kind
        self.left_out = Counter[str]()  # good rows that are not requests, by kind
        self.line = 0  # read last
        self.block_tokens: int | None = None  # if the file says so itself
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
                if error.kind == "not JSON":  # most likely a file of another format
                    remedy += f"; {_OWN_LOG}"
                raise self._refusal(str(error), remedy, line) from None
            self.skipped[error.kind] += 1

    def _refusal(self, problem: str, remedy: str, line: int) -> InputError:
        return InputError(problem, remedy, subject=f"{self.path}, line {line}")

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (number from 1, bytes without the end) of every line that is not blank.

        Raises:
            InputError: the file cannot be read or decompressed, is a decompression bomb, or has an
                endless line.
        """
        held = bytearray()
        number = 0
        for chunk in chain(self._chunks(), [b"\n"]):
            if b"\n" not in chunk:
                held += chunk
                if len(held) > LINE_MAX:
                    problem = f"longer than {LINE_MAX >> 20} MiB"
                    raise self._refusal(problem, "name a file of this format", number + 1)
                continue
            *lines, rest = bytes(held + chunk).split(b"\n")
            held = bytearray(rest)
            for line in lines:
                number += 1
                if line.strip():
                    self.line = number
                    yield number, line

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
        for chunk in self._chunks():
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
            raise self._refusal(str(error), "name a file of this format", number) from None
        if missing := [name for name in required if name not in names]:
            problem = f"no column {missing[0]} among {', '.join(names)[:200]!r}"
            remedy = f"name a file of this format, comma-separated, with its header line; {_OWN_LOG}"
            raise self._refusal(problem, remedy, number)
        for number, line in lines:
            with self.row(number):
                values = _split_csv(line)
                if len(values) != len(names):
                    reason = f"{len(values)}, but the header has {len(names)}"
                    raise BadRowError("number of columns", reason)
                yield number, TextFields(zip(names, values, strict=True))

    def _chunks(self) -> Iterator[bytes]:
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
