"""Answers as text, Markdown, JSON and CSV."""

import json
import os
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tracegen.console.answers import AnswerOutput
from tracegen.errors import InputError
from views.answer import Answer, Column, DoubtLine, Figure, Table
from views.formats import FORMATS
from views.numbers import format_alike, format_value

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
        (format_value(1536, "bytes"), "1.5 KiB"),
        (format_value(512, "bytes"), "512 bytes"),
        (format_value(0.0042, "s"), "4.2 ms"),
        (format_value(12.0, "s"), "12 s"),
        (format_value(0.0, "bytes"), "0 bytes"),
        (format_value(-0.031, "change"), "-3.1%"),
        (format_alike([1.0, 20.0, None]), ["1", "20", "–"]),
        (format_alike([1.5, 123.25]), ["1.5", "123.2"]),
    ],
)
def test_numbers_are_short_and_have_their_unit(shown: object, wanted: object) -> None:
    assert shown == wanted


@pytest.mark.parametrize(
    ("place", "setting"),
    [("answer.docx", "output"), ("", "output"), ("none/a.md", "output"), ("old.md", "output"), ("run/a.md", "output"),
     ("old.md", "charts"), ("run/charts", "charts"), ("none/charts", "charts"), ("kept", "charts")],
)  # fmt: skip
def test_places_that_cannot_be_written_are_refused_before_work(tmp_path: Path, place: str, setting: str) -> None:
    for folder in ("run", "kept"):
        (tmp_path / folder).mkdir()
    for file in ("old.md", "run/run.json", "kept/notes.txt"):
        (tmp_path / file).touch()
    path = tmp_path / place
    output = AnswerOutput(file=path) if setting == "output" else AnswerOutput(charts=path)
    with pytest.raises(InputError) as refused:
        output.check()
    assert (refused.value.subject, refused.value.setting) == (path, setting)


def test_force_replaces_files_but_neither_folders_pipes_nor_runs(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for file in ("run/run.json", "old.md"):
        (tmp_path / file).touch()
    (tmp_path / "link.md").symlink_to("old.md")
    AnswerOutput(tmp_path / "link.md", tmp_path, force=True).check()
    AnswerOutput(tmp_path / "link.md", force=True).show(ANSWER, form="")
    assert (tmp_path / "old.md").read_text() == FORMATS["md"](ANSWER)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.md", "old.md", "run"]
    os.mkfifo(tmp_path / "pipe.md")
    outputs = (AnswerOutput(tmp_path), AnswerOutput(tmp_path / "pipe.md"), AnswerOutput(None, tmp_path / "run"))
    for taken in (replace(output, force=True) for output in outputs):
        with pytest.raises(InputError):
            taken.check()
