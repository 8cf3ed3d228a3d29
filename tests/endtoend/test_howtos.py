"""The pages for people with a task: every command on them is run, on less work than they name."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import here
from tests.support.pages import COMMANDS, SMALL, block, words
from tests.support.paths import ROOT

GRID = """
trials = 1
[[case]]
name = "option_1"
recipe = "RECIPE"
model = "tiny-1b"
set = {users = 2, requests = 3, "personas.document.weight" = 0, "personas.chatbot.think_s" = [0.05, 0.1]}
"""


HOWTOS = (
    *("submitting.md", "two-drives.md", "exchange.md"),
    *("sizing.md", "wear.md", "scenarios.md", "policies.md"),
)
SHORTER = {
    r"/mnt/\w+": "cache",
    r"replayer sweep drive\b": "replayer sweep drive.toml",
    r"tracegen generate (chat|mixed)\b": "tracegen generate small.toml",
    "llama3.1-8b|llama3.1-70b-instruct": "tiny-1b",
    "--cpu-mem-gb 4": "--cpu-mem-gb 0.01",
    "--duration 300": "--duration 1",
    r"(replayer run .*)": r"\1 --users 2 --speedup 20",
    r"flag layout=null --flag throttle=nvme=\wGB/s,80us -o (today|tomorrow)": r"flag layout=null --flag throttle=nvme=9GB/s,80us -o \1",
    "--users (200|40)": "--users 2",
    r"(replayer sweep scenarios .*)": r"\1 --case cpu-only --case storage-only --case cpu+storage --trials 1"
    " --flag model=tiny-1b --flag cycles=1 --flag users=8",
    "throttle=nvme=1000": "throttle=nvme=900",
}
"""What a command is made of, and what stands for it here."""


def commands(page: str) -> list[str]:
    """The indented lines that begin with a command."""
    text = (ROOT / "docs" / page).read_text()
    found = re.findall(r"^    ((?:tracegen|replayer|analysis|make|tar) .*)$", text, re.M)
    return [command for command in found if "GRID.toml" not in command]


def shorter(command: str, place: Path) -> str:
    if command.startswith("make "):
        goal, *variables = shlex.split(command)[1:]
        given = dict(one.split("=", 1) for one in variables) | {"CACHE_DIR": "cache"}
        if "ORG" not in given:  # the small one stands for another's, to be compared with later
            given |= {"RESULTS": "others", "ORG": "duff"} if goal == "submission" else {}
        given |= {"GRID": str(place / ("grid.toml" if goal == "sweep" else "options.toml"))}
        if goal == "submission":
            given |= {"SCALE": "smoke", "DIVISION": "open", "TRIALS": "1"}
        paths = {name: str(place / given[name]) for name in ("CACHE_DIR", "RESULTS")}
        return shlex.join(
            ["make", "-C", str(ROOT), "-o", "setup", goal, *(f"{n}={v}" for n, v in (given | paths).items())]
        )
    for pattern, instead in SHORTER.items():
        command = re.sub(pattern, instead, command)
    return command.replace("-closed", "-open").replace("/closed/", "/open/")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the traces/ that pages name, in small."""
    (tmp_path / "small.toml").write_text(SMALL)
    one = GRID.replace("RECIPE", "smoke")
    (tmp_path / "grid.toml").write_text(one)
    (tmp_path / "drive.toml").write_text(one)
    (tmp_path / "twice.toml").write_text(block("wear.md", "toml"))
    (tmp_path / "cache").mkdir()
    options = "".join(one.replace("trials = 1", "").replace("option_1", f"option_{n}") for n in (1, 2, 3))
    (tmp_path / "options.toml").write_text(options)
    return tmp_path


def of_make(command: str, place: Path) -> list[str]:
    """The commands that make would run."""
    told = subprocess.run(
        [*words(command, place), "-n", "--no-print-directory"], check=True, cwd=place, capture_output=True, text=True
    )
    return told.stdout.replace("\\\n", " ").strip().splitlines()


def done(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    tool, *arguments = words(command, place)
    if tool not in COMMANDS:
        return subprocess.run([tool, *arguments], check=False, cwd=place, capture_output=True, text=True)
    return here(tool, *arguments, cwd=place)


@pytest.mark.usefixtures("series_here", "charts_that_draw_nothing", "latencies_once")
@pytest.mark.parametrize("page", HOWTOS)
def test_every_command_of_the_page_works(page: str, place: Path) -> None:
    told = commands(page)
    assert len(told) >= 3, "the page has lost its commands, or this test cannot read them"
    for command in told:
        short = shorter(command, place)
        for one in of_make(short, place) if command.startswith("make ") else [short]:
            ran = done(one, place)
            assert ran.returncode == 0, f"{command}\n{one}\n{ran.stdout}{ran.stderr}"


def test_the_sweep_of_the_page_is_what_the_command_takes(place: Path) -> None:
    """Its example, as printed, makes the cases that it says."""
    text = (ROOT / "docs" / "sweeps.md").read_text()
    example = "\n".join(line[4:] for line in re.findall(r"^    .*$|^$", text[text.index("    trials = 3") :], re.M))
    example = example[: example.index('"prefix.share" = 0.3') + 20].replace("../../traces", str(ROOT / "traces"))
    (place / "example.toml").write_text(example)
    ran = done("replayer sweep example.toml --cache-dir cache -o sweep --dry-run", place)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("chat-cpu_mem_gb=") == 2 * 3 * 2
    assert "chat-cpu_mem_gb=0-users=25-max_concurrent_allocs=16:" in ran.stdout
    assert not (place / "sweep").exists()
