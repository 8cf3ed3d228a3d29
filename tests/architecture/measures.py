"""Measures of the code's shape, for the ratchets: syntax, attributes, lines, words."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

PACKAGES = ("views", "tracegen", "replayer", "analysis")
BUILD = ROOT / "replayer" / "core" / "build_backend.py"  # pip runs it; it is not installed
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path != BUILD)
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Code:
    """Parsed modules: their trees, all nodes of the trees, and their lines with their numbers."""

    trees: dict[Path, ast.Module]
    nodes: list[tuple[Path, ast.AST]]
    lines: list[tuple[Path, int, str]]


def parse(sources: dict[Path, str]) -> Code:
    """Parse modules by their paths."""
    trees = {path: ast.parse(source) for path, source in sources.items()}
    return Code(
        trees,
        [(path, node) for path, tree in trees.items() for node in ast.walk(tree)],
        [
            (path, number, line)
            for path, source in sources.items()
            for number, line in enumerate(source.splitlines(), 1)
        ],
    )


CODE = parse({path: path.read_text() for path in MODULES})
TREES = CODE.trees


def syntax_nodes_of_functions() -> dict[str, int]:
    """Count the nodes of each function's syntax tree, without its docstring."""
    return {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": sum(1 for _ in ast.walk(node))
        for path, node in CODE.nodes
        if isinstance(node, FUNCTION)
    }


def attributes_of_classes() -> dict[str, int]:
    """Count the attributes that each class assigns to `self`."""
    counts = {}
    for path, node in CODE.nodes:
        if isinstance(node, ast.ClassDef):
            names = {
                target.attr
                for inner in ast.walk(node)
                if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
                for target in (inner,)
                if isinstance(target.value, ast.Name) and target.value.id == "self"
            }
            counts[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = len(names)
    return counts


def packed_assignments() -> list[str]:
    """List the tuple assignments that set three or more attributes."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, node in CODE.nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Tuple) and sum(isinstance(one, ast.Attribute) for one in target.elts) >= 3
    ]


def untyped_dictionaries() -> list[str]:
    """List the uses of dict[str, Any]."""
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path, number, line in CODE.lines
        for _ in re.findall(r"\bdict\[str, Any\]", line)
    ]


def names_defined_twice() -> list[str]:
    """List the public functions and classes that two modules define at their top level."""
    places = Counter(
        node.name
        for path, tree in CODE.trees.items()
        for node in tree.body
        if isinstance(node, (*FUNCTION, ast.ClassDef)) and not node.name.startswith("_")
    )
    return sorted(name for name, count in places.items() if count > 1)


def user_interface_in_depths() -> list[str]:
    """List the modules below the commands that import click, rich or tqdm."""
    return sorted(
        str(path.relative_to(ROOT))
        for path, tree in CODE.trees.items()
        if not _is_of_the_command_line(path)
        and {name.split(".")[0] for name in imported(tree)} & {"click", "rich", "tqdm"}
    )


def _is_of_the_command_line(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return parts[1] in ("commands", "console", "options", "cli.py", "__main__.py")


def flags_in_depths() -> list[str]:
    """List the texts below the commands that name a flag."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, node in CODE.nodes
        if not _is_of_the_command_line(path) and isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(r"(?<![\w-])--[a-z]", node.value)
    ]


def imported(tree: ast.Module) -> set[str]:
    """List the modules that a module imports, with names imported from our packages as `module.name`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            names.add(str(node.module))
            if str(node.module).split(".")[0] in PACKAGES:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def docstrings() -> Iterator[tuple[str, str]]:
    """Give each docstring with its place."""
    for path, node in CODE.nodes:
        if isinstance(node, (*FUNCTION, ast.ClassDef, ast.Module)) and (text := ast.get_docstring(node)):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text


def docstrings_that_begin_with_a_preposition() -> list[str]:
    """List the docstrings whose first word is a preposition or a conjunction."""
    first = re.compile(r"(Of|That|In|Under|Without|By|How|What|Which|Where|From)\b")
    return [place for place, text in docstrings() if first.match(text)]


BANNED_WORDS = re.compile(
    r"\b(so many|so much|not to be had|is none of|are none of|of which|gone on with|goes on with|as it were|"
    r"and its like|in small|is told of|are told of|to be had)\b"
)


def banned_words() -> list[str]:
    """List the docstrings, comments and texts with words that readers stumble over."""
    return [
        f"{path.relative_to(ROOT)}:{number} {match[0]}"
        for path, number, line in CODE.lines
        for match in BANNED_WORDS.finditer(line)
    ]


def functions_named_by_participles() -> list[str]:
    """List the functions whose name is a participle or a preposition, not a verb."""
    words = re.compile(
        r"_?(told|said|shown|held|judged|checked|chosen|pressed|saturated|together|behind|beside|worth|found|counted|"
        r"joined|written|planned|described|opened|summed|added_up|of_\w+|as_\w+|in_\w+)$"
    )
    return [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, node in CODE.nodes
        if isinstance(node, FUNCTION) and words.match(node.name) and not _is_property(node)
    ]


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def modules_in_folders() -> Counter[str]:
    """Count the modules in each folder, without __init__.py."""
    return Counter(str(path.parent.relative_to(ROOT)) for path in MODULES if path.name != "__init__.py")


C_SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package / "core").rglob("*.[ch]"))
_ALLOCATION = re.compile(r"(?:([\w>-]+) = )?\b(?:malloc|calloc|realloc|aligned_alloc)\(")


def unchecked_allocations(source: str) -> list[str]:
    """List the allocations of a C source that nothing compares with NULL in the lines that follow."""
    lines = source.splitlines()
    unchecked = []
    for number, line in enumerate(lines, 1):
        found = _ALLOCATION.search(line)
        after = " ".join(lines[number : number + 5])
        if found and "checked(" not in line:
            name = re.escape(found[1] or "")
            if not name or not re.search(rf"(!|if \(|&& |checked\(){name}\b", after):
                unchecked.append(f"{number}: {line.strip()}")
    return unchecked


def asserts_in_c() -> int:
    """Count the asserts of the compiled code."""
    return sum(len(re.findall(r"\bassert\(", path.read_text())) for path in C_SOURCES)


def quantile(values: list[int], share: float) -> int:
    """Give a quantile of whole numbers, as the ratchets always did."""
    return sorted(values)[int(len(values) * share)]
