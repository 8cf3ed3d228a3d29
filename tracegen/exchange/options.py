"""Options of an import."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ImportOptions:
    """Changes that an import makes to another lab's trace, and the facts that the trace lacks.

    Attributes:
        seed: of jitter, sample, sessions of length-only traces and classes of service.
        jitter_s: each session is moved by up to this time, uniformly.
        tail: a last, partial block has its own tokens, counts as a full one, or is dropped.
        rechunk: tokens of the blocks to make, a multiple of the source's; 0 keeps the source's
            blocks.
        sessions: for requests of known length only that name no session: `guess` joins them into
            sessions, with `none` each is a session of its own.
        sample_sessions: share of the sessions to keep.
        max_idle_gap_s: longer pauses between the requests of a session are shortened to this; 0: no
            limit.
        speedup: all times are divided by this.
        decode_reads: None: for length-only traces, not for blocks, whose KV is loaded once.
        decode_token_ms: nominal time to generate a token.
        chain: blocks of equal content after different beginnings are different objects.
        shared_ids: several files are one trace: their ids mean the same.
        bytes_per_token: for sources that count bytes.
    """

    seed: int = 0
    jitter_s: float = 0
    tail: Literal["partial", "full", "drop"] = "partial"
    rechunk: int = 0
    sessions: Literal["guess", "none"] = "guess"
    sample_sessions: float = 1
    max_idle_gap_s: float = 0
    speedup: float = 1
    decode_reads: bool | None = None
    decode_token_ms: float = 30
    chain: bool = False
    shared_ids: bool = False
    bytes_per_token: int = 0
