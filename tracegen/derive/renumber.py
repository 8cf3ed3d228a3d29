"""Rows of several origins in one order, numbered anew: dense ids, first uses as writes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from tracegen.arrays import IdTable, Ints, first_rows, sort_order
from tracegen.errors import InputError
from tracegen.schema import DELETE, READ, WRITE, Columns, chosen, joined

_FOREVER: Final = 2**63 - 1


class Numbering:
    """Numbers 0, 1, … in order of first appearance, for ids of any origin below some number; 8 bytes per id."""

    def __init__(self) -> None:
        self._table, self.count = IdTable(np.int64), 0

    def of(self, ids: Ints) -> tuple[Ints, Ints]:
        """The number of each id, and the rows at which one appears for the first time."""
        self._table.cover(ids)
        first = first_rows(self._table, ids)
        self._table[ids[first]] = self.count + 1 + np.arange(len(first))
        self.count += len(first)
        return self._table[ids] - 1, first


class Renumbered:
    """Ops in their final order made a trace: dense ids, first uses as writes, turns and pauses that fit.

    Batches come with ids of any numbering, but for users, whose ids are dense already.

    Raises:
        InputError: an object's first op is a delete.
    """

    def __init__(self) -> None:
        self._requests, self._sessions, self._keys, self._people = (Numbering() for _ in range(4))
        self._turns_before, self._ops = IdTable(np.int64), 0

    def number(self, batch: Columns) -> Columns:
        """The batch as rows of the new trace."""
        request, begins = self._requests.of(batch["request_id"])
        session, opens = self._sessions.of(batch["session_id"])
        key, first = self._keys.of(batch["key"])
        if (batch["op"][first] == DELETE).any():
            raise InputError("an object would be deleted that was never stored; choose a slice that begins before it.")
        op = np.where(batch["op"] == WRITE, READ, batch["op"]).astype(np.uint8)
        op[first] = WRITE
        # A session that was cut begins with turn 1, a user whose past was cut without a pause.
        self._turns_before.append(batch["turn"][opens].astype(np.int64) - 1)
        think = batch["think_ns"].copy()
        think[begins[self._people.of(batch["user_id"][begins])[1]]] = 0
        op_id = self._ops + np.arange(len(op))
        self._ops += len(op)
        turn = (batch["turn"] - self._turns_before[session]).astype(np.int32)
        return batch | {
            "op_id": op_id,
            "request_id": request,
            "session_id": session,
            "turn": turn,
            "op": op,
            "key": key,
            "think_ns": think,
        }


def merged(streams: Sequence[Iterator[Columns]]) -> Iterator[Columns]:
    """The rows of several sorted streams in the order of (time, user, request); no user is in two of them."""
    going = {number: (batch for batch in stream if len(batch["time_ns"])) for number, stream in enumerate(streams)}
    held: dict[int, Columns] = {}
    limit = -1
    while True:
        for number, stream in list(going.items()):
            # A stream may go on with more rows of its last time: those that end first are read on.
            if number not in held or int(held[number]["time_ns"][-1]) <= limit:
                more = next(stream, None)
                if more is None:
                    del going[number]
                else:
                    held[number] = joined([held[number], more]) if number in held else more
        if not held:
            return
        limit = min((int(held[number]["time_ns"][-1]) for number in going), default=_FOREVER)
        ready = {number: int(np.searchsorted(part["time_ns"], limit)) for number, part in held.items()}
        columns = joined([chosen(part, slice(0, ready[number])) for number, part in held.items()])
        held = {number: chosen(part, slice(ready[number], None)) for number, part in held.items()}
        if len(columns["time_ns"]):
            yield chosen(columns, sort_order(columns["time_ns"], columns["user_id"], columns["request_id"]))
        if not going:
            return


def renumbered(batches: Iterable[Columns]) -> Iterator[Columns]:
    """Ops in their final order as batches of a new trace."""
    numbers = Renumbered()
    for batch in batches:
        yield numbers.number(batch)
