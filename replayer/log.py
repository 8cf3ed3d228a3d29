"""From what workers noted to the rows of the log, and what of the plan has been executed."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.engine import RECORD, Records
from replayer.execution import OK
from replayer.feed import Stretch
from replayer.ordering import Move, Op
from replayer.pacing import Pace
from replayer.plan import PlanHash, Planned, Totals
from replayer.schema import LOG_COLUMNS, TIERS, RunDirectory
from replayer.waterfall import BYPASS, DEMOTE, HIT, MISS, PROMOTE, STORE
from tracegen.schema import DECODE, READ, WRITE

PART_ROWS: Final = 1 << 17
PART_SECONDS: Final = 2.0
_MOVES_BYTES: Final = (HIT, PROMOTE, DEMOTE, STORE)
_READS: Final = (HIT, PROMOTE, DEMOTE)
NVME: Final = TIERS.index("nvme")
_OF_OP: Final = LOG_COLUMNS[2:11]
_OF_MOVE: Final = {name: name for name in ("op_id", "seq", "move", "key", "from_tier", "to_tier")} | {
    "size": "size_bytes"
}
_OF_BOTH: Final = ("tokens", "new_tokens")

Ints = NDArray[np.int64]


@dataclass
class _Stretch:
    """Moves of the plan from number `base` on, their ops, and how many of them are not logged yet."""

    base: int
    part: Planned
    unlogged: int


class Ledger:
    """Hands the plan to the engine and keeps of it what the log still needs.

    Args:
        plan: the plan's stretches.
        last_op: op_id of each request's last op, shape (requests,).
        pace: what decides the waits between steps.
    """

    def __init__(self, plan: Iterable[Planned], last_op: Ints, pace: Pace) -> None:
        self._plan, self._last_op, self._pace = plan, last_op, pace
        self._unlogged, self._unretired, self._retired = deque[_Stretch](), deque[Planned](), 0
        self._lock, self._hash, self.totals = threading.Lock(), PlanHash(), Totals()
        self.moved_bytes = self.nvme_read_bytes = 0

    def admitted(self) -> Iterator[Stretch]:
        """The plan as objects, stretch by stretch; called in the engine's feeder thread."""
        base = 0
        for part in self._plan:
            with self._lock:
                self._unlogged.append(_Stretch(base, part, len(part.moves)))
                self._unretired.append(part)
            yield self._unpack(part, base)
            base += len(part.moves)

    def _unpack(self, part: Planned, base: int) -> Stretch:
        ops, moves = part.ops, part.moves
        waits = self._pace.waits(ops["new_tokens"], _computed(part))
        last = self._last_op[ops["request_id"]] == ops["op_id"]
        names = ("op_id", "request_id", "qos", "user_id", "step", "time_ns", "think_ns")
        rows = zip(*(ops[name].tolist() for name in names), waits.tolist(), last.tolist(), strict=True)
        fields = (moves.move, moves.key, moves.from_tier, moves.to_tier, moves.size)
        planned = list(zip(*(column.tolist() for column in fields), strict=True))
        found, begin = [], 0
        for (op_id, request, qos, *more), end in zip(rows, part.ends.tolist(), strict=True):
            op = Op(op_id, request, qos, *more)
            found.append((op, [Move(op, base + i, *planned[i]) for i in range(begin, end)]))
            begin = end
        return found

    def columns(self, records: Records, errors: dict[int, str]) -> dict[str, Any]:
        """The rows of the log that belong to records, by column; the error texts aside."""
        noted = np.frombuffer(records, np.int64).reshape(-1, len(RECORD)) if records else np.zeros((0, len(RECORD)))
        index = noted[:, 0].astype(np.int64)
        with self._lock:
            stretches = list(self._unlogged)
        rows = _gather(stretches, index)
        rows |= {name: noted[:, i] for i, name in enumerate(RECORD) if i}
        if len(index):
            served = (rows["status"] == OK) & (rows["from_tier"] == NVME) & np.isin(rows["move"], _READS)
            self.nvme_read_bytes += int(rows["size_bytes"][served].sum())
        rows |= {"position": rows["op_id"], "window_ns": np.zeros(len(index)), "waited_for": np.full(len(index), -1)}
        rows["error"] = [errors.get(i) for i in index.tolist()] if errors else None
        self._forget(stretches, index)
        return rows

    def _forget(self, stretches: list[_Stretch], index: Ints) -> None:
        """Drop the stretches all of whose moves have been logged."""
        bases = [stretch.base for stretch in stretches]
        counts = np.bincount(np.searchsorted(np.array(bases), index, "right") - 1, minlength=len(bases))
        for stretch, count in zip(stretches, counts, strict=True):
            stretch.unlogged -= int(count)
        with self._lock:
            while self._unlogged and not self._unlogged[0].unlogged:
                self._unlogged.popleft()

    def retire(self, ops: int) -> None:
        """So many ops of the plan, from its start, are done: add them to the fingerprint and the totals."""
        while self._unretired and (left := ops - self._retired) > 0:
            part = self._unretired[0]
            done = min(left, len(part.ends))
            self._add(part.slice(0, done))
            self._retired += done
            with self._lock:
                if done == len(part.ends):
                    self._unretired.popleft()
                else:
                    self._unretired[0] = part.slice(done, len(part.ends))

    def _add(self, part: Planned) -> None:
        self._hash.update(part.moves)
        self.totals.add(part)
        self.moved_bytes += int(part.moves.size[np.isin(part.moves.move, _MOVES_BYTES)].sum())

    def hexdigest(self) -> str:
        """The plan fingerprint of what is retired."""
        return self._hash.hexdigest()


