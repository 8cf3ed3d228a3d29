"""TOML files by types: each wrong value is refused with its place, each unknown key with the nearest one."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from tracegen.errors import InputError
from tracegen.typed_files import convert, load_toml, parse_toml


@dataclass(frozen=True)
class Part:
    size: Annotated[int, Meta(ge=1, le=127)]
    share: Annotated[float, Meta(ge=0, lt=1e9)] = 0


@dataclass(frozen=True)
class Whole:
    part: Part
    named: Mapping[str, Part] | None = None
    word: Literal["one", "two", "three"] = "one"
    pair: tuple[int, int] = (1, 2)
    many: tuple[Annotated[float, Meta(gt=0)], ...] = ()
    flag: bool = False
    text: str = ""


def test_what_fits_its_types_is_returned() -> None:
    text = "pair = [3, 4]\nmany = [1, 2.5]\n[part]\nsize = 3\nshare = 1\n[named.a]\nsize = 4"
    made = convert(parse_toml(text, "x.toml"), Whole)
    assert made == Whole(Part(3, 1), {"a": Part(4)}, pair=(3, 4), many=(1.0, 2.5))


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        ("[part]\nsize = 0", "part.size is 0", "a whole number from 1 to 127"),
        ("[part]\nsize = 0x" + "f" * 5000, "part.size is a number of thousands of digits", "a whole number"),
        ("[part]\nsize = 1\nshare = nan", "part.share is nan", "a number from 0"),
        ("[part]\nshare = 1", "part.size is missing", "a whole number from 1"),
        ("[part]\nsize = 1\nshar = 2", "part.shar is unknown", "did you mean part.share?"),
        ("[part]\nsize = 1\n[named.a]\nsize = 1\n[named.b]\nsize = 0", "named.b.size is 0", "a whole number"),
        ('word = "four"', "word is 'four'", "one, three or two"),
        ("pair = [1]", "pair is [1]", "a list of 2"),
        ("many = [1, 0]", "many[1] is 0", "a number above 0"),
        ("flag = 1", "flag is 1", "true or false"),
        ("zzz = 1", "zzz is unknown", "part, named"),
        ("part = 1", "part is 1", "a table"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(text: str, problem: str, remedy: str) -> None:
    content = {"part": {"size": 1}} | parse_toml(text, "x.toml")
    with pytest.raises(InputError) as refused:
        convert(content, Whole, "x.toml", "profile")
    assert (refused.value.problem, refused.value.subject, refused.value.setting) == (problem, "x.toml", "profile")
    assert remedy in refused.value.remedy


@pytest.mark.parametrize("text", ["x = ", "x = " + "[" * 100_000, "x = 1" + "0" * 5_000])
def test_what_is_not_toml_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not TOML"):
        parse_toml(text, "x.toml")


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.toml").write_bytes(b" " * ((1 << 20) + 1))
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    names = {"pipe": "pipe", "large.toml": "1 MiB", "bytes.toml": "not text", "none.toml": "No such", ".": "folder"}
    for name, reason in names.items():
        with pytest.raises(InputError, match=reason) as refused:
            load_toml(tmp_path / name, "name a profile", "profile")
        assert (refused.value.subject, refused.value.remedy) == (tmp_path / name, "name a profile")
    with pytest.raises(InputError, match="device"):
        load_toml(Path("/dev/zero"), "name a profile")
