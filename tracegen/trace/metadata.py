"""The metadata of a trace: its origin, its recipe, its counts and its fingerprint."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, NotRequired, TypedDict

import msgspec
import numpy as np

from tracegen.errors import InputError
from tracegen.trace.columns import DTYPES, Columns

FORMAT_VERSION: Final = 1
METADATA_KEY: Final = b"kv-trace"
Positive = Annotated[int, msgspec.Meta(ge=1)]


class SourceFile(TypedDict):
    """A file or a tokenizer that a trace was made from."""

    name: str
    sha256: NotRequired[Any]
    licence: NotRequired[Any]
    digest: NotRequired[Any]


class ShardNumber(TypedDict):
    """The number of a shard, and of how many it is one."""

    index: Annotated[int, msgspec.Meta(ge=0)]
    of: Positive


@dataclass
class Metadata:
    """The metadata of a trace; JSON under the Parquet key-value entry `kv-trace`."""

    seed: int  # seed of everything that was drawn
    recipe: dict[str, Any]  # the resolved recipe, or how the trace was imported or derived
    generator: str  # name and version of the program that wrote the trace
    # name and digest; None if no text was tokenized or traces of several were merged
    tokenizer: SourceFile | None = None
    block_tokens: Positive | None = None  # tokens of a full block; None if objects are not blocks
    prefix_chained: bool = False  # a block's key identifies all tokens of its prompt up to its end
    # name, sha256 and licence of each file that the trace was made from
    sources: list[SourceFile] = field(default_factory=list)
    # totals by name: ops, requests, …, and rows left out by their reasons
    counts: dict[str, int] = field(default_factory=dict)
    fingerprint: str = ""  # hash of the ops, in hexadecimal
    part: ShardNumber | None = None  # `index` and `of` of a shard; None for a whole trace
    format_version: int = FORMAT_VERSION  # version of the trace format


def read_metadata(path: Path, raw: Mapping[bytes, bytes]) -> Metadata:
    """Decode a trace's metadata from the key-value entries of its Parquet file, `path`.

    Raises:
        InputError: there is no entry of a trace, it is damaged, or it is of a newer format.
    """
    if METADATA_KEY not in raw:
        problem = f"is Parquet but not a trace: it has no metadata entry {METADATA_KEY.decode()!r}"
        raise InputError(f"{path} {problem}", "name a trace")
    try:
        values = json.loads(raw[METADATA_KEY])
        version = msgspec.convert(values["format_version"], Positive)
    except (ValueError, KeyError, TypeError, RecursionError):
        problem = "its trace metadata is damaged"
        raise InputError(problem, "generate or copy it again", subject=path) from None
    if version > FORMAT_VERSION:
        problem = f"{path} is of trace format {version}, but this release reads {FORMAT_VERSION}"
        raise InputError(problem, "upgrade kv-tier-bench")
    try:
        metadata = msgspec.convert(values, Metadata)
    except ValueError as error:
        raise _improper(path, str(error)) from None
    if not metadata.fingerprint:
        raise _improper(path, "it is missing - at `$.fingerprint`")
    return metadata


def _improper(path: Path, problem: str) -> InputError:
    remedy = "write it as docs/trace-format.md specifies"
    return InputError(f"its trace metadata is not proper: {problem}", remedy, subject=path)


def has_guessed_sessions(recipe: Mapping[str, Any]) -> bool:
    """Return whether an import guessed sessions, for the trace of a recipe or for one that it was made from."""
    pending: list[Any] = [recipe]
    while pending:
        origin = pending.pop()
        if not isinstance(origin, dict):
            continue
        options = origin.get("import")
        if isinstance(options, dict) and options.get("sessions") == "guessed":
            return True
        ancestors = origin.get("of")
        if isinstance(ancestors, list):
            pending += [item.get("recipe") for item in ancestors if isinstance(item, dict)]
    return False


class Fingerprint:
    """The fingerprint, computed batch by batch.

    It is SHA-256(version ‖ SHA-256(column 1) ‖ …), over little-endian values.
    """

    def __init__(self) -> None:
        self._hashers = {name: hashlib.sha256() for name in DTYPES}

    def update(self, batch: Columns) -> None:
        """Add the next ops of the trace."""
        for name, hasher in self._hashers.items():
            hasher.update(np.ascontiguousarray(batch[name], dtype=DTYPES[name]).data)

    def hexdigest(self) -> str:
        """Return the fingerprint of all ops added so far, as 64 hexadecimal digits."""
        whole = hashlib.sha256(FORMAT_VERSION.to_bytes(8, "little"))
        for hasher in self._hashers.values():
            whole.update(hasher.digest())
        return whole.hexdigest()
