"""The engine of serving_oracle.py, its requests, blocks and stores."""

from dataclasses import dataclass

from tests.replayer.arrangements.tiers import Op
from tests.replayer.order_ledgers import ceil_div


@dataclass(frozen=True)
class Engine:
    """The engine's table, and its sizes in blocks; `cpu` of 0: no such tier."""

    block: int
    gpu: int
    cpu: int
    nvme: bool
    seqs: int
    budget: int
    step_ns: int
    tokens_per_s: int
    transfer: int
    read: int
    write: int


@dataclass(eq=False)
class Block:
    """A block of the gpu."""

    name: int | None = None
    named: int = 0
    """names given before"""
    holders: int = 0
    awaits: int | None = None
    """the name that it gets after a load"""


@dataclass(eq=False)
class Copy:
    """A block in cpu."""

    readable: bool = False
    brought: bool = False
    """by nvme, and no request has loaded it since"""
    transfers: int = 0


class Request:
    """A request in the engine."""

    def __init__(self, number: int, ops: list[tuple[int, Op]], block: int, before: "Request | None") -> None:
        self.number, self.ops, self.before = number, ops, before
        self.prompt = max(1, sum(op.tokens for _, op in ops if op.is_prefill))
        self.answer = max(1, sum(op.new_tokens for _, op in ops))
        most = ceil_div(self.prompt + self.answer, block)
        full = [i for i, (_, op) in enumerate(ops) if op.tokens == block and (op.is_prefill or op.name == "write")]
        self.full = full[:most]
        self.keys = [ops[i][1].key for i in self.full]
        own = range(len(self.keys), most)
        self.names = self.keys + [-1 - number * 1000 - place for place in own]
        self.blocks: list[Block] = []
        self.tokens, self.computed, self.chunk = self.prompt, 0, 0
        self.hits = self.found = -1  # blocks at the first admission: hit in the gpu, hit or loaded
        self.shown = set[int]()  # places that it has named, hit or loaded since it was preempted
        self.brought = set[int]()  # places that it was the first to load after nvme brought them
        self.touches = set[int]()
        self.decided = self.mark = self.load_end = 0
        self.loading: list[int] = []
        self.ended_ns: int | None = None
        self.has_left = False

    def lacks(self, tokens: int, block: int) -> int:
        return max(0, ceil_div(tokens, block) - len(self.blocks))


@dataclass(eq=False)
class Store:
    """A store under way, from these blocks of the gpu."""

    request: Request
    keys: list[int]
    blocks: list[Block]
    end: int
