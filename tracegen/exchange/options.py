"""Options of an import, with their limits."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_type_hints

from msgspec import Meta

from tracegen.errors import InputError
from tracegen.typed_files import convert

Seconds = Annotated[float, Meta(ge=0, le=1e6)]


@dataclass(frozen=True)
class ImportOptions:
    """Changes that an import makes to another lab's trace, and the facts that the trace lacks."""

    seed: Annotated[int, Meta(ge=0)] = 0  # of jitter, sample, guessed sessions and classes of service
    jitter_s: Seconds = 0  # each session is moved by up to this time, uniformly
    tail: Literal["partial", "full", "drop"] = "partial"  # a last, partial block: as it is, as a full one, left out
    sessions: Literal["guess", "none"] = "guess"  # of requests of known length only that name no session
    decode_reads: bool | None = None  # none: for length-only traces, not for blocks, whose KV is loaded once
    decode_token_ms: Seconds = 30  # nominal milliseconds to generate a token
    chain: bool = False  # blocks of equal content after different beginnings are different objects
    shared_ids: bool = False  # several files are one trace: their ids mean the same
    columns: str = ""  # role=column of each column of a log under another name than its role's
    bytes_per_token: Annotated[int, Meta(ge=0, lt=2**40)] = 0  # for sources that count bytes

    def check(self) -> None:
        """Refuse a value out of its limits by an InputError that names the option."""
        for name, kind in get_type_hints(ImportOptions, include_extras=True).items():
            convert(getattr(self, name), kind, setting=name)
        if self.seed >= 2**64:
            raise InputError("must be from 0 to 2^64 - 1", subject=self.seed, setting="seed")
