"""Packages of hand-made runs, shared by the tests of submissions."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.submission.package_tree import Package, find_packages
from tests.support.latencies import latencies_known
from tests.support.submissions import BASES, Open, begun, named, packed, tiny_scale


@pytest.fixture(scope="module")
def tiny(latencies_once: None) -> Iterator[None]:
    """Add the scale `tiny` to the rules."""
    with tiny_scale():
        yield


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make a tree of results with one package for each entry of BASES."""
    found = {}
    with latencies_known(), tiny_scale():
        for name, ways in BASES.items():
            place = tmp_path_factory.mktemp(name)
            division = "open" if name == "open" else "closed"
            packed(begun(place, named(division=division), **ways), place / "results")
            found[name] = place / "results"
    return found


@pytest.fixture(scope="session")
def fresh(pristine: dict[str, Path]) -> Open:
    """Copy one of the packages, so that a test can change it."""

    def copied(name: str) -> Package:
        place = pristine[name].with_name("copy")
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(pristine[name], place, symlinks=True)
        (found,) = find_packages(next(place.glob("*/acme")))
        return found

    return copied


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return begun(tmp_path, named())
