"""Types of the numbers in run.json, each with the range that readers can compute with."""

from typing import Annotated, Any, Final

from msgspec import Meta

_INT64: Final = 2**63 - 1
Count = Annotated[int, Meta(ge=0, le=_INT64)]
Positive = Annotated[int, Meta(ge=1, le=_INT64)]
Integer = Annotated[int, Meta(ge=-_INT64, le=_INT64)]
RankCount = Annotated[int, Meta(ge=1, lt=1 << 20)]
Number = Annotated[int, Meta(ge=0, le=10**12)] | Annotated[float, Meta(ge=0, le=1e12)]
"""The upper limits of numbers keep what readers compute from them, in nanoseconds, below 2^63."""
Seconds = Annotated[int, Meta(ge=0, le=10**9)] | Annotated[float, Meta(ge=0, le=1e9)]
Milliseconds = Annotated[int, Meta(ge=0, le=10**6)] | Annotated[float, Meta(ge=0, le=1e6)]

Table = dict[str, Any]
"""A table whose keys others define: a recipe, rules, versions of packages."""
