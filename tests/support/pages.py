"""Commands on a page of the docs, and a recipe that makes them quick."""

import re
import subprocess
from pathlib import Path

from tests.support.paths import ROOT

SMALL = f"""
think_s = [0.1, 0.2]
users = 4
requests = 12
[mix]
personas = 1
sharegpt = 1
[personas.coding]
weight = 0
[personas.document]
weight = 0
[personas.chatbot]
context = [64, 256]
generation = [1, 40]
think_s = [0.05, 0.1]
[sharegpt]
path = "{ROOT}/tracegen/recipes/sample_sharegpt.json"
[replay]
model = "tiny-1b"
"""


COMMANDS = ("tracegen", "replayer", "analysis")


def words(command: str, place: Path) -> list[str]:
    """What a shell would pass to a command."""
    told = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], check=True, cwd=place, capture_output=True)
    return told.stdout.decode().split("\0")[:-1]


def block(page: str, language: str = "python") -> str:
    """The page's program, or its file."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    return str(found)
