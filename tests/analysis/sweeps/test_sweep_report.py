"""`analysis report sweep.parquet`: a page, other formats, and wrong usage."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import polars as pl
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
    assert charts == ["cpu_mem_gb-tokens", "front", "cpu_mem_gb-ops", "cpu_mem_gb-requests"]


def test_other_formats_have_the_cells(sweep: Path, tmp_path: Path) -> None:
    content = json.loads(report(sweep, "--format", "json").stdout)
    assert [one["cell"] for one in content["cells"]] == list(range(2 * len(HITS)))
    assert [one["cell"] for one in content["front"]] == [0, 1, 2, 3]
    assert content["sentence"].startswith(
        "With waterfall, 1 GiB of DRAM hits 10.0% of prompt tokens, 2 GiB of DRAM 50.0%"
    )
    assert content["figures"][0]["value"] == 0.6
    assert content["simulation"]["trace"] == "made.parquet"
    out = tmp_path / "cells.csv"
    assert report(sweep, "-o", out).exit_code == 0
    assert pl.read_csv(out)["hit rate"].to_list() == pl.read_parquet(sweep)["hit_rate_tokens"].to_list()
    lines = report(sweep, "--format", "md").stdout.splitlines()
    assert sum(line.startswith("| ") for line in lines) == 1 + 2 * len(HITS) + 1 + 2
    assert "<script" not in "".join(lines).replace("\\<", "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["SWEEP", "SWEEP", "--format", "md"], "a sweep is reported alone; name only this file"),
        (["SWEEP", "--format", "md", "--baseline", "x"], "--baseline: says nothing about a sweep"),
        (["SWEEP", "--format", "md", "--qos-ms", "batch=3"], "--qos-ms: says nothing about a sweep"),
        (["SWEEP", "--format", "csv", "--force", "-o", "SWEEP"], "which must not change"),
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
