"""The rules: MLPerf Storage v3.0, Rules.md section 6.3, options and what CLOSED fixes; and the same in small.

The validator's own copy, so that an edited recipe does not pass; a test holds it against recipes and sweeps.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

GIB: Final = 1 << 30
SEED: Final = 42  # of rank 0; rank r has 42 + r


@dataclass(frozen=True)
class Option:
    """A workload that every package holds.

    Attributes:
        name: of its directories.
        title: what it is for.
        users: of each client.
        cpu_bytes: usable, headroom of 0.8 taken.
        allocs: stores in flight at most.
    """

    name: str
    title: str
    model: str
    bytes_per_token: int
    users: int
    cpu_bytes: int
    allocs: int
    duration_s: float

    @property
    def recipe(self) -> str:
        """The name of the recipe that is shipped for it."""
        return f"mlperf_{self.name}"

    @property
    def primary(self) -> str:
        """The metric that ranks: with a cpu tier storage throughput, without one decode reads (the seeds' advice)."""
        return "storage_tok_s" if self.cpu_bytes else "decode_read_gib_s"

    @property
    def closed(self) -> dict[str, Any]:
        """The conditions of each run in CLOSED: everything but the number of ranks."""
        return _CLOSED | {
            "model": self.model,
            "bytes_per_token": self.bytes_per_token,
            "usable_bytes": {"gpu": 0, "cpu": self.cpu_bytes, "nvme": None},
            "workers": self.users,
            "max_concurrent_allocs": self.allocs,
            "duration_s": self.duration_s,
            "drain_s": self.duration_s / 10,
        }


def _tier(bandwidth: int, streams: int, read_ns: int, write_ns: int) -> dict[str, int]:
    return {
        "read_bytes_per_s": bandwidth, "write_bytes_per_s": bandwidth, "streams": streams, "read_latency_ns": read_ns,
        "write_latency_ns": write_ns,
    }  # fmt: skip


_REFERENCE: Final = {
    "gpu": _tier(50 * 10**9, 2, 10_000, 10_000),
    "cpu": _tier(40 * 10**9, 4, 2_000, 2_000),
    "nvme": _tier(7 * 10**9, 4, 80_000, 20_000),
}
"""The system on whose virtual clock the plan's order is made: replayer's nvme-7."""

_CLOSED: Final[dict[str, Any]] = {
    "headroom": "0.8", "arrangement": "waterfall", "promote": False, "lookup": "independent", "decode": "reread",
    "users": None, "part": [0, 1], "cycles": 1, "pace": "closed", "speedup": 1.0, "token_ms": 0.0,
    "prefill_tok_s": None, "request_depth": 1,
    "warmup": {"ops": 0, "s": 0.0}, "precondition_gib": 0.0, "layout": "files", "direct": True, "io_bytes": 1 << 20,
    "io_depth": 1, "fsync": "none", "verify": "stamps", "gpu_device": None, "gpu_read": None, "gds": False,
    "throttle": {}, "window_ops": 65536, "window_bytes": None,
    "ops": None, "io_engine": "psync", "placement": "planned",
    "order": {"kind": "reference", "name": "nvme-7", "ops_digest": None, "profile": _REFERENCE},
}  # fmt: skip


@dataclass(frozen=True)
class Rules:
    """What a package of a scale must hold.

    Attributes:
        pause_s: at least, between options.
        submittable: whether it is a submission at all.
        settings: put over the options' recipes, as `tracegen generate --set` takes them.
    """

    scale: str
    options: tuple[Option, ...]
    trials: int
    pause_s: float
    submittable: bool
    settings: tuple[str, ...] = ()

    def option(self, name: str) -> Option:
        """The option of a name."""
        return next(one for one in self.options if one.name == name)

    def pinned(self, option: str, rank: int) -> str | None:
        """The fingerprint of a rank's trace; None past the last rank that is pinned."""
        found = _pins()[self.scale][option]
        return found[rank] if rank < len(found) else None

    @property
    def ranks(self) -> int:
        """How many ranks are pinned."""
        return min(len(_pins()[self.scale][option.name]) for option in self.options)


_8B, _70B, _TINY = ("llama3.1-8b", 131072), ("llama3.1-70b-instruct", 327680), ("tiny-1b", 24576)
_TITLES: Final = ("maximum storage stress", "storage throughput", "large model")

RULES: Final = {
    "full": Rules(
        "full",
        (
            Option("option_1", _TITLES[0], *_8B, users=200, cpu_bytes=0, allocs=16, duration_s=300),
            Option("option_2", _TITLES[1], *_8B, users=100, cpu_bytes=4 * GIB * 8 // 10, allocs=16, duration_s=300),
            Option("option_3", _TITLES[2], *_70B, users=70, cpu_bytes=0, allocs=4, duration_s=300),
        ),
        trials=3,
        pause_s=90,
        submittable=True,
    ),
    "smoke": Rules(
        "smoke",
        (
            Option("option_1", _TITLES[0], *_TINY, users=6, cpu_bytes=0, allocs=16, duration_s=4),
            Option("option_2", _TITLES[1], *_TINY, users=4, cpu_bytes=GIB // 4 * 8 // 10, allocs=16, duration_s=4),
            Option("option_3", _TITLES[2], *_8B, users=2, cpu_bytes=0, allocs=4, duration_s=4),
        ),
        trials=3,
        pause_s=0,
        submittable=False,
        settings=("duration_s=4", "personas.coding.weight=0", "personas.document.context=[1024, 4096]"),
    ),
}


@cache
def _pins() -> dict[str, dict[str, list[str]]]:
    pins: dict[str, dict[str, list[str]]] = json.loads((Path(__file__).parent / "pins.json").read_text())
    return pins
