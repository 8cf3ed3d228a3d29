"""Pages of the docs: every command on them is run, on less work than they name."""

import json
import re
import shlex
import shutil
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
from tests.support.submissions import reports_of_names
from tracegen.schema import Trace

PAGES = (
    *("your-own-log.md", "load-curve.md", "many-hosts.md", "from-kv-cache-py.md", "simulating.md"),
    *("what-if.md", "submitting.md", "two-drives.md", "exchange.md", "wear.md", "sweeps.md"),
)
ONE_CASE = """
trials = 1
[[case]]
name = "option_1"
recipe = "smoke"
model = "tiny-1b"
set = {users = 2, requests = 3, "personas.document.weight" = 0, "personas.chatbot.think_s" = [0.05, 0.1]}
"""
MPIRUN = f"mpirun --allow-run-as-root --oversubscribe -n 2 {sys.executable} -m replayer"
SMALLER = {
    r"/mnt/\w+": "cache",
    "traces/mooncake_excerpt": str(ROOT / "traces" / "mooncake_excerpt"),
    r"simulate chat.parquet --model": "simulate trace.parquet --model",
    r"tracegen generate (chat|mixed)( --users \d+)?( --duration \d+)?": "tracegen generate small.toml",
    r"tracegen generate mlperf_\w+ .* -o": "tracegen generate small.toml -o",
    r"tracegen generate --sharegpt ShareGPT.json .* -o": "tracegen generate small.toml --set mix.personas=0 -o",
    r"tracegen generate --set mix.personas=1 (.*) --users 50 --duration 5m": r"tracegen generate small.toml \1",
    "--users (40|100)": "--users 2",
    r"(replayer autoscale .*--predict .*)": r"\1 --users 2 --duration 1 --warmup 0",
    r"replayer sweep drive\b": "replayer sweep drive.toml",
    r"flag layout=null --flag throttle=nvme=\wGB/s,80us": "flag layout=null --flag throttle=nvme=9GB/s,80us",
    "throttle=nvme=1000": "throttle=nvme=900",
    "replayer sweep engines .*": "cp -r server engines",
    "replayer sweep load ": "replayer sweep load.toml ",
    r"(replayer sweep scenarios .*)": r"\1 --case cpu-only --case storage-only --case cpu+storage --trials 1"
    " --flag model=tiny-1b --flag cycles=1 --flag users=8",
    "llama3.1-8b": "tiny-1b",
    r"--cpu-mem-gb (4|16)\b": "--cpu-mem-gb 0.01",  # a replay touches all of it before it begins
    r"(replayer run .*)--duration (5m|300)": r"\1--duration 0.3",
    "--speedup 10 ": "",
    "(replayer run .*)--cache-dir cache": r"\1",
    r"replayer run (?!.*--layout)": "replayer run --layout null --speedup 100 ",
    r"(replayer autoscale .*)--cache-dir cache": r"\1--layout null --users 1 --duration 0.3 --warmup 0 --trials 1",
    r"^(mpirun .*|srun .*)replayer (run .*)$": rf"{MPIRUN} \2",
    "--generation-mode realistic --decode reread --duration 30": "--decode reread --duration 1",
    r"(replayer sweep GRID.toml .*)$": r"\1 --dry-run",
    "speedup=4": "speedup=800",
    "load-speedup=1/": "load-speedup=100/",
}
"""What a command is made of, and what stands for it here: memory alone, fewer users, this host."""


