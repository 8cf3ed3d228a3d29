"""The words that options of a replay may have, for flags, checks and run.json."""

from typing import Final, Literal, get_args

from tracegen.typed_files import join_words

TIERS: Final = ("gpu", "cpu", "nvme")
"""The tiers, fastest first."""
Copies = Literal["exclusive", "inclusive"]
"""Whether one tier holds an object, or several may."""
StorePlace = Literal["fastest", "with-room"]
"""Where new objects go: to the fastest tier that can hold them, or the fastest that has room."""
Touch = Literal["serving", "all"]
"""Which copies of an object a hit touches: the one that serves it, or all."""
Recency = Literal["op", "tail-first"]
"""Whether an object is as recent as its op, or the end of a prompt older than its beginning."""
Tail = Literal["drop", "keep"]
"""Whether the last chunk of a prompt is left out or stored whole if the prompt ends inside it."""
Down = Literal["on-evict", "on-store", "on-touch"]
"""When a tier gets an object of the next faster tier; in the order of the compiled core."""
Up = Literal["stay", "move", "copy", "copy-top"]
"""What a hit in a tier does to the object; in the order of the compiled core."""
Policy = Literal[
    "lru", "fifo", "lfu", "clock", "sieve", "arc", "slru", "s3fifo", "wtinylfu", "gdsf", "leaf-lru", "belady"
]
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
"""The policies by which a tier evicts; in the order of the compiled core's table."""
FUTURE: Final[Policy] = "belady"
"""A policy that knows the future: no engine has it, so its cells are never chosen."""
By = Literal["ops", "tokens", "requests"]
"""What a hit rate counts: reads, prompt tokens, or requests all of whose reads hit."""
BYS: Final[tuple[By, ...]] = get_args(By)
Lookup = Literal["independent", "contiguous"]
"""Whether objects hit or miss one by one, or a prefix ends at its first miss."""
LookupRule = Literal["trace", "independent", "contiguous"]
"""The same, or as the trace says."""
Decode = Literal["reread", "once", "none"]
"""Which decode reads are replayed: all, the first of each request, or no decode read."""
DECODE_WORDS: Final[dict[str, str]] = {
    "reread": "with a request's own decode reads",
    "once": "with the first of a request's own decode reads",
    "none": "without decode reads",
}
"""The same in the headline of a plan."""
PaceKind = Literal["asap", "closed", "open"]
"""When requests start: at once, after the user's previous one, or at the trace's times."""
Placement = Literal["planned", "live"]
"""Whether a plan decides where objects go, or the state of the tiers during the run."""
Layout = Literal["files", "slab", "null"]
"""How the nvme tier stores objects: a file each, extents in large files, or not at all."""
DEVICE_LAYOUTS: Final[tuple[Layout, ...]] = ("files", "slab")
"""Layouts that store objects on a drive; the figures of all others are not a drive's."""
IoEngine = Literal["auto", "psync", "uring"]
"""How I/O requests are made; auto resolves to one of the other two."""
Direct = Literal["on", "off", "auto"]
"""Whether O_DIRECT is required, not used, or used if the file system supports it."""
Fsync = Literal["none", "data"]
"""Whether a write ends in the cache of the system or on the device."""
Verify = Literal["off", "stamps", "full"]
"""What is checked of the bytes read: nothing, the stamp of each sector, or every byte."""
GpuRead = Literal["host", "device"]
"""Where reads from the gpu tier go."""
RankMode = Literal["replicate", "partition"]
"""Whether every rank replays the whole trace, or its share of the sessions."""
ProfileKind = Literal["measured", "data sheet", "estimated"]
"""Whether the times of a profile were measured, or follow from published figures."""
DurationOrigin = Literal["recipe", "user"]
"""What set the time limit of a run: the recipe that its trace carries, or its user."""
WarningKind = Literal[
    "page cache",
    "page cache served reads",
    "unchecked reads",
    "root file system",
    "emulated tier",
    "throttled tier",
    "verification off",
    "little room",
    "slow log",
    "outside the profile",
    "data sheet",
    "note",
]
"""What a warning of a run is about."""


def split_tier(text: str, example: str) -> tuple[str, str]:
    """Split TIER=VALUE; a ValueError says what is wrong, with an example."""
    tier, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ValueError(f"{text!r} names no tier; write for example {example}.")
    if tier not in TIERS:
        raise ValueError(f"{text!r}: {tier!r} is not a tier; name {join_words(TIERS)}.")
    return tier, value