def _computed(part: Planned) -> Ints:
    """Tokens whose KV each op had to compute: written by a prefill, or read and gone; shape (ops,)."""
    begins = np.concatenate([[0], part.ends[:-1]])
    missed = np.zeros(len(part.ends), np.bool_)
    some = part.ends > begins
    missed[some] = np.isin(part.moves.move[begins[some]], (MISS, BYPASS))
    op, phase = part.ops["op"], part.ops["phase"]
    computed = ((op == WRITE) & (phase != DECODE)) | ((op == READ) & missed)
    return np.where(computed, part.ops["tokens"], 0).astype(np.int64)


def _gather(stretches: list[_Stretch], index: Ints) -> dict[str, Any]:
    """The plan's columns of the moves with these numbers, stretch by stretch, so that no step takes long."""
    rows: dict[str, Any] = {name: np.empty(len(index), np.int64) for name in (*_OF_MOVE.values(), *_OF_OP, *_OF_BOTH)}
    bases = np.array([stretch.base for stretch in stretches])
    number = np.searchsorted(bases, index, "right") - 1
    for one in np.unique(number).tolist():
        part, mine = stretches[one].part, np.flatnonzero(number == one)
        at = index[mine] - bases[one]
        op = part.op_of_move()[at]
        for name, column in _OF_MOVE.items():
            rows[column][mine] = getattr(part.moves, name)[at]
        rows["tokens"][mine] = part.tokens[at]
        for name in _OF_OP:
            rows[name][mine] = part.ops[name][op]
        rows["new_tokens"][mine] = np.where(part.moves.seq[at] == 0, part.ops["new_tokens"][op], 0)
    return rows


class Log:
    """Collects rows into parts of some size or age.

    Attributes:
        waiting: rows that are not in a part yet.
    """

    def __init__(self, directory: RunDirectory, rank: int) -> None:
        self._directory, self._rank = directory, rank
        self.waiting, self._rows, self._written = list[dict[str, Any]](), 0, monotonic()

    def add(self, rows: dict[str, Any]) -> None:
        """Add rows by column; writes a part where one is due."""
        if count := len(rows["status"]):
            self.waiting.append(rows)
            self._rows += count
        if self._rows >= PART_ROWS or monotonic() - self._written > PART_SECONDS:
            self.write()

    def write(self) -> None:
        """Close a part; its rows stay waiting where it cannot be written."""
        if self.waiting:
            self._directory.write_part(_joined(self.waiting) | {"rank": np.full(self._rows, self._rank)})
            self.waiting, self._rows = [], 0
        self._written = monotonic()


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "error"}
    errors = [part["error"] or [None] * len(part["status"]) for part in parts]
    return rows | {"error": [error for part in errors for error in part]}