def commands(page: str) -> list[str]:
    """The indented lines that begin with a command."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^    ((?:{'|'.join(COMMANDS)}|make|python|mpirun|tar) .*)$", text, re.M)


def smaller(command: str) -> str:
    for pattern, instead in SMALLER.items():
        command = re.sub(pattern, instead, command)
    command = re.sub("^python ", f"{sys.executable} ", command)
    return command.replace("-closed", "-open").replace("/closed/", "/open/")


def list_made(command: str, place: Path) -> list[str]:
    """The commands that make would run for a goal, with the smallest submission."""
    goal, *variables = shlex.split(command)[1:]
    given = dict(variable.split("=", 1) for variable in variables) | {"CACHE_DIR": "cache"}
    if "ORG" not in given:  # the small one stands for another's, to be compared with later
        given |= {"RESULTS": "others", "ORG": "duff"}
    given |= {"GRID": str(place / "options.toml"), "SCALE": "smoke", "DIVISION": "open", "TRIALS": "1"}
    given |= {name: str(place / given[name].lstrip("/")) for name in ("CACHE_DIR", "RESULTS")}
    full = ["make", "-C", str(ROOT), "-o", "setup", "-n", "--no-print-directory", goal]
    full += [f"{name}={value}" for name, value in given.items()]
    made = subprocess.run(full, check=True, cwd=place, capture_output=True, text=True).stdout
    several = "MPIRUN" in given  # its hosts are not here
    return [] if several else made.replace("\\\n", " ").strip().splitlines()


def grid(page: str) -> str:
    """The page's sweep."""
    (found,) = re.findall(
        r"^((?:    .*\n|\n)*?    \[\[case\]\]\n(?:    .*\n)+)", (ROOT / "docs" / page).read_text(), re.M
    )
    text = "".join(line[4:] for line in found.splitlines(keepends=True) if "replayer" not in line)
    return text[text.index("trials") :]


