"""The order that data demands of a plan's moves, and nothing more: which moves may run now.

No I/O, no clock of its own, no threads. Dependencies point backwards in plan order only, so the lowest unfinished op
can always proceed: nothing deadlocks with any number of workers and any window.
"""

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, Final

from replayer.waterfall import BYPASS, DELETE, DEMOTE, DROP, HIT, MISS, PROMOTE, STORE, Usable

_TAKES_ROOM: Final = frozenset((STORE, DEMOTE))
_FREES_ROOM: Final = frozenset((DEMOTE, PROMOTE, DROP, DELETE))
_NO_KEY: Final = frozenset((MISS, BYPASS))  # rows without I/O


class Op:
    """An admitted op: its columns as the log wants them, and how many of its moves are left."""

    __slots__ = ("columns", "followers", "left", "moves", "op_id", "request", "urgency")

    def __init__(self, op_id: int, request: int, qos: int, columns: tuple[Any, ...]) -> None:
        self.op_id, self.request, self.columns = op_id, request, columns
        self.urgency = (qos, op_id)
        self.moves: list[Move] = []
        self.left = 0
        self.followers: list[Op] = []


class Move:
    """A planned move and what it waits for.

    Attributes:
        due_ns, ready_ns: when pacing and the request's order allowed it, when the plan's dependencies did too.
    """

    __slots__ = (
        "blockers", "dependents", "done", "due_ns", "from_tier", "key", "kind", "op", "ready_ns", "seq", "size",
        "to_tier", "tokens",
    )  # fmt: skip

    def __init__(
        self, op: Op, seq: int, kind: int, key: int, from_tier: int, to_tier: int, size: int, tokens: int
    ) -> None:
        self.op, self.seq, self.kind, self.key = op, seq, kind, key
        self.from_tier, self.to_tier, self.size, self.tokens = from_tier, to_tier, size, tokens
        self.blockers, self.done = 0, False
        self.dependents: list[Move] = []
        self.due_ns = self.ready_ns = 0

    def __lt__(self, other: "Move") -> bool:
        return (self.op.urgency, self.seq) < (other.op.urgency, other.seq)


class _Key:
    """The unfinished moves of one key: the last barrier, and the hits since."""

    __slots__ = ("barrier", "hits", "pending", "prune_at")

    def __init__(self) -> None:
        self.barrier: Move | None = None
        self.hits: list[Move] = []
        self.pending, self.prune_at = 0, 64


class _Room:
    """The ledger of a limited tier: (bytes, the move that frees them), first in, first out."""

    def __init__(self, usable: int) -> None:
        self._entries: deque[tuple[int, Move | None]] = deque([(usable, None)])

    def take(self, size: int) -> Iterable[Move]:
        """Draw room from the front; the moves that free it."""
        freeing = []
        while size:
            count, move = self._entries.popleft()
            if count > size:
                self._entries.appendleft((count - size, move))
            size -= min(count, size)
            if move is not None:
                freeing.append(move)
        return freeing

    def free(self, size: int, move: Move) -> None:
        """Append room that `move` frees; what is free already becomes one entry, so that the ledger stays short."""
        folded = 0
        while self._entries and ((last := self._entries[-1][1]) is None or last.done):
            folded += self._entries.pop()[0]
        if folded:
            self._entries.append((folded, None))
        self._entries.append((size, move))


class Ordering:
    """Admits ops in plan order, hands out their moves when nothing they need is pending.

    Args:
        usable: bytes per tier, as the plan's.
    """

    def __init__(self, usable: Usable) -> None:
        self._rooms = [_Room(limit) if limit is not None else None for limit in usable]
        self._keys: dict[int, _Key] = {}
        self._last_op: dict[int, Op] = {}
        self._ready: list[Move] = []

    def admit(self, op: Op, moves: list[Move], now_ns: int) -> None:
        """Add the next op with its moves, in plan order.

        Ops of one request follow one another: request depth 1, which also makes a step wait for the one before.
        """
        op.moves, op.left = moves, len(moves)
        before = self._last_op.get(op.request)
        self._last_op[op.request] = op
        if before is not None:
            before.followers.append(op)
        for move in moves:
            move.due_ns = now_ns
            move.blockers = before is not None
            for needed in {*self._same_key(move), *self._room(move)}:
                if not needed.done:
                    needed.dependents.append(move)
                    move.blockers += 1
            if not move.blockers:
                self._release(move, now_ns)

    def _same_key(self, move: Move) -> Iterable[Move]:
        """Hits share a key, any other move is a barrier on it."""
        if move.kind in _NO_KEY:
            return ()
        key = self._keys.get(move.key)
        if key is None:
            key = self._keys[move.key] = _Key()
        key.pending += 1
        needed = [key.barrier] if key.barrier is not None else []
        if move.kind == HIT:
            key.hits.append(move)
            return needed
        needed, key.barrier, key.hits = key.hits or needed, move, []
        return needed

    def _room(self, move: Move) -> Iterable[Move]:
        needed: Iterable[Move] = ()
        if move.kind in _TAKES_ROOM and (room := self._rooms[move.to_tier]) is not None:
            needed = room.take(move.size)
        if move.kind in _FREES_ROOM and move.from_tier >= 0 and (room := self._rooms[move.from_tier]) is not None:
            room.free(move.size, move)
        return needed

    def _release(self, move: Move, now_ns: int) -> None:
        move.ready_ns = now_ns
        heappush(self._ready, move)

    def take(self) -> Move | None:
        """The most urgent ready move, by (qos, op_id); None where nothing is ready."""
        return heappop(self._ready) if self._ready else None

    def ready(self) -> int:
        """How many moves are ready."""
        return len(self._ready)

    def complete(self, move: Move, now_ns: int) -> bool:
        """Mark a move as done, whether it succeeded or not; returns whether its op is done with it."""
        move.done = True
        for dependent in move.dependents:
            self._unblock(dependent, now_ns)
        move.dependents = []
        if move.kind not in _NO_KEY:
            key = self._keys[move.key]
            key.pending -= 1
            if not key.pending:
                del self._keys[move.key]
            elif move.kind == HIT and len(key.hits) > key.prune_at:
                key.hits = [hit for hit in key.hits if not hit.done]
                key.prune_at = max(64, 2 * len(key.hits))
        op = move.op
        op.left -= 1
        if op.left:
            return False
        for follower in op.followers:
            for waiting in follower.moves:
                waiting.due_ns = now_ns
                self._unblock(waiting, now_ns)
        if self._last_op[op.request] is op:
            del self._last_op[op.request]
        return True

    def _unblock(self, move: Move, now_ns: int) -> None:
        move.blockers -= 1
        if not move.blockers:
            self._release(move, now_ns)
