"""Flags and recipes that cannot work are refused."""

from pathlib import Path

import pytest

from tests.support import traces
from tests.support.command_line import Run, sentence
from tests.support.paths import DEMO

BAD = {
    "range": (["slice", "{t}", "--users", "5"], ["--users 5", "A:B"]),
    "backwards": (["slice", "{t}", "--time", "9:3"], ["--time 9:3"]),
    "nothing": (["slice", "{t}"], ["--time"]),
    "no number": (["scale", "{t}", "--time", "fast"], ["--time fast"]),
    "no time": (["scale", "{t}", "--time", "0"], ["0"]),
    "backwards in time": (["scale", "{t}", "--time", "-1"], ["-1"]),
    "no trace": (["merge", "{d}/none.parquet"], ["none.parquet"]),
    "shard": (["generate", "{demo}", "--shard", "4/4"], ["--shard 4/4", "I/N"]),
    "shard and jobs": (["generate", "{demo}", "--shard", "0/4", "--jobs", "2"], ["--jobs"]),
    "endless": (["generate", "--set", "mix.personas=1"], ["personas", "--duration"]),
    "unused file": (["generate", "{demo}", "--set", "mix.personas=1", "--requests", "5"], ["mix.sharegpt"]),
    "no file": (["generate", "--set", "mix.sharegpt=1"], ["--sharegpt"]),
    "at once": (
        [
            "generate",
            "--set",
            "mix.rag=1",
            "--set",
            "rag.users.think_s=[0,0]",
            "--set",
            "decode_token_ms=0",
            "--requests",
            "5",
        ],
        ["rag.users", "think_s"],
    ),
    "at once by chance": (
        [
            "generate",
            "--set",
            "mix.personas=1",
            "--set",
            "personas.chatbot.think_s=[0,1]",
            "--set",
            "personas.chatbot.generation=[0,5]",
            "--requests",
            "5",
        ],
        ["personas.chatbot", "think_s"],
    ),
    "too many prompts": (
        ["generate", "{demo}", "--set", "prefix.products=1000000", "--set", "prefix.tenants=1000000"],
        ["prefix.tenants", "1e7"],
    ),
    "a number that is none": (["scale", "{t}", "--time", "1e99999999"], ["--time 1e99999999"]),
    "bursts of nothing": (["generate", "{demo}", "--set", "burstiness=0.5"], ["burstiness"]),
    "another shape": (["generate", "{demo}", "--set", "burstiness=0.3"], ["burstiness", "0.25"]),
    "a persona's typo": (
        ["generate", "{demo}", "--set", "personas.chatbot.contxt=[1,2]"],
        ["did you mean personas.chatbot.context?"],
    ),
    "blocks of the last turn": (["generate", "{demo}", "--block-tokens", "16", "--history", "previous"], ["history"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused(run: Run, demo_trace: Path, tmp_path: Path, name: str) -> None:
    arguments, words = BAD[name]
    places = {"t": demo_trace, "d": tmp_path, "demo": DEMO}
    done = run("tracegen", *(one.format(**places) for one in arguments), "-o", tmp_path / "o.parquet", ok=False)
    sentence(done, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_trace_is_not_exported(run: Run, tmp_path: Path) -> None:
    bad = traces.write(tmp_path / "bad.parquet", traces.columns([("w", 0, 5), ("w", 1, -3)])).path
    done = run("tracegen", "export", "mlcommons", bad, "--bytes-per-token", 8, "-o", tmp_path / "t.csv", ok=False)
    sentence(done, "bad.parquet, row 1: tokens = -3")