def replaced(text: str, changes: dict[str, str]) -> str:
    """The text with all these changes; each of them must apply."""
    for was, instead in changes.items():
        assert was in text
        text = text.replace(was, instead)
    return text


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with what pages take for granted: a trace, logs of a gateway, the page's sweeps."""
    (tmp_path / "cache").mkdir()
    steps = [(op, key, 32) for key in range(4) for op in ("w", "r")]
    traces.write(tmp_path / "trace.parquet", traces.columns(steps, [n // 2 for n in range(8)]))
    shared, rows = list(range(1100)), []
    for number in range(12):
        ids = [*shared, *range(2000 + number, 2400 + 2 * number)]
        usage = {"prompt_tokens": len(ids), "completion_tokens": 20 + number}
        rows.append({"created": 1763800000 - number, "user": f"u{number % 4}", "usage": usage, "prompt_token_ids": ids})
    for name, keys in (("gateway", ["created", "user", "usage"]), ("tokens", list(rows[0]))):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({k: row[k] for k in keys}) + "\n" for row in rows))
    lines = [f"{1763800000.5 - n},{2000 - 90 * n},{20 + n},s{n % 4}" for n in range(12)]
    (tmp_path / "log.csv").write_text("\n".join(["time,prompt_tokens,output_tokens,session", *lines]))
    load = re.sub(r"duration = .*\nwarmup = .*\n", 'duration = "300ms"\nlayout = "null"\n', grid("load-curve.md"))
    load_changes = {"trials = 3\npause_s = 30": "trials = 1", '"chat"': '"small.toml"', "llama3.1-8b": "tiny-1b"}
    load_changes |= {
        "[0.5, 1, 2, 4]": "[100, 800]",
        "storage_capacity_gb = 200": "users = 2",
        "cpu_mem_gb = 4": "cpu_mem_gb = 0.01",
    }
    server = {"trials = 3": "trials = 1", "mooncake": "trace", "speedup = 4": "speedup = 100", "= 15.625": "= 0.01"}
    options = (ONE_CASE.replace("trials = 1", "").replace("option_1", f"option_{number}") for number in (1, 2, 3))
    files = {
        "small.toml": SMALL,
        "GRID.toml": ONE_CASE,
        "drive.toml": ONE_CASE,
        "options.toml": "".join(options),
        "load.toml": replaced(load, load_changes),
        "server.toml": replaced(block("simulating.md", "toml"), server),
        "twice.toml": block("wear.md", "toml"),
        "sixtyfourth.json": block("simulating.md", "json"),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def done(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    if command.split(maxsplit=1)[0] in COMMANDS:
        tool, *arguments = words(command, place)
        return here(tool, *arguments, cwd=place)
    return subprocess.run(["bash", "-c", command], check=False, cwd=place, capture_output=True, text=True)


@pytest.mark.usefixtures("series_here", "charts_that_draw_nothing", "latencies_once")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_works(page: str, place: Path) -> None:
    told = commands(page)
    assert len(told) >= 3, "the page has lost its commands, or this test cannot read them"
    for command in told:
        if command.startswith("mpirun") and not shutil.which("mpirun"):
            pytest.skip("needs mpirun")
        for each in list_made(command, place) if command.startswith("make ") else [smaller(command)]:
            with reports_of_names():
                ran = done(each, place)
            assert ran.returncode == 0, f"{command}\n{each}\n{ran.stdout}{ran.stderr}"
    if page == "load-curve.md":
        assert list((place / "pictures").glob("*.svg"))
    if page == "your-own-log.md":
        mine, log, blocks = (Trace(place / f"{name}.parquet").metadata for name in ("mine", "log", "blocks"))
        assert (log.counts["requests"], log.counts["sessions"]) == (12, 4)
        assert (mine.counts["requests"], blocks.counts["requests"], blocks.block_tokens) == (12, 12, 512)
        batch = next(iter(Trace(place / "blocks.parquet").batches()))
        assert batch["tokens"][batch["op"] == 1].sum() >= 11 * 1024, "two whole blocks are shared by all"


def test_the_sweep_of_the_page_is_what_the_command_takes(place: Path) -> None:
    """Its example, as printed, makes the cases that it says."""
    text = (ROOT / "docs" / "sweeps.md").read_text()
    example = "\n".join(line[4:] for line in re.findall(r"^    .*$|^$", text[text.index("    trials = 3") :], re.M))
    example = example[: example.index('"prefix.share" = 0.3') + 20].replace("../../traces", str(ROOT / "traces"))
    (place / "example.toml").write_text(example)
    ran = done("replayer sweep example.toml --cache-dir cache -o sweep --dry-run", place)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("chat-cpu_mem_gb=") == 2 * 3 * 2
    assert "chat-cpu_mem_gb=0-users=25-max_concurrent_allocs=16" in ran.stdout
    assert not (place / "sweep").exists()


def test_the_page_on_load_curves_shows_the_sweep_that_ships() -> None:
    shipped = sweep.find_sweep("load")
    assert tomllib.loads(grid("load-curve.md")) == tomllib.loads(shipped.read_text())
    found = sweep.load_sweep(shipped)
    assert [case.name for case in found.cases] == [f"load-speedup={n}" for n in (0.5, 1, 2, 4)]


ELSEWHERE = re.compile(
    r"replayer run|--cache-dir|compare with |summary run1|gateway.jsonl|tokens.jsonl|log.csv|mine.parquet|blocks.parquet"
)
"""Commands that measure, and those that read what was measured: no two outputs are alike."""


def list_printed(page: str) -> list[tuple[str, str]]:
    """The commands of a page, each with the output shown below it."""
    found: list[tuple[str, list[str]]] = []
    shown = False
    for line in (ROOT / "docs" / page).read_text().splitlines():
        if re.match(rf"    ({'|'.join(COMMANDS)}) ", line):
            found.append((line.strip(), []))
            shown = True
        elif line.startswith("    ") and shown:
            found[-1][1].append(line)
        elif line:
            shown = False
    return [(command, "\n".join(lines)) for command, lines in found]


def flat(text: str) -> str:
    """Pages break long lines."""
    return " ".join(text.split())


@pytest.mark.usefixtures("charts_that_draw_nothing")
@pytest.mark.parametrize("page", ["sizing.md", "wear.md", "policies.md", "why.md", "your-own-log.md"])
def test_outputs_of_the_page_are_those_of_its_commands(page: str, tmp_path: Path) -> None:
    """The commands as printed, on all the work that they name."""
    (tmp_path / "twice.toml").write_text(block("wear.md", "toml"))
    (tmp_path / "traces").symlink_to(ROOT / "traces")
    for command, output in list_printed(page):
        if ELSEWHERE.search(command):
            assert not output
            continue
        ran = done(command, tmp_path)
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        rest = flat(ran.stdout)
        for part in filter(None, map(flat, output.split("…"))):
            assert part in rest, f"{command}\n{part}\n--- not in ---\n{ran.stdout}"
            rest = rest.partition(part)[2]
