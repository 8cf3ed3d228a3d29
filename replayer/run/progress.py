"""Progress bars."""

from shutil import get_terminal_size
from time import monotonic
from typing import Any

from tqdm import tqdm

from replayer.bindings.compiled import State
from replayer.engine.engine import Engine
from replayer.planning.pace import Span
from tracegen.errors import format_count


class RunBar:
    """Progress by ops, or by time where the run is cut at a time; then of its drain."""

    def __init__(self, ops: int, span: Span) -> None:
        self._span, self._began = span, monotonic()
        self._drained_from_s: float | None = None
        limit = span.duration_s
        self._total = float(limit or ops)
        self.bar = bar("replaying", int(self._total), "s" if limit else "op")

    def __enter__(self) -> "RunBar":
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.close()

    def show(self, engine: Engine) -> None:
        """Say how far it is."""
        elapsed, state = monotonic() - self._began, engine.state()
        if state.cut and self._drained_from_s is None:
            self._drain(state.left, elapsed)
        left = f", at most {format_count(state.left, 'op')} left" if state.cut else ""
        self.bar.update(max(0.0, min(self._done(state, elapsed), self._total) - self.bar.n))
        rate = state.moved_bytes / 2**30 / elapsed if elapsed else 0
        hit_rate = state.hits / state.reads if state.reads else 0
        failed = f", {state.failures:,} FAILED" if state.failures else ""
        self.bar.set_postfix_str(f"{rate:.2f} GiB/s, hit rate {hit_rate:.1%}{left}{failed}")

    def _done(self, state: State, elapsed: float) -> float:
        """Of what the bar is of."""
        if self._drained_from_s is None:
            return elapsed if self._span.duration_s else float(state.retired)
        return self._total - state.left if self._span.drain_s is None else elapsed - self._drained_from_s

    def _drain(self, left: int, elapsed: float) -> None:
        """From now on the bar is of the drain: of its limit, or of the ops that are left."""
        self._drained_from_s, limit = elapsed, self._span.drain_s
        self.bar.set_description("draining", refresh=False)
        self.bar.unit = "op" if limit is None else "s"
        self._total = float(left if limit is None else limit)
        self.bar.reset(self._total)


def bar(what: str, total: int, unit: str) -> "tqdm[Any]":
    """A bar on stderr, where that is a terminal and there is something to do; seconds have no rate."""
    form = "{l_bar}{bar}| {n_fmt}/{total_fmt} s [{elapsed}{postfix}]" if unit == "s" else None
    shown = None if total else True
    width = get_terminal_size().columns  # some terminals say 0, where a bar has no room
    return tqdm(
        desc=what, total=total, unit=unit, unit_scale=True, disable=shown, leave=False, bar_format=form, ncols=width
    )
