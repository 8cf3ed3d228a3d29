"""Runs that reports show, and readers of the pages."""

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl

NASTY = "<img src=x onerror=alert(1)>&\"'"
CASES = ("one", "trials", "systems", "bad")
WIDTHS = (1280, 390)


def altered(source: Path, place: Path, **conditions: Any) -> Path:
    """Copy a run and change its conditions."""
    shutil.copytree(source, place)
    info = json.loads((place / "run.json").read_text())
    info["conditions"] |= conditions
    (place / "run.json").write_text(json.dumps(info))
    return place


def slower(source: Path, place: Path) -> Path:
    """Copy a run as a trial in which all moves took 10% longer, and the kernel's counters were read until later."""
    shutil.copytree(source, place)
    for part in (place / "moves").iterdir():
        log = pl.read_parquet(part)
        read, write = (pl.col(name) // 10 for name in ("read_ns", "write_ns"))
        log = log.with_columns(pl.col("end_ns") + read + write, pl.col("read_ns") + read, pl.col("write_ns") + write)
        log.with_columns(pl.col("move").cast(pl.Categorical)).write_parquet(part)
    samples = pl.read_parquet(place / "device.parquet")
    later = pl.when(pl.col("time_ns") == pl.col("time_ns").max()).then(100_000_000).otherwise(0)
    samples.with_columns(pl.col("time_ns", "interval_ns") + later).write_parquet(place / "device.parquet")
    return place


def tree(page: Path) -> ET.Element:
    """Parse the page as XML; elements that are not closed and text that is not escaped fail here."""
    return ET.fromstring(page.read_text())


def words(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())
