"""Pairs of measurements in one run, and how they are shown."""

import statistics
import time
from collections.abc import Callable

PAIRS = 5


def pairs(ours: Callable[[], float], reference: Callable[[], float], count: int = PAIRS) -> list[tuple[float, float]]:
    """Measure both in turn; one pair to warm up is thrown away."""
    return [(ours(), reference()) for _ in range(count + 1)][1:]


def show(what: str, measured: list[tuple[float, float]], unit: str, target: str) -> None:
    """The median of each side and of the ratio, pair by pair."""
    mine, theirs = (statistics.median(side) for side in zip(*measured, strict=True))
    ratio = statistics.median(a / b for a, b in measured)
    print(f"  {what:46} {mine:10.3f} {unit} against {theirs:10.3f}: ratio {ratio:.2f} (wanted {target})", flush=True)


def elapsed(work: Callable[[], object]) -> float:
    """Seconds of wall clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
