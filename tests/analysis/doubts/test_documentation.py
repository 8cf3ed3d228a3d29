"""docs/doubts.md lists every kind of doubt and every threshold."""

import ast
import re

import pytest

from analysis.doubts import checks as doubts
from analysis.doubts import limits
from analysis.doubts import machine as machine_doubts
from analysis.summary import across_runs as between
from tests.support.paths import ROOT

GIB = 2**30
pytestmark = pytest.mark.usefixtures("latencies_once")
DOC = ROOT / "docs" / "doubts.md"


def test_the_docs_list_every_kind_of_doubt() -> None:
    sources = [path for folder in ("doubts", "runs", "summary") for path in (ROOT / "analysis" / folder).glob("*.py")]
    calls = [
        node
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Doubt", "Limit")
    ]
    kinds = {node.args[0].value for node in calls if isinstance(node.args[0], ast.Constant)}
    assert len(kinds) > 15
    assert set(re.findall(r"^\| ([a-zI/O -]+?) \|", DOC.read_text(), re.M)) - {"kind"} == kinds


def test_the_docs_name_every_threshold() -> None:
    listed = {
        name: float(value.replace(",", "")) for name, value in re.findall(r"`([A-Z_]+)` ([\d.,]*\d)", DOC.read_text())
    }
    constants = vars(doubts) | vars(limits) | vars(machine_doubts) | vars(between)
    known = {name: float(value) for name, value in constants.items() if name.isupper() and type(value) in (int, float)}
    known["DEVICE_CACHE_BYTES"] /= GIB
    known["LARGE_BYTES"] /= 2**20
    assert listed == {name: value for name, value in known.items() if name not in ("GIB", "LISTED")}
