"""Answers as text, Markdown, JSON and CSV."""

import json

import polars as pl
import pytest

from tracegen.errors import InputError
from views.answer import Answer, Column, DoubtLine, Figure, Table
from views.formats import FORMATS, choose_format
from views.numbers import format_alike, format_bytes, format_time, format_value

ANSWER = Answer(
    title="old against new",
    sentence="New serves more.",
    subject=("a drive",),
    state="VALID",
    figures=(
        Figure(
            name="rate",
            label="Throughput",
            value=1234.5,
            unit="tok/s",
            low=1200.0,
            high=1260.0,
            note="3 trials",
        ),
        Figure(name="hits", label="Hits", value=None, unit="share"),
        Figure(name="wait", label="TTFT", value=324.0, unit="s", is_more_than=True),
    ),
    tables=(
        Table(
            title="Sizes",
            columns=(Column("policy"), Column("hit rate", "share"), Column("GiB")),
            rows=(("lru", 0.5, 1.25), ("=evil|", None, 10.0)),
            marked=frozenset({1}),
        ),
        Table(title="Folded", columns=(Column("a"),), rows=(("b",),), is_folded=True),
    ),
    doubts=(DoubtLine(headline="short run", text="3 s", advice="run for longer", invalidates=True),),
    next=("analysis report a b",),
    data={"runs": 2},
)


def test_text_shows_figures_tables_doubts_and_the_sentence() -> None:
    lines = FORMATS["txt"](ANSWER).splitlines()
    assert lines[0] == "old against new"
    assert "  Throughput   1,234 tok/s  95% interval 1,200 to 1,260, 3 trials" in lines
    assert "  Hits        not measured" in lines
    assert "  TTFT             > 324 s" in lines
    assert "  * =evil|         –  10.0" in lines
    assert lines[-2:] == ["VALID: New serves more.", "next: analysis report a b"]
    assert not any("Folded" in line for line in lines)


def test_markdown_escapes_what_would_be_markup() -> None:
    shown = FORMATS["md"](ANSWER)
    assert "| =evil\\| | – | 10.0 |" in shown
    assert "- **Invalidates**: short run: 3 s. *run for longer.*" in shown


def test_json_has_raw_numbers_and_the_data() -> None:
    content = json.loads(FORMATS["json"](ANSWER))
    assert content["figures"][0]["value"] == 1234.5
    assert content["tables"][0]["rows"][0] == {"policy": "lru", "hit rate": 0.5, "GiB": 1.25}
    assert content["runs"] == 2


def test_csv_holds_no_formulas() -> None:
    rows = pl.read_csv(FORMATS["csv"](ANSWER).encode()).rows()
    assert rows == [("lru", 0.5, 1.25), ("'=evil|", None, 10.0)]


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (format_value(0.123456, "share"), "12.3%"),
        (format_value(1.384, "ratio"), "1.38 ×"),
        (format_bytes(1536), "1.5 KiB"),
        (format_bytes(512), "512 bytes"),
        (format_time(0.0042), "4.2 ms"),
        (format_value(12.0, "s"), "12 s"),
        (format_alike([1.0, 20.0, None]), ["1", "20", "–"]),
        (format_alike([1.5, 123.25]), ["1.5", "123.2"]),
    ],
)
def test_numbers_are_short_and_have_their_unit(shown: object, wanted: object) -> None:
    assert shown == wanted


def test_a_file_without_a_known_suffix_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="suffix"):
        choose_format(None, tmp_path / "answer.docx", force=False)
    assert choose_format(None, tmp_path / "answer.md", force=False) == "md"


@pytest.mark.parametrize("place", ["", "run/answer.md", "old.md", "none/answer.md"])
def test_a_file_that_cannot_be_written_is_refused(tmp_path, place: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "old.md").touch()
    with pytest.raises(InputError):
        choose_format("md", tmp_path / place, [tmp_path / "run"], force=False)
