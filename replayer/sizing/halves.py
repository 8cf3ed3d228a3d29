"""Counts of a plan in each half of its trace: hits by three definitions, and the load on nvme."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from replayer.planning.moves import COPY, DEMOTE, HIT, MISS, NVME, PROMOTE, STORE, Stretch
from replayer.planning.offered_load import DAY_S
from replayer.planning.workload import Workload
from tracegen.schema import ENUMS

By = Literal["ops", "tokens", "requests"]
"""What a hit rate counts: reads, prompt tokens, or requests all of whose reads hit."""
BYS: Final = get_args(By)
Half = Literal["whole", "first", "second"]
"""A part of the trace: all requests, or half of them by the time at which they arrive."""

_PREFILL: Final = ENUMS["phase"].index("prefill")
_REMOVE: Final = 2  # the role of a delete in a plan
_MINUTE_NS: Final = 60 * 10**9
GIB: Final = 2**30

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Counts of a plan for the requests of a part of the trace.

    Attributes:
        hits: reads that hit, spared prompt tokens, and requests all of whose reads hit.
        asked: reads, prompt tokens, and requests with a read.
        span_s: seconds from the first of these requests to the last.
        written: bytes written to nvme.
        busiest: bytes read from and written to nvme in the busiest minute.
    """

    hits: tuple[int, int, int]
    asked: tuple[int, int, int]
    span_s: float
    written: int
    busiest: int

    def rate(self, by: By) -> float | None:
        """Return the hit rate by a definition; None if nothing was asked."""
        hits, asked = self.of(by)
        return hits / asked if asked else None

    def of(self, by: By) -> tuple[int, int]:
        """Return how much hit, and how much was asked, by a definition."""
        which = BYS.index(by)
        return self.hits[which], self.asked[which]

    def drive_writes(self, nvme_bytes: int | None) -> float | None:
        """Return the bytes written per day over the bytes of nvme; None if all come at once."""
        if not self.span_s:
            return None
        if not nvme_bytes:
            return 0.0
        return self.written / self.span_s * DAY_S / nvme_bytes

    @property
    def nvme_gib_s(self) -> float | None:
        """GiB/s of nvme in the busiest minute, both directions; None if all come at once."""
        return self.busiest / GIB / min(60.0, self.span_s) if self.span_s else None


@dataclass(frozen=True)
class Prompts:
    """Tokens of each request's prompt, shape (requests,).

    Attributes:
        asked: tokens of the prompt.
        spared: tokens that hits spare.
        from_nvme: tokens among them that nvme serves.
    """

    asked: Numbers
    spared: Numbers
    from_nvme: Numbers


