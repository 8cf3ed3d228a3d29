"""Runs that reports show, and readers of the pages."""

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

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


def tree(page: Path) -> ET.Element:
    """Parse the page as XML; elements that are not closed and text that is not escaped fail here."""
    return ET.fromstring(page.read_text())


def words(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())
