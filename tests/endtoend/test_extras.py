"""Packages that serve one feature: what says so where one is missing, and that nothing else needs it."""

import subprocess
import sys
from pathlib import Path

import pytest

from replayer.run import mpi as ranks
from tests.support.paths import DEMO
from tracegen.errors import InputError
from tracegen.sources import tokenizers as tokens


def test_tokenizers_of_the_hub_need_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"transformers \(not installed\); run `make setup EXTRAS=hub`"):
        tokens.load_tokenizer("gpt2")
    assert tokens.load_tokenizer("tekken").count(["a b"]) == [2]


def test_ranks_need_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(
        InputError, match=r"ranks needs mpi4py \(.*EXTRAS=mpi.*`pip install mpi4py`, and an MPI library"
    ):
        ranks.find_ranks()


def test_the_demos_commands_need_no_extra(tmp_path: Path) -> None:
    """Trace, plan, run, summary, page: in a process of its own, in which no extra can be imported."""
    missing = ["transformers", "torch", "kvikio", "mpi4py", "duckdb"]
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
