"""Pages for what newcomers miss: every command on them is run, on less work than they name."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from replayer.experiments import sweep
from tests.support import traces
from tests.support.command_line import here
from tests.support.pages import COMMANDS, SMALL, block, words
from tests.support.paths import ROOT
from tracegen.schema import Trace

PAGES = (
    *("your-own-log.md", "load-curve.md", "many-hosts.md", "from-kv-cache-py.md"),
    *("simulating.md", "choosing.md", "what-if.md", "users.md"),
)
MPIRUN = f"mpirun --allow-run-as-root --oversubscribe -n 2 {sys.executable} -m replayer"
SMALLER = {
    r"/mnt/\w+": "cache",
    "traces/mooncake_excerpt": str(ROOT / "traces" / "mooncake_excerpt"),
    r"simulate what-if.parquet --users 100 (.*) --profile": r"simulate what-if.parquet \1 --profile",
    r"simulate chat.parquet --model": "simulate trace.parquet --model",
    "tracegen generate chat --users 200( --duration 90)?": "tracegen generate small.toml",
    r"(replayer predict .*)--users 100": r"\1--users 3",
    r"(replayer autoscale .*--predict .*)": r"\1 --users 2 --duration 1 --warmup 0",
    "replayer sweep engines": "replayer sweep server.toml",
    "replayer sweep load ": "replayer sweep load.toml ",
    "tracegen generate chat --users 100 --duration 60": "tracegen generate small.toml",
    "llama3.1-8b": "tiny-1b",
    r"tracegen generate mlperf_\w+ .* -o": "tracegen generate small.toml -o",
    r"tracegen generate --sharegpt ShareGPT.json .* -o": "tracegen generate small.toml --set mix.personas=0 -o",
    r"tracegen generate --set mix.personas=1 (.*) --users 50 --duration 5m": r"tracegen generate small.toml \1",
    r"--cpu-mem-gb (4|16)\b": "--cpu-mem-gb 0.01",  # a replay touches all of it before it begins
    r"(replayer run .*)--duration 5m": r"\1--duration 0.3",
    r"(replayer run (?!.*--layout).*)--cache-dir cache": r"\1--layout null --speedup 100",
    "--speedup 10 (.*)--speedup 100": r"--speedup 100 \1",
    r"(replayer autoscale .*)--cache-dir cache": r"\1--layout null --users 1 --duration 0.3 --warmup 0 --trials 1",
    r"^(mpirun .*|srun .*)replayer (run .*)$": rf"{MPIRUN} \2",
    r"(replayer sweep GRID.toml .*)$": r"\1 --dry-run",
    "^(make submission .*)$": r"\1 -n",
}
"""What a command is made of, and what stands for it here: memory alone, fewer users, this host."""


def commands(page: str) -> list[str]:
    """The indented lines that begin with a command."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^    ((?:{'|'.join(COMMANDS)}|make|jq|python|mpirun) .*)$", text, re.M)


def smaller(command: str) -> str:
    for pattern, instead in SMALLER.items():
        command = re.sub(pattern, instead, command)
    return command.replace("python to_", f"{sys.executable} to_")


def grid(page: str) -> str:
    """The page's sweep."""
    (found,) = re.findall(
        r"^((?:    .*\n|\n)*?    \[\[case\]\]\n(?:    .*\n)+)", (ROOT / "docs" / page).read_text(), re.M
    )
    text = "".join(line[4:] for line in found.splitlines(keepends=True) if "replayer" not in line)
    return text[text.index("trials") :]


