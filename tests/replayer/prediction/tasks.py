"""Moves, ops and requests of the second predictor, and what became of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.replayer.arrangements.tiers import Op

# (move, key, from_tier, to_tier, size)
Planned = tuple[str, int, int, int, int]
Usable = tuple[int | None, int | None, int | None]
LEAVES = ("demote", "promote", "drop", "delete")
IDLE = ("miss", "bypass")


@dataclass(eq=False)
class Group:
    """The reads of a copy since it was changed last."""

    left: int = 0
    waiter: "Move | None" = None


@dataclass(eq=False)
class Move:
    """A move of an op, and what became of it."""

    number: int
    seq: int
    task: "Task"
    planned: Planned
    background: bool
    ready: int
    rank: tuple[int, int] = (0, 0)  # as of when it became ready
    blockers: int = 1  # its op, until it is due
    waited_for: str | None = None
    order: int = 0
    pulled: int | None = None
    done: bool = False
    dependents: list[tuple["Move", str]] = field(default_factory=list)
    needs: list["Move"] = field(default_factory=list)
    reads: Group | None = None

    @property
    def name(self) -> str:
        return self.planned[0]

    @property
    def size(self) -> int:
        return self.planned[4]

    @property
    def op_id(self) -> int:
        return self.task.planned

    @property
    def due(self) -> int | None:
        return self.task.due if self.pulled is None else self.pulled


@dataclass(eq=False)
class Task:
    """An op, and what became of it."""

    op: Op
    row: int
    request: "Request"
    planned: int
    """op_id of the op that the plan has at the position"""
    position: int = -1
    role: str = ""
    admitted: int = -1
    moves: list[Move] = field(default_factory=list)
    due: int | None = None
    is_due: bool = False
    wait: int = 0
    end: int | None = None

    @property
    def may_trade(self) -> bool:
        return self.op.phase == "prefill" and self.op.name != "delete" and not self.op.new_tokens


def trade_places(one: Task, other: Task) -> None:
    """Each gets what the plan has for the other."""
    for name in ("planned", "position", "role", "moves", "wait"):
        mine, its = getattr(one, name), getattr(other, name)
        setattr(one, name, its)
        setattr(other, name, mine)
    for task in (one, other):
        for move in task.moves:
            move.task = task


@dataclass(eq=False)
class Request:
    """A request and how far it is."""

    tasks: list[Task]
    """in the order of rows"""
    steps: list[int]
    """of each op"""
    after: "Request | None" = None
    start: int | None = None
    step: int = -1
    due: int = -1
    """of the step under way"""
    released: int = 0
    places: list[int] = field(default_factory=list)
    """when places of the step under way became free, those not taken"""
    of_step: int = 0
    end: int = 0
    wait: int = 0
    is_first: bool = True

    @property
    def row(self) -> int:
        return self.tasks[0].row


def is_background(names: Sequence[str]) -> list[bool]:
    """Of an op's moves: those after the last one that is neither a demote, a drop nor a copy."""
    last = max((i for i, name in enumerate(names) if name not in ("demote", "drop", "copy")), default=-1)
    return [i > last for i in range(len(names))]
