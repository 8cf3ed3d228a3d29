"""Packages that serve one feature: what says so where one is missing, and that nothing else needs it."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from replayer.run import mpi as ranks
from tests.support.paths import DEMO, ROOT
from tracegen.errors import InputError
from tracegen.sources import tokenizers as tokens

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = {"transformers": "hub"}


def remedy(package: str) -> str:
    return f"{package} (not installed); run `make setup EXTRAS={OPTIONAL[package]}` in a checkout, else `pip install {package}`"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A package that cannot be imported."""
    package = str(request.param)
    monkeypatch.setitem(sys.modules, package, None)
    return package


@pytest.mark.parametrize("without", ["transformers"], indirect=True)
def test_tokenizers_of_the_hub_need_transformers(without: str) -> None:
    with pytest.raises(InputError) as refused:
        tokens.load_tokenizer("gpt2")
    assert remedy(without) in str(refused.value)
    assert "gpt2, which is not bundled (tekken_" in str(refused.value)
    assert tokens.load_tokenizer("tekken").count(["a b"]) == [2]


def test_ranks_need_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(
        InputError, match=r"ranks needs mpi4py \(.*EXTRAS=mpi.*`pip install mpi4py`, and an MPI library"
    ):
        ranks.find_ranks()


def test_the_demos_commands_need_no_extra(tmp_path: Path) -> None:
    """Trace, plan, run, summary, page: in a process of its own, in which no extra can be imported."""
    missing = [*OPTIONAL, "torch", "kvikio", "mpi4py", "duckdb"]
    commands = [
        ["tracegen", "generate", str(DEMO), "--requests", "9", "-o", "t.parquet"],
        ["tracegen", "info", "t.parquet"],
        ["replayer", "run", "t.parquet", "--layout", "null", "-o", "r"],
        ["analysis", "summary", "r"],
        ["analysis", "report", "r", "-o", "r.html"],
    ]
    told = f"""
import importlib, sys, vl_convert
vl_convert.vegalite_to_svg = lambda spec, **version: "<svg xmlns='http://www.w3.org/2000/svg'/>"  # drawing takes 5 s
sys.modules.update(dict.fromkeys({missing}))
for tool, *arguments in {commands}:
    importlib.import_module(tool + ".cli").main(arguments, standalone_mode=False)
"""
    done = subprocess.run([sys.executable, "-c", told], check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r.html").exists()


@pytest.mark.parametrize("tool", ["tracegen", "replayer", "analysis"])
def test_shells_complete_commands_as_the_page_says(
    tool: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "installing.md").read_text()
    variable = f"_{tool.upper()}_COMPLETE"
    assert f'eval "$({variable}=bash_source {tool})"' in page
    main = importlib.import_module(f"{tool}.cli").main
    for shell in ("zsh", "fish"):
        monkeypatch.setenv(variable, f"{shell}_source")
        with pytest.raises(SystemExit) as ended:
            main.main([], prog_name=tool)
        assert ended.value.code == 0
        assert f"{variable}={shell}_complete" in capsys.readouterr().out
