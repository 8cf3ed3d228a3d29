"""The tests' own layout: files of a readable size, and nothing imported from a test file."""

import re

from tests.support.paths import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))


def test_no_file_of_the_tests_has_more_than_400_lines() -> None:
    assert [path for path in FILES if len(path.read_text().splitlines()) > 400] == []


def test_no_file_imports_a_test_file_or_a_conftest() -> None:
    pattern = re.compile(r"^\s*(?:from|import) tests\.\S*\b(?:test_\w+|conftest)\b", re.M)
    assert [path for path in FILES if pattern.search(path.read_text())] == []


def test_every_folder_of_the_tests_is_a_package() -> None:
    folders = {path.parent for path in FILES}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
