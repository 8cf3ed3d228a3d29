"""How far an execution is, by hand: its time, its ops, its drain; rates of the last second."""

from typing import Any

import numpy as np
import pytest

from replayer.bindings.compiled import RECORD, State
from replayer.planning.moves import HIT, NVME
from replayer.planning.pace import Span
from replayer.run.figures import Figures
from replayer.run.gauge import Gauge


class Watched:
    """A gauge whose clock stands at `now_s`."""

    def __init__(self, span: Span, ops: int = 1000) -> None:
        self.now_s = 100.0
        self.gauge = Gauge(ops, span, (1, NVME), clock=lambda: self.now_s)
        self.gauge.add(np.zeros(0, RECORD))

    def read(self, after_s: float, *, nvme_bytes: int = 0, **state: Any) -> Figures:
        self.now_s = 100.0 + after_s
        if nvme_bytes:
            record = np.zeros(1, RECORD)
            record["move"], record["from_tier"], record["to_tier"], record["size_bytes"] = HIT, NVME, -1, nvme_bytes
            self.gauge.add(record)
        return self.gauge.read(State(**({"steady_ns": 0} | state)))


def progress(figures: Figures) -> tuple[str, str, float, float, float | None]:
    return figures.stage, figures.unit, figures.done, figures.total, figures.left_s


def test_a_run_with_a_duration_is_of_seconds() -> None:
    run = Watched(Span(duration_s=10))
    assert progress(run.read(4)) == ("replaying", "s", 4, 10, 6)
    assert progress(run.read(11)) == ("replaying", "s", 10, 10, 0), "never more than all"


def test_a_drain_with_a_limit_is_of_seconds() -> None:
    run = Watched(Span(duration_s=10, drain_s=4))
    begun = run.read(10, cut=1, left=70)
    assert progress(begun) == ("draining", "s", 0, 4, 4), "not at its end while something is left"
    assert begun.ops_left == 70
    assert progress(run.read(11, cut=1, left=30)) == ("draining", "s", 1, 4, 3)


def test_a_drain_without_a_limit_is_of_ops() -> None:
    run = Watched(Span(duration_s=10))
    assert progress(run.read(12, cut=1, left=70)) == ("draining", "op", 0, 70, None), "nothing tells how fast it is"
    assert progress(run.read(16, cut=1, left=30)) == ("draining", "op", 40, 70, 3), "40 ops took 4 s, so 30 take 3 s"


@pytest.mark.parametrize(("ops", "total"), [(None, 1000), (400, 400), (2000, 1000)])
def test_a_run_to_its_end_is_of_ops(ops: int | None, total: int) -> None:
    run = Watched(Span(ops=ops))
    assert progress(run.read(0, retired=0)) == ("replaying", "op", 0, total, None)
    assert progress(run.read(6, retired=300)) == ("replaying", "op", 300, total, 6 * (total - 300) / 300)


def test_a_warm_up_is_named_until_an_op_after_it_was_logged() -> None:
    run = Watched(Span(duration_s=10, warmup_s=2))
    assert run.read(1, steady_ns=-1).stage == "warming up"
    assert run.read(3, steady_ns=2_000_000_000).stage == "replaying"
    assert Watched(Span(duration_s=10)).read(0, steady_ns=-1).stage == "replaying", "there is none"


def test_rates_are_of_the_last_second() -> None:
    run = Watched(Span(duration_s=100))
    rates = [run.read(half / 2, nvme_bytes=2**30 if half <= 4 else 0).tiers["nvme"].read_gib_s for half in range(1, 9)]
    assert rates == [1, 2, 2, 2, 1, 0, 0, 0], "a GiB each half second, until 2 s"
    assert run.read(4.5).tiers["cpu"].read_gib_s == 0
