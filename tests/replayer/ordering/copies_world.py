"""A model of tiers that may each hold a copy of an object; it checks every move."""

from replayer.planning.moves import COPY, HIT, STORE
from replayer.planning.pace import Demand
from replayer.planning.plan import Usable
from tests.replayer.ordering.world import World
from tests.support.compiled_core import Move
from tracegen.schema import Columns


class CopiesWorld(World):
    """Tiers that hold copies; checks, when a move begins, that what it needs is there and free."""

    def __init__(self, batch: Columns, capacity: Usable, demand: Demand) -> None:
        super().__init__(batch, capacity, demand)
        self.copies = set[tuple[int, int]]()
        self.busy = set[tuple[int, int]]()  # copies that begin or end
        self.readers = dict[tuple[int, int], int]()
        self.hits = set[tuple[int, int]]()  # (row that the plan has, key) of hits that are not done

    def begin(self, move: Move, now: int) -> None:
        planned, source, target = move.op.planned, (move.key, move.source), (move.key, move.target)
        row = move.op.row
        if move.pulled_ns < 0 and row not in self.done:  # what an op leaves to the background takes none of its places
            self._check_pace(move, now)
            self.begun.add(row)
            self.maker[planned] = row
        self.left.setdefault(planned, move.op.foreground)
        if move.source >= 0:
            assert source in self.copies - self.busy, "not there, or not whole"
            assert move.kind in (HIT, COPY) or not self.readers.get(source), "it ends while it is read"
        if move.kind in (HIT, COPY):
            self.readers[source] = self.readers.get(source, 0) + 1
        elif move.source >= 0:
            self.busy.add(source)
        if move.kind == HIT:
            self.hits.add((planned, move.key))
        if move.target >= 0:
            assert target not in self.copies | self.busy, "there already"
            assert move.kind != STORE or (planned, move.key) not in self.hits, "stored before it was read"
            self.busy.add(target)
            self.used[move.target] += move.size
            limit = self.capacity[move.target]
            assert limit is None or self.used[move.target] <= limit, "past the capacity"

    def end(self, move: Move) -> None:
        planned, source, target = move.op.planned, (move.key, move.source), (move.key, move.target)
        if not move.background:
            self.left[planned] -= 1
            if not self.left[planned]:
                self.done.add(self.maker[planned])
        if move.kind in (HIT, COPY):
            self.readers[source] -= 1
        elif move.source >= 0:
            self.busy.remove(source)
            self.copies.remove(source)
            self.used[move.source] -= move.size
        if move.kind == HIT:
            self.hits.discard((planned, move.key))
        if move.target >= 0:
            self.busy.remove(target)
            self.copies.add(target)
