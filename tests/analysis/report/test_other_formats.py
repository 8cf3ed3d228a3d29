"""Tidy tables, JSON, the workbook and Markdown contain the same numbers."""

import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from analysis.report import export
from analysis.report.data import Gathered
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.summary import summarise


def expected(summary: dict[str, Any]) -> dict[str, float | None]:
    return {n: v if v is None else float(v) for n, v in summary.items() if v is None or isinstance(v, int | float)}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tidy_tables_contain_the_summaries(files: dict[str, Path], cases: dict[str, list[Path]], form: str) -> None:
    table = pl.read_csv(files[form], infer_schema_length=None) if form == "csv" else pl.read_parquet(files[form])
    assert table.columns == ["run", "metric", "value", "unit"]
    for path in cases["trials"]:
        own = table.filter(pl.col("run") == path.name)
        assert dict(own.select("metric", "value").iter_rows()) == expected(summarise(path).to_json())
    units = dict(table.select("metric", "unit").iter_rows())
    assert units["nvme_read_gib_s"] == "GiB/s"
    assert units["e2e_p95_ms"] == "ms"
    assert units["elapsed_s"] == "s"
    assert not units["hit_rate"]


def test_json_contains_summaries_and_tables(files: dict[str, Path], cases: dict[str, list[Path]]) -> None:
    found = json.loads(files["json"].read_text())
    assert found["answer"].startswith("This machine served ")
    assert [card["label"] for card in found["cards"]][:2] == ["Throughput", "Reads from NVMe"]
    summaries = add_shared_doubts([summarise(path) for path in cases["trials"]])
    for summary, one in zip(summaries, found["runs"], strict=True):
        tables = one.pop("tables")
        assert one == summary.to_json()
        assert sum(row["gib"] for row in tables["traffic"] if row["tier"] == "nvme" and row["side"] == "read") == (
            pytest.approx(one["nvme_read_bytes"] / 2**30)
        )


def test_the_workbook_contains_metrics_and_doubts(files: dict[str, Path], cases: dict[str, list[Path]]) -> None:
    sheets = workbook(files["xlsx"])
    assert {"metrics", "doubts", "latency", "bandwidth_over_time"} <= set(sheets)
    head, *rows = sheets["metrics"]
    assert head == ["run", "metric", "value", "unit"]
    for path in cases["trials"]:
        values = {row[1]: row[2] if len(row) > 2 else None for row in rows if row[0] == path.name}
        for name, value in expected(summarise(path).to_json()).items():
            assert (values[name] in (None, "")) if value is None else math.isclose(float(values[name]), value), name
    assert sheets["doubts"][0][:2] == ["run", "kind"]
    kinds = {row[1] for row in sheets["doubts"][1:]}
    summaries = add_shared_doubts([summarise(path) for path in cases["trials"]])
    assert kinds == {doubt.kind for summary in summaries for doubt in summary.doubts}


def workbook(path: Path) -> dict[str, list[list[Any]]]:
    """Return the rows of each sheet, read from the file's XML."""
    import zipfile

    ns = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
    with zipfile.ZipFile(path) as book:
        shared = ["".join(t.text or "" for t in item.iter(f"{{{ns['m']}}}t")) for item in xml(book, "sharedStrings")]
        names = [sheet.get("name") for sheet in xml(book, "workbook").iter(f"{{{ns['m']}}}sheet")]
        found = {}
        for i, name in enumerate(names, 1):
            rows = []
            for row in xml(book, f"worksheets/sheet{i}").iter(f"{{{ns['m']}}}row"):
                cells: list[Any] = []
                for cell in row:
                    letters = re.match("[A-Z]+", cell.get("r", ""))
                    column = sum((ord(c) - 64) * 26**k for k, c in enumerate(reversed(letters[0]))) - 1  # type: ignore[index]
                    value = cell.findtext("m:v", None, ns)
                    cells += [None] * (column - len(cells))
                    cells.append(shared[int(value)] if cell.get("t") == "s" and value else value)
                rows.append(cells)
            found[str(name)] = rows
        return found


def xml(book: Any, name: str) -> ET.Element:
    return ET.fromstring(book.read(f"xl/{name}.xml"))


def test_markdown_is_short_and_escaped(files: dict[str, Path], gathered: dict[str, Gathered]) -> None:
    text = files["md"].read_text()
    assert text.startswith("## ")
    assert "\n**VALID** This machine served " in text
    assert "\n- Throughput: **" in text
    assert len(text.splitlines()) < 75
    assert "| throughput by the wall clock | tok/s |" in text
    nasty = export.as_markdown(gathered["systems"]).decode()
    assert "<img" not in nasty.replace("\\<", "")
    assert "\n**NOT VALID** Do not publish these figures: " in export.as_markdown(gathered["bad"]).decode()
