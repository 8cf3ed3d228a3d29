"""The import graph: folders in straight stacks with arrows down only, and the doors between the packages."""

import ast
from pathlib import Path

from tests.architecture.measures import MODULES, PACKAGES, TREES, imported
from tests.support.paths import ROOT

STACKS = {
    "tracegen": (
        "__main__ cli commands exchange formats generate derive describe workload sources console recipes"
        " schema trace outputs draws arrays typed_files progress memory control_groups errors"
    ),
    "replayer": (
        "__main__ cli commands experiments profiling run engine questions options prediction planning tiers"
        " models arrangements machine schema record bindings"
    ),
    "analysis": (
        "__main__ cli commands submission sweeps report comparison assessment loaded_run summary doubts metrics runs log"
    ),
    "views": "formats page charts lines drawing svg text exports tables numbers sentences answer",
}
"""The folders and root modules of each package, from the top down: each may import only what is to its right."""

DOORS = {
    "views": {"tracegen.errors"},
    "tracegen": set(),
    "replayer": {
        "tracegen.schema",
        "tracegen.errors",
        "tracegen.outputs",
        "tracegen.progress",
        "tracegen.typed_files",
        "tracegen.memory",
        "tracegen.control_groups",
    },
    "analysis": {"tracegen.schema", "tracegen.errors", "tracegen.progress", "tracegen.typed_files", "replayer.schema"},
}
"""The modules of other packages that each package may import, beside those of `views`."""

COMMAND_LINE = ("commands", "options", "cli.py", "__main__.py")
INTERRUPTIBLE = {
    "replayer/run/predicted.py",
    "replayer/run/replay.py",
    "replayer/run/execution.py",
    "replayer/experiments/children.py",
    "tracegen/generate.py",
}  # they close files before a signal ends them
LOADS_C = {"replayer/bindings/compiled.py": "tracegen.trace.compiled"}


def floor_of(module: str) -> str:
    """Give the folder, or the module at a package's root, that a dotted name is in."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def existing(module: str) -> bool:
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_arrows_point_down() -> None:
    wrong = []
    for path in MODULES:
        package, own, *_ = path.relative_to(ROOT).with_suffix("").parts
        if own == "__init__":  # the public API: it imports when it is called
            continue
        floors = STACKS[package].split()
        modules = {name for name in imported(TREES[path]) if name.split(".")[0] == package and existing(name)}
        below = {floor_of(name) for name in modules} - {own, "__init__"}
        wrong += [(str(path), floor) for floor in below if floors.index(floor) <= floors.index(own)]
    assert not wrong, "each imports what is above it"


def test_every_folder_is_in_a_stack() -> None:
    for package in PACKAGES:
        with_code = {
            path.relative_to(ROOT / package).with_suffix("").parts[0]
            for path in MODULES
            if path.is_relative_to(ROOT / package) and not _holds_only_a_docstring(path)
        }
        assert with_code - {"__init__"} == set(STACKS[package].split())


def _holds_only_a_docstring(path: Path) -> bool:
    return path.name == "__init__.py" and all(isinstance(node, ast.Expr) for node in TREES[path].body)


def test_packages_meet_only_at_their_doors() -> None:
    assert {str(path): found for path in MODULES if (found := list_past_doors(path))} == {}


def list_past_doors(path: Path) -> set[str]:
    """The modules of other packages that a module imports past their doors, and any of the tests."""
    place = path.relative_to(ROOT)
    package, floor = place.parts[:2]
    names = imported(TREES[path])
    foreign = {name for name in names if name.split(".")[0] in {*PACKAGES} - {package, "views"} and existing(name)}
    allowed = DOORS[package] | {LOADS_C.get(str(place), ""), "tracegen.trace", "tracegen", "replayer"}
    if floor in COMMAND_LINE:
        allowed |= {name for name in foreign if name.split(".")[:2] == ["tracegen", "console"]}
    if str(place) in INTERRUPTIBLE:
        allowed |= {"tracegen.console", "tracegen.console.interrupts"}
    return foreign - allowed | {name for name in names if name.startswith("tests")}
