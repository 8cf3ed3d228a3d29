"""`analysis report sweep.parquet`: a page, other formats, and wrong usage."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from analysis.cli import main
from tests.analysis.sweeps.sweeps import cell, write

NASTY = "</title><script>alert(1)</script>"
HITS = (100, 500, 575, 600)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cells = [
        cell(4 * at + step, 2.0**step, hits - 50 * at, arrangement=name, write_bytes_nvme=hits << 20)
        for at, name in enumerate(("waterfall", NASTY))
        for step, hits in enumerate(HITS)
    ]
    return write(tmp_path_factory.mktemp("sweep") / "sweep.parquet", cells)


def report(*words: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, words)])


def test_the_page_has_every_chart(sweep: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = report(sweep, "-o", page)
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert "<script" not in text
    charts = [figure.get("id") for figure in ET.fromstring(text).findall(".//figure")]
    assert charts == ["cpu_mem_gb-tokens", "front"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["SWEEP", "SWEEP", "--format", "md"], "a sweep is reported alone; name only this file"),
        (["SWEEP", "--format", "md", "--baseline", "x"], "--baseline: says nothing about a sweep"),
        (["SWEEP", "--format", "md", "--qos-ms", "batch=3"], "--qos-ms: says nothing about a sweep"),
        (["SWEEP", "--force", "-o", "SWEEP"], "its suffix names no format"),
        (["OTHER", "--format", "md"], "is not a table that `replayer simulate` wrote"),
    ],
)
def test_wrong_usage_ends_in_one_sentence(sweep: Path, tmp_path: Path, words: list[str], expected: str) -> None:
    (tmp_path / "other").write_text("text")
    paths = {"SWEEP": sweep, "OTHER": tmp_path / "other"}
    done = report(*(paths.get(word, word) for word in words))
    assert done.exit_code == 2
    assert expected in done.output
    assert len(done.output.strip().splitlines()) == 1
