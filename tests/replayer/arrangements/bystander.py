"""A plain state machine that any plan must suit, whatever the rules that made it: it knows no arrangement."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.replayer.arrangements.oracle import Row
from tests.replayer.arrangements.tiers import Usable

LEAVES = ("demote", "promote", "drop", "delete")
TAKES = ("store", "demote", "copy")


@dataclass
class Bystander:
    """Which tier holds what, and how much, from the moves alone; each move must be legal when it is made."""

    usable: Usable
    held: tuple[dict[int, int], ...] = field(default_factory=lambda: ({}, {}, {}))
    """per tier: key -> size"""

    def watch(self, rows: Iterable[Row]) -> None:
        """Make the moves."""
        last = (-1, 0)
        for op_id, seq, move, key, source, target, size in rows:
            assert seq == (last[1] + 1 if op_id == last[0] else 0), "numbered from 0"
            last = op_id, seq
            self.check_places(move, source, target)
            if move == "delete" and source < 0:
                assert not any(key in tier for tier in self.held), "a delete of what is held names its tier"
            if source >= 0:
                assert self.held[source].get(key) == size, f"{move} of what is not there"
            if move in TAKES:
                assert key not in self.held[target], f"{move} of what is there"
                limit = self.usable[target]
                assert limit is None or sum(self.held[target].values()) + size <= limit, "past the room"
                self.held[target][key] = size
            if move in LEAVES and source >= 0:
                del self.held[source][key]

    @staticmethod
    def check_places(move: str, source: int, target: int) -> None:
        """The move table: which moves name which tiers."""
        names_source = move in ("hit", "promote", "drop", "demote", "copy")
        assert (source >= 0) == names_source or move == "delete"
        assert (target >= 0) == (move in TAKES)
        assert target < 0 or source < target, "down"
