"""The order that data demands of a plan's moves, and nothing more: which moves may run now.

No I/O, no clock of its own, no threads. Dependencies point backwards in plan order only, so the lowest unfinished op
can always proceed: nothing deadlocks with any number of workers and any window.
"""

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from replayer.waterfall import BYPASS, DELETE, DEMOTE, DROP, HIT, MISS, PROMOTE, STORE, Usable

_TAKES_ROOM: Final = frozenset((STORE, DEMOTE))
_FREES_ROOM: Final = frozenset((DEMOTE, PROMOTE, DROP, DELETE))
_NO_KEY: Final = frozenset((MISS, BYPASS))  # rows without I/O
_QOS_SHIFT: Final = 56


class Op:
    """An admitted op, and how many of its moves are left.

    Attributes:
        urgency: what the most urgent move has least of; the qos class first, the plan's order within it.
        wait_ns: generation and recomputation that the request's next step waits for.
        last: whether it is its request's last.
        due_ns: when pacing and the request's own order allow it; -1: not yet known.
        end_ns: when the last of its moves ended.
    """

    __slots__ = (
        "due_ns", "end_ns", "last", "left", "moves", "op_id", "request", "step", "think_ns", "time_ns", "urgency",
        "user", "wait_ns",
    )  # fmt: skip

    def __init__(
        self,
        op_id: int,
        request: int,
        qos: int = 0,
        user: int = 0,
        step: int = 0,
        time_ns: int = 0,
        think_ns: int = 0,
        wait_ns: int = 0,
        last: bool = False,
    ) -> None:
        self.op_id, self.request, self.user, self.step = op_id, request, user, step
        self.time_ns, self.think_ns, self.wait_ns, self.last = time_ns, think_ns, wait_ns, last
        self.urgency = qos << _QOS_SHIFT
        self.moves: list[Move] = []
        self.left, self.due_ns, self.end_ns = 0, -1, 0


class Move:
    """A planned move and what it waits for.

    Attributes:
        index: its number in the plan.
        ready_ns: when the last of what it waits for was there.
    """

    __slots__ = (
        "blockers", "dependents", "done", "from_tier", "index", "key", "kind", "op", "ready_ns", "size", "to_tier",
        "urgency",
    )  # fmt: skip

    def __init__(self, op: Op, index: int, kind: int, key: int, from_tier: int, to_tier: int, size: int) -> None:
        self.op, self.index, self.kind, self.key = op, index, kind, key
        self.from_tier, self.to_tier, self.size = from_tier, to_tier, size
        self.urgency = op.urgency + index
        self.blockers, self.done, self.ready_ns = 0, False, 0
        self.dependents: list[Move] | None = None


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
        allocs: stores in flight at most; None: any number.
    """

    def __init__(self, usable: Usable, allocs: int | None = None) -> None:
        self._rooms = [_Room(limit) if limit is not None else None for limit in usable]
        self._keys: dict[int, _Key] = {}
        self._ready: list[tuple[int, Move]] = []
        self._stores: list[tuple[int, Move]] = []  # ready, too, but for a permit
        self._permits, self.permits_are_few = allocs if allocs is not None else 1 << 62, allocs is not None

    def admit(self, op: Op, moves: list[Move], now_ns: int) -> None:
        """Add the next op with its moves, in plan order; they wait for `let_go`."""
        op.moves, op.left = moves, len(moves)
        for move in moves:
            move.blockers, move.ready_ns = 1, now_ns
            for needed in {*self._same_key(move), *self._room(move)}:
                if not needed.done:
                    if needed.dependents is None:
                        needed.dependents = []
                    needed.dependents.append(move)
                    move.blockers += 1

    def let_go(self, op: Op, due_ns: int) -> None:
        """The op's moves may run from its due time on, as far as the plan is concerned, too."""
        op.due_ns = due_ns
        for move in op.moves:
            self._unblock(move, due_ns)

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

    def take(self) -> Move | None:
        """The most urgent ready move, by (qos, op_id); None where nothing is ready. Stores hold a permit till done."""
        while self._ready:
            _, move = heappop(self._ready)
            if move.kind != STORE:
                return move
            if self._permits:
                self._permits -= 1
                return move
            heappush(self._stores, (move.urgency, move))
        return None

    def give_back(self, move: Move) -> None:
        """A move that was taken and will not be run."""
        if move.kind == STORE:
            self._free_permit()

    def _free_permit(self) -> None:
        self._permits += 1
        if self._stores:
            heappush(self._ready, heappop(self._stores))

    def ready(self) -> int:
        """How many moves are ready, permits aside."""
        return len(self._ready)

    def complete(self, move: Move, end_ns: int) -> bool:
        """Mark a move as done, whether it succeeded or not; returns whether its op is done with it."""
        move.done = True
        if move.dependents is not None:
            for dependent in move.dependents:
                self._unblock(dependent, end_ns)
            move.dependents = None
        if move.kind == STORE:
            self._free_permit()
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
        op.end_ns = max(op.end_ns, end_ns)
        return not op.left

    def _unblock(self, move: Move, now_ns: int) -> None:
        move.blockers -= 1
        move.ready_ns = max(move.ready_ns, now_ns)
        if not move.blockers:
            heappush(self._ready, (move.urgency, move))
