"""Sizes of tiers as expressions: shares of what is free on this machine, multiples of a trace."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from replayer.machine.reserve import Reserve, free_bytes
from replayer.options.command_line import option_words, parse_words
from replayer.options.groups import Values
from replayer.options.resolving import overlay_recipe, resolve_plan
from replayer.options.types import UNLIMITED
from replayer.planning.plan import Plan
from replayer.tiers import gpu
from tracegen import memory
from tracegen.errors import InputError
from tracegen.schema import Trace

# The tiers by the settings of their sizes
CAPACITIES: Final = {"gpu_mem_gb": "gpu", "cpu_mem_gb": "cpu", "storage_capacity_gb": "nvme"}
_EXPRESSION: Final = re.compile(r"(\d+(?:\.\d+)?)(%|x)")
# Bytes: a tier with less room holds a handful of objects and measures evictions.
_LEAST_FREE: Final = 256 << 20
_GIB: Final = 1 << 30


class Room(msgspec.Struct, frozen=True):
    """The free room of a system; series.json keeps it, so that a series continues with equal sizes.

    Attributes:
        free: bytes by tier; a tier without any is as large as one likes.
        absent: the reason, by tier, for which nothing fits into it.
    """

    free: dict[str, int]
    absent: dict[str, str]


def find_room(cache_dir: Path | None, gpu_device: str) -> Room:
    """Return the room that is free on this machine.

    Args:
        cache_dir: the directory for the nvme tier; None: there is no such tier.
        gpu_device: by PyTorch's name.
    """
    absent = {}
    free = {"gpu": 0, "cpu": memory.available().bytes, "nvme": 0}
    try:
        free["gpu"] = gpu.free_gpu_bytes(gpu_device)
    except InputError as error:
        absent["gpu"] = f"{error.problem}; {error.remedy}"
    if cache_dir is None:
        absent["nvme"] = "no cache directory is named"
    else:
        free["nvme"] = max(0, free_bytes(cache_dir) - Reserve().bytes_on(cache_dir))
    for tier, size in free.items():
        if size < _LEAST_FREE:
            absent.setdefault(tier, f"only {size / 2**20:,.0f} MiB are free")
    return Room(free, absent)


def is_expression(value: object) -> bool:
    """Return whether a value is an expression: a share such as 25%, or a multiple such as 1.3x."""
    return isinstance(value, str) and _EXPRESSION.fullmatch(value) is not None


def find_obstacle(sizes: Mapping[str, str], room: Room) -> str | None:
    """Return why sizes cannot be had; None: they can."""
    for setting, size in sizes.items():
        tier = CAPACITIES[setting]
        if tier in room.absent:
            return f"no {tier} tier: {room.absent[tier]}"
        if size.endswith("%") and tier not in room.free:
            return f"{size} of the {tier} tier: a profile does not tell what is free"
    return None


def size_tiers(sizes: Mapping[str, str], room: Room, trace: Path, flags: Sequence[str]) -> list[str]:
    """Return the flags of `replayer run` for expressions.

    Args:
        sizes: expressions by setting.
        room: for the tiers.
        trace: that is replayed.
        flags: of the replay; they name the model.

    Raises:
        InputError: the trace or the flags do not allow a plan.
    """
    has_multiples = any(size.endswith("x") for size in sizes.values())
    held = measure_held_bytes(trace, flags) if has_multiples else 0
    words = []
    for setting, size in sizes.items():
        factor = float(size[:-1])
        wanted = factor * held if size.endswith("x") else factor / 100 * room.free[CAPACITIES[setting]]
        # To the MiB, as people write sizes.
        words += option_words(setting, f"{wanted / _GIB:.3f}")
    return words


def measure_held_bytes(trace: Path, flags: Sequence[str]) -> int:
    """Return the most bytes that a drive without limit would hold of a trace: 1x."""
    opened = Trace(trace)
    # On a drive alone and in the trace's order: a case's tiers and load do not change 1x.
    alone: Values = {
        "gpu_mem_gb": 0,
        "cpu_mem_gb": 0,
        "storage_capacity_gb": UNLIMITED,
        "order": "trace",
        "cycles": 1,
    }
    _, options = resolve_plan(opened, overlay_recipe(opened, {**parse_words(flags), **alone}))
    return Plan(opened, options).simulate().peak_bytes.nvme