class Halves:
    """The requests of a trace, in two halves of equal numbers by the time at which they arrive.

    Attributes:
        arrivals: when each request arrives, in ns; shape (requests,).
        masks: the requests of each part, shape (requests,).
    """

    def __init__(self, workload: Workload) -> None:
        self.arrivals = workload.arrivals()
        is_second = np.zeros(workload.requests, bool)
        by_time = np.argsort(self.arrivals, kind="stable")
        is_second[by_time[(workload.requests + 1) // 2 :]] = True
        whole = np.ones(workload.requests, bool)
        self.masks: dict[Half, NDArray[np.bool_]] = {
            "whole": whole,
            "first": ~is_second,
            "second": is_second,
        }


class RequestCounts:
    """Sums per request, stretch by stretch.

    Attributes:
        reads, hits: reads of prefills, and those that hit; shape (requests,).
        asked, spared, from_nvme: as in `Prompts`.
        nvme_read, nvme_written: bytes; shape (requests,).
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        names = ("reads", "hits", "asked", "spared", "from_nvme", "nvme_read", "nvme_written")
        self._sums = {name: np.zeros(workload.requests, np.int64) for name in names}

    def add(self, stretch: Stretch) -> None:
        """Add a stretch of the plan, the next in order."""
        columns = self._workload.describe_ops(stretch.ops["row"])
        request, is_prefill = columns["request_id"], columns["phase"] == _PREFILL
        moves, op = stretch.moves, np.repeat(np.arange(len(stretch.ops)), stretch.ops["moves"])
        kind = moves["move"]
        is_hit = (kind == HIT) | (kind == PROMOTE)
        # A read hits or misses exactly once; a write or delete does neither.
        self._sum("reads", request[op[(is_hit | (kind == MISS)) & is_prefill[op]]])
        self._sum("hits", request[op[is_hit & is_prefill[op]]])

        self._add_tokens(stretch, request, op, is_prefill, is_hit)
        self._add_bytes(moves, request[op])

    def _add_tokens(
        self,
        stretch: Stretch,
        request: Numbers,
        op: Numbers,
        is_prefill: NDArray[np.bool_],
        is_hit: NDArray[np.bool_],
    ) -> None:
        """Add tokens of prompts.

        Args:
            stretch: ops and moves.
            request: of each op, shape (ops,).
            op: index of each move's op, shape (moves,).
            is_prefill: whether an op is of a prefill, shape (ops,).
            is_hit: whether a move is a hit, shape (moves,).
        """
        moves = stretch.moves
        is_prompt = is_prefill & (stretch.ops["role"] != _REMOVE)
        tokens = self._workload.op_tokens(stretch.ops["row"])
        self._sum("asked", request[is_prompt], tokens[is_prompt])
        is_spared = is_hit & is_prefill[op]
        for name, which in (
            ("spared", is_spared),
            ("from_nvme", is_spared & (moves["from_tier"] == NVME)),
        ):
            spared = self._workload.spared_tokens()[moves["key"][which]]
            self._sum(name, request[op[which]], spared)

    def _add_bytes(self, moves: NDArray[Any], request: Numbers) -> None:
        """Add the bytes that moves read and write on nvme; `request` is that of each move."""
        kind = moves["move"]
        is_hit = (kind == HIT) | (kind == PROMOTE)
        is_read = is_hit | (kind == DEMOTE) | (kind == COPY)
        is_write = (kind == STORE) | (kind == DEMOTE) | (kind == COPY)
        for name, which in (
            ("nvme_read", is_read & (moves["from_tier"] == NVME)),
            ("nvme_written", is_write & (moves["to_tier"] == NVME)),
        ):
            self._sum(name, request[which], moves["size"][which])

    def _sum(self, name: str, request: Numbers, values: NDArray[np.integer[Any]] | int = 1) -> None:
        np.add.at(self._sums[name], request, values)

    def forget_hits(self) -> None:
        """Keep what was asked, as if no tier had been there."""
        for name in ("hits", "spared", "from_nvme", "nvme_read", "nvme_written"):
            self._sums[name][:] = 0

    def prompts(self) -> Prompts:
        """Return the tokens of prompts."""
        return Prompts(self._sums["asked"], self._sums["spared"], self._sums["from_nvme"])

    def part(self, halves: Halves, half: Half) -> Part:
        """Return what the plan does for a part of the requests."""
        mask = halves.masks[half]
        own = {name: values[mask] for name, values in self._sums.items()}
        arrivals = halves.arrivals[mask]
        is_reading = own["reads"] > 0
        full = is_reading & (own["hits"] == own["reads"])
        return Part(
            hits=_totals([own["hits"], own["spared"], full]),
            asked=_totals([own["reads"], own["asked"], is_reading]),
            span_s=float(np.ptp(arrivals)) / 1e9 if len(arrivals) else 0.0,
            written=int(own["nvme_written"].sum()),
            busiest=_busiest(arrivals, own["nvme_read"] + own["nvme_written"]),
        )


def _totals(columns: Sequence[NDArray[np.generic]]) -> tuple[int, int, int]:
    ops, tokens, requests = (int(column.sum()) for column in columns)
    return ops, tokens, requests


def _busiest(arrivals: Numbers, sizes: Numbers) -> int:
    """Return the bytes of the busiest minute since the first arrival."""
    if not len(arrivals):
        return 0
    _, minute = np.unique((arrivals - arrivals.min()) // _MINUTE_NS, return_inverse=True)
    sums = np.zeros(int(minute.max()) + 1, np.int64)
    np.add.at(sums, minute, sizes)
    return int(sums.max())
