"""Progress bars."""

from typing import Any

from tqdm import tqdm

from replayer.engine import Engine
from replayer.wording import counted


class RunBar:
    """Progress by ops, or by time where the run is cut at a time."""

    def __init__(self, ops: int, duration_s: float | None) -> None:
        self._duration_s = duration_s
        self._bar = bar("replaying", int(duration_s) if duration_s else ops, "s" if duration_s else "op")

    def __enter__(self) -> "RunBar":
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def show(self, engine: Engine) -> None:
        """Say how far it is."""
        elapsed, state = self._bar.format_dict["elapsed"], engine.state()
        self._bar.update((min(self._duration_s, elapsed) if self._duration_s else state.retired) - self._bar.n)
        rate = state.moved_bytes / 2**30 / elapsed if elapsed else 0
        hit_rate = state.hits / state.reads if state.reads else 0
        draining = f", draining: {counted(state.in_window, 'op')} left" if state.cut else ""
        failed = f", {state.failures:,} FAILED" if state.failures else ""
        self._bar.set_postfix_str(f"{rate:.2f} GiB/s, hit rate {hit_rate:.1%}{draining}{failed}")


def bar(what: str, total: int, unit: str) -> "tqdm[Any]":
    """A bar on stderr, where that is a terminal; seconds have no rate."""
    form = "{l_bar}{bar}| {n_fmt}/{total_fmt} s [{elapsed}{postfix}]" if unit == "s" else None
    return tqdm(desc=what, total=total, unit=unit, unit_scale=True, disable=None, leave=False, bar_format=form)