def smaller_server() -> str:
    """The sweep of the worked example on a trace of eight ops, without its pauses."""
    text = block("choosing.md", "toml")
    small = {"trials = 3": "trials = 1", "mooncake": "trace", "speedup = 4": "speedup = 100", "= 15.625": "= 0.01"}
    for was, instead in small.items():
        assert was in text
        text = text.replace(was, instead)
    return text


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with what pages take for granted: a trace, logs of a gateway, the page's program."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "small.toml").write_text(SMALL)
    steps = [(op, key, 32) for key in range(4) for op in ("w", "r")]
    traces.write(tmp_path / "trace.parquet", traces.columns(steps, [n // 2 for n in range(8)]))
    shared, rows = list(range(1100)), []
    for number in range(12):
        ids = [*shared, *range(2000 + number, 2400 + 2 * number)]
        usage = {"prompt_tokens": len(ids), "completion_tokens": 20 + number}
        rows.append({"created": 1763800000 - number, "user": f"u{number % 4}", "usage": usage, "prompt_token_ids": ids})
    for name, keys in (("gateway", ["created", "user", "usage"]), ("tokens", list(rows[0]))):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({k: row[k] for k in keys}) + "\n" for row in rows))
    (tmp_path / "to_mooncake.py").write_text(block("your-own-log.md"))
    (tmp_path / "GRID.toml").write_text('[[case]]\nname = "c"\nrecipe = "smoke"\n')
    load = re.sub(r"duration = .*\nwarmup = .*\n", 'duration = "300ms"\nlayout = "null"\n', grid("load-curve.md"))
    for was, instead in (("trials = 3\npause_s = 30", "trials = 1"), ('"chat"', '"small.toml"'),
                         ("llama3.1-8b", "tiny-1b"), ("[0.5, 1, 2, 4]", "[100, 800]"),
                         ("storage_capacity_gb = 200", "users = 2")):  # fmt: skip
        assert was in load
        load = load.replace(was, instead)
    (tmp_path / "load.toml").write_text(load)
    (tmp_path / "sixtyfourth.json").write_text(block("choosing.md", "json"))
    (tmp_path / "server.toml").write_text(smaller_server())
    return tmp_path


def done(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    if command.split(maxsplit=1)[0] in COMMANDS:
        tool, *arguments = words(command, place)
        return here(tool, *arguments, cwd=place)
    full = f"{command} -C {shlex.quote(str(ROOT))} -o setup" if command.startswith("make ") else command
    return subprocess.run(["bash", "-c", full], check=False, cwd=place, capture_output=True, text=True)


@pytest.mark.usefixtures("series_here", "latencies_once")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_works(page: str, place: Path) -> None:
    told = commands(page)
    assert len(told) >= 3, "the page has lost its commands, or this test cannot read them"
    for command in told:
        for name in {word for word in ("jq", "mpirun") if command.startswith(word)}:
            if subprocess.run(["which", name], check=False, capture_output=True).returncode:
                pytest.skip(f"needs {name}")
        small = smaller(command).replace("speedup=4", "speedup=800").replace("load-speedup=1/", "load-speedup=100/")
        ran = done(small, place)
        assert ran.returncode == 0, f"{command}\n{small}\n{ran.stdout}{ran.stderr}"
    if page == "load-curve.md":
        assert (place / "pictures" / "load.svg").read_text().count("<svg") == 1
        assert ">Latency against load: speed-up 0.5 to 8<" in (place / "curve.html").read_text()
    if page == "choosing.md":
        assert (place / "rules" / "storage_capacity_gb-ops.svg").read_text().count("<svg") == 1
    if page == "your-own-log.md":
        mine, blocks = (Trace(place / f"{name}.parquet").metadata for name in ("mine", "blocks"))
        assert (mine.counts["requests"], blocks.counts["requests"], blocks.block_tokens) == (12, 12, 512)
        batch = next(iter(Trace(place / "blocks.parquet").batches()))
        assert batch["tokens"][batch["op"] == 1].sum() >= 11 * 1024, "two whole blocks are shared by all"


def test_the_page_on_load_curves_shows_the_sweep_that_ships() -> None:
    shipped = sweep.find_sweep("load")
    assert tomllib.loads(grid("load-curve.md")) == tomllib.loads(shipped.read_text())
    found = sweep.load_sweep(shipped)
    assert [case.name for case in found.cases] == [f"load-speedup={n}" for n in (0.5, 1, 2, 4)]


KV_CACHE_PY = """
    autoscaler-mode burst-trace-path cache-dir config cpu-mem-gb cpu-memory-gb dataset-path decode-only disable-multi-turn
    disable-prefix-caching duration enable-autoscaling enable-latency-tracing enable-rag generation-mode gpu-mem-gb
    io-trace-log log-level max-concurrent-allocs max-conversations max-requests model num-gpus num-users output
    performance-profile precondition precondition-size-gb precondition-threads prefill-only rag-num-docs replay-cycles
    request-rate seed storage-capacity-gb target-saturation tensor-parallel trace-speedup use-burst-trace users
    validation-trace xlsx-output
"""
"""Its flags, of mlcommons/storage, kv_cache_benchmark/kv_cache/cli.py, November 2026, and their older spellings."""


def test_the_page_for_users_of_kv_cache_py_names_each_of_its_flags_once() -> None:
    text = (ROOT / "docs" / "from-kv-cache-py.md").read_text()
    table = text[text.index("## Flag by flag") : text.index("## The proposal's")]
    rows = re.findall(r"^\| (`--.*?) \| (.+) \|$", table, re.M)
    named = [flag for first, _ in rows for flag in re.findall(r"`--([a-z-]+)`", first)]
    assert sorted(named) == sorted(KV_CACHE_PY.split())
