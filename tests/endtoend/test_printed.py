"""What pages show as the output of a command is what the command prints."""

import re
from pathlib import Path

import pytest

from tests.support.command_line import here
from tests.support.pages import COMMANDS, block, words
from tests.support.paths import ROOT

ELSEWHERE = re.compile(r"replayer run|--cache-dir|compare with |summary run1|requests.jsonl|mine.parquet")
"""Commands that measure, and those that read what was measured: no two outputs are alike."""


def printed(page: str) -> list[tuple[str, str]]:
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


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the files that pages print."""
    (tmp_path / "twice.toml").write_text(block("wear.md", "toml"))
    (tmp_path / "traces").symlink_to(ROOT / "traces")
    return tmp_path


@pytest.mark.parametrize("page", ["sizing.md", "wear.md", "policies.md", "why.md", "your-own-log.md"])
def test_outputs_of_the_page_are_those_of_its_commands(page: str, place: Path) -> None:
    told = printed(page)
    last = max(number for number, (_, output) in enumerate(told) if output)
    for command, output in told[: last + 1]:
        if ELSEWHERE.search(command):
            assert not output
            continue
        tool, *arguments = words(command, place)
        ran = here(tool, *arguments, cwd=place)
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        rest = flat(ran.stdout)
        for part in filter(None, map(flat, output.split("…"))):
            assert part in rest, f"{command}\n{part}\n--- not in ---\n{ran.stdout}"
            rest = rest.partition(part)[2]
