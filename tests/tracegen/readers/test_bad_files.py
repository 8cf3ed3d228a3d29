"""Files that are missing, empty, cut, compressed or endless."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from tests.tracegen.readers.reading import GOOD, HEADERS, LINES, conversation, jsonl, read, turn
from tracegen.errors import InputError
from tracegen.formats import IMPORTS
from tracegen.formats import rows as calls
from tracegen.formats.rows import Rows


@pytest.mark.parametrize("format_", IMPORTS)
def test_no_file_to_read(tmp_path: Path, format_: str) -> None:
    with pytest.raises(InputError, match=rf"{tmp_path} is a folder, not a file; name a file of this format"):
        read(format_, tmp_path)
    with pytest.raises(InputError, match=r"gone: cannot read it \(No such file or directory\)"):
        read(format_, tmp_path / "gone")


@pytest.mark.parametrize("format_", IMPORTS)
@pytest.mark.parametrize("content", ["", "\n \n\r\n", "\ufeff"])
def test_an_empty_file(file: Path, format_: str, content: str) -> None:
    if format_ not in (*HEADERS, "weka"):  # of rows it has none: what that means is for the import to say
        assert read(format_, file, content, skip_bad=True) == []
        return
    with pytest.raises(InputError, match=r"no column|not JSON"):
        read(format_, file, content)


@pytest.mark.parametrize("format_", HEADERS)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_table_without_its_header(file: Path, format_: str, skip_bad: bool) -> None:
    header, line = HEADERS[format_], LINES[format_]
    for content in (line, header.replace(",", ";"), header.replace(",", "\t"), header.swapcase(), header[1:]):
        with pytest.raises(InputError, match=rf"{file}, line 1: no column \w+.*; name a file of this format"):
            read(format_, file, f"{content}\n{line}\n", skip_bad=skip_bad)
    for content in ("a\rb\n" + line, '"' + "x" * 200_000 + "\n" + line):
        with pytest.raises(InputError, match=rf"{file}, line 1: not CSV: .*; name a file of this format"):
            read(format_, file, content, skip_bad=skip_bad)
    assert len(read(format_, file, "\ufeff" + header.replace(",", " , ") + f"\r\n\r\n{line}\r\n")) == 1


def compressed(path: Path, content: bytes, suffix: str) -> Path:
    path = path.with_suffix(suffix)
    if suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    else:
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as out:
            out.write(content)
    return path


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files(file: Path, suffix: str) -> None:
    """Files may be concatenated."""
    row = jsonl(GOOD["mooncake"]).encode()
    path = compressed(file, row, suffix)
    path.write_bytes(path.read_bytes() * 2)
    assert len(read("mooncake", path)) == 2


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("format_", ["mooncake", "weka"])
def test_truncated_or_uncompressed_files_are_refused(file: Path, format_: str, suffix: str) -> None:
    lines = {"mooncake": jsonl(GOOD["mooncake"]), "weka": conversation(turn(0, 1))}
    whole = compressed(file, lines[format_].encode(), suffix).read_bytes()
    for content in (whole[:3], whole[: len(whole) // 2], whole[:-1], whole + b"junk", lines[format_].encode()):
        for skip_bad in (False, True):
            with pytest.raises(InputError, match=r"cannot read it \(.+\); name a readable, complete file"):
                read(format_, file.with_suffix(suffix), content, skip_bad=skip_bad)


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("format_", ["mooncake", "weka"])
def test_decompression_bombs_are_refused(tmp_path: Path, format_: str, skip_bad: bool) -> None:
    """gzip reaches a ratio of 1,029 at most; zstd bombs are far smaller."""
    path = tmp_path / "bomb.zst"
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as out:
        for _ in range(80):
            out.write(b"\n" * (1 << 20))
    assert path.stat().st_size < 1 << 16
    with pytest.raises(InputError, match=rf"{path} expands to over 1000 times its size: a decompression bomb"):
        read(format_, path, skip_bad=skip_bad)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_an_endless_line_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch, skip_bad: bool) -> None:
    """The file is sparse and takes no space."""
    monkeypatch.setattr(calls, "LINE_MAX", 4 << 20)
    with file.open("wb") as out:
        out.write(jsonl(GOOD["mooncake"]).encode())
        out.truncate(100 << 20)
    with pytest.raises(InputError, match=rf"{file}, line 2: longer than 4 MiB; name a file of this format"):
        read("mooncake", file, skip_bad=skip_bad)
    file.write_bytes(b" " * (6 << 20))
    with pytest.raises(InputError, match=rf"{file}, line 1: longer than 4 MiB"):
        read("azure", file, skip_bad=skip_bad)


def test_a_file_that_ends_within_a_row_says_so(file: Path) -> None:
    for format_, rows in (("mooncake", jsonl(GOOD["mooncake"])), ("azure", f"{HEADERS['azure']}\n{LINES['azure']}\n")):
        whole, end = rows + rows.splitlines()[-1], len(rows.splitlines()) + 1
        with pytest.raises(
            InputError, match=rf"line {end}: .*; the file ends within this row: copy it again, or leave"
        ):
            read(format_, file, whole[:-20])
        found = read(format_, file, rows)
        assert (read(format_, file, whole[:-20], skip_bad=True), read(format_, file, whole)) == (found, found * 2)


def test_lines_are_numbered_across_blank_ones(file: Path) -> None:
    """A whole chunk of the file may be blank."""
    blank = b" \n" * (3 << 19)
    file.write_bytes(b"a\n" + blank + b"  b\r\n\n c")
    assert list(Rows(file).lines()) == [(1, b"a"), ((3 << 19) + 2, b"  b\r"), ((3 << 19) + 4, b" c")]
