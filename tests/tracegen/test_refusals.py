"""Commands that cannot work: one short sentence that names what is wrong, exit code 2, and nothing is left behind."""

from pathlib import Path

import pytest

from tests.support import traces
from tests.support.command_line import Run, sentence
from tests.support.imports import EXCERPT, lines
from tests.support.paths import DEMO, SAMPLE

DIGITS = 5000 * "9"
LONG = 10**6 * "W"
# A command, and the words of its refusal; {x} is an excerpt of Mooncake, {b} of Bailian, {t} a trace.
REFUSED = {
    "generate": "--sharegpt",
    "generate --sharegpt {d}/none.json": "none.json",
    "generate --sharegpt {d}": "{d}",
    "generate {d}/none.toml": "none.toml",
    "generate {d}/not.toml": "not.toml line 1",
    "generate {d}/zero.toml": "zero.toml users",
    "generate {demo} --set personas.chatbot.contxt=[1,2]": "did you mean personas.chatbot.context?",
    "generate {demo} --set users": "KEY=VALUE",
    "generate {demo} --set replay.cpu_mem_gb=-4": "replay.cpu_mem_gb",
    "generate {demo} --set session_rate=1e-12": "session_rate",
    f"generate {{demo}} --set qos.batch={DIGITS[:20]}": "qos",
    f"generate {{demo}} --set seed={DIGITS}": "seed number",
    f"generate {{demo}} --set {LONG}=1": "WWW",
    "generate {demo} --shard 4/4": "--shard 4/4 I/N",
    "generate {demo} -o {d}/none/t.parquet": "none/t.parquet",
    "generate {demo} -o {d}/a\udcff.parquet": "-o",
    "generate {demo} --duration 1e-9": "duration_s 1e-09",
    "generate --set mix.personas=1": "personas --duration",
    "generate {demo} --set mix.personas=1 --requests 5": "mix.sharegpt",
    "generate --set mix.sharegpt=1": "--sharegpt",
    "generate --set mix.rag=1 --set rag.users.think_s=[0,0] --set decode_token_ms=0 --requests 5": "rag.users think_s",
    "generate --set mix.personas=1 --set personas.chatbot.think_s=[0,1] --set personas.chatbot.generation=[0,5]"
    " --requests 5": "personas.chatbot think_s",
    "generate {demo} --set prefix.products=1000000 --set prefix.tenants=1000000": "prefix.tenants 1e7",
    "generate {demo} --set burstiness=0.5": "burstiness",
    "generate {demo} --set burstiness=0.3": "burstiness 0.25",
    "generate {demo} --block-tokens 16 --history previous": "history",
    "slice {t} --users 5": "--users 5 A:B",
    "slice {t}": "--time",
    "merge {d}/none.parquet": "none.parquet",
    "import mooncak {x}": "mooncak",
    "import mooncake {d}/none.jsonl": "none.jsonl",
    "import mooncake {d}/empty": "empty request",
    "import mooncake {x} {x}": "named twice",
    "import mooncake {x} --seed 99999999999999999999": "--seed",
    "import mlcommons {x}": "--bytes-per-token",
    "import mlcommons {x} --bytes-per-token 9 --decode-reads": "--decode-reads",
    "import mooncake {x} --columns time=at": "columns mooncake",
    "import jsonl {x} --columns time=at,when=at": "--columns when=at time_ms",
    "import csv {x} --columns answer=": "--columns answer=",
    "import weka {d}": "*.json",
    "import weka {x} --sessions none": "sessions weka guessed",
    "import sharegpt {x}": "sharegpt mooncake",
    "export fio {t}": "--bytes-per-token",
    "export mooncake {t} --bytes-per-token 9": "leave --bytes-per-token",
    "export mooncake {t}": "--block-tokens",
    "export mlcommons {bad} --bytes-per-token 8": "bad.parquet, row 1: tokens = -3",
}


@pytest.mark.parametrize("command", REFUSED, ids=lambda command: command[:60])
def test_what_cannot_work_is_refused_in_one_sentence(run: Run, demo_trace: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "not.toml").write_text("users = = 3")
    (tmp_path / "zero.toml").write_text("users = 0")
    chat = {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0, "input_length": 16, "output_length": 1}
    places = {"d": tmp_path, "t": demo_trace, "x": EXCERPT, "demo": DEMO, "bad": tmp_path / "bad.parquet"}
    places["b"] = lines(tmp_path / "b.jsonl", chat | {"hash_ids": [1]})
    traces.write(places["bad"], traces.columns([("w", 0, 5), ("w", 1, -3)]))
    before = sorted(tmp_path.iterdir())
    arguments = [one.format(**places) for one in command.split()]
    output = [] if "-o" in arguments else ["-o", tmp_path / "o"]
    done = run("tracegen", *arguments, *output, ok=False)
    sentence(done, *(word.format(**places) for word in REFUSED[command].split()))
    assert len(done.stderr) < 600 + len(str(tmp_path))
    assert sorted(tmp_path.iterdir()) == before


def test_numbers_of_thousands_of_digits_are_refused_or_ignored(run: Run, tmp_path: Path) -> None:
    chat, rows, out = tmp_path / "chat.json", tmp_path / "rows.jsonl", tmp_path / "t.parquet"
    chat.write_text(f'[{{"id": "a", "conversations": [], "n": {DIGITS}}}]')
    sentence(run("tracegen", "generate", "--sharegpt", chat, "-o", out, ok=False), "entry 0", "digits")
    rows.write_text(f'{{"timestamp": {DIGITS}, "input_length": 5, "output_length": 1, "hash_ids": [1]}}\n')
    sentence(run("tracegen", "import", "mooncake", rows, "-o", out, ok=False), "line 1")
    chat.write_text(SAMPLE.read_text().replace("_0", f"_{DIGITS}"))  # the place of a segment
    assert "sessions" in run("tracegen", "generate", "--sharegpt", chat, "-o", out).stdout
