"""The free hardware of this machine, and scenarios sized to it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replayer.machine import description as machine
from replayer.machine import free_memory as memory
from replayer.machine.reserve import Reserve, find_existing, free_bytes
from replayer.tiers import gpu
from tracegen.errors import format_count

GIB: Final = 1 << 30
DEFAULT_TRIALS: Final = 3
"""The fewest trials whose interval is worth showing."""
_MAX_WORKING_SET: Final = 16 * GIB
"""A larger working set says no more about a tier."""
_MIN_WORKING_SET: Final = 64 << 20
_MIN_OBJECTS: Final = 64
_MAX_PROMPT: Final = 4096
_MIN_PROMPT: Final = 16
_MAX_IN_FLIGHT: Final = 2 * GIB
_USERS_PER_CORE: Final = 16
_MAX_USERS: Final = 200
_MEAN_PROMPT: Final = 0.625 * (1 + 1 / 8) / 2
"""A chatbot's mean prompt over the longest: a quarter to all of a context of 1/8 to 1 of it."""


@dataclass(frozen=True)
class Hardware:
    """The free memory and disk of a machine.

    Attributes:
        gpu, cpu, nvme: free bytes.
        cores: of the CPU.
        device: the drive under the cache directory.
        absent: the reason, by tier, for which scenarios cannot use it.
    """

    gpu: int
    cpu: int
    nvme: int
    cores: int
    device: str
    absent: dict[str, str]

    def describe(self) -> str:
        """Describe it in one line."""
        tiers = {"GPU memory": self.gpu, "memory": self.cpu, "disk": self.nvme}
        sizes = ", ".join(f"{size / GIB:.1f} GiB of {name}" for name, size in tiers.items() if size)
        return f"free: {sizes}; {format_count(self.cores, 'core')}; {self.device}"


def detect_hardware(cache_dir: Path | None, gpu_device: str) -> Hardware:
    """Return what is free on this machine.

    Args:
        cache_dir: the directory for the nvme tier; None: there is no such tier.
        gpu_device: by PyTorch's name.
    """
    absent = {}
    free = {"gpu": 0, "cpu": memory.available().bytes, "nvme": 0}
    device = "no cache directory"
    try:
        free["gpu"] = gpu.free_gpu_bytes(gpu_device)
    except gpu.MissingGpuError as error:
        absent["gpu"] = error.reason
    if cache_dir is None:
        absent["nvme"] = "no cache directory is named"
    else:
        free["nvme"] = max(0, free_bytes(cache_dir) - Reserve().bytes_on(cache_dir))
        facts = machine.storage(find_existing(cache_dir))
        device = f"{facts['device']} ({facts['filesystem']})"
    for tier, size in free.items():
        if size // 4 < _MIN_WORKING_SET:
            absent.setdefault(tier, f"only {size / 2**20:,.0f} MiB are free")
    return Hardware(**free, cores=machine.describe()["cores"], device=device, absent=absent)


def read_hardware(directory: Path) -> Hardware | None:
    """Return what a suite was sized to when it began; None: there is no suite in the directory."""
    try:
        return Hardware(**json.loads((directory / "hardware.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


@dataclass(frozen=True)
class Sizes:
    """The sizes of all scenarios of a suite.

    Attributes:
        working_set: bytes that each of the six tier scenarios stores.
        prompt: tokens of the longest prompt.
        requests: of each of the six.
        users: of saturation and autoscaling, then of the six and realistic production.
        seconds: of each scenario, all its trials together.
        trials: of each scenario except the search.
    """

    working_set: int
    prompt: int
    requests: int
    users: tuple[int, int]
    seconds: float
    trials: int = DEFAULT_TRIALS

    @property
    def trial_s(self) -> float:
        """Seconds of a trial."""
        return self.seconds / self.trials


def size_scenarios(
    hardware: Hardware,
    bytes_per_token: int,
    seconds: float,
    trials: int = DEFAULT_TRIALS,
    state_bytes: int = 0,
) -> Sizes:
    """Return sizes that fit a machine.

    The working set fits each tier alone and has enough objects; the users' objects in flight take
    at most 2 GiB.

    Args:
        hardware: that is free.
        bytes_per_token: of the model.
        seconds: of each scenario.
        trials: of each scenario.
        state_bytes: of each object, beside those of its tokens.
    """
    rooms = [size for size in (hardware.gpu, hardware.cpu, hardware.nvme) if size // 4 >= _MIN_WORKING_SET]
    working_set = min(_MAX_WORKING_SET, min(rooms, default=0) // 4)
    room = working_set / _MIN_OBJECTS - state_bytes
    longest = int(room / bytes_per_token / _MEAN_PROMPT)
    prompt = max(_MIN_PROMPT, min(_MAX_PROMPT, longest))
    object_bytes = prompt * _MEAN_PROMPT * bytes_per_token + state_bytes
    many = int(max(4, min(_MAX_IN_FLIGHT / object_bytes, _USERS_PER_CORE * hardware.cores, _MAX_USERS)))
    few = max(2, many // 4)
    requests = max(8, int(working_set / object_bytes))
    return Sizes(working_set, prompt, requests, (many, few), seconds, trials)
