"""A plain second implementation of pacing, written from docs/replaying.md alone: when each op is due."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from replayer.planning.pace import Pace

MS = 1_000_000  # ns


@dataclass(frozen=True)
class Due:
    """What pacing knows of an op; `computed`: tokens whose KV the op had to compute."""

    op_id: int
    request: int
    user: int
    step: int
    time_ns: int
    think_ns: int
    new_tokens: int
    computed: int


def wait_ns(op: Due, pace: Pace) -> Fraction:
    """Generation and recomputation after an op."""
    prefill = op.computed * 10**9 / Fraction(pace.prefill_tok_s) if pace.prefill_tok_s else Fraction(0)
    return op.new_tokens * Fraction(pace.token_ms) * MS + prefill


def due_times(
    ops: Sequence[Due], pace: Pace, end_of: Callable[[int, Fraction], Fraction | int], admitted: dict[int, int]
) -> dict[int, Fraction]:
    """Per op_id, exactly; `end_of` says when an op that is due then has ended, `admitted` (asap) when one came."""
    speedup = Fraction(pace.speedup)
    due: dict[int, Fraction] = {}
    end: dict[int, Fraction] = {}
    requests: dict[int, list[Due]] = {}
    latest: dict[int, int] = {}  # user -> its request before this one

    def done(request: list[Due], step: int) -> Fraction:
        """A step has ended, the generation after it included."""
        before = max(end[op.op_id] for op in request if op.step <= step)
        return before + sum((wait_ns(op, pace) for op in request if op.step == step), Fraction(0))

    for op in ops:
        mine = requests.setdefault(op.request, [])
        if earlier := [other.step for other in mine if other.step < op.step]:
            at = done(mine, max(earlier))
        elif mine:  # the first step: as its first op, but for the depth
            at = due[mine[0].op_id]
        elif pace.kind == "asap":
            at = Fraction(admitted[op.op_id])
        elif pace.kind == "closed" and op.user in latest:
            before = requests[latest[op.user]]
            at = done(before, before[-1].step) + op.think_ns / speedup
        else:
            at = op.time_ns / speedup
        beside = sorted(end[other.op_id] for other in mine if other.step == op.step)
        if pace.request_depth is not None and len(beside) >= pace.request_depth:
            at = max(at, beside[len(beside) - pace.request_depth])
        latest[op.user] = op.request
        mine.append(op)
        due[op.op_id] = at
        end[op.op_id] = Fraction(end_of(op.op_id, at))
    return due


def check_depth(ops: Sequence[Due], pace: Pace, spans: dict[int, tuple[int, int]]) -> None:
    """Of a request run ops of one step only, and no more at once than its depth; spans: (start, end) per op_id."""
    requests: dict[int, list[Due]] = {}
    for op in ops:
        requests.setdefault(op.request, []).append(op)
    for request in requests.values():
        for op in request:
            start, end = spans[op.op_id]
            assert all(spans[other.op_id][1] <= start for other in request if other.step < op.step)
            over = [other for other in request if spans[other.op_id][0] <= start < spans[other.op_id][1]]
            assert pace.request_depth is None or end == start or len(over) <= pace.request_depth
