"""Input of tracegen: bad input is refused at once, in one short sentence."""

import json
import os
from pathlib import Path

import pytest

from tests.support.command_line import Run, sentence
from tests.support.imports import EXCERPT
from tests.support.paths import DEMO

DIGITS = 5000 * "9"
READERS = {
    "recipe": ["generate", "{x}", "-o", "{out}"],
    "conversations": ["generate", "--sharegpt", "{x}", "-o", "{out}"],
    "conversations to import": ["import", "sharegpt", "{x}", "-o", "{out}"],
    "import": ["import", "mooncake", "{x}", "-o", "{out}"],
    "a second file to import": ["import", "mooncake", str(EXCERPT), "{x}", "-o", "{out}"],
    "documents": ["import", "weka", "{x}", "-o", "{out}"],
    "info": ["info", "{x}"],
    "validate": ["validate", "{x}"],
    "diff": ["diff", "{x}", "{x}"],
    "merge": ["merge", "{x}", "-o", "{out}"],
    "export": ["export", "mooncake", "{x}", "-o", "{out}"],
    "a part": ["info", "{folder}"],
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", READERS)
def test_pipes_and_devices_are_refused_at_once(run: Run, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for pipe in (tmp_path / "x.toml", folder / "part-00000.parquet", folder / "x.json"):
        os.mkfifo(pipe)
    places = {"out": str(tmp_path / "t.parquet"), "folder": str(folder)}
    for bad in (tmp_path / "x.toml", Path("/dev/zero")):
        done = run("tracegen", *(one.format(x=bad, **places) for one in READERS[name]), ok=False)
        sentence(done, "pipe or device, not a file; name a")
    assert not (tmp_path / "t.parquet").exists()


@pytest.mark.timeout(30)
def test_a_replay_of_a_pipe_is_refused_at_once(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.parquet")
    sentence(run("replayer", "plan", tmp_path / "t.parquet", ok=False), "t.parquet is a pipe or device, not a file")


def test_numbers_of_thousands_of_digits_are_refused(run: Run, tmp_path: Path) -> None:
    chat, rows, out = tmp_path / "chat.json", tmp_path / "rows.jsonl", tmp_path / "t.parquet"
    chat.write_text(f'[{{"id": "a", "conversations": [], "n": {DIGITS}}}]')
    sentence(run("tracegen", "generate", "--sharegpt", chat, "-o", out, ok=False), "entry 0", "digits")
    rows.write_text(f'{{"timestamp": {DIGITS}, "input_length": 5, "output_length": 1, "hash_ids": [1]}}\n')
    sentence(run("tracegen", "import", "mooncake", rows, "-o", out, ok=False), "line 1")


def test_a_position_of_thousands_of_digits_is_ignored(run: Run, tmp_path: Path) -> None:
    chat = tmp_path / "chat.json"
    said = [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "hello"}]
    chat.write_text(json.dumps([{"id": f"a_{DIGITS}", "conversations": said}]))
    assert "1 sessions" in run("tracegen", "generate", "--sharegpt", chat, "-o", tmp_path / "t.parquet").stdout


BAD = {
    "coarser blocks of 0": (["import", "mooncake", "{x}", "--rechunk", "0"], ["--rechunk 0"]),
    "gaps of 0": (["import", "mooncake", "{x}", "--max-idle-gap", "0"], ["--max-idle-gap 0"]),
    "0 bytes": (["import", "mlcommons", "{x}", "--bytes-per-token", "0"], ["--bytes-per-token 0"]),
    "bytes of tokens": (["import", "mooncake", "{x}", "--bytes-per-token", "9"], ["mooncake", "--bytes-per-token"]),
    "0 exported bytes": (["export", "fio", "{t}", "--bytes-per-token", "0"], ["--bytes-per-token 0"]),
    "exported bytes of tokens": (["export", "mooncake", "{t}", "--bytes-per-token", "9"], ["leave out"]),
    "parts of 0": (["import", "mooncake", "{x}", "--part-ops", "0"], ["--part-ops", "0"]),
    "one file twice": (["import", "mooncake", "{x}", "{x}"], ["named twice"]),
    "a key of a megabyte": (["generate", "{demo}", "--set", "W" * 10**6 + "=1"], ["WWW"]),
    "a value of a megabyte": (["generate", "{demo}", "--set", "users=" + "W" * 10**6], ["WWW"]),
}


@pytest.mark.parametrize("name", BAD)
def test_flags_without_effect_are_refused(run: Run, demo_trace: Path, tmp_path: Path, name: str) -> None:
    arguments, words = BAD[name]
    places = {"x": EXCERPT, "t": demo_trace, "demo": DEMO}
    done = run("tracegen", *(one.format(**places) for one in arguments), "-o", tmp_path / "o", ok=False)
    sentence(done, *words)
    assert len(done.stderr) < 600
    assert list(tmp_path.iterdir()) == []
