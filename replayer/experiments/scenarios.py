"""The suite: nine scenarios of kv-cache.py's, sized to the machine, with a ranking of its tiers and one report."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from replayer.experiments.autoscale import THROUGHPUT, Asked, autoscale, described
from replayer.experiments.replay_series import Series, analysis
from replayer.experiments.steps import Step
from replayer.machine import description as machine
from replayer.machine import free_memory as memory
from replayer.planning import model as models
from replayer.planning.plan import Plan, PlanOptions
from replayer.tiers import gpu
from replayer.tiers.reserve import Reserve, find_existing, free_bytes
from tracegen.errors import InputError, format_count
from tracegen.schema import Trace

GIB: Final = 1 << 30
LARGEST: Final = 16 * GIB  # of a working set: more says no more about a tier
LEAST: Final = 64 << 20
OBJECTS: Final = 64  # at least, in a working set
TRIALS: Final = 3  # of each scenario: the least that an interval is worth showing of
_HEADROOM: Final = 0.8
_MEAN: Final = 0.625 * (1 + 1 / 8) / 2  # of a chatbot's prompts over the longest: a quarter to all of 1/8 to 1
BASELINE: Final = "storage-only"


@dataclass(frozen=True)
class Hardware:
    """What there is, in bytes; 0 with the reason where a tier is absent.

    Attributes:
        absent: why, by tier.
    """

    gpu: int
    cpu: int
    nvme: int
    cores: int
    device: str
    absent: dict[str, str]

    def said(self) -> str:
        """In a line."""
        tiers = {"GPU memory": self.gpu, "memory": self.cpu, "disk": self.nvme}
        sizes = (f"{size / GIB:.1f} GiB of {name}" for name, size in tiers.items() if size)
        return f"free: {', '.join(sizes)}; {format_count(self.cores, 'core')}; {self.device}"


def detect(cache_dir: Path | None, gpu_device: str) -> Hardware:
    """What is free on this machine."""
    absent, free, device = {}, {"gpu": 0, "cpu": memory.available().bytes, "nvme": 0}, "no cache directory"
    try:
        free["gpu"] = gpu.free_gpu_bytes(gpu_device)
    except gpu.MissingGpuError as error:
        absent["gpu"] = error.reason
    if cache_dir is None:
        absent["nvme"] = "pass --cache-dir DIR"
    else:
        free["nvme"] = max(0, free_bytes(cache_dir) - Reserve().bytes_on(cache_dir))
        facts = machine.storage(find_existing(cache_dir))
        device = f"{facts['device']} ({facts['filesystem']})"
    for tier, size in free.items():
        if size // 4 < LEAST:
            absent.setdefault(tier, f"only {size / 2**20:,.0f} MiB are free")
    return Hardware(**free, cores=machine.describe()["cores"], device=device, absent=absent)


@dataclass(frozen=True)
class Sizes:
    """What the scenarios are sized to.

    Attributes:
        working_set: bytes that the six tier scenarios store in all.
        prompt: tokens of the longest one.
        requests: of the six.
        users: of saturation and autoscaling; of the six and realistic production.
        seconds: of each scenario, all its trials together.
        trials: of each but the search.
    """

    working_set: int
    prompt: int
    requests: int
    users: tuple[int, int]
    seconds: float
    trials: int = TRIALS

    @property
    def trial_s(self) -> float:
        """Seconds of a trial."""
        return self.seconds / self.trials


def size(hardware: Hardware, per_token: int, seconds: float, trials: int = TRIALS) -> Sizes:
    """A working set that fits each tier alone, of enough objects; users whose objects in flight are within 2 GiB."""
    rooms = [room for room in (hardware.gpu, hardware.cpu, hardware.nvme) if room // 4 >= LEAST]
    working_set = min(LARGEST, min(rooms, default=0) // 4)
    prompt = max(16, min(4096, int(working_set / OBJECTS / per_token / _MEAN)))
    one = prompt * _MEAN * per_token
    many = int(max(4, min(2 * GIB / one, 16 * hardware.cores, 200)))
    return Sizes(working_set, prompt, max(8, int(working_set / one)), (many, max(2, many // 4)), seconds, trials)


@dataclass(frozen=True)
class Scenario:
    """One of the nine.

    Attributes:
        title: what it shows.
        tiers: that it needs.
        flags: of `replayer run`, from sizes, the working set as planned, and the disk's room.
        recipe: of its trace, from sizes; scenarios of one recipe share the trace.
    """

    title: str
    tiers: tuple[str, ...]
    recipe: Callable[[Sizes], tuple[str, ...]]
    flags: Callable[[Sizes, int, Hardware], tuple[str, ...]]


def _chat(sizes: Sizes) -> tuple[str, ...]:
    weights = ("mix.personas=1", "personas.coding.weight=0", "personas.document.weight=0", "prefix.share=0")
    return (*weights, f"personas.chatbot.context=[{max(1, sizes.prompt // 8)}, {sizes.prompt}]")


def _tiers(sizes: Sizes) -> tuple[str, ...]:
    return (*_chat(sizes), f"users={sizes.users[1]}", f"requests={sizes.requests}")


def _pressed(sizes: Sizes) -> tuple[str, ...]:
    return (*_chat(sizes), f"users={sizes.users[0]}", f"duration_s={sizes.seconds:g}", "decode_token_ms=0")


def _production(sizes: Sizes) -> tuple[str, ...]:
    reuse = ("prefix.share=0.6", "prefix.products=3", "context_growth=true")
    rest = (f"users={sizes.users[1]}", f"duration_s={sizes.seconds:g}")
    return (*(one for one in _chat(sizes) if not one.startswith("prefix")), *reuse, *rest)


def _room(**shares: float) -> Callable[[Sizes, int, Hardware], tuple[str, ...]]:
    """Tiers that hold a share of the working set each, and nvme what is left where it is named; at once."""

    def flags(_sizes: Sizes, planned: int, _hardware: Hardware) -> tuple[str, ...]:
        rooms = {tier: _gib(planned * shares.get(tier, 0)) for tier in ("gpu", "cpu")}
        nvme = "unlimited" if "nvme" in shares else "0"
        return (
            "--gpu-mem-gb",
            rooms["gpu"],
            "--cpu-mem-gb",
            rooms["cpu"],
            "--storage-capacity-gb",
            nvme,
            "--pace",
            "asap",
        )

    return flags


def _gib(size: float) -> str:
    """A capacity of which the usable part is at least this."""
    return f"{math.ceil(size / _HEADROOM / GIB * 1000) / 1000:g}"


def _saturated(_sizes: Sizes, _planned: int, hardware: Hardware) -> tuple[str, ...]:
    room = ("--storage-capacity-gb", f"{hardware.nvme // 2 / GIB:.2f}")
    return (*room, "--gpu-mem-gb", "0", "--cpu-mem-gb", "0", "--max-concurrent-allocs", "16", "--pace", "closed")


def _realistic(sizes: Sizes, _planned: int, hardware: Hardware) -> tuple[str, ...]:
    room = ("--storage-capacity-gb", f"{hardware.nvme // 2 / GIB:.2f}", "--cpu-mem-gb", _gib(sizes.working_set / 4))
    fast = ("--gpu-mem-gb", _gib(sizes.working_set / 8) if "gpu" not in hardware.absent else "0")
    return (*room, *fast, "--generation-mode", "realistic", "--pace", "closed")


SCENARIOS: Final[dict[str, Scenario]] = {
    "gpu-only": Scenario("everything in GPU memory", ("gpu",), _tiers, _room(gpu=1)),
    "cpu-only": Scenario("everything in memory", ("cpu",), _tiers, _room(cpu=1)),
    BASELINE: Scenario("everything on NVMe", ("nvme",), _tiers, _room(nvme=1)),
    "gpu+cpu": Scenario("a third in GPU memory, the rest in memory", ("gpu", "cpu"), _tiers, _room(gpu=1 / 3, cpu=1)),
    "cpu+storage": Scenario("a third in memory, the rest on NVMe", ("cpu", "nvme"), _tiers, _room(cpu=1 / 3, nvme=1)),
    "gpu+cpu+storage": Scenario(
        "a sixth and a third in memories, the rest on NVMe",
        ("gpu", "cpu", "nvme"),
        _tiers,
        _room(gpu=1 / 6, cpu=1 / 3, nvme=1),
    ),
    "storage-saturation": Scenario("many users, NVMe alone, 16 stores in flight", ("nvme",), _pressed, _saturated),
    "realistic-production": Scenario(
        "shared prompts, growing contexts, 30 ms per token", ("cpu", "nvme"), _production, _realistic
    ),
    "autoscaling": Scenario("how many users saturate NVMe", ("nvme",), _pressed, _saturated),
}


@dataclass(frozen=True)
class Planned:
    """What is going to be run.

    Attributes:
        skipped: why, by name.
    """

    names: list[str]
    skipped: dict[str, str]
    sizes: Sizes
    hardware: Hardware
    model: str


def planned(names: Sequence[str], hardware: Hardware, model: str, budget_s: float, trials: int = TRIALS) -> Planned:
    """Which scenarios this machine can run, and how large.

    Raises:
        InputError: it can run none of them.
    """
    chosen = list(dict.fromkeys(names)) or list(SCENARIOS)
    skipped = {
        name: f"no {tier} tier: {hardware.absent[tier].removesuffix('.')}"
        for name in chosen
        for tier in reversed(SCENARIOS[name].tiers)
        if tier in hardware.absent
    }
    left = [name for name in chosen if name not in skipped]
    if not left:
        raise InputError(f"{chosen[0]} cannot run here: {skipped[chosen[0]]}; name other scenarios.")
    per_token = models.find_model(model).sizes("fp16", 1).per_token
    return Planned(left, skipped, size(hardware, per_token, budget_s / len(left), trials), hardware, model)


def known(place: Path) -> Hardware | None:
    """What was detected when a suite was begun: sizes do not change when it goes on."""
    try:
        return Hardware(**json.loads((place / "hardware.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def said(what: Planned) -> list[str]:
    """What is going to be run, line by line."""
    sizes = what.sizes
    lines = [
        f"{what.model}; {what.hardware.said()}",
        f"working set {sizes.working_set / GIB:.2f} GiB in {sizes.requests:,} requests, up to {sizes.prompt:,} tokens;"
        f" {sizes.users[1]} users, where NVMe is pressed {sizes.users[0]};"
        f" {format_count(sizes.trials, 'trial')} of {sizes.trial_s:.0f} s each",
    ]
    lines += [f"  {name:22}{SCENARIOS[name].title}" for name in what.names]
    return [*lines, *(f"  {name:22}skipped: {why}" for name, why in what.skipped.items())]


def run(
    what: Planned, series: Series, cache_dir: Path | None, gpu_device: str, told: Callable[[str], Any]
) -> dict[str, Any]:
    """Run all of them; the content of scenarios.json, which lies in the series' directory then, with report.html.

    Raises:
        click.exceptions.Exit: a replay failed, and has said why.
    """
    (series.place / "hardware.json").write_text(json.dumps(asdict(what.hardware), indent=1) + "\n")
    runs: dict[str, list[Path]] = {}
    found: dict[str, Any] = {"autoscaling": None}
    for name in what.names:
        scenario = SCENARIOS[name]
        told(f"{name}: {scenario.title}")
        recipe = scenario.recipe(what.sizes)
        trace = series.trace(scenario.recipe.__name__.strip("_"), None, [*recipe, f"replay.model={what.model}"])
        flags = (*scenario.flags(what.sizes, _stored(trace, what.model), what.hardware), "--gpu-device", gpu_device)
        if name == "autoscaling":
            found[name], runs[name] = _autoscaled(what, series, trace, flags, cache_dir)
            told(found[name]["result"]["text"])
        else:
            flags = (*flags, "--duration", f"{what.sizes.trial_s:g}")
            trials = range(1, what.sizes.trials + 1)
            runs[name] = [series.replay(f"{name}/trial_{trial}", trace, flags) for trial in trials]
    found |= {
        "hardware": asdict(what.hardware),
        "sizes": asdict(what.sizes),
        "model": what.model,
        "runs": {name: [str(place) for place in places] for name, places in runs.items()},
        "skipped": what.skipped,
        "ranking": _reported(runs, series.place),
    }
    (series.place / "scenarios.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


def _stored(path: Path, model: str) -> int:
    """Bytes that a trace stores in all, were there room."""
    trace = Trace(path)
    options = PlanOptions(models.find_model(model).sizes("fp16", 1), (Decimal(0), Decimal(0), None))
    return int(Plan(trace, options).simulate().peak_bytes.nvme or 0)


def _autoscaled(
    what: Planned, above: Series, trace: Path, flags: tuple[str, ...], cache_dir: Path | None
) -> tuple[dict[str, Any], list[Path]]:
    """A search for capacity in a dozen or so replays, and those at its answer."""
    seconds = max(1.0, what.sizes.seconds / 20)
    flags = (*flags, "--warmup", f"{seconds / 5:g}s")
    asked = Asked(
        trace, "capacity", THROUGHPUT, target=0, users=None, trials=2, precision=0.25, duration_s=seconds, flags=flags
    )
    steps: list[Step] = []
    place = above.place / "autoscaling"
    with Series(place, vars(asked), cache_dir, make_cache_dir=above.make_cache_dir) as series:
        found = autoscale(asked, described(asked), series, steps.append)
    rows = {row["users"]: row["runs"] for row in found["autoscaling_stats"]}
    return found, [Path(run) for run in rows.get(found["result"]["users"], [])]


def _reported(runs: dict[str, list[Path]], place: Path) -> list[dict[str, Any]]:
    """The ranking of the tier scenarios; report.html over all."""
    if not any(runs.values()):  # a search that found nothing, alone
        return []
    ranked = ["--baseline", str(runs[BASELINE][0])] if BASELINE in runs else []
    report = ["report", *(str(run) for trials in runs.values() for run in trials), *ranked]
    analysis(*report, "-o", str(place / "report.html"), "--force")
    ranking: list[dict[str, Any]] = json.loads(analysis(*report, "--format", "json")).get("ranking", [])
    return ranking
