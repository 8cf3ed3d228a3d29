"""When a request's ops are due: pace, the order of its steps, generation and recomputation, request depth.

No I/O, no clock of its own, no threads. An op is let go when its due time is known, and handed over when it has come.
"""

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from replayer.ordering import Op
from tracegen.schema import InputError

TOKEN_MS: Final = {"none": 0.0, "fast": 2.0, "realistic": 30.0}  # of kv-cache.py's generation modes
_NEVER: Final = -1


@dataclass(frozen=True)
class Pace:
    """What makes a request wait.

    Attributes:
        kind: when a request may start. asap: as soon as the window holds it. closed: a user's first at its time, the
            next its think time after the last one completed, generation included. open: at its time.
        speedup: divides the trace's times and think times.
        token_ms: generation of one token.
        prefill_tok_s: tokens per second that a prefill computes; None: it takes no time.
        request_depth: ops of one step at once; None: all.
    """

    kind: Literal["asap", "closed", "open"] = "asap"
    speedup: float = 1
    token_ms: float = 0
    prefill_tok_s: float | None = None
    request_depth: int | None = 1

    def check(self) -> None:
        """Refuse what means nothing.

        Raises:
            InputError: a rate is not more than 0, or a time is negative.
        """
        positive = {"--speedup": self.speedup, "--prefill-tok-s": self.prefill_tok_s}
        for flag, value in positive.items():
            if value is not None and not 1e-3 <= value < 1e12:
                raise InputError(f"{flag} {value:g} must be at least 0.001 and below 1e12.")
        if not 0 <= self.token_ms < 1e9:
            raise InputError(f"--token-ms {self.token_ms:g} must be 0 or more, and below 1e9.")
        if self.request_depth is not None and self.request_depth < 1:
            raise InputError(f"--request-depth {self.request_depth} must be at least 1, or all.")

    def waits(self, new_tokens: NDArray[np.int32], computed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nanoseconds that the step after each op waits: shape as the arguments.

        Args:
            new_tokens: generated after the op.
            computed: tokens whose KV the op had to compute, new or gone.
        """
        prefill_ns = 1e9 / self.prefill_tok_s if self.prefill_tok_s else 0
        return (new_tokens * (self.token_ms * 1e6) + computed * prefill_ns).astype(np.int64)


@dataclass(frozen=True)
class Span:
    """How much of the plan is executed, and from where on it counts.

    Attributes:
        duration_s: after so long nothing past the highest op already issued starts; None: the plan's end.
        warmup_ops: ops below this one are warm-up.
        warmup_s: so are ops up to the highest issued by then.
        max_errors: more failed moves end the run.
    """

    duration_s: float | None = None
    warmup_ops: int = 0
    warmup_s: float = 0
    max_errors: int = 100


class _Request:
    """A request in progress.

    Attributes:
        due_ns: when its present step was; _NEVER: not known yet, an earlier request of its user is not done.
        slots, freed: how many ops of the present step were let go, and when those that are done ended, in that order.
        wait_ns, end_ns: what the next step waits for, so far, and when the last op ended.
        whole: its last op is admitted.
    """

    __slots__ = (
        "due_ns", "end_ns", "follower", "freed", "ops", "running", "slots", "step", "think_ns", "wait_ns", "whole",
    )  # fmt: skip

    def __init__(self, due_ns: int, step: int, think_ns: int) -> None:
        self.due_ns, self.step, self.think_ns = due_ns, step, think_ns
        self.slots = self.wait_ns = self.end_ns = self.running = 0
        self.freed: deque[int] = deque()
        self.ops: deque[Op] = deque()
        self.whole = False
        self.follower: _Request | None = None


class Pacer:
    """Decides when ops are due.

    Args:
        let_go: called with an op and its due time once that time has come.
    """

    def __init__(self, pace: Pace, let_go: Callable[[Op, int], None]) -> None:
        self._let_go, self._closed, self._asap = let_go, pace.kind == "closed", pace.kind == "asap"
        self._speedup, self._depth = pace.speedup, pace.request_depth or 1 << 62
        self._requests: dict[int, _Request] = {}
        self._latest: dict[int, _Request] = {}  # per user, where closed: of requests not done the last
        self._free_ns = array("q")  # per user, where closed: when the last request that is done was
        self._timed: list[tuple[int, int, Op]] = []

    def admit(self, op: Op, now_ns: int) -> None:
        """Add the next op, in plan order."""
        request = self._requests.get(op.request)
        if request is None:
            request = self._requests[op.request] = self._begin(op, now_ns)
        request.ops.append(op)
        request.whole |= op.last
        self._advance(request, now_ns)

    def _begin(self, op: Op, now_ns: int) -> _Request:
        if self._asap:
            return _Request(now_ns, op.step, 0)
        time_ns = int(op.time_ns / self._speedup)
        if not self._closed:
            return _Request(time_ns, op.step, 0)
        request = _Request(time_ns, op.step, int(op.think_ns / self._speedup))
        if op.user >= len(self._free_ns):
            self._free_ns.extend([_NEVER] * (op.user + 1 + len(self._free_ns)))
        if (before := self._latest.get(op.user)) is not None:
            before.follower, request.due_ns = request, _NEVER
        elif (free_ns := self._free_ns[op.user]) != _NEVER:
            request.due_ns = free_ns + request.think_ns
        self._latest[op.user] = request
        return request

    def _advance(self, request: _Request, now_ns: int) -> None:
        """Let go what the request's order allows."""
        while request.ops and request.due_ns != _NEVER:
            op = request.ops[0]
            if op.step != request.step:
                if request.running:
                    return
                request.step, request.due_ns = op.step, request.end_ns + request.wait_ns
                request.slots = request.wait_ns = 0
                request.freed.clear()
            if request.running >= self._depth:
                return
            request.ops.popleft()
            request.running += 1
            due_ns = request.due_ns
            if request.slots >= self._depth:  # it takes the place of the first that ended
                due_ns = max(due_ns, request.freed.popleft())
            request.slots += 1
            if due_ns <= now_ns:
                self._let_go(op, due_ns)
            else:
                heappush(self._timed, (due_ns, op.op_id, op))

    def release(self, now_ns: int) -> None:
        """Let go every op whose time has come."""
        while self._timed and self._timed[0][0] <= now_ns:
            due_ns, _, op = heappop(self._timed)
            self._let_go(op, due_ns)

    def next_due(self) -> int | None:
        """When the next op is due of those whose time has not come; None: there are none."""
        return self._timed[0][0] if self._timed else None

    def complete(self, op: Op, now_ns: int) -> None:
        """An op is done: what waited for it may follow."""
        request = self._requests[op.request]
        request.freed.append(op.end_ns)
        request.running -= 1
        request.end_ns = max(request.end_ns, op.end_ns)
        request.wait_ns += op.wait_ns
        if request.ops:
            self._advance(request, now_ns)
        elif request.whole and not request.running:
            del self._requests[op.request]
            if self._closed:
                self._follow(op.user, request, now_ns)

    def _follow(self, user: int, request: _Request, now_ns: int) -> None:
        """A request is done: its user's next one begins after the pause."""
        done_ns = request.end_ns + request.wait_ns
        if (follower := request.follower) is not None:
            follower.due_ns = done_ns + follower.think_ns
            self._advance(follower, now_ns)
        else:
            self._free_ns[user] = done_ns
            del self._latest[user]
