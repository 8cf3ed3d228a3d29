"""Crafted runs to compare: a run.json and metrics for each."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from analysis.cli import main

GIB = 2**30


def resampled_means(values: list[float]) -> list[float]:
    return [sum(pick) / len(values) for pick in itertools.product(values, repeat=len(values))]


SPEED = {"wall_clock_tok_s": 100.0, "storage_tok_s": 50.0, "decode_read_gib_s": 2.0, "elapsed_s": 10.0}
Craft = Callable[..., Path]


def conditions(**changes: Any) -> dict[str, Any]:
    return {
        "model": "m", "bytes_per_token": 1, "usable_bytes": {"gpu": 0, "cpu": 0, "nvme": None}, "workers": 8, "users": 4,
        "pace": "asap", "direct": True, "verify": "stamps",
    } | changes  # fmt: skip


def three(craft: Craft, name: str, speeds: tuple[float, ...] = (0.98, 1.0, 1.03), **info: Any) -> list[Path]:
    return [craft(f"{name}-{i}", speed, **info) for i, speed in enumerate(speeds)]


CPU = {"usable_bytes": {"gpu": 0, "cpu": 4 * GIB, "nvme": None}}


def typed(*command: object) -> Any:
    return CliRunner().invoke(main, ["compare", *map(str, command)])
