"""The tidy table, JSON and Markdown contain the same numbers."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.report import export
from analysis.report.data import Gathered
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.summary import summarise


def expected(summary: dict[str, Any]) -> dict[str, float | None]:
    return {n: v if v is None else float(v) for n, v in summary.items() if v is None or isinstance(v, int | float)}


def test_the_tidy_table_contains_the_summaries(files: dict[str, Path], cases: dict[str, list[Path]]) -> None:
    table = pl.read_csv(files["csv"], infer_schema_length=None)
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
