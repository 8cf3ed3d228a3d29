"""Replays in a cache directory."""

from decimal import Decimal
from pathlib import Path
from typing import Any

from replayer.planning.model import TokenBytes
from replayer.planning.plan import PlanOptions
from replayer.run.replay import replay
from replayer.run.settings import Settings
from tracegen.schema import Trace

UNIT = 1 << 16  # bytes of a token
MIB = 1 << 20
NAMED = "20260102T030405678901-4242"


def replayed(
    trace: Trace, place: Path, *, run: str = "run", nonce: int | None = None, **settings: Any
) -> dict[str, Any]:
    (place / "cache").mkdir(exist_ok=True)
    chosen = Settings(**({"workers": 2, "cache_dir": place / "cache"} | settings))
    plan = PlanOptions(TokenBytes(UNIT), (Decimal(0), Decimal(0), None), demand=chosen.demand)
    return replay(trace, "test", plan, chosen, place / run, nonce=nonce)
