"""Rules that a linter does not know: banned calls, help with examples, docs that agree with the code."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from click import Command, Group
from click.testing import CliRunner

import analysis.cli
import replayer.cli
import tracegen.cli
from tests.architecture.measures import MODULES
from tests.support.paths import ROOT
from tracegen.recipes.recipe import Recipe

CLIS: dict[str, Group] = {"tracegen": tracegen.cli.main, "replayer": replayer.cli.main, "analysis": analysis.cli.main}


def test_no_catch_all_modules() -> None:
    assert not {path.stem for path in MODULES} & {"utils", "util", "common", "core", "helpers", "misc"}


BANNED = {
    r"np\.random\.(default_rng|Generator|seed|rand)|\.(poisson|exponential|zipf|gamma|lognormal|choice|shuffle)\(": (
        "numpy may change its distributions: use tracegen.draws"
    ),
    r"\bimport random\b|time\.time\(": "placement and traces depend on no clock and no global generator",
    r"os\.environ|getenv": "settings come from flags and recipes",
    r"except:|except Exception:": "name what you expect",
    r"\bprint\(": "click.echo",
}
EXEMPT = {("screens.py", r"os\.environ|getenv")}  # TERM and CI say what may be done with a terminal


@pytest.mark.parametrize("pattern", BANNED)
def test_banned_calls(pattern: str) -> None:
    for path in MODULES:
        if (path.name, pattern) in EXEMPT:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not re.search(pattern, line), f"{path.name}:{number}: {BANNED[pattern]}"


def commands(group: Group, *names: str) -> Iterator[tuple[tuple[str, ...], Command]]:
    for name, command in group.commands.items():
        if isinstance(command, Group):
            yield from commands(command, *names, name)
        else:
            yield (*names, name), command


COMMANDS = {names: command for tool, group in CLIS.items() for names, command in commands(group, tool)}


@pytest.mark.parametrize("names", COMMANDS, ids="-".join)
def test_every_help_has_an_example_that_parses(names: tuple[str, ...]) -> None:
    command, tool = COMMANDS[names], names[0]
    shown = CliRunner().invoke(CLIS[tool], [*names[1:], "--help"])
    assert shown.exit_code == 0
    assert command.epilog
    example = shlex.split(command.epilog.removeprefix("Example: "))
    assert tuple(example[: len(names)]) == names
    command.make_context(names[-1], example[len(names) :], resilient_parsing=False)
    documented = {option for param in command.params for option in param.opts}
    assert all(param.type.name or documented for param in command.params)


def test_the_constraints_pin_everything() -> None:
    pins = {line.split("==")[0].replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    assert not {re.split(r"[><=;]", name)[0] for name in wanted} - pins


def recipe_keys(kind: Any, prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in fields(kind):
        value = getattr(kind, item.name)
        if isinstance(value, dict):
            for name, one in value.items():
                found |= recipe_keys(one, f"{prefix}{item.name}.{name}.")
            continue
        found |= recipe_keys(value, f"{prefix}{item.name}.") if is_dataclass(value) else {prefix + item.name: value}
    return found


def test_the_docs_list_every_recipe_key_with_its_default() -> None:
    """A row per key: | `key` | default as TOML | meaning |; of personas a row per table, a column per key."""
    text = (ROOT / "docs" / "recipes.md").read_text()
    listed = {
        key: tomllib.loads(f"v = {value}")["v"]
        for key, value in re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", text, re.M)
    }
    table = re.findall(r"^\| (?:table|personas\.\w+|rag\.users) \|.*", text, re.M)
    (_, *keys), *rows = [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in table]
    for name, *cells in rows:
        values = zip(keys, cells, strict=True)
        listed |= {f"{name}.{key}": tomllib.loads(f"v = {value}")["v"] for key, value in values if value}
    known = {key: list(value) if isinstance(value, tuple) else value for key, value in recipe_keys(Recipe()).items()}
    assert {key: value for key, value in known.items() if value is not None} == listed
    for key in [key for key, value in known.items() if value is None]:
        assert f"| `{key}` |" in text


DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_and_files_that_docs_name_exist(path: Path) -> None:
    text = path.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("http") or (path.parent / target).exists(), target
    for name in re.findall(r"`((?:tracegen|replayer|analysis|tests|docs|traces)/[\w./]+\.\w+)`", text):
        assert (ROOT / name).exists(), name


# click's, SGLang's, Open MPI's
OTHERS = {"--help", "--version", "--export-metrics-to-file", "--allow-run-as-root", "--oversubscribe"}


def test_flags_that_docs_name_exist() -> None:
    shown = [param for command in COMMANDS.values() for param in command.params if not getattr(param, "hidden", False)]
    flags = {opt for param in shown for opt in [*param.opts, *param.secondary_opts]}
    for path in DOCS:
        text = path.read_text()
        if path.name == "from-kv-cache-py.md":  # the first column is of kv-cache.py's flags
            text = re.sub(r"^\| `--.*?` \|", "|", text, flags=re.M)
        for block in re.findall(r"```.*?```|`[^`]*`", text, re.S):
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", block):
                assert flag in flags | OTHERS, f"{path.name} names {flag}"


def test_the_readme_is_one_screen_and_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 80
    assert "make demo" in text
    assert "make test" in text
    assert "make test" in (ROOT / ".ci" / "run").read_text()
