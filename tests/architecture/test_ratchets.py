"""Ratchets: measures of the code's shape and language. Lower a limit when you beat it; never raise one."""

from collections.abc import Callable, Sized

import pytest

from tests.architecture import measures
from tests.architecture.measures import MODULES, quantile
from tests.support.paths import ROOT

LIMITS: dict[str, tuple[Callable[[], Sized], int]] = {
    "assignments that set three or more attributes at once": (measures.packed_assignments, 0),
    "uses of dict[str, Any]": (measures.untyped_dictionaries, 86),
    "public names that two modules define": (measures.names_defined_twice, 22),
    "modules below the commands that import click, rich or tqdm": (measures.user_interface_in_depths, 0),
    "texts below the commands that name a flag": (measures.flags_in_depths, 60),
    "docstrings that begin with a preposition": (measures.docstrings_that_begin_with_a_preposition, 0),
    "banned words": (measures.banned_words, 0),
    "functions named by a participle": (measures.functions_named_by_participles, 9),
}


@pytest.mark.parametrize("name", LIMITS)
def test_nothing_grows_past_its_limit(name: str) -> None:
    measure, limit = LIMITS[name]
    found = measure()
    assert len(found) <= limit, f"{len(found)} {name}, and {limit} are the most: {found}"


def test_functions_stay_small() -> None:
    counts = measures.syntax_nodes_of_functions()
    assert quantile(list(counts.values()), 0.9) <= 214
    largest = max(counts, key=lambda name: counts[name])
    assert counts[largest] <= 530, largest


def test_modules_stay_small() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in MODULES}
    largest = max(lines, key=lambda path: lines[path])
    assert lines[largest] <= 360, largest


def test_classes_have_few_attributes() -> None:
    counts = measures.attributes_of_classes()
    largest = max(counts, key=lambda name: counts[name])
    assert counts[largest] <= 12, largest


def test_folders_hold_few_modules() -> None:
    ((folder, count),) = measures.modules_in_folders().most_common(1)
    assert count <= 15, folder


def test_compiled_code_checks_its_memory_and_asserts_its_invariants() -> None:
    found = {str(path): measures.unchecked_allocations(path.read_text()) for path in measures.C_SOURCES}
    assert not any(found.values()), found
    assert measures.asserts_in_c() >= 60
    unchecked = "int *a = malloc(8);\n*a = 1;\nint *b = calloc(1, 8);\nif (!b) return;\nuse(realloc(b, 9));"
    assert [line[0] for line in measures.unchecked_allocations(unchecked)] == ["1", "5"]


def test_the_measures_see_what_they_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that breaks every rule is counted by every measure."""
    monkeypatch.setattr(measures, "CODE", measures.parse({ROOT / "tracegen" / "trace" / "bad.py": BAD}))
    counts = {name: len(measure()) for name, (measure, _) in LIMITS.items()}
    assert counts == dict.fromkeys(LIMITS, 1)


BAD = '''
import click


class Engine:
    def told(self, value: dict[str, Any]) -> None:
        """Of the value."""
        self.first, self.second, self.third = value


def run(): return "pass --flag, so many"


def run(): ...
'''
