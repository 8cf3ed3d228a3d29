"""Rules of MLPerf Storage v3.0 (Rules.md, 6.3): options, conditions of CLOSED, a small scale.

rules.json is the validator's own copy, so that an edited recipe does not pass. A test compares it
with the recipes and sweeps that are shipped.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

DIVISIONS: Final = ("closed", "open")
SEED: Final = 42  # seed of rank 0's trace; rank r has 42 + r


class Option(msgspec.Struct, frozen=True):
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
        return _FILE.closed | {
            "model": self.model,
            "bytes_per_token": self.bytes_per_token,
            "usable_bytes": {"gpu": 0, "cpu": self.cpu_bytes, "nvme": None},
            "workers": self.users,
            "max_concurrent_allocs": self.allocs,
            "duration_s": self.duration_s,
            "drain_s": self.duration_s / 10,
        }


class Rules(msgspec.Struct, frozen=True):
    """Rules for the packages of one scale.

    Attributes:
        options: the options that a package must contain.
        trials: number of trials of each option in CLOSED.
        pause_s: shortest pause between replays of different options.
        submittable: whether a package of this scale may be submitted to MLPerf.
        settings: changes to the options' recipes, in the form of `tracegen generate --set`.
    """

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


class _RulesFile(msgspec.Struct):
    scales: dict[str, Rules]
    closed: dict[str, Any]


_FILE: Final = msgspec.json.decode((Path(__file__).parent / "rules.json").read_bytes(), type=_RulesFile)
# The rules by scale.
RULES: Final = _FILE.scales


@cache
def read_pins() -> dict[str, dict[str, list[str]]]:
    """Read the fingerprints of the pinned traces, by scale, option and rank."""
    content = (Path(__file__).parent / "pins.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, dict[str, list[str]]])


def find_pin(scale: str, option: str, rank: int) -> str | None:
    """Return the fingerprint of a rank's pinned trace; None if there is none."""
    pins = read_pins()[scale][option]
    return pins[rank] if rank < len(pins) else None
