"""What a trace says about itself, and how that is read."""

import json
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from tracegen.errors import InputError

FORMAT_VERSION: Final = 1
METADATA_KEY: Final = b"kv-trace"
_EARLIER: Final[dict[Any, str]] = {"azure": "guessed"}  # what earlier releases did without recording it


@dataclass
class Metadata:
    """What a trace says about itself; JSON under the Parquet key-value entry `kv-trace`."""

    seed: int
    recipe: dict[str, Any]
    generator: str
    tokenizer: dict[str, str] | None = None
    block_tokens: int | None = None
    prefix_chained: bool = False
    sources: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    fingerprint: str = ""
    part: dict[str, int] | None = None
    format_version: int = FORMAT_VERSION


_METADATA_TYPES: Final[dict[str, type | types.UnionType]] = {
    "seed": int,
    "recipe": dict,
    "generator": str,
    "counts": dict,
    "sources": list,
    "fingerprint": str,
    "block_tokens": int | None,
    "prefix_chained": bool | None,
    "part": dict | None,
}


def read_metadata(path: Path, raw: Mapping[bytes, bytes]) -> Metadata:
    """The metadata among a Parquet file's.

    Raises:
        InputError: there is none, or it is not as specified.
    """
    if METADATA_KEY not in raw:
        raise InputError(f"{path} is Parquet but not a trace: no metadata entry {METADATA_KEY.decode()!r}.")
    try:
        values = json.loads(raw[METADATA_KEY])
        version = values["format_version"]
        if not _is_count(version, least=1):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path}: its trace metadata is damaged; generate or copy it anew.") from None
    if version > FORMAT_VERSION:
        raise InputError(f"{path} is of trace format {version}, this release reads up to {FORMAT_VERSION}; upgrade it.")
    for name, kind in _METADATA_TYPES.items():
        if not isinstance(values.get(name), kind):
            raise InputError(f"{path}: its trace metadata has no proper {name}; write it as specified.")
    described = [*values["sources"], *([values["tokenizer"]] if values.get("tokenizer") is not None else [])]
    if not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in described):
        raise InputError(f"{path}: its trace metadata has a source or tokenizer without a name; write it anew.")
    part, block = values.get("part"), values.get("block_tokens")
    sound = {
        "seed": type(values["seed"]) is int,
        "counts": all(type(number) is int for number in values["counts"].values()),
        "block_tokens": block is None or _is_count(block, least=1),
        "part": part is None
        or (all(_is_count(part.get(name)) for name in ("index", "of")) and part["index"] < part["of"]),
    }
    for name, holds in sound.items():
        if not holds:
            raise InputError(f"{path}: its trace metadata has no proper {name}; write it as specified.")
    known = {item.name for item in fields(Metadata)}
    return Metadata(**{name: value for name, value in values.items() if name in known})


def guessed_sessions(recipe: Mapping[str, Any]) -> bool:
    """Whether an import guessed which requests belong together: of this trace, or of one that it was made of."""
    found: list[Any] = [recipe]
    while found:
        made = found.pop()
        if not isinstance(made, dict):
            continue
        options = made.get("import")
        if isinstance(options, dict) and options.get("sessions", _EARLIER.get(options.get("format"))) == "guessed":
            return True
        parts = made.get("of")
        found += [one.get("recipe") for one in parts if isinstance(one, dict)] if isinstance(parts, list) else []
    return False


def _is_count(value: object, least: int = 0) -> bool:
    return type(value) is int and value >= least
