"""The nine scenarios: the tiers, the trace and the flags of each."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from replayer.experiments.scenario_sizes import GIB, Hardware, Sizes

BASELINE: Final = "storage-only"
SEARCH: Final = "autoscaling"
_HEADROOM: Final = 0.8

FlagValues = dict[str, object]
"""Values of flags of `replayer run`, by parameter name."""
RecipeValues = dict[str, object]
"""Values of recipe keys."""


def _chat_recipe(sizes: Sizes) -> RecipeValues:
    """Chatbots only, with prompts up to the longest one and nothing shared."""
    return {
        "mix.personas": 1,
        "personas.coding.weight": 0,
        "personas.document.weight": 0,
        "prefix.share": 0,
        "personas.chatbot.context": [max(1, sizes.prompt // 8), sizes.prompt],
    }


def _tiers_recipe(sizes: Sizes) -> RecipeValues:
    """One working set, for the six tier scenarios."""
    return _chat_recipe(sizes) | {"users": sizes.users[1], "requests": sizes.requests}


def _pressed_recipe(sizes: Sizes) -> RecipeValues:
    """Many users who do not wait for generation, to saturate NVMe."""
    load = {"users": sizes.users[0], "duration_s": f"{sizes.seconds:g}", "decode_token_ms": 0}
    return _chat_recipe(sizes) | load


def _production_recipe(sizes: Sizes) -> RecipeValues:
    """Shared prompts and contexts that grow."""
    chat = {key: value for key, value in _chat_recipe(sizes).items() if not key.startswith("prefix")}
    reuse = {"prefix.share": 0.6, "prefix.products": 3, "context_growth": "true"}
    return chat | reuse | {"users": sizes.users[1], "duration_s": f"{sizes.seconds:g}"}


RECIPES: Final[dict[str, Callable[[Sizes], RecipeValues]]] = {
    "tiers": _tiers_recipe,
    "pressed": _pressed_recipe,
    "production": _production_recipe,
}
"""The recipes of the suite's traces, by the name of the trace's file."""


@dataclass(frozen=True)
class Scenario:
    """One of the nine.

    Attributes:
        title: what it shows.
        tiers: that it needs.
        recipe: a key of RECIPES; scenarios with one recipe share the trace.
        flags: returns flags of `replayer run`, given sizes, bytes stored, and hardware.
    """

    title: str
    tiers: tuple[str, ...]
    recipe: str
    flags: Callable[[Sizes, int, Hardware], FlagValues]


def _share_out(**shares: float) -> Callable[[Sizes, int, Hardware], FlagValues]:
    """Return flags for tiers that hold a share of the working set; nvme holds the rest if named."""

    def choose_flags(_sizes: Sizes, stored: int, _hardware: Hardware) -> FlagValues:
        return {
            "gpu_mem_gb": _format_gib(stored * shares.get("gpu", 0)),
            "cpu_mem_gb": _format_gib(stored * shares.get("cpu", 0)),
            "storage_capacity_gb": "unlimited" if "nvme" in shares else "0",
            "pace": "asap",
        }

    return choose_flags


def _format_gib(usable: float) -> str:
    """Return the GiB of a memory tier whose usable part is at least this many bytes."""
    return f"{math.ceil(usable / _HEADROOM / GIB * 1000) / 1000:g}"


def _half_of_disk(hardware: Hardware) -> str:
    return f"{hardware.nvme // 2 / GIB:.2f}"


def _choose_saturated_flags(_sizes: Sizes, _stored: int, hardware: Hardware) -> FlagValues:
    return {
        "storage_capacity_gb": _half_of_disk(hardware),
        "gpu_mem_gb": "0",
        "cpu_mem_gb": "0",
        "max_concurrent_allocs": "16",
        "pace": "closed",
    }


def _choose_realistic_flags(sizes: Sizes, _stored: int, hardware: Hardware) -> FlagValues:
    has_gpu = "gpu" not in hardware.absent
    return {
        "storage_capacity_gb": _half_of_disk(hardware),
        "cpu_mem_gb": _format_gib(sizes.working_set / 4),
        "gpu_mem_gb": _format_gib(sizes.working_set / 8) if has_gpu else "0",
        "generation_mode": "realistic",
        "pace": "closed",
    }


SCENARIOS: Final[dict[str, Scenario]] = {
    "gpu-only": Scenario("everything in GPU memory", ("gpu",), "tiers", _share_out(gpu=1)),
    "cpu-only": Scenario("everything in memory", ("cpu",), "tiers", _share_out(cpu=1)),
    BASELINE: Scenario("everything on NVMe", ("nvme",), "tiers", _share_out(nvme=1)),
    "gpu+cpu": Scenario(
        "a third in GPU memory, the rest in memory", ("gpu", "cpu"), "tiers", _share_out(gpu=1 / 3, cpu=1)
    ),
    "cpu+storage": Scenario(
        "a third in memory, the rest on NVMe", ("cpu", "nvme"), "tiers", _share_out(cpu=1 / 3, nvme=1)
    ),
    "gpu+cpu+storage": Scenario(
        "a sixth in GPU memory, a third in memory, the rest on NVMe",
        ("gpu", "cpu", "nvme"),
        "tiers",
        _share_out(gpu=1 / 6, cpu=1 / 3, nvme=1),
    ),
    "storage-saturation": Scenario(
        "many users, NVMe alone, 16 stores in flight", ("nvme",), "pressed", _choose_saturated_flags
    ),
    "realistic-production": Scenario(
        "shared prompts, growing contexts, 30 ms per token",
        ("cpu", "nvme"),
        "production",
        _choose_realistic_flags,
    ),
    SEARCH: Scenario("how many users saturate NVMe", ("nvme",), "pressed", _choose_saturated_flags),
}
