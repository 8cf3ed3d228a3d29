"""The weight of the project: a feature brings its own deletion.

Lower a limit when you beat it; never raise one.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.measures import CODE, FUNCTION, MODULES, PACKAGES
from tests.support.paths import ROOT

TESTS = sorted((ROOT / "tests").rglob("*.py"))
C_FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.[ch]"))


def count_lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def count_nodes(paths: Iterable[Path]) -> int:
    return sum(1 for path in paths for _ in ast.walk(ast.parse(path.read_text())))


def count_words_of_docs() -> int:
    return sum(len(path.read_text().split()) for path in (ROOT / "docs").glob("*.md"))


def find_formatters() -> list[str]:
    """Functions that align text or format a number, by their names: views is where they belong."""
    named = re.compile(r"_?(format|align|pad|percent|number|gib|mib|memory|size|rounded|shown)(_|$)")
    return [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, node in CODE.nodes
        if isinstance(node, FUNCTION) and named.match(node.name) and node.returns is not None
        if ast.unparse(node.returns) in ("str", "list[str]")
    ]


@cache
def count_fields() -> dict[str, int]:
    """Annotated fields of each class, dataclasses and Structs too."""
    return {
        f"{path.relative_to(ROOT)} {node.name}": sum(isinstance(part, ast.AnnAssign) for part in node.body)
        for path, node in CODE.nodes
        if isinstance(node, ast.ClassDef)
    }


LIMITS: dict[str, tuple[Callable[[], int], int]] = {
    "syntax nodes of the packages": (lambda: len(CODE.nodes), 270_620),
    "syntax nodes of the tests": (lambda: count_nodes(TESTS), 288_150),
    "lines of Python and C": (lambda: count_lines([*MODULES, *C_FILES]), 47_480),
    "lines of tests": (lambda: count_lines(TESTS), 32_440),
    "modules": (lambda: len(MODULES), 312),
    "folders with modules": (lambda: len({path.parent for path in MODULES}), 41),
    "words in docs/*.md": (count_words_of_docs, 42_000),
    "functions that align text or format a number": (lambda: len(find_formatters()), 11),
    "fields of the largest class": (lambda: max(count_fields().values()), 21),
}


@pytest.mark.parametrize("name", LIMITS)
def test_nothing_weighs_more_than_its_limit(name: str) -> None:
    measure, limit = LIMITS[name]
    assert measure() <= limit, f"{measure()} {name}, and {limit} are the most"


def test_comments_say_why() -> None:
    """At least 2.5 comments in 100 lines; those that switch a check off do not count."""
    comments = 0
    for path in MODULES:
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            comments += token.type == tokenize.COMMENT and not re.match(r"# (noqa|type:)\S*( \w+)?$", token.string)
    assert comments / count_lines(MODULES) >= 0.025
