"""The command line: one sentence and exit code 2 for bad input, equal traces from equal recipes."""

import json
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

from tests.support.command_line import Run
from tests.support.paths import DEMO, ROOT, SAMPLE
from tracegen.schema import Trace

# Pinned for ever: the demo's recipe on the shipped sample. If this changes, traces made before are not reproducible.
GOLDEN = "76865a5dc115f14193936e194c87917f8ddddbc97ef035a03e14063471e18d87"


def test_golden_fingerprint(demo: Trace) -> None:
    assert demo.metadata.fingerprint == GOLDEN


def test_equal_recipes_give_equal_traces_anywhere(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    run("tracegen", "generate", DEMO, "-o", path, env={"PYTHONHASHSEED": "1", "LC_ALL": "C"})
    assert Trace(path).metadata.fingerprint == GOLDEN


def test_metadata_says_where_a_trace_comes_from(demo: Trace) -> None:
    (source,) = demo.metadata.sources
    assert source["name"] == SAMPLE.name
    assert source["licence"] == "CC0-1.0"
    assert len(source["sha256"]) == len(demo.metadata.tokenizer["digest"]) == 64  # type: ignore[index]
    assert demo.metadata.tokenizer["name"] == "tekken_240911"  # type: ignore[index]
    assert demo.metadata.recipe["sharegpt"]["path"] == SAMPLE.name, "no folder of this machine"
    assert demo.violations().problems == []


def test_info_and_validate(run: Run, demo_trace: Path) -> None:
    assert GOLDEN in run("tracegen", "info", demo_trace).stdout
    assert "valid, fingerprint" in run("tracegen", "validate", demo_trace).stdout
    assert json.loads(run("tracegen", "validate", demo_trace, "--json").stdout)["problems"] == []


def test_flags_override_the_recipe(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    flags = "--users 3 --requests 9 --seed 0 --set prefix.share=1 --set prefix.tokens=[5] --max-context-tokens 7"
    run("tracegen", "generate", DEMO, *flags.split(), "-o", path)
    recipe = Trace(path).metadata.recipe
    assert (recipe["users"], recipe["requests"], recipe["seed"], recipe["prefix"]["tokens"]) == (3, 9, 0, [5])
    assert Trace(path).metadata.counts["requests"] == 9
    (batch,) = Trace(path).batches()
    assert batch["tokens"].max() <= 7


def test_file_names_are_not_taken_for_patterns_or_urls(run: Run, tmp_path: Path) -> None:
    trace, folder, made = tmp_path / "abc:1[x]*?.parquet", tmp_path / "run:[1]*", ["--model", "tiny-1b"]
    run("tracegen", "generate", DEMO, "--requests", 9, "-o", trace.name, cwd=tmp_path)
    assert json.loads(run("tracegen", "info", trace.name, "--json", cwd=tmp_path).stdout)["ops"] > 0
    run("replayer", "run", trace.name, *made, "--cache-dir", "c*", "-o", folder.name, cwd=tmp_path)
    assert "VALID" in run("analysis", "summary", folder.name, cwd=tmp_path).stdout


def test_too_few_conversations_give_a_warning(run: Run, tmp_path: Path) -> None:
    done = run("tracegen", "generate", DEMO, "--requests", 100_000, "-o", tmp_path / "t.parquet")
    assert "Warning: 100,000 requests were asked for" in done.stderr


def test_the_readme_names_the_demos_trace() -> None:
    assert f"Its trace is {GOLDEN[:12]}… on every machine" in (ROOT / "README.md").read_text()


def test_the_fingerprint_snippet_of_the_format_works(demo_trace: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "trace-format.md").read_text()
    snippet = textwrap.dedent("    import hashlib" + text.split("    import hashlib")[1].split("\n\n")[0])
    shutil.copy(demo_trace, tmp_path / "trace.parquet")
    done = subprocess.run([sys.executable, "-c", snippet], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == GOLDEN


def test_versions(run: Run) -> None:
    """The three programs, the changelog and the citation name the version of pyproject.toml."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {run(tool, "--version").stdout.split()[-1] for tool in ("tracegen", "replayer", "analysis")} == {version}
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version
