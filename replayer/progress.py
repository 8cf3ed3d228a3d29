"""Progress bars."""

from typing import Any

from tqdm import tqdm

from replayer.engine import Engine
from replayer.log import Ledger


class RunBar:
    """Progress by ops, or by time where the run is cut at a time."""

    def __init__(self, ops: int, duration_s: float | None) -> None:
        self._duration_s = duration_s
        self._bar = bar("replaying", int(duration_s) if duration_s else ops, "s" if duration_s else "op")

    def __enter__(self) -> "RunBar":
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def show(self, engine: Engine, ledger: Ledger) -> None:
        """Say how far it is."""
        elapsed = self._bar.format_dict["elapsed"]
        self._bar.update((min(self._duration_s, elapsed) if self._duration_s else engine.executed_ops) - self._bar.n)
        rate = ledger.moved_bytes / 2**30 / elapsed if elapsed else 0
        failed = f", {engine.failures:,} FAILED" if engine.failures else ""
        self._bar.set_postfix_str(f"{rate:.2f} GiB/s, hit rate {ledger.totals.hit_rate():.1%}{failed}")


def bar(what: str, total: int, unit: str) -> "tqdm[Any]":
    """A bar on stderr, where that is a terminal."""
    return tqdm(desc=what, total=total, unit=unit, unit_scale=True, disable=None, leave=False)
