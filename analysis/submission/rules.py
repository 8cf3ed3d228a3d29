"""Rules of MLPerf Storage v3.0 (Rules.md, 6.3): options, conditions of CLOSED, a small scale.

This is the validator's own copy, so that an edited recipe does not pass. A test compares it with
the recipes and sweeps that are shipped.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

GIB: Final = 1 << 30
SEED: Final = 42  # seed of rank 0's trace; rank r has 42 + r


@dataclass(frozen=True)
class Option:
    """A workload that every package must contain.

    Attributes:
        name: name of its directories.
        title: its purpose.
        model: name of the model.
        bytes_per_token: KV cache of one token of the model.
        users: number of users of each client.
        cpu_bytes: usable bytes of the cpu tier: the capacity times the headroom of 0.8.
        allocs: limit of stores in flight.
        duration_s: time limit of a trial.
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
        """Name of the shipped recipe of this option."""
        return f"mlperf_{self.name}"

    @property
    def primary(self) -> str:
        """Metric that ranks: storage throughput with a cpu tier, decode reads without one."""
        return "storage_tok_s" if self.cpu_bytes else "decode_read_gib_s"

    @property
    def closed(self) -> dict[str, Any]:
        """Conditions of each run in CLOSED: all except the number of ranks."""
        return _CLOSED | {
            "model": self.model,
            "bytes_per_token": self.bytes_per_token,
            "usable_bytes": {"gpu": 0, "cpu": self.cpu_bytes, "nvme": None},
            "workers": self.users,
            "max_concurrent_allocs": self.allocs,
            "duration_s": self.duration_s,
            "drain_s": self.duration_s / 10,
        }


def _make_tier(bandwidth: int, streams: int, read_ns: int, write_ns: int) -> dict[str, int]:
    """Make a tier of the reference system; bandwidth in bytes/s."""
    return {
        "read_bytes_per_s": bandwidth,
        "write_bytes_per_s": bandwidth,
        "streams": streams,
        "read_latency_ns": read_ns,
        "write_latency_ns": write_ns,
    }


_REFERENCE: Final = {
    "gpu": _make_tier(50 * 10**9, 2, 10_000, 10_000),
    "cpu": _make_tier(40 * 10**9, 4, 2_000, 2_000),
    "nvme": _make_tier(7 * 10**9, 4, 80_000, 20_000),
}
"""The reference system whose virtual clock gives the plan's order: replayer's nvme-7."""

_CLOSED: Final[dict[str, Any]] = {
    "headroom": "0.8",
    "arrangement": "waterfall",
    "promote": False,
    "lookup": "independent",
    "decode": "reread",
    "users": None,
    "part": [0, 1],
    "cycles": 1,
    "pace": "closed",
    "speedup": 1.0,
    "token_ms": 0.0,
    "prefill_tok_s": None,
    "request_depth": 1,
    "warmup": {"ops": 0, "s": 0.0},
    "precondition_gib": 0.0,
    "layout": "files",
    "direct": True,
    "io_bytes": 1 << 20,
    "io_depth": 1,
    "fsync": "none",
    "verify": "stamps",
    "gpu_device": None,
    "gpu_read": None,
    "gds": False,
    "throttle": {},
    "window_ops": 65536,
    "window_bytes": None,
    "ops": None,
    "io_engine": "psync",
    "placement": "planned",
    "order": {"kind": "reference", "name": "nvme-7", "ops_digest": None, "profile": _REFERENCE},
}
"""Conditions that CLOSED fixes for all options."""


@dataclass(frozen=True)
class Rules:
    """Rules for the packages of one scale.

    Attributes:
        scale: key of RULES.
        options: the options that a package must contain.
        trials: number of trials of each option in CLOSED.
        pause_s: shortest pause between replays of different options.
        submittable: whether a package of this scale may be submitted to MLPerf.
        settings: changes to the options' recipes, in the form of `tracegen generate --set`.
    """

    scale: str
    options: tuple[Option, ...]
    trials: int
    pause_s: float
    submittable: bool
    settings: tuple[str, ...] = ()

    def find_option(self, name: str) -> Option:
        """Find an option by its name.

        Raises:
            StopIteration: there is none.
        """
        return next(option for option in self.options if option.name == name)

    def find_pin(self, option: str, rank: int) -> str | None:
        """Return the fingerprint of a rank's pinned trace; None if there is none."""
        pins = _read_pins()[self.scale][option]
        return pins[rank] if rank < len(pins) else None

    @property
    def ranks(self) -> int:
        """Number of ranks whose traces are pinned."""
        pins = _read_pins()[self.scale]
        return min(len(pins[option.name]) for option in self.options)


_8B: Final = ("llama3.1-8b", 131072)
_70B: Final = ("llama3.1-70b-instruct", 327680)
_TINY: Final = ("tiny-1b", 24576)
_4_GIB: Final = 4 * GIB * 8 // 10
_QUARTER_GIB: Final = GIB // 4 * 8 // 10
_STRESS: Final = "maximum storage stress"
_THROUGHPUT: Final = "storage throughput"
_LARGE: Final = "large model"

RULES: Final = {
    "full": Rules(
        "full",
        (
            Option("option_1", _STRESS, *_8B, users=200, cpu_bytes=0, allocs=16, duration_s=300),
            Option(
                "option_2",
                _THROUGHPUT,
                *_8B,
                users=100,
                cpu_bytes=_4_GIB,
                allocs=16,
                duration_s=300,
            ),
            Option("option_3", _LARGE, *_70B, users=70, cpu_bytes=0, allocs=4, duration_s=300),
        ),
        trials=3,
        pause_s=90,
        submittable=True,
    ),
    "smoke": Rules(
        "smoke",
        (
            Option("option_1", _STRESS, *_TINY, users=6, cpu_bytes=0, allocs=16, duration_s=4),
            Option(
                "option_2",
                _THROUGHPUT,
                *_TINY,
                users=4,
                cpu_bytes=_QUARTER_GIB,
                allocs=16,
                duration_s=4,
            ),
            Option("option_3", _LARGE, *_8B, users=2, cpu_bytes=0, allocs=4, duration_s=4),
        ),
        trials=3,
        pause_s=0,
        submittable=False,
        settings=(
            "duration_s=4",
            "personas.coding.weight=0",
            "personas.document.context=[1024, 4096]",
        ),
    ),
}


@cache
def _read_pins() -> dict[str, dict[str, list[str]]]:
    """Read the fingerprints of the pinned traces, by scale, option and rank."""
    text = (Path(__file__).parent / "pins.json").read_text()
    pins: dict[str, dict[str, list[str]]] = json.loads(text)
    return pins
