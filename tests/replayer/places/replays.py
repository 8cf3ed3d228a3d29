"""Replays in a cache directory."""

from pathlib import Path
from typing import Any

from replayer.run.console import RunConsole
from replayer.run.figures import Screen
from tests.replayer.run.replays import go, options
from tracegen.schema import Trace

MIB = 1 << 20


class Lines(Screen):
    """Keeps the lines that a run shows before it starts."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def replayed(trace: Trace, place: Path, *, run: str = "run", nonce: int = 0, **settings: Any) -> dict[str, Any]:
    """run.json of a replay on an nvme tier alone."""
    console = RunConsole(settings.pop("console", None))
    info, _ = go(trace, place, options(0, None), run=run, nonce=nonce, console=console, **({"workers": 2} | settings))
    return info
