"""Replays in a cache directory."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from replayer.models.geometry import TokenBytes
from replayer.planning.plan import PlanOptions
from replayer.run.console import RunConsole
from replayer.run.figures import Screen
from replayer.run.replay import Replay
from tests.support.run_settings import settings as make_settings
from tracegen.schema import Trace

UNIT = 1 << 16  # bytes of a token
MIB = 1 << 20
NAMED = "20260102T030405678901-4242"


class Lines(Screen):
    """Keeps the lines that a run shows before it starts."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def replayed(
    trace: Trace,
    place: Path,
    *,
    run: str = "run",
    nonce: int | None = None,
    console: Screen | None = None,
    **settings: Any,
) -> dict[str, Any]:
    (place / "cache").mkdir(exist_ok=True)
    chosen = make_settings(**({"workers": 2, "cache_dir": place / "cache"} | settings))
    plan = PlanOptions(TokenBytes(UNIT), (Decimal(0), Decimal(0), None), demand=chosen.demand)
    chosen_nonce = {} if nonce is None else {"nonce": nonce}
    Replay(trace, "test", plan, chosen, place / run, console=RunConsole(console), **chosen_nonce).run()
    info: dict[str, Any] = json.loads((place / run / "run.json").read_text())
    return info
